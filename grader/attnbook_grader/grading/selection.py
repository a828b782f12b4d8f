"""Which assignments and exercises a round is about."""

from __future__ import annotations

from dataclasses import replace

__all__ = ["chosen", "cut", "known_ids"]


def cut(assignment, ids):
    """An assignment with these exercises alone."""
    return replace(
        assignment,
        tasks=tuple(task for task in assignment.tasks if task.id in ids),
        points={id: points for id, points in assignment.points.items() if id in ids},
        words=tuple(one for one in assignment.words if one.id in ids),
    )


def chosen(course, only):
    """The assignments of these names; all without any.

    ValueError for a name that the course does not have.
    """
    known = [one.name for one in course.assignments]
    for name in only or ():
        if name not in known:
            raise ValueError(
                f"assignment: the course has no assignment {name!r}; it has {', '.join(known)}"
            )
    return [one for one in course.assignments if not only or one.name in only]


def known_ids(ids, assignments):
    """ValueError for an id that no assignment has."""
    known = [task.id for one in assignments for task in one.tasks]
    for id in ids:
        if id not in known:
            raise ValueError(
                f"regrade: no assignment has the exercise {id!r}; there are {', '.join(known)}"
            )
