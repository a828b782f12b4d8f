"""The Transformer without feed-forward networks: the blocks' sum by hand, and step by step."""

import torch

from attnbook import TransformerLM, causal_mask, paper_parts
from attnbook.mechanisms import PreNorm
from attnbook.models.transformer.attention_only_model import attention_only


def test_it_is_a_sum_of_attentions_and_nothing_else():
    torch.manual_seed(0)
    parts = paper_parts(8, 2, 16, dropout=0.0, residual=PreNorm)
    model = TransformerLM(11, attention_only(parts), num_layers=2).double().eval()
    whole = TransformerLM(11, parts, num_layers=2)
    text = torch.arange(1, 13).reshape(2, 6) * 7 % 10 + 1
    x = model._embed(text)
    for layer in model.stack.layers:
        x = x + layer.attention(layer.around_attention.norm(x), mask=causal_mask(6)).context
    right = model.output(model.stack.norm(x))
    torch.testing.assert_close(model(text).logits, right, atol=1e-10, rtol=0)
    names = [name for name, _ in model.named_parameters()]
    assert not any("feed_forward" in name for name in names)
    assert any("feed_forward" in name for name, _ in whole.named_parameters())
    state = model.begin(2)
    for t in range(6):
        step = model.step(text[:, t], state)
        state = step.state
        torch.testing.assert_close(step.logits, right[:, t], atol=1e-10, rtol=0)
