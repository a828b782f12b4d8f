"""Scores of heads by loops over the positions, and models whose heads are taken away, swapped and
patched, against the same arithmetic on the weights of the model.
"""

import copy

import numpy as np
import pytest
import torch
from assertions import assert_refused

from attnbook import MultiHeadAttention
from attnbook.training.evaluation.heads import (
    ablate_heads,
    patch_heads,
    prefix_matching_score,
    previous_token_score,
    record_heads,
    swap_heads,
)

EXACT = {"atol": 1e-10, "rtol": 0}


def matching_by_hand(weights, tokens, shift=1):
    total, positions = np.zeros(weights.shape[1]), 0
    for b, text in enumerate(tokens.tolist()):
        for i in range(len(text)):
            earlier = [j for j in range(i) if text[j] == text[i]]
            positions += bool(earlier)
            for j in earlier:
                total += weights[b, :, i, j + shift].numpy()
    return total / positions


def causal_weights(seed=0):
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(2, 3, 9, 9, generator=generator, dtype=torch.float64)
    return scores.masked_fill(~torch.ones(9, 9).tril().bool(), -torch.inf).softmax(-1)


TOKENS = torch.tensor([[4, 5, 6, 4, 5, 6, 4, 4, 7], [8, 8, 8, 4, 5, 8, 4, 9, 5]])


def test_prefix_matching_is_what_a_loop_counts_and_not_what_near_mistakes_count():
    weights = causal_weights()
    got = prefix_matching_score(weights, TOKENS)
    torch.testing.assert_close(got, torch.tensor(matching_by_hand(weights, TOKENS)), **EXACT)
    # the token itself, where it was read before, or all queries counted
    assert (got - torch.tensor(matching_by_hand(weights, TOKENS, shift=0))).abs().max() > 0.01
    perfect = torch.zeros(1, 1, 6, 6)
    for i, j in enumerate([0, 1, 2, 1, 2, 3]):
        perfect[0, 0, i, j] = 1
    assert prefix_matching_score(perfect, torch.tensor([[4, 5, 6, 4, 5, 6]])).tolist() == [1.0]
    assert prefix_matching_score(perfect, torch.arange(6)[None]).isnan().all()


def test_the_previous_token_is_what_a_loop_counts():
    weights = causal_weights()
    wanted = sum(weights[:, :, i, i - 1] for i in range(1, 9)).mean(0) / 8
    torch.testing.assert_close(previous_token_score(weights), wanted, **EXACT)


def layer_and_text(seed=0):
    torch.manual_seed(seed)
    return MultiHeadAttention(12, 3).double(), torch.randn(2, 5, 12, dtype=torch.float64)


def with_rows(layer, rows):
    """The layer with other columns of W_o for what each head found."""
    changed = copy.deepcopy(layer)
    blocks = layer.output_projection.weight.detach().split(4, dim=1)
    new = [torch.zeros_like(blocks[0]) if k is None else blocks[k] for k in rows]
    changed.output_projection.weight.data = torch.cat(new, 1)
    return changed


def test_ablated_and_swapped_heads_are_other_columns_of_the_output_matrix():
    layer, x = layer_and_text()
    whole = layer(x).context
    for edit, rows in (
        (ablate_heads(layer, 1), [0, None, 2]),
        (ablate_heads(layer, 0, 2), [None, 1, None]),
        (swap_heads(layer, 0, 2), [2, 1, 0]),
    ):
        with edit:
            got = layer(x).context
        torch.testing.assert_close(got, with_rows(layer, rows)(x).context, **EXACT)
        assert (got - whole).abs().max() > 1e-3
    torch.testing.assert_close(layer(x).context, whole, **EXACT)  # as it was


def test_a_patched_head_gives_what_it_found_in_the_other_text():
    layer, x = layer_and_text()
    other = x.flip(0) + 1
    with record_heads(layer) as calls:
        layer(other)
    assert len(calls) == 1 and calls[0].shape == (2, 5, 3, 4)
    contributions = []
    for head in range(3):
        with ablate_heads(layer, *(h for h in range(3) if h != head)):
            contributions.append([layer(text).context for text in (x, other)])
    with patch_heads(layer, calls[0], 1):
        got = layer(x).context
    bias = layer.output_projection.bias
    wanted = contributions[0][0] + contributions[1][1] + contributions[2][0] - 2 * bias
    torch.testing.assert_close(got, wanted, **EXACT)
    with patch_heads(layer, calls[0], 0, 1, 2):
        patched = layer(x).context
    torch.testing.assert_close(patched, layer(other).context, **EXACT)


def test_wrong_arguments_are_named_and_leave_no_hook():
    layer, x = layer_and_text()
    assert_refused("head", ablate_heads, layer, 3)
    assert_refused("head", swap_heads, layer, 0, -1)
    with pytest.raises(ValueError, match="found must have the shape"):
        with patch_heads(layer, torch.zeros(1, 5, 3, 4), 0):
            layer(x)
    assert not layer.output_projection._forward_pre_hooks
    assert_refused("weights", prefix_matching_score, torch.zeros(3, 3), TOKENS)
