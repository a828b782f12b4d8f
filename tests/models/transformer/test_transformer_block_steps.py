"""A decoder with a cache that reads several tokens at a time, and beams whose caches follow."""

import pytest
import torch
from assertions import assert_exact
from torch import nn

from attnbook import causal_mask
from attnbook.decoding import Step, beam_search, greedy
from attnbook.models.transformer.encoder_decoder import DecoderState
from attnbook.tasks import TOKEN_IDS

from .test_transformer_decoding import BOS, EOS, LENGTHS, SOURCE, TARGET, build


def log_prob(model, source, tokens):
    """log p(tokens | source), read at once."""
    batch_in = torch.tensor([[BOS, *tokens[:-1]]])
    logits = model(source[None], torch.tensor([len(source)]), batch_in).logits[0]
    return logits.log_softmax(-1)[range(len(tokens)), list(tokens)].sum().item()


def read_block(model, tokens, state, memory, mask):
    """Tokens (B, m) behind the cache: logits (B, m, V) and the new state."""
    x = model.target_positions(model.target_embedding(tokens), state.position)
    options = {"mask": mask, "source_mask": memory.mask, "caches": state.caches}
    decoded = model.decoder(x, memory.projected, **options)
    return model.output(decoded.x), DecoderState(decoded.caches, state.position + tokens.shape[1])


def in_blocks(model, sizes, mask):
    memory = model.encode(SOURCE, LENGTHS)
    state, result, start = model.start(memory), [], 0
    for m in sizes:
        tokens, start = TARGET[:, start : start + m], start + m
        logits, state = read_block(model, tokens, state, memory, mask(m, start))
        result.append(logits)
    return torch.cat(result, 1), state


@pytest.mark.parametrize("sizes", [(6,), (3, 3), (1, 4, 1), (2, 1, 3)])
def test_blocks_of_tokens_behind_a_cache_equal_the_whole_target(sizes):
    model = build()
    logits, state = in_blocks(model, sizes, causal_mask)
    assert_exact(logits, model(SOURCE, LENGTHS, TARGET).logits)
    assert state.position == 6 and state.caches[0].key.shape[-2] == 6


WRONG = {
    "none": lambda m, n: None,
    "aligned at the first column": lambda m, n: causal_mask(n)[:m],
    "one column too far": lambda m, n: causal_mask(m, n).roll(1, -1),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_masks_of_a_block_are_told_apart(name):
    model = build()
    logits, _ = in_blocks(model, (2, 4), WRONG[name])
    assert (logits - model(SOURCE, LENGTHS, TARGET).logits).abs().max() > 1e-3


class Prefix(nn.Module):
    """The same model without a cache: the state is the text so far."""

    token_ids = TOKEN_IDS

    def __init__(self, model):
        super().__init__()
        self.model = model

    def encode(self, source, lengths):
        return self.model.encode(source, lengths)

    def start(self, memory):
        return ()

    def step(self, token, state, memory):
        read = torch.cat([*state, token[:, None]], 1)
        x = self.model.target_positions(self.model.target_embedding(read))
        decoded = self.model.decoder(
            x, memory.projected, mask=causal_mask(read.shape[1]), source_mask=memory.mask
        )
        return Step(self.model.output(decoded.x[:, -1]), (read,), None)


class Hidden:
    """What a search does not look into."""

    def __init__(self, state):
        self.state = state


class CachesStay(Prefix):
    """The known wrong version: beams change places, their caches do not."""

    def start(self, memory):
        return Hidden(self.model.start(memory))

    def step(self, token, state, memory):
        out = self.model.step(token, state.state, memory)
        return Step(out.logits, Hidden(out.state), None)


@pytest.mark.parametrize("seed", range(4))
def test_greedy_and_beams_with_a_cache_are_those_without(seed):
    both = build(seed=seed), Prefix(build(seed=seed))
    ours, theirs = (greedy(model, SOURCE, LENGTHS, 7) for model in both)
    assert ours.tokens == theirs.tokens
    with_cache, without = (
        beam_search(model, SOURCE, LENGTHS, beam_size=4, max_length=7, length_penalty=0.6)
        for model in both
    )
    for ours, theirs in zip(with_cache, without, strict=True):
        assert [h.tokens for h in ours] == [h.tokens for h in theirs]
        assert [h.log_prob for h in ours] == pytest.approx([h.log_prob for h in theirs], abs=1e-9)


def test_caches_that_stay_where_they_are_give_scores_that_are_not_true():
    def off(model, wrapped):
        """How far the scores of a beam are from what the whole target gives."""
        found = beam_search(wrapped, SOURCE, LENGTHS, beam_size=4, max_length=6)
        return max(
            abs(h.log_prob - log_prob(model, source[:n], [*h.tokens, *[EOS] * h.finished]))
            for source, n, beams in zip(SOURCE, LENGTHS, found)
            for h in beams
        )

    with torch.no_grad():
        models = [build(seed=seed) for seed in range(4)]
        assert max(off(model, model) for model in models) < 1e-9
        assert max(off(model, CachesStay(model)) for model in models) > 1e-3
