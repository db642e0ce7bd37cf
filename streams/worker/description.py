"""Errors as text that every store can keep. They come from handlers, so that writing them down may fail too."""

import traceback


def describe(error: BaseException) -> str:
    """An error in a line of at most a thousand characters."""
    try:
        lines = str(error).strip().splitlines()
    except BaseException:
        lines = ["(its message cannot be read)"]
    return printable(f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__)[:1000]


def describe_traceback(error: BaseException) -> str:
    """The last 20,000 characters of an error's traceback."""
    try:
        text = "".join(traceback.format_exception(error))
    except BaseException:
        text = f"{type(error).__name__}: (its traceback cannot be written)"
    return printable(text[-20_000:])


def printable(text: str) -> str:
    """Text without NUL characters and lone surrogates, which a database may refuse."""
    return text.replace("\0", "\\0").encode("utf-8", "backslashreplace").decode()
