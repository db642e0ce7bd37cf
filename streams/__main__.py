"""`python -m streams` is the command line."""

from streams.cli import main

if __name__ == "__main__":
    main()
