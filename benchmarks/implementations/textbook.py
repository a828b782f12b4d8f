"""What a reader would write or import instead."""

from __future__ import annotations

import ast
from pathlib import Path

import torch
from torch import nn

__all__ = ["TextbookAttention", "TextbookBahdanau", "d2l_additive"]


class TextbookAttention(nn.Module):
    """Additive attention by broadcasting, as it is usually printed."""

    def __init__(self, d_query: int, d_key: int, d_hidden: int) -> None:
        super().__init__()
        self.w_q, self.w_k = (
            nn.Linear(d_query, d_hidden, bias=False),
            nn.Linear(d_key, d_hidden, bias=False),
        )
        self.v = nn.Linear(d_hidden, 1, bias=False)

    def forward(self, query, key, mask):
        hidden = torch.tanh(self.w_q(query)[:, :, None] + self.w_k(key)[:, None])
        scores = self.v(hidden).squeeze(-1).masked_fill(~mask, float("-inf"))
        return scores.softmax(-1) @ key


class TextbookBahdanau(nn.Module):
    """The training loop of most tutorials: keys projected again, and logits computed, at every
    step.

    Holds the modules of an :class:`attnbook.Bahdanau`, so that both compute the same numbers.
    """

    def __init__(self, model) -> None:
        super().__init__()
        self.model = model

    def forward(self, source, lengths, target_in):
        m = self.model
        memory = m.encode(source, lengths)
        h, mask = memory.annotations, memory.mask[:, 0]
        (s,) = m.start(memory)
        logits = []
        for t in range(target_in.shape[1]):
            hidden = torch.tanh(m.score.query_projection(s)[:, None] + m.score.key_projection(h))
            scores = m.score.vector(hidden).squeeze(-1).masked_fill(~mask, float("-inf"))
            context = (scores.softmax(-1)[:, None] @ h)[:, 0]
            y = m.target_embedding(target_in[:, t])
            s = m.cell(torch.cat([y, context], -1), s)
            logits.append(m.readout(torch.cat([s, y, context], -1)))
        return torch.stack(logits, 1)


def d2l_additive(d_hidden: int, folder: str = "build/peers") -> nn.Module | None:
    """``d2l.torch.AdditiveAttention`` out of the installed package, or None where it is not
    installed.

    The package's module imports torchvision, pandas and others at its top, so only the two
    definitions needed are executed, unchanged."""
    path = Path(folder) / "d2l" / "torch.py"
    if not path.is_file():
        return None
    wanted = {"masked_softmax", "AdditiveAttention"}
    tree = ast.parse(path.read_text(encoding="utf-8"))
    tree.body = [node for node in tree.body if getattr(node, "name", None) in wanted]
    names = {"torch": torch, "nn": nn}
    exec(compile(tree, str(path), "exec"), names)  # noqa: S102 - the peer's own source, to be timed
    return names["AdditiveAttention"](d_hidden, 0.0)
