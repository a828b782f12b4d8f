"""The captioner of its equations in NumPy, and small models to hold against it."""

import itertools

import numpy as np
import torch

from attnbook.models.captioner import Captioner, PictureEncoder

from .oracles import lstm_step, numbers_of, sigmoid

TARGET = torch.tensor([[1, 4, 5, 3], [1, 3, 0, 0], [1, 5, 4, 6]])


def build(attention="soft", grid=(2, 3), **options):
    torch.manual_seed(0)
    options |= {"d_feature": 5, "d_embed": 4, "hidden_size": 6, "d_attention": 3}
    encoder = PictureEncoder(grid, d_feature=5)
    model = Captioner(8, encoder, attention, **options).double().eval()
    with torch.no_grad():  # away from the flat weights of the start
        for name in ("score.vector", "score.query_projection", "score.key_projection"):
            if attention != "none":
                model.attention.get_submodule(name).weight.mul_(4)
    return model


def pictures(batch=3, grid=(2, 3), seed=0):
    size, generator = (batch, 3, 8 * grid[0], 8 * grid[1]), torch.Generator().manual_seed(seed)
    return torch.rand(size, generator=generator, dtype=torch.float64)


def regions_by_hand(model, picture):
    """The features of one picture: each region from its own 8 × 8 pixels, row by row."""
    w, (rows, columns) = numbers_of(model), model.encoder.grid
    result = []
    for row, column in itertools.product(range(rows), range(columns)):
        x = 2 * picture.numpy()[:, 8 * row : 8 * row + 8, 8 * column : 8 * column + 8] - 1
        for stage in (0, 2, 4):
            kernel = w[f"encoder.convolutions.{stage}.weight"]
            bias = w[f"encoder.convolutions.{stage}.bias"]
            half = range(x.shape[1] // 2)
            cut = [[x[:, 2 * i : 2 * i + 2, 2 * j : 2 * j + 2] for j in half] for i in half]
            x = np.einsum("kcab,ijcab->kij", kernel, np.array(cut)) + bias[:, None, None]
            if stage < 4:
                x = np.maximum(x, 0)
        place = np.array([-1 + 2 * column / (columns - 1), -1 + 2 * row / (rows - 1)])
        inner = np.maximum(x[:, 0, 0] + w["encoder.place.weight"] @ place, 0)
        result.append(np.maximum(w["encoder.mix.weight"] @ inner + w["encoder.mix.bias"], 0))
    return np.stack(result)


def caption_by_hand(model, picture, ids, attention):
    """Logits (m, vocabulary) and weights (m, L) of one picture and caption, from the equations."""
    w = numbers_of(model)
    a = regions_by_hand(model, picture)
    h, c = (
        np.tanh(w[f"first_{part}.weight"] @ a.mean(0) + w[f"first_{part}.bias"])
        for part in ("hidden", "cell")
    )
    logits, alphas = [], []
    for i in ids:
        if attention == "none":
            alpha, context = None, a.mean(0)
        else:
            keys = a @ w["attention.score.key_projection.weight"].T
            inside = w["attention.score.query_projection.weight"] @ h + keys
            e = np.tanh(inside) @ w["attention.score.vector.weight"][0]
            alpha = np.exp(e - e.max()) / np.exp(e - e.max()).sum()
            context = a[alpha.argmax()] if attention == "hard" else alpha @ a
        z = sigmoid(w["gate.weight"][0] @ h + w["gate.bias"][0]) * context
        x = np.concatenate([w["embedding.weight"][i], z])
        h, c = lstm_step(w, "cell", x, h, c)
        mixed = w["embedding.weight"][i] + w["from_hidden.weight"] @ h + w["from_hidden.bias"]
        mixed = mixed + w["from_context.weight"] @ z
        logits.append(w["output.weight"] @ mixed + w["output.bias"])
        alphas.append(alpha)
    return np.stack(logits), alphas
