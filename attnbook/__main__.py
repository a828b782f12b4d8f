"""`python -m attnbook` is the command `attnbook`."""

from .cli import main

main()
