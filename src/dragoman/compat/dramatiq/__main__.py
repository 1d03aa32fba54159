"""`python -m dragoman.compat.dramatiq module`."""

import sys

from dragoman.compat.dramatiq.command import run_command

if __name__ == "__main__":
    run_command(sys.argv[1:])
