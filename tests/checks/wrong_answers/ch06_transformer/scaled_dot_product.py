import torch

from ..collection import wrong


def _mask(lengths, n, diagonal=0, left=True):
    place, count = torch.arange(n), lengths[:, None, None]
    real = place >= n - count if left else place < count
    return torch.ones(n, n, dtype=torch.bool).tril(diagonal) & real


@wrong("06.left_padded_mask", "taken to stand on the right")
def padded_on_the_right(lengths, n):
    return _mask(lengths, n, left=False)


@wrong("06.left_padded_mask", "the mask is upside down")
def forbidden_is_true(lengths, n):
    return ~_mask(lengths, n)


@wrong("06.left_padded_mask", "there is no causal mask")
def not_causal(lengths, n):
    return (torch.arange(n) >= n - lengths[:, None, None]).expand(-1, n, -1)


@wrong("06.left_padded_mask", "the padding is not masked")
def only_causal(lengths, n):
    return torch.ones(n, n).tril().bool().expand(len(lengths), -1, -1)


@wrong("06.left_padded_mask", "joined with or")
def either(lengths, n):
    return torch.ones(n, n).tril().bool() | (torch.arange(n) >= n - lengths[:, None, None])


@wrong("06.left_padded_mask", "does not see itself")
def strictly_before(lengths, n):
    return _mask(lengths, n, -1)


@wrong("06.left_padded_mask", "sees the one after it")
def one_ahead(lengths, n):
    return _mask(lengths, n, 1)


@wrong("06.left_padded_mask", "turned round")
def upper_triangle(lengths, n):
    return torch.ones(n, n).triu().bool() & (torch.arange(n) >= n - lengths[:, None, None])


@wrong("06.left_padded_mask", "the padding masks queries")
def queries_masked(lengths, n):
    return torch.ones(n, n).tril().bool() & (torch.arange(n) >= n - lengths[:, None])[:, :, None]


@wrong("06.left_padded_mask", "rows and columns are swapped")
def swapped(lengths, n):
    return _mask(lengths, n).transpose(1, 2)


@wrong("06.left_padded_mask", "one position too many")
def one_too_many(lengths, n):
    return torch.ones(n, n).tril().bool() & (torch.arange(n) >= n - 1 - lengths[:, None, None])


@wrong("06.left_padded_mask", "one position too few")
def one_too_few(lengths, n):
    return torch.ones(n, n).tril().bool() & (torch.arange(n) > n - lengths[:, None, None])


@wrong("06.left_padded_mask", "a padded position sees itself")
def no_row_empty(lengths, n):
    mask = _mask(lengths, n)
    return mask | (torch.eye(n).bool() & ~mask.any(-1, keepdim=True))


@wrong("06.left_padded_mask", "the dtype is float32")
def numbers(lengths, n):
    return _mask(lengths, n).float()


@wrong("06.left_padded_mask", "the mask: the shape is")
def two_dimensions(lengths, n):
    return torch.arange(n) >= n - lengths[:, None]


def _attend(
    query,
    key,
    value,
    mask,
    fill=float("-inf"),
    scale=None,
    dim=-1,
    after=lambda weights, mask: weights,
):
    scores = query @ key.transpose(1, 2) / (key.shape[-1] ** 0.5 if scale is None else scale)
    weights = after(torch.softmax(scores.masked_fill(~mask, fill), dim), mask)
    return weights @ value, weights


def _zeros(weights, mask):
    return weights.masked_fill(~mask, 0.0)


@wrong("06.empty_rows", "may attend to nothing, and a softmax over nothing but -inf is 0/0")
def minus_infinity(*given):
    return _attend(*given)


@wrong("06.empty_rows", "spreads its weight over all keys")
def a_large_number(*given):
    return _attend(*given, fill=-1e9)


@wrong("06.empty_rows", "ignores its mask")
def unmasked_where_empty(query, key, value, mask):
    return _attend(query, key, value, mask | ~mask.any(-1, keepdim=True))


@wrong("06.empty_rows", "the mask is not used")
def no_mask(query, key, value, mask):
    return _attend(query, key, value, torch.ones_like(mask))


@wrong("06.empty_rows", "the mask comes after the softmax")
def mask_after(query, key, value, mask):
    _, weights = _attend(query, key, value, torch.ones_like(mask))
    return (weights * mask) @ value, weights * mask


@wrong("06.empty_rows", "the mask is upside down")
def upside_down(query, key, value, mask):
    return _attend(
        query, key, value, ~mask, fill=-1e9, after=lambda weights, mask: _zeros(weights, mask)
    )


@wrong("06.empty_rows", "over the queries")
def over_the_queries(*given):
    return _attend(*given, fill=-1e9, dim=-2, after=_zeros)


@wrong("06.empty_rows", "still gets weight, since exp(0) is 1")
def scores_times_mask(query, key, value, mask):
    weights = torch.softmax(query @ key.mT / key.shape[-1] ** 0.5 * mask, -1)
    return weights @ value, weights


@wrong("06.empty_rows", "added to the scores as 0 and 1")
def mask_added(query, key, value, mask):
    weights = torch.softmax(query @ key.mT / key.shape[-1] ** 0.5 + mask, -1)
    return weights @ value, weights


@wrong("06.empty_rows", "not divided by the root")
def unscaled(*given):
    return _attend(*given, fill=-1e9, scale=1.0, after=_zeros)


@wrong("06.empty_rows", "divided by the width of the keys: expected its root")
def scaled_too_much(query, key, value, mask):
    return _attend(query, key, value, mask, fill=-1e9, scale=key.shape[-1], after=_zeros)


@wrong("06.empty_rows", "the root of the width of the values")
def scaled_by_the_values(query, key, value, mask):
    return _attend(query, key, value, mask, fill=-1e9, scale=value.shape[-1] ** 0.5, after=_zeros)


@wrong("06.empty_rows", "the root of the number of keys")
def scaled_by_the_length(query, key, value, mask):
    return _attend(query, key, value, mask, fill=-1e9, scale=key.shape[1] ** 0.5, after=_zeros)


@wrong("06.empty_rows", "the context of a row without any key is not 0")
def context_too_early(query, key, value, mask):
    context, weights = _attend(query, key, value, mask, fill=-1e9)
    return context, _zeros(weights, mask)


@wrong("06.empty_rows", "expected (context, weights)")
def turned_round(*given):
    return _attend(*given, fill=-1e9, after=_zeros)[::-1]


@wrong("06.empty_rows", "exp overflows")
def no_largest_subtracted(query, key, value, mask):
    powers = torch.exp(query @ key.mT / key.shape[-1] ** 0.5) * mask
    weights = powers / powers.sum(-1, keepdim=True).clamp_min(1e-30)
    return weights @ value, weights


@wrong("06.empty_rows", "a forbidden score is the largest by far")
def largest_of_all_subtracted(query, key, value, mask):
    scores = query @ key.mT / key.shape[-1] ** 0.5
    powers = torch.exp(scores - scores.amax(-1, keepdim=True).detach()) * mask
    weights = powers / powers.sum(-1, keepdim=True).clamp_min(1e-30)
    return weights @ value, weights


@wrong("06.empty_rows", "do not make one, not even where it is replaced later")
def nan_in_the_gradient(query, key, value, mask):
    scores = query @ key.mT / key.shape[-1] ** 0.5
    top = (
        scores.masked_fill(~mask & mask.any(-1, keepdim=True), -1e9).amax(-1, keepdim=True).detach()
    )
    powers = torch.exp(torch.minimum(scores, top) - top) * mask
    weights = torch.where(mask, powers / powers.sum(-1, keepdim=True), 0.0)
    return weights @ value, weights


@wrong("06.empty_rows", "no gradient reaches query")
def weights_detached(query, key, value, mask):
    _, weights = _attend(query, key, value, mask, fill=-1e9, after=_zeros)
    return weights.detach() @ value, weights


@wrong("06.empty_rows", "in place")
def mask_changed(query, key, value, mask):
    mask[:, :, 0] |= ~mask.any(-1)
    return _attend(query, key, value, mask)


def _detect(layer, x, change=lambda row: torch.randn_like(row), bound=1e-6, differs=None):
    n = len(x)
    before, found = layer(x), torch.zeros(n, n, dtype=torch.bool)
    for j in range(n):
        other = x.clone()
        other[j] = x[j] + change(x[j])
        difference = layer(other) - before
        found[:, j] = differs(difference) if differs else difference.abs().amax(-1) > bound
    return found.triu(1)


@wrong("06.leaks", "is no leak")
def all_dependence(layer, x):
    slopes = torch.autograd.functional.jacobian(layer, x)  # (n, d, n, d)
    return slopes.abs().sum((1, 3)) > 1e-6


@wrong("06.leaks", "is no leak")
def itself_counted(layer, x):
    slopes = torch.autograd.functional.jacobian(layer, x)
    return (slopes.abs().sum((1, 3)) > 1e-6).triu()


@wrong("06.leaks", "the matrix is transposed")
def transposed(layer, x):
    return _detect(layer, x).T


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
    return _detect(layer, x, change=lambda row: torch.ones_like(row), bound=1e-5)


@wrong("06.leaks", "not only at the next one")
def next_word_only(layer, x):
    return _detect(layer, x) & torch.eye(len(x)).roll(1, 1).bool()


@wrong("06.leaks", "the bound too high")
def bound_too_high(layer, x):
    return _detect(layer, x, bound=1e3)


@wrong("06.leaks", "you say it does")
def compared_with_nothing(layer, x):
    n = len(x)
    return (
        (layer(torch.randn_like(x)) - layer(x))
        .abs()
        .amax(-1)[:, None]
        .expand(n, n)
        .gt(1e-6)
        .triu(1)
    )


@wrong("06.leaks", "you say it does")
def everything(layer, x):
    return torch.ones(len(x), len(x), dtype=torch.bool).triu(1)


@wrong("06.leaks", "are rows and columns swapped")
def swapped_below_the_diagonal(layer, x):
    slopes = torch.autograd.functional.jacobian(layer, x)  # (n, d, n, d)
    return (slopes.abs().sum((1, 3)) > 1e-6).T.triu(1)


@wrong("06.leaks", "you say it does not")
def signs_cancel(layer, x):
    slopes = torch.autograd.functional.jacobian(layer, x)
    return (slopes.sum((1, 3)).abs() > 1e-5).triu(1)


@wrong("06.leaks", "you say it does not")
def nothing(layer, x):
    return torch.zeros(len(x), len(x), dtype=torch.bool)


@wrong("06.leaks", "it takes a whole text")
def one_row_at_a_time(layer, x):
    return torch.stack([layer(row[None])[0, 0] > 0 for row in x])


@wrong("06.leaks", "the dtype is float32")
def sizes(layer, x):
    return _detect(layer, x).float()
