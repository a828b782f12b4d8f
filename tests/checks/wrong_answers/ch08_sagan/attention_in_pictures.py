import torch
from torch.nn import functional as F

from ..collection import wrong


def _reach(layers, adds, start=1, grow=lambda apart, s: apart * s):
    wide, apart = start, 1
    for k, s, d in layers:
        wide += adds(k, s, d, apart)
        apart = grow(apart, s)
    return wide


@wrong("08.reach", "kernels are added up")
def sum_of_kernels(layers):
    return _reach(layers, lambda k, s, d, apart: k * d * apart, start=0)


@wrong("08.reach", "the reach starts at 0")
def from_zero(layers):
    return _reach(layers, lambda k, s, d, apart: (k - 1) * d * apart, start=0)


@wrong("08.reach", "the dilation is ignored")
def no_dilation(layers):
    return _reach(layers, lambda k, s, d, apart: (k - 1) * apart)


@wrong("08.reach", "the stride is ignored")
def no_stride(layers):
    return _reach(layers, lambda k, s, d, apart: (k - 1) * d)


@wrong("08.reach", "the stride of a layer widens its own kernel")
def stride_too_early(layers):
    return _reach(layers, lambda k, s, d, apart: (k - 1) * d * apart * s)


@wrong("08.reach", "the whole span of a kernel is added")
def whole_kernels(layers):
    return _reach(layers, lambda k, s, d, apart: ((k - 1) * d + 1) * apart)


@wrong("08.reach", "a dilation moves the neighbours of later layers apart")
def dilation_kept(layers):
    wide, apart = 1, 1
    for k, s, d in layers:
        wide += (k - 1) * apart * d
        apart *= s * d
    return wide


@wrong("08.reach", "not w · s")
def one_stride_too_many(layers):
    wide = 1
    for k, s, d in reversed(layers):
        wide = wide * s + (k - 1) * d
    return wide


@wrong("08.reach", "strides are added")
def sum_of_strides(layers):
    return _reach(
        layers, lambda k, s, d, apart: (k - 1) * d * apart, grow=lambda apart, s: apart + s - 1
    )


@wrong("08.reach", "counts its own stride alone")
def last_stride(layers):
    return _reach(layers, lambda k, s, d, apart: (k - 1) * d * apart, grow=lambda apart, s: s)


@wrong("08.reach", "from the output to the input")
def backwards(layers):
    return _reach(layers[::-1], lambda k, s, d, apart: (k - 1) * d * apart)


@wrong("08.reach", "to one side")
def one_side(layers):
    return (_reach(layers, lambda k, s, d, apart: (k - 1) * d * apart) - 1) // 2


@wrong("08.reach", "that is a square")
def area(layers):
    return _reach(layers, lambda k, s, d, apart: (k - 1) * d * apart) ** 2


@wrong("08.reach", "expected one number")
def as_a_list(layers):
    return [k for k, _, _ in layers]


def _count(C, height, width, key, value, pooled, *, convolutions=None, pairs=None):
    N = height * width
    n = N // 4 if pooled else N
    convolutions = 2 * C * (key + value) * N if convolutions is None else convolutions
    return convolutions + (N * n * (key + value) if pairs is None else pairs)


@wrong("08.multiplications", "the 1×1 convolutions are missing")
def pairs_alone(C, height, width, key, value, pooled):
    return _count(C, height, width, key, value, pooled, convolutions=0)


@wrong("08.multiplications", "the products over pairs are missing")
def convolutions_alone(C, height, width, key, value, pooled):
    return _count(C, height, width, key, value, pooled, pairs=0)


@wrong("08.multiplications", "v is missing")
def no_v(C, height, width, key, value, pooled):
    return _count(C, height, width, key, value, pooled) - C * value * height * width


@wrong("08.multiplications", "not from C to C")
def wide_v(C, height, width, key, value, pooled):
    return _count(C, height, width, key, value, pooled) + C * (C - value) * height * width


@wrong("08.multiplications", "they add up")
def product_of_widths(C, height, width, key, value, pooled):
    N = height * width
    return _count(
        C, height, width, key, value, pooled, pairs=N * (N // 4 if pooled else N) * key * value
    )


@wrong("08.multiplications", "v is counted for the pooled places alone")
def few_outputs(C, height, width, key, value, pooled):
    N = height * width
    return _count(C, height, width, key, value, pooled) - (
        C * value * (N - N // 4) if pooled else 0
    )


@wrong("08.multiplications", "only the scores are counted")
def scores_alone(C, height, width, key, value, pooled):
    N = height * width
    return _count(C, height, width, key, value, pooled, pairs=N * (N // 4 if pooled else N) * key)


@wrong("08.multiplications", "not N")
def places_for_pairs(C, height, width, key, value, pooled):
    return _count(C, height, width, key, value, pooled, pairs=height * width * (key + value))


@wrong("08.multiplications", "pooling is ignored")
def never_pooled(C, height, width, key, value, pooled):
    return _count(C, height, width, key, value, False)


@wrong("08.multiplications", "it was not asked to pool")
def always_pooled(C, height, width, key, value, pooled):
    return _count(C, height, width, key, value, True)


@wrong("08.multiplications", "queries are pooled as well")
def pooled_queries(C, height, width, key, value, pooled):
    N = height * width
    return _count(
        C,
        height,
        width,
        key,
        value,
        pooled,
        pairs=(N // 4) ** 2 * (key + value) if pooled else None,
    )


@wrong("08.multiplications", "not half of them")
def half(C, height, width, key, value, pooled):
    N = height * width
    return _count(
        C, height, width, key, value, pooled, pairs=N * (N // 2) * (key + value) if pooled else None
    )


@wrong("08.multiplications", "they are pooled after")
def pooled_before(C, height, width, key, value, pooled):
    N = height * width
    n = N // 4 if pooled else N
    return _count(C, height, width, key, value, pooled, convolutions=C * (key + value) * (N + n))


@wrong("08.multiplications", "sums are counted too")
def operations(C, height, width, key, value, pooled):
    return 2 * _count(C, height, width, key, value, pooled)


@wrong("08.multiplications", "expected one number")
def nothing_but_parts(C, height, width, key, value, pooled):
    return C * key, C * value


def _scores(x, W_f, W_g, row, column, pooled, pool=lambda t: F.max_pool2d(t, 2)):
    keys = torch.einsum("dc,chw->dhw", W_f, x)
    return torch.einsum("d,dhw->hw", W_g @ x[:, row, column], pool(keys) if pooled else keys)


def _whole(scores):
    return scores.flatten().softmax(0).view_as(scores)


@wrong("08.map_of_a_query", "the softmax is missing")
def no_softmax(*arguments):
    return _scores(*arguments)


@wrong("08.map_of_a_query", "over each row of the map")
def softmax_by_row(*arguments):
    return _scores(*arguments).softmax(-1)


@wrong("08.map_of_a_query", "over each column of the map")
def softmax_by_column(*arguments):
    return _scores(*arguments).softmax(0)


@wrong("08.map_of_a_query", "there are two softmaxes")
def two_softmaxes(*arguments):
    return _scores(*arguments).softmax(0).softmax(1)


@wrong("08.map_of_a_query", "queries are pooled as well")
def pooled_query(x, W_f, W_g, row, column, pooled):
    if not pooled:
        return _whole(_scores(x, W_f, W_g, row, column, pooled))
    keys, queries = (F.max_pool2d(torch.einsum("dc,chw->dhw", W, x), 2) for W in (W_f, W_g))
    return _whole(torch.einsum("d,dhw->hw", queries[:, row // 2, column // 2], keys))


@wrong("08.map_of_a_query", "x is pooled before W_g")
def query_of_a_square(x, W_f, W_g, row, column, pooled):
    if not pooled:
        return _whole(_scores(x, W_f, W_g, row, column, pooled))
    keys = F.max_pool2d(torch.einsum("dc,chw->dhw", W_f, x), 2)
    return _whole(
        torch.einsum("d,dhw->hw", W_g @ F.max_pool2d(x, 2)[:, row // 2, column // 2], keys)
    )


@wrong("08.map_of_a_query", "f and g have changed places")
def swapped(x, W_f, W_g, row, column, pooled):
    return _whole(_scores(x, W_g, W_f, row, column, pooled))


@wrong("08.map_of_a_query", "W_f makes the query and the keys")
def one_matrix(x, W_f, W_g, row, column, pooled):
    return _whole(_scores(x, W_f, W_f, row, column, pooled))


@wrong("08.map_of_a_query", "there is no 1/√d")
def with_a_root(x, W_f, W_g, row, column, pooled):
    return _whole(_scores(x, W_f, W_g, row, column, pooled) / len(W_f) ** 0.5)


@wrong("08.map_of_a_query", "it says how much each place looks at the one")
def the_column(x, W_f, W_g, row, column, pooled):
    if pooled:
        return _whole(_scores(x, W_f, W_g, row, column, pooled))
    flat = x.flatten(1)
    weights = ((W_f @ flat).T @ (W_g @ flat)).softmax(0)
    return weights[row * x.shape[2] + column].view(x.shape[1:])


@wrong("08.map_of_a_query", "one weight for each place")
def row_for_column(x, W_f, W_g, row, column, pooled):
    return _whole(_scores(x.mT, W_f, W_g, column, row, pooled))


@wrong("08.map_of_a_query", "one weight for each")
def never_pooled_keys(x, W_f, W_g, row, column, pooled):
    return _whole(_scores(x, W_f, W_g, row, column, False))


@wrong("08.map_of_a_query", "the mean of each square")
def mean_pool(*arguments):
    return _whole(_scores(*arguments, pool=lambda t: F.avg_pool2d(t, 2)))


@wrong("08.map_of_a_query", "x was pooled before its matrix")
def pooled_x(x, W_f, W_g, row, column, pooled):
    scores = torch.einsum(
        "d,dc,chw->hw", W_g @ x[:, row, column], W_f, F.max_pool2d(x, 2) if pooled else x
    )
    return _whole(scores)


@wrong("08.map_of_a_query", "scores were pooled")
def pooled_scores(x, W_f, W_g, row, column, pooled):
    scores = _scores(x, W_f, W_g, row, column, False)
    return _whole(F.max_pool2d(scores[None], 2)[0] if pooled else scores)


@wrong("08.map_of_a_query", "weights were added up in squares")
def pooled_weights(x, W_f, W_g, row, column, pooled):
    weights = _whole(_scores(x, W_f, W_g, row, column, False))
    return 4 * F.avg_pool2d(weights[None], 2)[0] if pooled else weights


@wrong("08.map_of_a_query", "every second place")
def strided(*arguments):
    return _whole(_scores(*arguments, pool=lambda t: t[:, ::2, ::2]))


@wrong("08.map_of_a_query", "a vector came back")
def a_vector(*arguments):
    return _scores(*arguments).flatten().softmax(0)


@wrong("08.map_of_a_query", "no gradient")
def cut(x, W_f, W_g, row, column, pooled):
    return _whole(_scores(x, W_f, W_g.detach(), row, column, pooled))


@wrong("08.map_of_a_query", "no gradient goes back")
def without_gradients(*arguments):
    with torch.no_grad():
        return _whole(_scores(*arguments))
