"""`python -m attnbook.course`: the instructor's commands."""

import click

from .commands import course, grade

if __name__ == "__main__":
    click.Group("attnbook.course", commands={"grade": grade, **course.commands})()
