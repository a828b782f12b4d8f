import torch

from ..collection import edits, wrong

edit = edits("00.three_keys")
edit("without exp", "(1 * 16 + 2 * 8 + 5 * 0) / 8", "8 * 0.6931 / (0.6931 + 1.6094)")
edit("the context is not 3.2", "/ 8", "/ 10")
edit("a str came back, expected one number", "(1 * 16 + 2 * 8 + 5 * 0) / 8", "'4'")

edit = edits("00.far_away")
edit("expected one of 'average', 'last note', 'zero'", '"last note"', '"last"')
edit("an int came back", '"last note"', "1")
edit("None came back", "return ", "")
edit("a tuple came back", '"last note"', '"last note", 1.0')


edit = edits("00.weighted_sum")
edit(
    "the shape is (3, 3, 4), expected (3, 4)", " @ values", ".unsqueeze(-1) * values.unsqueeze(-3)"
)
edit("an ndarray came back, expected a torch.Tensor", "weights…", "(weights @ values).numpy()")
edit("None came back. Does your function return it?", "return weights", "weights")
edit("RuntimeError", "values", "values.mT @ values.mT")
edit("no gradient goes back", "weights @ values", "(weights @ values).detach()")


@wrong("00.weighted_sum", "in place")
def changes_values(weights, values):
    context = weights @ values
    values.zero_()
    return context


@wrong("00.temperature", "none of the values")
def mixes_the_best(scores, values, temperature):
    if temperature == 0:
        best = (scores == scores.amax(-1, keepdim=True)).to(scores)
        return best / best.sum(-1, keepdim=True) @ values
    return torch.softmax(scores / temperature, -1) @ values


edit = edits("00.temperature")
edit("0 is its own case", "if temperature == 0", "if False")
edit("argmax runs over the keys, dim=-1", "argmax(dim=-1)", "argmax(dim=0)")
edit(
    "however small its lead",
    "if temperature == 0",
    "if False",
    "scores /",
    "scores / 1e-2 if temperature == 0 else scores /",
)
edit(
    "no gradient reaches scores",
    "scores / temperature",
    "torch.tensor((scores / temperature).tolist())",
)


edit = edits("00.masked_softmax")
edit("Dimension out of range", "dim=-1", "dim=2")
edit("do not add up to 1 along the keys (dim=-1): row", "total.masked_fill…", "(total + 0.01)")
edit("put −∞ there", 'float("-inf")', "-1e4", "return powers", "return mask * powers")
edit("nothing to attend to all weights are 0", "total.masked_fill(total == 0, 1.0)", "total")
edit("all of them must be 0", 'float("-inf")', "-1e9")
edit("a masked key gets weight", 'float("-inf")', "-5.0")
edit("each row has its own largest score", ".amax(dim=-1, keepdim=True)", "[mask].max()")
edit("no gradient goes back", "1.0)", "1.0).detach()", "return powers", "return powers.detach()")
edit("the gradient at scores is not", "(total == 0, 1.0)", "(total == 0, 1.0).detach()")


@wrong("00.temperature", "exp overflows")
def exp_without_maximum(scores, values, temperature):
    if temperature == 0:
        return values[scores.argmax(dim=-1)]
    powers = torch.exp(scores / temperature)
    return powers / powers.sum(-1, keepdim=True) @ values


@wrong("00.masked_softmax", "scores")
def masked_powers(scores, mask):
    top = scores.masked_fill(~mask, float("-inf")).amax(-1, keepdim=True)
    top = top.masked_fill(torch.isinf(top), 0.0)
    powers = torch.where(mask, torch.exp(scores - top), 0.0)
    total = powers.sum(-1, keepdim=True)
    return powers / total.masked_fill(total == 0, 1.0)


@wrong("00.masked_softmax", "exp overflows")
def naive(scores, mask):
    powers = torch.exp(scores) * mask
    total = powers.sum(-1, keepdim=True)
    return powers / total.masked_fill(total == 0, 1.0)


def _by_hand(scores, mask, top, guard=True):
    powers = torch.exp(scores - top) * mask
    total = powers.sum(-1, keepdim=True)
    return powers / (total.masked_fill(total == 0, 1.0) if guard else total)


@wrong("00.masked_softmax", "the maximum is taken over all keys")
def maximum_of_all_keys(scores, mask):
    return _by_hand(scores, mask, scores.amax(-1, keepdim=True))


@wrong("00.masked_softmax", "the maximum is taken over all keys")
def maximum_of_all_keys_unguarded(scores, mask):
    return _by_hand(scores, mask, scores.amax(-1, keepdim=True), guard=False)


@wrong("00.masked_softmax", "each row has its own largest score")
def one_maximum_unguarded(scores, mask):
    return _by_hand(scores, mask, scores.max(), guard=False)


@wrong("00.weighted_sum", "no gradient reaches weights")
def sum_of_python_floats(weights, values):
    if weights.dim() > 2:
        return torch.stack([sum_of_python_floats(w, v) for w, v in zip(weights, values)])
    return torch.stack([sum(w * v for w, v in zip(row, values)) for row in weights.tolist()])
