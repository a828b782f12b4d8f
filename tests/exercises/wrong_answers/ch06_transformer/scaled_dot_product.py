import torch

from ..collection import edits, wrong

edit = edits("06.row_by_hand")
edit("without a mask, or masked after the softmax", "0.25", "2 / 32")
edit("the weight is not 0.5", "0.25", "0.5")
edit("expected one number", "0.25", '"a quarter"')

edit = edits("06.forgotten_padding")
edit("expected one of 'not at all'", "not at all", "nothing")
edit("an int came back", '"not at all"', "0")
edit("None came back", 'return "not at all"', "pass")

edit = edits("06.left_padded_mask")
edit("one position too few", "place >= n", "place > n")
edit("the dtype is float32", "causal & real", "(causal & real).float()")
edit("the mask: the shape is", "causal & real", "real[:, 0]")


edit = edits("06.empty_rows")
edit(
    "may attend to nothing, and a softmax over nothing but -inf is 0/0", " & some", "", "* some", ""
)
edit("expected (context, weights)", "weights @ value, weights", "weights, weights @ value")
edit(
    "exp overflows",
    'scores.masked_fill(~mask & some, float("-inf"))',
    "torch.exp(scores) * mask",
    "torch.softmax(scores, dim=-1) * some",
    "scores / scores.sum(-1, keepdim=True).clamp_min(1e-30)",
)
edit(
    "or below a forbidden one",
    'scores.masked_fill(~mask & some, float("-inf"))',
    "torch.exp(scores - scores.amax(-1, keepdim=True).detach()) * mask",
    "torch.softmax(scores, dim=-1) * some",
    "scores / scores.sum(-1, keepdim=True).clamp_min(1e-30)",
)
edit("no gradient reaches query", "weights @ value", "weights.detach() @ value")
edit("in place", "some =", "mask[:, :, 0] |= ~mask.any(-1)\n    some =")


@wrong("06.empty_rows", "do not make one, not even where it is replaced later")
def nan_in_the_gradient(query, key, value, mask):
    scores = query @ key.mT / key.shape[-1] ** 0.5
    top = (
        scores.masked_fill(~mask & mask.any(-1, keepdim=True), -1e9).amax(-1, keepdim=True).detach()
    )
    powers = torch.exp(torch.minimum(scores, top) - top) * mask
    weights = torch.where(mask, powers / powers.sum(-1, keepdim=True), 0.0)
    return weights @ value, weights


def _detect(layer, x, change, bound):
    n = len(x)
    before, found = layer(x), torch.zeros(n, n, dtype=torch.bool)
    for j in range(n):
        other = x.clone()
        other[j] = change(x[j])
        found[:, j] = (layer(other) - before).abs().amax(-1) > bound
    return found.triu(1)


edit = edits("06.leaks")
edit("two heads whose second sees", "slopes.abs().amax((1, 3))", "slopes[:, 0].abs().amax(2)")
edit("is no leak", ".triu(1)", "")
edit("is no leak", ".triu(1)", ".triu()")
edit("the matrix is transposed", ".triu(1)", ".triu(1).T")
edit("not only at the next one", ".triu(1)", ".triu(1).tril(1)")
edit("the bound too high", "1e-6", "1e3")
edit("you say it does", "> 1e-6", "> -1")
edit("are rows and columns swapped", ".triu(1)", ".T.triu(1)")
edit("you say it does not", "slopes.abs().amax((1, 3)) > 1e-6", "slopes.sum((1, 3)).abs() > 1e-5")
edit("you say it does not", "> 1e-6", "> torch.inf")
edit("the dtype is float32", ".triu(1)", ".triu(1).float()")


@wrong("06.leaks", "look at the entries and not at their sum")
def gradient_of_the_sum(layer, x):
    n, found = len(x), torch.zeros(len(x), len(x), dtype=torch.bool)
    for t in range(n):
        x = x.detach().requires_grad_()
        (slope,) = torch.autograd.grad(layer(x)[t].sum(), x)
        found[t] = slope.abs().sum(-1) > 1e-5
    return found.triu(1)


@wrong("06.leaks", "change its entries by different numbers")
def one_number_added(layer, x):
    return _detect(layer, x, lambda row: row + 1, 1e-5)


@wrong("06.leaks", "change its direction, too")
def made_longer(layer, x):
    return _detect(layer, x, lambda row: 2 * row, 1e-6)


@wrong("06.leaks", "you say it does")
def compared_with_nothing(layer, x):
    differ = (layer(torch.randn_like(x)) - layer(x)).abs().amax(-1) > 1e-6
    return differ[:, None].expand(len(x), len(x)).triu(1)


@wrong("06.leaks", "it takes a whole text")
def one_row_at_a_time(layer, x):
    return torch.stack([layer(row[None])[0, 0] > 0 for row in x])


@wrong("06.leaks", "takes the rows of x for zeros")
def rows_set_to_zero(layer, x):
    before, found = layer(x), torch.zeros(len(x), len(x), dtype=torch.bool)
    for j in range(len(x)):
        changed = x.clone()
        changed[j] = 0
        found[:j, j] = ((layer(changed) - before).abs()[:j] > 1e-5).any(-1)
    return found
