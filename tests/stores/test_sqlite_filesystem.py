"""A network file system is told by the longest mount point that holds the folder."""

from pathlib import Path

import pytest

from streams.stores.sqlite.filesystem import network_filesystem

MOUNTS = """\
/dev/sda1 / ext4 rw,relatime 0 0
proc /proc proc rw 0 0
server:/export /net/nfs nfs4 rw 0 0
/dev/sdb1 /net/nfs/local xfs rw 0 0
//server/share /net/my\\040share cifs rw 0 0
me@host: /net/ssh fuse.sshfs rw 0 0
vol /net/gluster fuse.glusterfs rw 0 0
tmpfs /over tmpfs rw 0 0
server:/late /over nfs rw 0 0
/dev/fuse /run/portal fuse.portal rw 0 0
"""


@pytest.fixture
def mounts(tmp_path: Path) -> Path:
    file = tmp_path / "mounts"
    file.write_text(MOUNTS)
    return file


@pytest.mark.parametrize(
    ("folder", "kind"),
    [
        ("/srv/data", None),
        ("/net/nfs", "nfs4"),
        ("/net/nfs/deep/down", "nfs4"),
        ("/net/nfs/local/data", None),
        ("/net/nfs-not", None),
        ("/net/my share/x", "cifs"),
        ("/net/ssh/x", "fuse.sshfs"),
        ("/net/gluster/x", "fuse.glusterfs"),
        ("/over/x", "nfs"),
        ("/run/portal/x", None),
    ],
)
def test_the_innermost_mount_decides(mounts: Path, folder: str, kind: str | None) -> None:
    assert network_filesystem(Path(folder), mounts) == kind


def test_a_link_is_judged_by_where_it_leads(mounts: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to("/net/nfs/data")
    assert network_filesystem(link, mounts) == "nfs4"


def test_where_it_cannot_be_told_it_is_none(tmp_path: Path) -> None:
    assert network_filesystem(tmp_path, tmp_path / "nothing") is None


def test_lines_that_mean_nothing_are_passed_over(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text("\nnonsense\n" + MOUNTS + "\xff\n", encoding="latin-1")
    assert network_filesystem(Path("/net/nfs"), mounts) == "nfs4"
