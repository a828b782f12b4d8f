import torch
from torch.nn import functional as F

from ..collection import edits, wrong

edit = edits("08.one_place")
edit("they belong to the values", "8.5", "2.25")
edit("scale it by γ and add x_3", "8.5", "15")
edit("y_3 is not 9", "8.5", "9")
edit("expected one number", "8.5", "8.5, 1.0")


edit = edits("08.wider")
edit("expected one of 'nearly all'", "nearly all", "all of them")
edit("a float came back", '"nearly all"', "1.0")
edit("None came back", 'return "nearly all"', "pass")


edit = edits("08.reach")
edit("kernels are added up", "apart = 1, 1", "apart = 0, 1", "(kernel_size - 1)", "kernel_size")
edit("the reach starts at 0", "wide, apart = 1, 1", "wide, apart = 0, 1")
edit("the dilation is ignored", "* dilation", "")
edit("the stride is ignored", "* apart", "")
edit("the stride of a layer widens its own kernel", "dilation * apart", "dilation * apart * stride")
edit(
    "the whole span of a kernel is added",
    "(kernel_size - 1) * dilation * apart",
    "((kernel_size - 1) * dilation + 1) * apart",
)
edit("a dilation moves the neighbours of later layers apart", "*= stride", "*= stride * dilation")
edit(
    "not w · s",
    "in layers",
    "in reversed(layers)",
    "wide += (kernel_size - 1) * dilation * apart",
    "wide = wide * stride + (kernel_size - 1) * dilation",
)
edit("strides are added", "apart *= stride", "apart += stride - 1")
edit("counts its own stride alone", "apart *= stride", "apart = stride")
edit("from the output to the input", "in layers", "in layers[::-1]")
edit("to one side", "return wide", "return (wide - 1) // 2")
edit("that is a square", "return wide", "return wide**2")
edit("expected one number", "return wide", "return [layer[0] for layer in layers]")


edit = edits("08.multiplications")
edit("the 1×1 convolutions are missing", "return convolutions +", "return")
edit("the products over pairs are missing", "+ asking * asked * (d_key + d_value)", "")
edit("v is missing", "2 * channels * d_value * asking", "channels * d_value * asking")
edit("not from C to C", "2 * channels * d_value", "channels * (d_value + channels)")
edit("they add up", "(d_key + d_value)", "d_key * d_value")
edit(
    "v is counted for the pooled places alone",
    "2 * channels * d_value * asking",
    "channels * d_value * (asking + asked)",
)
edit("only the scores are counted", "(d_key + d_value)", "d_key")
edit("not N", "asking * asked *", "asking *")
edit("pooling is ignored", "if pooled", "if False")
edit("it was not asked to pool", "if pooled", "if True")
edit("queries are pooled as well", "asking * asked * (", "asked * asked * (")
edit("not half of them", "asking // 4", "asking // 2")
edit("they are pooled after", "2 * channels…", "channels * (d_key + d_value) * (asking + asked)")
edit(
    "sums are counted too",
    "return convolutions + asking * asked * (d_key + d_value)",
    "return 2 * (convolutions + asking * asked * (d_key + d_value))",
)
edit("expected one number", "return…", "return channels * d_key, channels * d_value")


def _scores(x, W_f, W_g, row, column, pooled):
    keys = torch.einsum("dc,chw->dhw", W_f, x)
    return torch.einsum(
        "d,dhw->hw", W_g @ x[:, row, column], F.max_pool2d(keys, 2) if pooled else keys
    )


def _whole(scores):
    return scores.flatten().softmax(0).view_as(scores)


edit = edits("08.map_of_a_query")
edit(
    "one weight for each place",
    "query =",
    "x, row, column = x.transpose(1, 2), column, row\n    query =",
)
edit("one weight for each", "if pooled", "if False")
edit("a vector came back", ".view_as(scores)", "")
edit("no gradient", "W_g @", "W_g.detach() @")
edit("no gradient goes back", ".view_as(scores)", ".view_as(scores).detach()")
edit(
    "queries are pooled as well",
    "    keys = F",
    '    query = F.max_pool2d(torch.einsum("dc,chw->dhw", W_g, x), 2)[:, row // 2, column // 2]\n'
    "        keys = F",
)
edit(
    "x is pooled before W_g",
    "x[:, row, column]",
    "(F.max_pool2d(x, 2)[:, row // 2, column // 2] if pooled else x[:, row, column])",
)


@wrong("08.map_of_a_query", "the weights of all places were computed")
def every_place(x, W_f, W_g, row, column, pooled):
    keys = torch.einsum("dc,chw->dhw", W_f, x)
    keys = F.max_pool2d(keys, 2) if pooled else keys
    queries = torch.tensordot(W_g, x.flatten(1), 1)
    weights = torch.tensordot(queries, keys.flatten(1), ([0], [0])).softmax(-1)
    return weights[row * x.shape[2] + column].view(keys.shape[1:])


@wrong("08.map_of_a_query", "it says how much each place looks at the one")
def the_column(x, W_f, W_g, row, column, pooled):
    if pooled:
        return _whole(_scores(x, W_f, W_g, row, column, pooled))
    flat = x.flatten(1)
    weights = ((W_f @ flat).T @ (W_g @ flat)).softmax(0)
    return weights[row * x.shape[2] + column].view(x.shape[1:])


@wrong("08.map_of_a_query", "scores were pooled")
def pooled_scores(x, W_f, W_g, row, column, pooled):
    scores = _scores(x, W_f, W_g, row, column, False)
    return _whole(F.max_pool2d(scores[None], 2)[0] if pooled else scores)


@wrong("08.map_of_a_query", "weights were added up in squares")
def pooled_weights(x, W_f, W_g, row, column, pooled):
    weights = _whole(_scores(x, W_f, W_g, row, column, False))
    return 4 * F.avg_pool2d(weights[None], 2)[0] if pooled else weights


@wrong("08.reach", "the reach of no layers is 1")
def nothing_of_nothing(layers):
    wide, apart = int(bool(layers)), 1
    for kernel, stride, dilation in layers:
        wide, apart = wide + (kernel - 1) * dilation * apart, apart * stride
    return wide
