import torch

from ..collection import wrong


def _more(weights, looks, antecedent, other):
    rows = torch.arange(len(looks))
    return weights[rows, :, looks, antecedent] > weights[rows, :, looks, other]


def _both(more):
    return more.view(-1, 2, more.shape[1]).all(1).float().mean(0)


@wrong("06.telling_pairs", "this counts sentences")
def counts_sentences(weights, looks, antecedent, other):
    return _more(weights, looks, antecedent, other).float().mean(0)


@wrong("06.telling_pairs", "one right sentence is enough")
def any_of_a_pair(weights, looks, antecedent, other):
    return (
        _more(weights, looks, antecedent, other)
        .view(-1, 2, weights.shape[1])
        .any(1)
        .float()
        .mean(0)
    )


@wrong("06.telling_pairs", "a tie counts as more")
def ties_count(weights, looks, antecedent, other):
    rows = torch.arange(len(looks))
    return _both(weights[rows, :, looks, antecedent] >= weights[rows, :, looks, other])


@wrong("06.telling_pairs", "the largest weight of the row")
def largest_weight(weights, looks, antecedent, other):
    return _both(weights[torch.arange(len(looks)), :, looks].argmax(-1) == antecedent[:, None])


@wrong("06.telling_pairs", "not in two halves")
def halves(weights, looks, antecedent, other):
    more = _more(weights, looks, antecedent, other)
    return more.view(2, -1, weights.shape[1]).all(0).float().mean(0)


@wrong("06.telling_pairs", "added up before they are compared")
def adds_up(weights, looks, antecedent, other):
    rows = torch.arange(len(looks))
    difference = weights[rows, :, looks, antecedent] - weights[rows, :, looks, other]
    return (difference.view(-1, 2, weights.shape[1]).sum(1) > 0).float().mean(0)


@wrong("06.telling_pairs", "divided by the number of sentences")
def divides_by_sentences(weights, looks, antecedent, other):
    return _both(_more(weights, looks, antecedent, other)) / 2


@wrong("06.telling_pairs", "a number of pairs")
def counts_pairs(weights, looks, antecedent, other):
    return _both(_more(weights, looks, antecedent, other)) * len(looks) / 2


@wrong("06.telling_pairs", "the words that look are not used")
def first_row(weights, looks, antecedent, other):
    return _both(_more(weights, torch.zeros_like(looks), antecedent, other))


@wrong("06.telling_pairs", "expected (5,)")
def mean_of_heads(weights, looks, antecedent, other):
    return _both(_more(weights.mean(1, keepdim=True), looks, antecedent, other))


@wrong("06.telling_pairs", "turned around")
def turned_around(weights, looks, antecedent, other):
    return _both(_more(weights, looks, other, antecedent))


def _join(heads):
    return heads.transpose(1, 2).flatten(2)


def _each(heads, keep):
    return torch.stack([_join(heads * keep[k][:, None, None]) for k in range(heads.shape[1])])


@wrong("06.without_each_head", "only head k is kept")
def keeps_one(heads, W_o, b_o):
    return _each(heads, torch.eye(heads.shape[1])) @ W_o + b_o


@wrong("06.without_each_head", "what head k adds")
def contribution(heads, W_o, b_o):
    return _each(heads, torch.eye(heads.shape[1])) @ W_o


def _others(heads):
    return _each(heads, 1 - torch.eye(heads.shape[1]))


@wrong("06.without_each_head", "the bias is missing")
def no_bias(heads, W_o, b_o):
    return _others(heads) @ W_o


@wrong("06.without_each_head", "the bias is taken away with the head")
def bias_shared_out(heads, W_o, b_o):
    return _others(heads) @ W_o + b_o * (heads.shape[1] - 1) / heads.shape[1]


@wrong("06.without_each_head", "the bias is there more than once")
def bias_of_each_head(heads, W_o, b_o):
    width = heads.shape[-1]
    each = [heads[:, k] @ W_o[k * width : (k + 1) * width] + b_o for k in range(heads.shape[1])]
    return torch.stack([sum(each[:k] + each[k + 1 :]) for k in range(len(each))])


@wrong("06.without_each_head", "the bias is added with each head")
def bias_in_every_part(heads, W_o, b_o):
    return _others(heads) @ W_o + heads.shape[1] * b_o


@wrong("06.without_each_head", "made larger to make up")
def rescaled(heads, W_o, b_o):
    return _others(heads) @ W_o * heads.shape[1] / (heads.shape[1] - 1) + b_o


@wrong("06.without_each_head", "stay out")
def stays_out(heads, W_o, b_o):
    heads, out = heads.clone(), []
    for k in range(heads.shape[1]):
        heads[:, k] = 0
        out.append(_join(heads) @ W_o + b_o)
    return torch.stack(out)


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


@wrong("06.without_each_head", "the head that is left out comes first")
def batch_first(heads, W_o, b_o):
    return (_others(heads) @ W_o + b_o).transpose(0, 1)


@wrong("06.without_each_head", "nothing is left out")
def leaves_nothing_out(heads, W_o, b_o):
    return (_join(heads) @ W_o + b_o).expand(heads.shape[1], -1, -1, -1).clone()


@wrong("06.without_each_head", "the columns of W_o are cut")
def cuts_columns(heads, W_o, b_o):
    at = torch.arange(W_o.shape[1]) // heads.shape[-1]
    return torch.stack([_join(heads) @ (W_o * (at != k)) + b_o for k in range(heads.shape[1])])


@wrong("06.without_each_head", "no gradient")
def cuts_the_way(heads, W_o, b_o):
    return (_others(heads) @ W_o + b_o).detach()
