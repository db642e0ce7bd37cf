"""What is written to the terminal, and what is never."""

import pytest

from streams.cli.terminal import legible, print_json, print_table, say, timestamp


def test_a_table_aligns_numbers_to_the_right(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("name", "lag"), [("a", 5), ("long", 1234), ("none", None)])
    assert [line.rstrip() for line in capsys.readouterr().out.splitlines()] == [
        "NAME   LAG",
        "a        5",
        "long  1234",
        "none     -",
    ]


def test_a_table_does_not_obey_what_it_shows(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("key",), [("\x1b[31mred",), ("[bold]x[/bold]",), ("a\nb",), ("\u202eltr",)])
    assert [line.rstrip() for line in capsys.readouterr().out.splitlines()[1:]] == [
        "\\x1b[31mred",
        "[bold]x[/bold]",
        "a\\nb",
        "\\u202eltr",
    ]


def test_words_are_one_line_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    say("one\ntwo \x1b[2J")
    assert capsys.readouterr() == ("", "one\\ntwo \\x1b[2J\n")


def test_what_is_printable_is_left_alone() -> None:
    assert legible("ключ 🔑 'q' \\n") == "ключ 🔑 'q' \\n"


def test_json_is_one_line_of_utf8(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    print_json([{"key": "ключ\n"}])
    assert capfdbinary.readouterr().out == '[{"key":"ключ\\n"}]\n'.encode()


@pytest.mark.parametrize(
    ("micros", "text"),
    [
        (0, "1970-01-01T00:00:00.000000Z"),
        (1_796_067_699_000_001, "2026-11-30T19:41:39.000001Z"),
        (2**62, "9999-12-31T23:59:59.999999Z"),
    ],
)
def test_times_are_iso_8601_in_utc(micros: int, text: str) -> None:
    assert timestamp(micros) == text
