"""The SQLite store: several processes on one file."""
