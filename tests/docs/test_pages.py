"""What the documentation says agrees with what is there."""

import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from streams.settings import Settings

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")])
LISTS = "topics", "groups", "members", "keys", "dead"
DEAD = "dead show", "dead discard", "dead purge"
COMMANDS = "worker", "publish", *LISTS, *DEAD, "where", "migrate", "sql", "demo", "bench"


def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


@cache
def flags_of(command: str) -> frozenset[str]:
    """The flags that a command's help lists."""
    ended = subprocess.run(
        [sys.executable, "-m", "streams", *command.split(), "--help"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return frozenset(re.findall(r"--[a-z][a-z-]+", ended.stdout)) - {"--help"}


def anchors(page: Path) -> set[str]:
    """What a link may name after `#`: the headings, as they become anchors."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if not link.startswith("https://"):
            file, _, anchor = link.partition("#")
            target = page.parent / file if file else page
            assert target.exists(), link
            assert not anchor or anchor in anchors(target), link


def test_the_quickstart_of_the_readme_is_the_example() -> None:
    _, _, example = text_of("examples/quickstart.py").partition("\n\n")
    (snippet,) = re.findall(r"```python\n# quickstart.py\n(.*?)```", text_of("README.md"), flags=re.DOTALL)
    assert snippet == example


def test_the_quickstart_has_twenty_lines() -> None:
    (snippet,) = re.findall(r"```python\n(# quickstart.py\n.*?)```", text_of("README.md"), flags=re.DOTALL)
    assert len([line for line in snippet.splitlines() if line]) <= 20


def test_every_decision_stands_in_the_index() -> None:
    index = re.findall(r"^\| \[(\d{4})\]\((\S+)\) \| (.+) \|$", text_of("docs/decisions/README.md"), flags=re.MULTILINE)
    pages = sorted((ROOT / "docs/decisions").glob("0*.md"))
    titles = [re.match(r"# (\d+)\. (.+)\n", page.read_text(encoding="utf-8")) for page in pages]
    assert index == [(page.name[:4], page.name, title[2]) for page, title in zip(pages, titles, strict=True) if title]
    assert [int(title[1]) for title in titles if title] == list(range(1, len(pages) + 1))


@pytest.mark.parametrize("page", sorted((ROOT / "docs/decisions").glob("0*.md")), ids=lambda page: page.stem)
def test_a_decision_has_its_four_parts(page: Path) -> None:
    parts = re.findall(r"^## (.+)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert parts == ["Context", "Decision", "Alternatives", "Consequences"]


def test_every_option_stands_in_the_table_with_its_names_and_default() -> None:
    rows = re.findall(
        r"^\| `(\w+)`.*? \| `(--[\w-]+)` \| `(STREAMS_\w+)` \| `(\S+)` \|",
        text_of("docs/configuration.md"),
        flags=re.MULTILINE,
    )
    defaults = Settings()
    assert rows == [
        (
            name,
            f"--{name.replace('_', '-')}",
            f"STREAMS_{name.upper()}",
            f"{value:g}" if isinstance(value, float) else value,
        )
        for name in Settings.__struct_fields__
        for value in [getattr(defaults, name)]
    ]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_flag_is_described(command: str) -> None:
    assert not {flag for flag in flags_of(command) if flag not in text_of("docs/cli.md")}


def test_every_flag_that_is_described_exists() -> None:
    known = {"--help", "--version"}.union(*map(flags_of, COMMANDS))
    for page in ("README.md", "docs/cli.md", "docs/configuration.md", "docs/tutorial.md", "docs/guarantees.md"):
        assert not {*re.findall(r"`[^`\n]*?(--[a-z][a-z-]+)", text_of(page))} - known


def test_every_command_has_a_section() -> None:
    sections = " ".join(re.findall(r"^## (.+)$", text_of("docs/cli.md"), flags=re.MULTILINE))
    assert not [command for command in COMMANDS if not re.search(rf"\b{command.split()[-1]}\b", sections)]
