"""`python -m dragoman.compat.celery -A tasks worker`."""

import sys

from dragoman.compat.celery.command import run_command

if __name__ == "__main__":
    run_command(sys.argv[1:])
