"""Checks of the last section: when a cache outgrows a state, a prediction, and all that a mechanism
took from others.
"""

from ..registry import exercise
from ..slips import on_paper


@on_paper(
    "09.cache_outgrows",
    "the number of pairs",
    title="when the cache is larger",
    difficulty=1,
    minutes=4,
    otherwise="count the numbers that the cache keeps of a pair, and those of the states",
)
def cache_outgrows():
    return 17, {
        "with 16 pairs both keep the same: which is the first number of pairs with more?": 16,
        "that is the number of tokens, or the pairs if only keys were kept, or one block: a "
        "pair has two tokens, and each leaves a key and a value in each of two blocks": 33,
        "that is the number of tokens at which both keep the same: count pairs": 32,
        "the state of one block alone is exceeded there: there are two blocks": 9,
        "a head of width 16 has a state of 16 rows and 16 columns, not of 16 numbers; and there "
        "are eight heads in each block": 3,
        "that is half of it twice over: eight heads in each of two blocks": 5,
    }


@exercise("09.told_twice", title="Predict: a key told twice", difficulty=1, minutes=3)
def told_twice(answer, ctx):
    return ctx.predicted(answer, "both the last value", "only the cache", "only the state", "none")


def _all(took, name, *, deep=True, self_too=False, down=False):
    """The names above one, by a loop that ends; the options make it wrong."""
    edges = {key: set(value) for key, value in took.items()}
    if down:
        edges = {key: {child for child, above in took.items() if key in above} for key in took}
    found, new = set(), edges[name]
    while new:
        found |= new
        new = set().union(*(edges[key] for key in new)) - found if deep else set()
    return found | {name} if self_too else found - {name}


@exercise("09.all_it_took", title="All that it took", difficulty=2, minutes=8)
def all_it_took(answer, ctx):
    names = [f"{letter}{number}" for number in (1, 2) for letter in "pqrstu"]
    took = {names[0]: [], names[1]: []}
    for place in range(2, len(names)):
        order = place - ctx.integers(2, min(4, place + 1)), ctx.integers(0, place)
        took[names[place]] = [names[k] for k in sorted(set(order))]
    took[names[7]] = [names[2], names[6]]
    took[names[6]] = [names[2]]
    for name in (names[6], names[7], names[-1], names[0]):
        got = ctx.call(answer, dict(took), name)
        if not isinstance(got, (set, frozenset)):
            ctx.fail(f"a set of names was expected, got {type(got).__name__}")
        right = _all(took, name)
        if got == right:
            continue
        slips = {
            "only the parents are found: go on with what they took": _all(took, name, deep=False),
            "the name itself is in the set: it did not take anything from itself": _all(
                took, name, self_too=True
            ),
            "that is who took something from it: go the other way": _all(took, name, down=True),
        }
        for words, slip in slips.items():
            if got and got == slip:
                ctx.fail(words)
        missing, over = sorted(right - got), sorted(map(str, got - right))
        ctx.fail(f"for {name!r} these are missing: {missing}, and these too many: {over}")
