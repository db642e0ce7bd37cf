"""Whether a folder is on a network file system, where SQLite's locks and shared memory do not hold."""

from pathlib import Path

NETWORK = ("nfs", "cifs", "smb", "ncpfs", "afs", "sshfs", "glusterfs", "ceph", "lustre", "s3fs", "rclone")


def network_filesystem(folder: Path, mounts: Path = Path("/proc/mounts")) -> str | None:
    """The kind of network file system that holds the folder; None for a local one, or where it cannot be told."""
    try:
        lines = mounts.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    folder = folder.resolve()
    best, kind = -1, ""
    for fields in (line.split(" ") for line in lines):
        if len(fields) < 3:
            continue
        _, mount, filesystem, *_ = fields
        point = Path(mount.replace("\\040", " "))
        if folder.is_relative_to(point) and len(point.parts) >= best:
            best, kind = len(point.parts), filesystem
    return kind if kind.removeprefix("fuse.").startswith(NETWORK) else None
