"""Attention under what follows a call without its values: export, a tracer, a compiler that sees
another batch size.
"""

import torch
from torch.fx.experimental.proxy_tensor import make_fx

from attnbook import AdditiveScore, MultiHeadAttention, RotaryPositions, attend, causal_mask
from attnbook.mechanisms.recurrent import LinearAttention

from .agreement import assert_same


class Attend(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.score = AdditiveScore(4, 4, 5).double()

    def forward(self, x):
        return attend(self.score, x, x, x).context


def test_additive_attention_is_exported():
    x = torch.randn(2, 3, 4, dtype=torch.float64)
    made = Attend()
    assert_same(torch.export.export(made, (x,)).module()(x), made(x))


def test_a_tracer_leaves_nothing_behind():
    x = torch.randn(2, 3, 8)
    made = MultiHeadAttention(8, 2, rotary=RotaryPositions(4))
    run = lambda x: made(x, mask=causal_mask(3)).context  # noqa: E731
    make_fx(run, tracing_mode="fake", _allow_non_fake_inputs=True)(x)
    assert type(made(x).context) is torch.Tensor


def test_linear_attention_with_a_gate_is_compiled_for_any_batch():
    made = LinearAttention(8, 2, decay="scalar")
    run = torch.compile(made, fullgraph=True, backend="eager")
    for batch in (2, 3, 4):
        x = torch.randn(batch, 5, 8)
        torch.testing.assert_close(run(x).context, made(x).context, atol=1e-5, rtol=0)
