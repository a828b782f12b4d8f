"""`python -m attnbook` is the command `attnbook`."""

import sys


def main() -> None:
    """Run the command; where click is missing, say so without a traceback."""
    try:
        from .cli import main as command
    except ModuleNotFoundError as error:
        sys.exit(str(error))
    command()


if __name__ == "__main__":
    main()
