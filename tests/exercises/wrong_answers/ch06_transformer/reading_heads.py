import torch

from ..collection import edits, wrong

edit = edits("06.pairs_by_hand")
edit("this counts sentences", "0.2", "0.5")
edit("a tie counts as more", "0.2", "0.4")
edit("the share is not 0.3", "0.2", "0.3")

edit = edits("06.all_at_once")
edit("your prediction", '"about three in four"', '"most"')
edit("your prediction", '"about three in four"', "0.8")
edit("your prediction", '"about three in four"', "None")

edit = edits("06.telling_pairs")
edit("this counts sentences", ".view(-1, 2, weights.shape[1]).all(dim=1)", "")
edit("one right sentence is enough", ".all(dim=1)", ".any(dim=1)")
edit("a tie counts as more", "> weights", ">= weights")
edit("the largest weight of the row", "looks,…", "looks].argmax(-1) == antecedent[:, None]")
edit("not in two halves", ".view…", ".view(2, -1, weights.shape[1]).all(dim=0).float().mean(dim=0)")
edit(
    "added up before they are compared", "> weights", "- weights", "all(dim=1)", "sum(dim=1).gt(0)"
)
edit("divided by the number of sentences", ".mean(dim=0)", ".mean(dim=0) / 2")
edit("a number of pairs", ".mean(dim=0)", ".mean(dim=0) * len(looks) / 2")
edit("the words that look are not used", ":, looks,", ":, 0 * looks,")
edit("the shares: the shape is (1,)", "rows ", "weights = weights.mean(1, keepdim=True)\n    rows ")
edit("turned around", "> weights", "< weights")


def _join(heads):
    return heads.transpose(1, 2).flatten(2)


edit = edits("06.without_each_head")
edit("only head k is kept", "full - parts", "parts + b_o")
edit("what head k adds", "full - parts", "parts")
edit("the bias is missing", "+ b_o", "")
edit(
    "the bias is taken away with the head", "+ b_o", "+ b_o * (heads.shape[1] - 1) / heads.shape[1]"
)
edit("the bias is there more than once", "+ b_o", "+ (heads.shape[1] - 1) * b_o")
edit("the bias is added with each head", "+ b_o", "+ heads.shape[1] * b_o")
edit(
    "made larger to make up",
    "(full - parts)",
    "((full - b_o - parts) * heads.shape[1] / (heads.shape[1] - 1) + b_o)",
)
edit("stay out", "full - parts", "full - parts.cumsum(dim=1)")
edit("the head that is left out comes first", ".transpose(0, 1)", "")
edit("nothing is left out", "full - parts", "full.expand_as(parts)")
edit("no gradient", ".transpose(0, 1)", ".transpose(0, 1).detach()")


@wrong("06.without_each_head", "changes its argument heads in place")
def spoils_heads(heads, W_o, b_o):
    out = []
    for k in range(heads.shape[1]):
        heads[:, k] = 0
        out.append(_join(heads) @ W_o + b_o)
    return torch.stack(out)


@wrong("06.without_each_head", "joined without swapping")
def view_alone(heads, W_o, b_o):
    keep = 1 - torch.eye(heads.shape[1])
    joined = [
        (heads * keep[k][:, None, None]).reshape(heads.shape[0], heads.shape[2], -1)
        for k in range(len(keep))
    ]
    return torch.stack(joined) @ W_o + b_o


@wrong("06.without_each_head", "interleaved")
def interleaved(heads, W_o, b_o):
    keep = 1 - torch.eye(heads.shape[1])
    return (
        torch.stack(
            [
                (heads * keep[k][:, None, None]).permute(0, 2, 3, 1).flatten(2)
                for k in range(len(keep))
            ]
        )
        @ W_o
        + b_o
    )


@wrong("06.without_each_head", "the columns of W_o are cut")
def cuts_columns(heads, W_o, b_o):
    at = torch.arange(W_o.shape[1]) // heads.shape[-1]
    return torch.stack([_join(heads) @ (W_o * (at != k)) + b_o for k in range(heads.shape[1])])
