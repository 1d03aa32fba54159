"""The entry point of the `dragoman` command; the command line itself is an extra."""

import sys

from dragoman.extras import explain_missing, find_extra


def main() -> None:
    """Run the command line, or name the extra that is missing."""
    try:
        from dragoman.cli.main import main as run
    except ModuleNotFoundError as error:
        if not find_extra(error):
            raise
        print(f"dragoman: {explain_missing(error, 'the command line', 'cli')}", file=sys.stderr)  # noqa: T201
        sys.exit(2)
    run()
