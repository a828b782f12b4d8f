import torch

from ..collection import edits, wrong

edit = edits("02.new_phrases")
edit("among all 223", "0.16", "0.054")
edit("all sources that are right", "0.16", "0.717")
edit("the share is not 0.3", "0.16", "0.3")


edit = edits("02.cut_in_two")
edit("expected one of 'none'", "the square", "square")
edit("an int came back", 'return "the square"', "return 0")
edit("None came back", 'return "the square"', "pass")


edit = edits("02.reads_a_set")
edit("the mask must be shuffled with the states", "mask[:, order]", "mask")
edit("a shuffle keeps all words", "n = states.shape[1]", "n = states.shape[1] - 1")
edit("the states are never shuffled", "states[:, order], mask[:, order]", "states.clone(), mask")
edit("compare up to rounding", ".allclose(before, after, atol=1e-4)", ".equal(before, after)")
edit(
    "shuffled together, in one order, along the words (dim 1)",
    "states[:, order], mask[:, order]",
    "states.flip(0), mask.flip(0)",
)
edit("shuffled together, in one order, along the words (dim 1)", "mask[…", "mask.roll(1, 1))")
edit("in fewer than three orders", ", torch.randperm(n), torch.randperm(n)", ",")
edit("its context changes with the order", "atol=1e-4", "atol=0.5")
edit("its context changes with the order", "(before, after", "(before.mean(), after.mean()")
edit("in all sentences but the first", "(before, after", "(before[0], after[0]")
edit("its context changes with the order", "return False", "pass")
edit(
    "its context changes with the order",
    "(torch.arange(n).flip(0), torch.randperm(n), torch.randperm(n))",
    "[torch.arange(n).roll(k) for k in range(1, n)]",
)
edit(
    "Is True returned where the contexts differ?",
    "return False\n    return True",
    "return True\n    return False",
)
edit(
    "a float came back, expected True or False",
    "if not torch.allclose(before, after, atol=1e-4)",
    "if True",
    "return False",
    "return (before - after).abs().max().item()",
)


edit = edits("02.accuracy_by_length")
edit("expected None", "else None", "else 0.0")
edit("ZeroDivisionError", "if hits else None", "")


@wrong("02.accuracy_by_length", "is NaN: no source has a length in")
def mean_of_nothing(predictions, references, lengths, edges):
    hits = [
        [float(p == r) for p, r, n in zip(predictions, references, lengths) if low <= n < high]
        for low, high in zip(edges, edges[1:])
    ]
    return [torch.tensor(row).mean() for row in hits]
