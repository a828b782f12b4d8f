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
edit("the reach of no layers is 1", "wide, apart = 1, 1", "wide, apart = int(bool(layers)), 1")
edit("expected one number", "return wide", "return [layer[0] for layer in layers]")
edit("right for small sizes, but with depth", "in layers", "in layers[:50]")


edit = edits("08.multiplications")
edit("the 1×1 convolutions are missing", "return convolutions +", "return")
edit("not half of them", "asking // 4", "asking // 2")
edit("expected one number", "return…", "return channels * d_key, channels * d_value")


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


@wrong("08.map_of_a_query", "the weights of all places were computed")
def as_printed(x, W_f, W_g, row, column, pooled):
    keys = torch.einsum("dc,chw->dhw", W_f, x)
    keys = F.max_pool2d(keys, 2) if pooled else keys
    queries = torch.tensordot(W_g, x.flatten(1), 1)
    weights = torch.tensordot(queries, keys.flatten(1), ([0], [0])).softmax(-1)
    return weights[row * x.shape[2] + column].view(keys.shape[1:])
