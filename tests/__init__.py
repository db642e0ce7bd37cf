"""The tests, as a package, so that modules can be shared between their folders."""
