import torch

from ..collection import wrong


@wrong("06.attention_operations", "every operation counts once")
def multiplications_alone(m, n, d):
    return 2 * m * d * d + 2 * n * d * d + 2 * m * n * d


@wrong("06.attention_operations", "four projections are missing")
def pairs_alone(m, n, d):
    return 4 * m * n * d


@wrong("06.attention_operations", "products with keys and values are missing")
def projections_alone(m, n, d):
    return 4 * (m + n) * d * d


@wrong("06.attention_operations", "output projection is missing")
def no_output(m, n, d):
    return 2 * m * d * d + 4 * n * d * d + 4 * m * n * d


@wrong("06.attention_operations", "counted with m rows")
def all_of_queries(m, n, d):
    return 8 * m * d * d + 4 * m * n * d


@wrong("06.attention_operations", "counted with n rows")
def all_of_source(m, n, d):
    return 8 * n * d * d + 4 * m * n * d


@wrong("06.attention_operations", "weighted sum of the values is missing")
def scores_alone(m, n, d):
    return 4 * (m + n) * d * d + 2 * m * n * d


@wrong("06.attention_operations", "queries are compared with queries")
def self_attention_of_queries(m, n, d):
    return 4 * (m + n) * d * d + 4 * m * m * d


@wrong("06.attention_operations", "came back, expected an int")
def as_text(m, n, d):
    return f"{4 * (m + n) * d * d + 4 * m * n * d}"


@wrong("06.attention_operations", "self-attention of the source")
def self_attention_of_source(m, n, d):
    return 8 * n * d * d + 4 * n * n * d


@wrong("06.attention_operations", "for both texts")
def projections_of_both(m, n, d):
    return 8 * (m + n) * d * d + 4 * m * n * d


@wrong("06.attention_operations", "operations came back, expected")
def cubes(m, n, d):
    return m * n * d**3


def _linformer(
    query, key, value, E, F, words, scale=None, before=True, columns=slice(None), axis=-1
):
    n, there = key.shape[1], words[:, :, None]
    if before:
        key, value = key.masked_fill(~there, 0.0), value.masked_fill(~there, 0.0)
    E, F = (E[:, -n:], F[:, -n:]) if columns == "last" else (E[:, :n], F[:, :n])
    return torch.softmax(query @ (E @ key).mT / (scale or query.shape[-1] ** 0.5), axis) @ (
        F @ value
    )


@wrong("06.linformer_attention", "padding enters the mixtures")
def padding_is_mixed(*inputs):
    return _linformer(*inputs, before=False)


@wrong("06.linformer_attention", "padding enters the mixtures of the values")
def values_keep_padding(query, key, value, E, F, words):
    n = key.shape[1]
    keys = E[:, :n] @ key.masked_fill(~words[:, :, None], 0.0)
    return torch.softmax(query @ keys.mT / query.shape[-1] ** 0.5, -1) @ (F[:, :n] @ value)


@wrong("06.linformer_attention", "the mask hides mixtures")
def mask_on_mixtures(query, key, value, E, F, words):
    n, k = key.shape[1], E.shape[0]
    e = (query @ (E[:, :n] @ key).mT / query.shape[-1] ** 0.5).masked_fill(
        ~words[:, None, :k], float("-inf")
    )
    return torch.softmax(e, -1) @ (F[:, :n] @ value)


@wrong("06.linformer_attention", "not scaled")
def unscaled(*inputs):
    return _linformer(*inputs, scale=1.0)


@wrong("06.linformer_attention", "root of k")
def scaled_by_k(query, key, value, E, F, words):
    return _linformer(query, key, value, E, F, words, scale=E.shape[0] ** 0.5)


@wrong("06.linformer_attention", "last n columns")
def last_columns(*inputs):
    return _linformer(*inputs, columns="last")


@wrong("06.linformer_attention", "E and F are exchanged")
def exchanged(query, key, value, E, F, words):
    return _linformer(query, key, value, F, E, words)


@wrong("06.linformer_attention", "mixed by E")
def one_matrix(query, key, value, E, F, words):
    return _linformer(query, key, value, E, E, words)


@wrong("06.linformer_attention", "upside down")
def inverted(query, key, value, E, F, words):
    return _linformer(query, key, value, E, F, ~words)


@wrong("06.linformer_attention", "over the queries")
def over_queries(*inputs):
    return _linformer(*inputs, axis=-2)


@wrong("06.linformer_attention", "this is full attention")
def full_attention(query, key, value, E, F, words):
    e = (query @ key.mT / query.shape[-1] ** 0.5).masked_fill(~words[:, None], float("-inf"))
    return torch.softmax(e, -1) @ value


@wrong("06.linformer_attention", "no gradient reaches E")
def mixtures_detached(query, key, value, E, F, words):
    return _linformer(query, key, value, E.detach(), F, words)


@wrong("06.linformer_attention", "does not remove them")
def times_zero(query, key, value, E, F, words):
    there = words[:, :, None].float()
    return _linformer(query, key * there, value * there, E, F, words, before=False)


@wrong("06.linformer_attention", "the shape is")
def transposed(*inputs):
    return _linformer(*inputs).mT
