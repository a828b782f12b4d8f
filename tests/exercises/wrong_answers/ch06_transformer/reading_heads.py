import torch

from ..collection import edits, wrong

edit = edits("06.all_at_once")
edit("your prediction", '"about three in four"', '"most"')
edit("your prediction", '"about three in four"', "0.8")
edit("your prediction", '"about three in four"', "None")

edit = edits("06.telling_pairs")
edit("the words that look are not used", ":, looks,", ":, 0 * looks,")
edit("the shares: the shape is (1,)", "rows ", "weights = weights.mean(1, keepdim=True)\n    rows ")
edit("turned around", "> weights", "< weights")


def _join(heads):
    return heads.transpose(1, 2).flatten(2)


edit = edits("06.without_each_head")
edit("the head that is left out comes first", ".transpose(0, 1)", "")
edit("no gradient", ".transpose(0, 1)", ".transpose(0, 1).detach()")


@wrong("06.without_each_head", "changes its argument heads in place")
def spoils_heads(heads, W_o, b_o):
    out = []
    for k in range(heads.shape[1]):
        heads[:, k] = 0
        out.append(_join(heads) @ W_o + b_o)
    return torch.stack(out)
