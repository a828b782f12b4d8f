import torch

from ..collection import wrong


def _cosine(query, key):
    norms = query.norm(dim=-1)[:, None] * key.norm(dim=-1)
    return (key @ query[..., None])[..., 0] / norms.clamp_min(1e-8)


@wrong("03.content_weights", "the strength β is not used")
def no_strength(query, key, beta):
    return torch.softmax(_cosine(query, key), -1)


@wrong("03.content_weights", "β comes after the softmax: it belongs inside")
def strength_outside(query, key, beta):
    return beta[:, None] * torch.softmax(_cosine(query, key), -1)


@wrong("03.content_weights", "a larger strength makes the weights sharper")
def strength_as_temperature(query, key, beta):
    return torch.softmax(_cosine(query, key) / beta[:, None], -1)


@wrong("03.content_weights", "this is the dot product")
def dot(query, key, beta):
    return torch.softmax(beta[:, None] * (key @ query[..., None])[..., 0], -1)


@wrong("03.content_weights", "the norm of the key is missing")
def no_key_norm(query, key, beta):
    return torch.softmax(
        beta[:, None] * (key @ query[..., None])[..., 0] / query.norm(dim=-1)[:, None], -1
    )


@wrong("03.content_weights", "its cosine counts as 0")
def divides_by_zero(query, key, beta):
    cosine = (key @ query[..., None])[..., 0] / (query.norm(dim=-1)[:, None] * key.norm(dim=-1))
    return torch.softmax(beta[:, None] * cosine, -1)


@wrong("03.content_weights", "a softmax over the keys is missing")
def no_softmax(query, key, beta):
    return beta[:, None] * _cosine(query, key)


@wrong("03.content_weights", "normed over the positions")
def norm_over_positions(query, key, beta):
    key = key / key.norm(dim=1, keepdim=True)
    return torch.softmax(
        beta[:, None] * (key @ (query / query.norm(dim=-1, keepdim=True))[..., None])[..., 0], -1
    )


@wrong("03.content_weights", "expected over the keys (dim=-1)")
def softmax_over_the_batch(query, key, beta):
    return torch.softmax(beta[:, None] * _cosine(query, key), 0)


@wrong("03.content_weights", "opposite directions score -1")
def absolute(query, key, beta):
    return torch.softmax(beta[:, None] * _cosine(query, key).abs(), -1)


@wrong("03.content_weights", "the key of zeros gets no weight")
def zero_key_masked(query, key, beta):
    empty = (key == 0).all(-1)
    return torch.softmax(
        (beta[:, None] * _cosine(query, key)).masked_fill(empty, float("-inf")), -1
    )


@wrong("03.content_weights", "averaged over the width")
def mean_of_the_products(query, key, beta):
    return torch.softmax(beta[:, None] * _cosine(query, key) / key.shape[-1], -1)


@wrong("03.content_weights", "sums of absolute values")
def norm_of_absolute_values(query, key, beta):
    norms = query.abs().sum(-1)[:, None] * key.abs().sum(-1)
    return torch.softmax(
        beta[:, None] * (key @ query[..., None])[..., 0] / norms.clamp_min(1e-8), -1
    )


@wrong("03.content_weights", "these are distances")
def distances(query, key, beta):
    return torch.softmax(beta[:, None] * (1 - _cosine(query, key)), -1)


@wrong("03.content_weights", "the cosine is squared")
def squared_cosine(query, key, beta):
    return torch.softmax(beta[:, None] * _cosine(query, key) ** 2, -1)


@wrong("03.content_weights", "no gradient goes back")
def detached(query, key, beta):
    return torch.softmax(beta[:, None] * _cosine(query, key), -1).detach()


@wrong("03.content_weights", "no gradient reaches key")
def keys_detached(query, key, beta):
    return torch.softmax(beta[:, None] * _cosine(query, key.detach()), -1)


@wrong("03.content_weights", "the gradient at query is not")
def norms_detached(query, key, beta):
    norms = query.detach().norm(dim=-1)[:, None] * key.detach().norm(dim=-1)
    return torch.softmax(
        beta[:, None] * (key @ query[..., None])[..., 0] / norms.clamp_min(1e-8), -1
    )


@wrong("03.content_weights", "no gradient goes back")
def through_numpy(query, key, beta):
    return torch.softmax(torch.from_numpy((beta[:, None] * _cosine(query, key)).numpy()), -1)


def _parts(W):
    return torch.linalg.svd(W, full_matrices=False)


@wrong("03.reduced_rank", "not their sizes")
def no_singular_values(W, k):
    A, s, B = _parts(W)
    return A[:, :k].T.clone(), B[:k].clone()


@wrong("03.reduced_rank", "used twice")
def values_on_both(W, k):
    A, s, B = _parts(W)
    return s[:k, None] * A[:, :k].T, s[:k, None] * B[:k]


@wrong("03.reduced_rank", "only the root of the singular values")
def one_root(W, k):
    A, s, B = _parts(W)
    return s[:k, None] ** 0.5 * A[:, :k].T, B[:k].clone()


@wrong("03.reduced_rank", "keep the largest")
def smallest(W, k):
    A, s, B = _parts(W)
    return s[-k:, None] * A[:, -k:].T, B[-k:].clone()


@wrong("03.reduced_rank", "U and V are transposed")
def columns(W, k):
    A, s, B = _parts(W)
    return A[:, :k] * s[:k], B[:k].T.clone()


@wrong("03.reduced_rank", "not the nearest")
def first_rows(W, k):
    return torch.eye(W.shape[0])[:k], W[:k].clone()


@wrong("03.reduced_rank", "can be as near as")
def random_of_the_right_rank(W, k):
    return torch.randn(k, W.shape[0]), torch.randn(k, W.shape[1])


@wrong("03.reduced_rank", "the shape is")
def not_cut(W, k):
    A, s, B = _parts(W)
    return (A * s).T.clone(), B.clone()


@wrong("03.reduced_rank", "expected the tuple (U, V)")
def the_product(W, k):
    A, s, B = _parts(W)
    return (A[:, :k] * s[:k]) @ B[:k]
