"""The rules of the house that no linter knows, read off the files themselves."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

MODULE_LINES = 500
FUNCTION_LINES = 70

# Names that say nothing about what is inside, and so collect everything.
SHAPELESS_NAMES = {
    "base",
    "common",
    "core",
    "helper",
    "helpers",
    "manager",
    "managers",
    "util",
    "utils",
}

# Each pattern is written so that it does not match its own text.
UNFINISHED = re.compile(r"\b(?:TO[D]O|FIX[M]E|NotImplemented[E]rror)\b")
MACHINE_PATH = re.compile(r"(?<![\w./:-])/(?:home|mnt|opt|root|Users|work)/\w")
REGISTRY_HOST = re.compile(
    r"\b(?:pypi\.org|pythonhosted\.org|anaconda\.org|npmjs\.(?:com|org)|crates\.io"
    r"|rubygems\.org|proxy\.golang\.org|docker\.(?:com|io)|ghcr\.io|quay\.io)\b"
)


@cache
def project_files() -> tuple[Path, ...]:
    """Every file that is tracked or about to be, relative to the root."""
    # The setting lets the tests run in a checkout that belongs to another user.
    command = ["git", "-c", "safe.directory=*", "ls-files", "-z"]
    command += ["--cached", "--others", "--exclude-standard"]
    try:
        listing = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("the house rules are read off a git checkout, and this is none")
    names = sorted({name.decode() for name in listing.split(b"\0") if name})
    return tuple(Path(name) for name in names if (ROOT / name).is_file())


def text_of(path: Path) -> str:
    return (ROOT / path).read_text(encoding="utf-8", errors="replace")


@cache
def modules() -> dict[Path, ast.Module]:
    return {path: ast.parse(text_of(path), filename=str(path)) for path in project_files() if path.suffix == ".py"}


def lines_matching(pattern: re.Pattern[str], paths: tuple[Path, ...]) -> list[str]:
    return [
        f"{path}:{number}: {line.strip()[:120]}"
        for path in paths
        for number, line in enumerate(text_of(path).splitlines(), start=1)
        if pattern.search(line)
    ]


def functions() -> Iterator[tuple[str, int]]:
    """Where each function stands, and how many lines it has, decorators aside."""
    for path, tree in modules().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                assert node.end_lineno is not None
                lines = node.end_lineno - node.lineno + 1
                yield f"{path}:{node.lineno}: {node.name} has {lines} lines", lines


def imported_names(tree: ast.Module) -> Iterator[str]:
    """The first part of every absolute import of a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module is not None:
            yield node.module.partition(".")[0]


def test_no_module_is_longer_than_500_lines() -> None:
    lengths = {path: len(text_of(path).splitlines()) for path in modules()}
    assert not {str(path): lines for path, lines in lengths.items() if lines > MODULE_LINES}


def test_no_function_is_longer_than_70_lines() -> None:
    assert not [where for where, lines in functions() if lines > FUNCTION_LINES]


def test_every_module_is_named_after_what_it_owns() -> None:
    assert not [str(path) for path in modules() if SHAPELESS_NAMES & {*path.parent.parts, path.stem}]


def test_every_module_begins_with_its_responsibility() -> None:
    assert not [str(path) for path, tree in modules().items() if tree.body and not ast.get_docstring(tree)]


def test_the_packages_hold_nothing_unfinished() -> None:
    packages = tuple(path for path in project_files() if path.parts[0] in ("partition", "streams"))
    assert not lines_matching(UNFINISHED, packages)


def test_partition_imports_the_standard_library_alone() -> None:
    allowed = sys.stdlib_module_names | {"partition"}
    assert not [
        f"{path} imports {name}"
        for path, tree in modules().items()
        if path.parts[0] == "partition"
        for name in imported_names(tree)
        if name not in allowed
    ]


def test_no_file_knows_the_machine_it_was_written_on() -> None:
    assert not lines_matching(MACHINE_PATH, project_files())


def test_no_file_names_a_package_registry() -> None:
    assert not lines_matching(REGISTRY_HOST, project_files())
