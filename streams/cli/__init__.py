"""The command line: data on stdout, words on stderr, and an exit code that says how it went.

0: done. 1: it could not be done, and one line says why. 2: wrong usage. 130: interrupted. 141: nobody reads any more.
"""

from streams.cli.program import main

__all__ = ["main"]
