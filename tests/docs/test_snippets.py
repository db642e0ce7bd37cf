"""Every snippet of the documentation runs as it stands."""

import os
from pathlib import Path

import pytest

from tests.docs.pages import Page

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")])


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_snippets_of_a_page_run(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("STREAMS_")]:
        monkeypatch.delenv(name)
    Page(path, tmp_path).run()


@pytest.mark.parametrize(("name", "least"), [("README.md", 2), ("docs/tutorial.md", 12)])
def test_a_page_that_teaches_is_full_of_snippets(name: str, least: int, tmp_path: Path) -> None:
    assert len(Page(ROOT / name, tmp_path).blocks) >= least
