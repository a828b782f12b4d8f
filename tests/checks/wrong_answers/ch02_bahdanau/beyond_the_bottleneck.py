import torch

from ..collection import edits, wrong

edit = edits("02.reads_a_set")
edit("the mask must be shuffled with the states", "mask[:, order]", "mask")
edit("the states are never shuffled", "states[:, order], mask[:, order]", "states.clone(), mask")
edit(
    "compare up to rounding",
    "torch.allclose(before, after, atol=1e-4)",
    "torch.equal(before, after)",
)
edit(
    "shuffled together, in one order, along the words (dim 1)",
    "states[:, order], mask[:, order]",
    "states.flip(0), mask.flip(0)",
)
edit(
    "shuffled together, in one order, along the words (dim 1)", "mask[:, order]", "mask.roll(1, 1)"
)
edit("its context changes with the order", ", torch.randperm(n), torch.randperm(n)", ",")
edit("its context changes with the order", "return False", "pass")
edit(
    "a float came back, expected True or False",
    "if not torch.allclose(before, after, atol=1e-4)",
    "if True",
    "return False",
    "return (before - after).abs().max().item()",
)


edit = edits("02.accuracy_by_length")
edit("both edges of a bin are inside", "length < high", "length <= high")
edit("the lower edge is left out", "low <= length < high", "low < length <= high")
edit("single tokens are counted", "p == r for", "sum(a == b for a, b in zip(p, r)) / len(r) for")
edit("stops too early counts as right", "p == r for", "all(a == b for a, b in zip(p, r)) for")
edit("expected None", "else None", "else 0.0")
edit("the number of all sources", "/ len(hits)", "/ len(lengths)")
edit("ZeroDivisionError", "if hits else None", "")


@wrong("02.accuracy_by_length", "is NaN: no source has a length in")
def mean_of_nothing(predictions, references, lengths, edges):
    hits = [
        [float(p == r) for p, r, n in zip(predictions, references, lengths) if low <= n < high]
        for low, high in zip(edges, edges[1:])
    ]
    return [torch.tensor(row).mean() for row in hits]
