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

edit = edits("06.mix_first")
edit("one of them still projects n rows", "x @ (W_q @ K.T)", "(x @ W_q) @ K.T")
edit("it takes 8.7 million operations", "(E @ x) @ W_k, (F @ x)", "E @ (x @ W_k), (F @ x)")
edit("no gradient reaches E", "(E @ x)", "(E.detach() @ x)")


@wrong("06.mix_first", "as many as printed")
def linformer_as_printed(x, W_q, W_k, W_v, E, F):
    Q, K, V = x @ W_q, x @ W_k, x @ W_v
    K, V = E @ K, F @ V
    scores = Q @ K.T / Q.shape[-1] ** 0.5
    return scores.softmax(-1) @ V


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
