import torch

from ..collection import edits, wrong

edits(
    "02.reads_a_set",
    ("the mask must be shuffled with the states", "mask[:, order]", "mask"),
    ("the states are never shuffled", "states[:, order], mask[:, order]", "states.clone(), mask"),
    (
        "compare up to rounding",
        "torch.allclose(before, after, atol=1e-4)",
        "torch.equal(before, after)",
    ),
    (
        "shuffled together, in one order, along the words (dim 1)",
        "states[:, order], mask[:, order]",
        "states.flip(0), mask.flip(0)",
    ),
    (
        "shuffled together, in one order, along the words (dim 1)",
        "mask[:, order]",
        "mask.roll(1, 1)",
    ),
    ("its context changes with the order", ", torch.randperm(n), torch.randperm(n)", ","),
    ("its context changes with the order", "return False", "pass"),
    (
        "a float came back, expected True or False",
        "if not torch.allclose(before, after, atol=1e-4)",
        "if True",
        "return False",
        "return (before - after).abs().max().item()",
    ),
)


edits(
    "02.accuracy_by_length",
    ("both edges of a bin are inside", "length < high", "length <= high"),
    ("the lower edge is left out", "low <= length < high", "low < length <= high"),
    ("single tokens are counted", "p == r for", "sum(a == b for a, b in zip(p, r)) / len(r) for"),
    ("stops too early counts as right", "p == r for", "all(a == b for a, b in zip(p, r)) for"),
    ("expected None", "else None", "else 0.0"),
    ("the number of all sources", "/ len(hits)", "/ len(lengths)"),
    ("ZeroDivisionError", "if hits else None", ""),
)


@wrong("02.accuracy_by_length", "is NaN: no source has a length in")
def mean_of_nothing(predictions, references, lengths, edges):
    hits = [
        [float(p == r) for p, r, n in zip(predictions, references, lengths) if low <= n < high]
        for low, high in zip(edges, edges[1:])
    ]
    return [torch.tensor(row).mean() for row in hits]
