"""Errors as text that every store can keep."""


def describe(error: BaseException) -> str:
    """An error in a line of at most a thousand characters."""
    try:
        lines = str(error).strip().splitlines()
    except Exception:
        lines = ["(its message cannot be read)"]
    return printable(f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__)[:1000]


def printable(text: str) -> str:
    """Text without NUL characters and lone surrogates, which a database may refuse."""
    return text.replace("\0", "\\0").encode("utf-8", "backslashreplace").decode()
