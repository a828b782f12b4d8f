"""Checks of the last section: a prediction, and all that a mechanism took from others."""

from ..registry import exercise
from ..slips import Slips


@exercise("09.told_twice", title="Predict: a key told twice", difficulty=1, minutes=3)
def told_twice(answer, ctx):
    return ctx.predicted(answer, "both the last value", "only the cache", "only the state", "none")


def _all(took, name):
    """The places of the names above one, by a loop that ends."""
    found, new = set(), set(took[name])
    while new:
        found |= new
        new = {above for key in new for above in took[key]} - found
    return sorted(map(list(took).index, found))


_ALL = Slips(
    _all,
    {
        "only the parents are found: go on with what they took": "while → if",
        "the name itself is in the set: "
        "it did not take anything from itself": "index, found → index, found | {name}",
        "that is who took something from it: "
        "go the other way": "found, new → took = {key: [k for k in took if key in took[k]] for key "
        "in took}\n    found, new",
    },
)


@exercise("09.all_it_took", title="All that it took", difficulty=2, minutes=8)
def all_it_took(answer, ctx):
    names = [f"{letter}{number}" for number in (1, 2) for letter in "pqrstu"]
    took = {names[0]: [], names[1]: []}
    for place in range(2, len(names)):
        order = place - ctx.integers(2, min(4, place + 1)), ctx.integers(0, place)
        took[names[place]] = [names[k] for k in sorted(set(order))]
    took[names[7]] = [names[2], names[6]]
    took[names[6]] = [names[2]]
    for generation in range(ctx.sizes(generations=(1, 12))):  # one below the other
        names.append(f"v{generation}")
        took[names[-1]] = [names[-2], names[ctx.integers(0, 4)]]
    for name in (names[6], names[7], names[11], names[-1], names[0]):
        listed = list(took) if name == names[-1] else [list(took)[k] for k in ctx.order(len(took))]
        got = ctx.call(answer, {one: took[one] for one in listed}, name)
        if type(got) not in (set, frozenset):
            ctx.fail(f"a set of names was expected, got {type(got).__name__}")
        right, wrong = _ALL(took, name)
        known = sorted(names.index(one) if one in names else -1 for one in got)
        ctx.recognize(known, right, wrong if known else {})
        if known != right:
            missing = [names[k] for k in right if k not in known]
            over = sorted(str(one) for one in got if one not in {names[k] for k in right})
            ctx.fail(f"for {name!r} these are missing: {missing}, and these too many: {over}")
