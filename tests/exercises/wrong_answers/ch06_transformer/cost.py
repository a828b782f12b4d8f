import torch

from ..collection import edits, wrong

edit = edits("06.mostly_pairs")
edit("the pairs are half", "4608", "1536")
edit("the length is not 4000", "4608", "4000")
edit("expected one number", "4608", '"six times the width"')

edit = edits("06.mixtures_as_keys")
edit("expected one of 'as many as full attention'", "no more than with 16", "none")
edit("an int came back", '"no more than with 16"', "16")
edit("None came back", 'return "no more than with 16"', "pass")

edit = edits("06.attention_operations")
edit(
    "every operation counts once",
    "return projections + 2 * m * d * n + 2 * m * n * d",
    "return (projections + 2 * m * d * n + 2 * m * n * d) // 2",
)
edit("four projections are missing", "projections +", "")
edit("products with keys and values are missing", " + 2 * m * d * n + 2 * m * n * d", "")
edit("W_q or W_o is missing", "2 * m * d * d * 2", "2 * m * d * d")
edit("counted with m rows", "2 * n * d * d * 2", "2 * m * d * d * 2")
edit("counted with n rows", "2 * m * d * d * 2", "2 * n * d * d * 2")
edit("weighted sum of the values are missing", "+ 2 * m * n * d", "")
edit("queries are compared with queries", "2 * m * d * n + 2 * m * n * d", "4 * m * m * d")
edit(
    "came back, expected an int",
    "return projections + 2 * m * d * n + 2 * m * n * d",
    'return f"{projections + 2 * m * d * n + 2 * m * n * d}"',
)
edit("self-attention of the source", "projections =", "m = n\n    projections =")
edit("for both texts", "d * 2", "d * 4")
edit("operations came back, expected", "projections +…", "m * n * d**3")


edit = edits("06.linformer_attention")
edit("no gradient reaches E", "E[:, :n]", "E[:, :n].detach()")
edit("the shape is", "weights @ V", "(weights @ V).transpose(1, 2)")
edit("does not remove them", "key.masked…", "(key * there)", "value.masked…", "(value * there)")


@wrong("06.linformer_attention", "where words stand between padding")
def as_many_first_positions(query, key, value, E, F, words):
    words = torch.arange(words.shape[1]) < words.sum(1, keepdim=True)
    keys = E[:, : key.shape[1]] @ (key * words[..., None])
    values = F[:, : key.shape[1]] @ (value * words[..., None])
    return (query @ keys.mT / query.shape[-1] ** 0.5).softmax(-1) @ values
