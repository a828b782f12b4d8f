"""One figure to touch of each kind, on random inputs, and the decoder that one of them needs."""

import torch
from matplotlib import pyplot as plt

from attnbook import figures
from attnbook.decoding import Step
from attnbook.tasks import TOKEN_IDS, Vocabulary
from attnbook.tasks.geometry import tours

END = "<eos>"
WORDS = Vocabulary(["sun", "moon", "star"])
SOURCE = "the agreement was signed in August".split()
TARGET = "l' accord a été signé en août".split()


def still():
    fig, ax = plt.subplots(figsize=(4, 2))
    ax.plot([0, 1])
    return fig


def following(words):
    """p(next word | words so far) of a decoder that was drawn by lot; long answers end."""
    seed = sum((i + 1) * (WORDS.tokens.index(w) + 1) for i, w in enumerate(words))
    p = torch.rand(4, generator=torch.Generator().manual_seed(seed)) + 0.05 + len(words) % 2
    p[3] *= (len(words) + 0.1) ** 2
    return dict(zip([*WORDS.tokens[-3:], END], (p.double() / p.double().sum()).tolist()))


class Table(torch.nn.Module):
    """The same decoder, as those of the library are called; its state is what it has read."""

    token_ids = TOKEN_IDS

    def encode(self, source, lengths):
        return None

    def start(self, memory):
        return (torch.zeros(1, 0, dtype=torch.long),)

    def step(self, token, state, memory):
        read = torch.cat([state[0], token[:, None]], dim=1)
        p = torch.zeros(len(token), len(WORDS), dtype=torch.float64)
        for row, ids in enumerate(read[:, 1:].tolist()):
            for word, value in following([WORDS.tokens[i] for i in ids]).items():
                p[row, WORDS.tokens.index(word)] = value
        return Step(p.log(), (read,), None)


def one_of_each():
    """Kind → a figure of it, always the same."""
    g = torch.Generator().manual_seed(0)
    points = torch.rand(7, 2, generator=g, dtype=torch.float64)
    best = tours.held_karp(tours.distances(points[None]))[0].tolist()
    return {
        "softmax": figures.softmax_of_products(
            torch.randn(3, 256, generator=g), torch.randn(3, 6, 256, generator=g), width=128,
            still=still(),
        ),
        "mask": figures.mask_painter(
            ["<b>the</b>", "cat", "sat", "down", "pad"], real=4, still=still()
        ),
        "positions": figures.position_products([32, 8], 50, first=10, second=14, still=still()),
        "alignment": figures.alignment_steps(
            [(torch.randn(7, 6, generator=g).softmax(-1), SOURCE, TARGET),
             (torch.eye(3), ["so", "is", "it"], ["ainsi", "est", "il"])], word=2, still=still()
        ),
        "addressing": figures.addressing_steps(
            torch.randn(5, 3, generator=g), torch.randn(3, generator=g), torch.eye(5)[3],
            strength=2.0, gate=0.8, shift=0.9, gamma=2.0, still=still(),
        ),
        "beam": figures.beam_steps(following, end=END, beam_size=3, longest=6, still=still()),
        "tour": figures.tour_steps(
            points, list(range(7)), torch.randn(7, 8, generator=g).softmax(-1), best,
            still=still(),
        ),
        "rotary": figures.rotary_scores(
            [("one pair", [2.0, 0.5], [1.0, 0.0], [0.2]),
             ("<b>four</b>", *torch.randn(2, 8, generator=g), [1.0, 0.1, 0.01, 0.001])],
            40, query=5, key=2, still=still(),
        ),
        "delta": figures.delta_rule_steps(
            [[1.0, 0.0], [0.6, 0.8], [1.0, 0.0]], torch.eye(3),
            [("<b>Ada</b>", "Rome"), ("Ben", "Oslo"), ("<b>Ada</b>", "Nice")],
            entries=["Rome", "Oslo", "Nice"], read="<b>Ada</b>", written=2, still=still(),
        ),
        "machine": figures.machine_steps(
            torch.randn(4, 5, 3, generator=g), torch.rand(4, 2, 5, generator=g),
            torch.rand(4, 4, generator=g), torch.rand(4, 2, generator=g),
            names=["read", "<b>write</b>"], titles=["one <b>comes</b>", "two comes", "one is due",
            "two is due"], first=-2, count=4, step=1, still=still(),
        ),
        "heads": figures.view_heads(
            {"encoder": [torch.randn(1, 3, 4, 4, generator=g).softmax(-1)] * 2,
             "cross": [torch.randn(1, 2, 3, 4, generator=g).softmax(-1)] * 2},
            ["<b>the</b>", "cat", "sat", "down"], ["so", "it"],
        ),
    }  # fmt: skip
