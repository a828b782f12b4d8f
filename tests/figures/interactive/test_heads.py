"""The figure of all heads: what it is given is what it holds, and mistakes are named. How it
answers mouse and keys is tested in a browser, beside the other figures to touch.
"""

import base64
import io
import json
import re

import numpy as np
import torch
from assertions import refusals

from attnbook.figures import head_viewer, view_heads
from attnbook.models.transformer.encoder_decoder import HeadWeights


def weights(layers, heads, m, n, seed=0):
    return np.random.default_rng(seed).dirichlet(np.full(n, 0.3), size=(layers, heads, m))


def first_of(figure):
    """What is shown first: attention, layer, head and row, and the attention itself."""
    data = json.loads(re.search(r"^const data = (.*);$", figure.html(), re.MULTILINE)[1])
    return data["first"], data["parts"][data["first"][0]]


def test_a_layer_a_head_and_a_row_can_be_shown_first():
    array = weights(2, 3, 6, 6)
    words = [*"abcde", "</script><b>"]
    figure = head_viewer(array, words, layer=1, head=2, row=5)
    first, part = first_of(figure)
    assert first == [0, 1, 2, 5] and part["rows"] == words
    np.testing.assert_allclose(np.array(part["weights"]) / 1000, array, rtol=0, atol=5.1e-4)
    assert "2 layers of 3 heads, 6 by 6 words" in figure._repr_mimebundle_()["text/plain"]


def test_the_still_is_a_picture_of_every_head():
    from PIL import Image

    array = np.zeros((1, 2, 4, 4))
    array[0, 0], array[0, 1] = np.eye(4), 1.0
    png = head_viewer(array, list("abcd"))._repr_mimebundle_()["image/png"]
    image = np.asarray(Image.open(io.BytesIO(base64.b64decode(png))).convert("RGB")).astype(int)
    dark = (image[:, :, 2] - image[:, :, 0] > 60) & (image[:, :, 0] < 40)
    half = image.shape[1] // 2
    assert 0.2 < dark[:, :half].sum() / dark[:, half:].sum() < 0.3  # one cell of four, beside all


def test_weights_of_a_model_are_taken_as_they_come():
    source, target = ["a", "b", "c"], ["x", "y"]
    # batch 5, two layers, one column of padding
    tensors = [torch.from_numpy(weights(5, 2, 3, 4, seed=s)[:, :, :, :]) for s in range(2)]
    given = HeadWeights(
        tuple(torch.from_numpy(weights(5, 2, 4, 4, seed=s)) for s in (4, 5)),
        tuple(torch.from_numpy(weights(5, 2, 3, 3, seed=s)) for s in (2, 3)),
        tuple(tensors),
    )
    encoder, cross = given.encoder, given.cross
    shown_first = dict(index=3, part="cross", layer=1, head=1, row=2)
    both = view_heads(given, source, target, **shown_first)
    decoder = view_heads(given, source, target, index=1, part="decoder", row=1)
    one_head = head_viewer(encoder[0][0].clone().requires_grad_(), source, head=1)
    cases = [
        (both, cross[1][3, 1, 2, :3], source, "⟨/s⟩"),
        (decoder, given.decoder[0][1, 0, 1], ["⟨s⟩", *target], "y"),
        (view_heads(encoder, source, layer=1), encoder[1][0, 0, 0, :3], source, "a"),
        (view_heads(encoder[0], source, index=2), encoder[0][2, 0, 0, :3], source, "a"),
        (view_heads({"cross": tensors}, source, target), tensors[0][0, 0, 0, :3], source, "x"),
        (view_heads(tensors, source, target), tensors[0][0, 0, 0, :3], source, "x"),
        (head_viewer(encoder[0][0, 0], source), encoder[0][0, 0, 0, :3], source, "a"),
        (one_head, encoder[0][0, 1, 0, :3], source, "a"),
    ]
    for figure, expected, columns, looks in cases:
        (part, layer, head, row), shown = first_of(figure)
        assert shown["columns"] == list(columns) and shown["rows"][row] == looks
        told = np.array(shown["weights"][layer][head][row]) / 1000
        np.testing.assert_allclose(told, expected, rtol=0, atol=5.1e-4)


TWO = np.ones((1, 1, 2, 2))

test_mistakes_are_named = refusals(
    ("weights must have", lambda: head_viewer(np.ones(3), list("abc"))),
    ("weights must cover", lambda: head_viewer(np.full((1, 1, 2, 3), 0.1), list("abc"))),
    ("weights must lie", lambda: head_viewer(np.full((1, 1, 3, 3), 2.0), list("abc"))),
    ("weights must be finite", lambda: head_viewer(np.full((3, 3), np.nan), list("abc"))),
    ("rows", lambda: head_viewer(np.eye(3), [])),
    ("layer", lambda: head_viewer(np.eye(3), ["a"] * 3, layer=1)),
    ("head", lambda: head_viewer(np.eye(3), ["a"] * 3, head=-1)),
    ("row", lambda: head_viewer(np.eye(3), ["a"] * 3, row=3)),
    ("index", lambda: view_heads(np.ones((1, 1, 3, 3)), ["a"] * 3, index=1)),
    ("weights of encoder must hold", lambda: view_heads([None], ["a"])),
    ("weights of encoder must hold", lambda: view_heads([], ["a"])),
    ("weights of encoder must be", lambda: view_heads([TWO, TWO.repeat(2, 1)], ["a"])),
    ("target", lambda: view_heads({"cross": np.ones((1, 1, 2, 1))}, ["a"])),
    ("weights must be named", lambda: view_heads({"self": np.ones((1, 1, 1, 1))}, ["a"])),
    ("part", lambda: view_heads(np.ones((1, 1, 1, 1)), ["a"], part="cross")),
)
