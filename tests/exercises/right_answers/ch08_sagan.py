import math

import torch
from torch.nn import functional as F

from .collection import right


@right("08.reach")
def reach_from_the_end(layers):
    places = 1
    for kernel, stride, dilation in reversed(layers):
        places = (places - 1) * stride + (kernel - 1) * dilation + 1
    return places


@right("08.reach")
def reach_as_a_sum(layers):
    strides = [stride for _, stride, _ in layers]
    return 1 + sum(
        (kernel - 1) * dilation * math.prod(strides[:k])
        for k, (kernel, _, dilation) in enumerate(layers)
    )


@right("08.multiplications")
def multiplications_of_each_product(channels, height, width, d_key, d_value, pooled):
    N = height * width
    M = (height // 2) * (width // 2) if pooled else N
    queries = keys = N * channels * d_key
    values = output = N * channels * d_value
    return queries + keys + values + output + N * M * d_key + N * M * d_value


@right("08.map_of_a_query")
def map_by_convolutions(x, W_f, W_g, row, column, pooled):
    keys = F.conv2d(x[None], W_f[:, :, None, None])
    keys = F.max_pool2d(keys, 2) if pooled else keys
    query = F.conv2d(x[None], W_g[:, :, None, None])[0, :, row, column]
    return F.softmax(query @ keys[0].flatten(1), dim=-1).reshape(keys.shape[2:])


@right("08.class_scores")
def scores_by_one_hot(h, w, b, E, labels):
    return torch.einsum("bd,bd->b", h, F.one_hot(labels, len(E)).to(h) @ E + w) + b


@right("08.normalised")
def norm_with_outer_sums(weight, u, iterations, transposed):
    W = weight.movedim(1, 0) if transposed else weight
    W = W.reshape(len(W), -1)
    fixed = W.detach()
    for _ in range(iterations):
        v = (fixed * u[:, None]).sum(0)
        v = v / v.norm()
        u = (fixed * v).sum(1)
        u = u / u.norm()
    return weight / (W * torch.outer(u, v)).sum(), u


@right("08.sure_and_varied")
def score_by_entropies(logits):
    p = torch.softmax(logits.double(), 1)
    mean = p.mean(0)
    of_the_mean = -torch.xlogy(mean, mean).sum()
    of_each = -torch.xlogy(p, p).sum(1).mean()
    return torch.exp(of_the_mean - of_each).to(logits.dtype)


@right("08.two_clouds")
def distance_by_the_smaller_product(x, y):
    a, b = (one.double() - one.double().mean(0) for one in (x, y))
    if len(a) < x.shape[1]:
        product = a @ b.T @ b @ a.T
    else:
        product = b.T @ b @ a.T @ a
    values = torch.linalg.eigvals(product).real.clamp(min=0) / (len(a) - 1) / (len(b) - 1)
    apart = (x.double().mean(0) - y.double().mean(0)).norm() ** 2
    return apart + x.double().var(0).sum() + y.double().var(0).sum() - 2 * values.sqrt().sum()


@right("08.exchange_gap")
def gap_with_a_mask(score, a, b):
    left = torch.arange(a.shape[-1]) < a.shape[-1] // 2
    return score(a) + score(b) - score(torch.where(left, a, b)) - score(torch.where(left, b, a))


@right("08.exchange_gap")
def gap_with_cloned_pictures(score, a, b):
    middle = a.shape[-1] // 2
    first, second = a.clone(), b.clone()
    first[..., middle:], second[..., middle:] = b[..., middle:], a[..., middle:]
    return (score(a) - score(first)) + (score(b) - score(second))


@right("08.above_chance")
def agreement_by_counting(left, right):
    pairs = list(zip(left.tolist(), right.tolist()))
    told = [(x, y) for x, y in pairs if x >= 0 and y >= 0]
    if not told:
        return 0.0
    kinds = {kind for pair in told for kind in pair}
    n = len(told)
    by_chance = sum(
        sum(x == kind for x, _ in told) / n * sum(y == kind for _, y in told) / n for kind in kinds
    )
    if by_chance > 1 - 1e-12:
        return 0.0
    return (sum(x == y for x, y in told) / len(pairs) - by_chance) / (1 - by_chance)


@right("08.who_looks_at_whom")
def places_by_einsum(x, W_f, W_g, W_h, W_v, gamma):
    flat = x.flatten(2)
    f, g, h = (torch.einsum("dc,bcn->bnd", W, flat) for W in (W_f, W_g, W_h))
    weights = torch.einsum("bjd,bid->bji", g, f).softmax(-1)
    return gamma * torch.einsum("cd,bji,bid->bcj", W_v, weights, h).reshape(x.shape) + x


@right("08.who_looks_at_whom")
def places_one_by_one(x, W_f, W_g, W_h, W_v, gamma):
    B, C, height, width = x.shape
    out = []
    for picture in x.reshape(B, C, -1):
        keys, values = W_f @ picture, W_h @ picture
        columns = [W_v @ (values @ torch.softmax(keys.T @ (W_g @ place), 0)) for place in picture.T]
        out.append(picture + gamma * torch.stack(columns, 1))
    return torch.stack(out).view(B, C, height, width)


@right("08.map_of_a_query")
def map_by_the_log_of_the_sum(x, W_f, W_g, row, column, pooled):
    keys = torch.einsum("dc,chw->dhw", W_f, x)
    keys = F.max_pool2d(keys, 2) if pooled else keys
    scores = torch.einsum("d,dhw->hw", W_g @ x[:, row, column], keys)
    return (scores - scores.logsumexp((0, 1))).exp()
