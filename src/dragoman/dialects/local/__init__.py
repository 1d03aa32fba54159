"""The in-process dialect: built-in services join and work as ordinary workers."""
