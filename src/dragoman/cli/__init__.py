"""The command line: one file per group of commands. A client like any other."""
