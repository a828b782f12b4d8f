"""Greedy decoding against one sentence at a time, and what greedy and beam have in common."""

import pytest
import torch
from torch import nn
from training_doubles import BOS, EOS, PAD, TARGETS, Step, TinyAttention, sharp, sources

from attnbook.decoding import beam_search, greedy
from attnbook.tasks import TOKEN_IDS


def test_greedy_is_the_argmax_of_each_step_sentence_by_sentence():
    model, (source, lengths) = sharp(), sources()
    result = greedy(model, source, lengths, max_length=6, need_weights=True)
    assert len(set(map(tuple, result.tokens))) > 1 and len({len(row) for row in result.tokens}) > 1
    assert 0 < result.finished.sum() < len(source)
    for i, row in enumerate(result.tokens):
        tokens, n = [], int(lengths[i])
        memory = model.encode(source[i : i + 1, :n], lengths[i : i + 1])
        state, token, maps, total = model.start(memory), BOS, [], 0.0
        for _ in range(6):
            out = model.step(torch.tensor([token]), state, memory)
            state = out.state
            log_probs = out.logits.log_softmax(-1)[0].tolist()
            token = max(range(EOS, TARGETS), key=lambda v: log_probs[v])
            total += log_probs[token]
            if token == EOS:
                break
            tokens.append(token)
            maps.append(out.weights[0])
        assert row == tokens
        assert result.finished[i].item() == (token == EOS)
        assert result.log_probs[i].item() == pytest.approx(total, abs=1e-10)
        expected = torch.stack(maps).detach() if row else torch.zeros(0, n)
        torch.testing.assert_close(result.weights[i], expected.double(), rtol=1e-10, atol=1e-12)


def test_a_batch_of_one_equals_a_row():
    model, (source, lengths) = sharp(), sources()
    together = greedy(model, source, lengths, 6)
    beams = beam_search(model, source, lengths, beam_size=3, max_length=6)
    for i in range(len(source)):
        row = source[i : i + 1], lengths[i : i + 1]
        alone = greedy(model, *row, 6)
        assert alone.tokens[0] == together.tokens[i]
        assert alone.log_probs[0].item() == pytest.approx(together.log_probs[i].item(), abs=1e-10)
        (single,) = beam_search(model, *row, beam_size=3, max_length=6)
        assert [h.tokens for h in single] == [h.tokens for h in beams[i]]
        assert [h.score for h in single] == pytest.approx([h.score for h in beams[i]], abs=1e-10)


def test_pad_and_bos_are_never_produced():
    model, (source, lengths) = sharp(), sources()
    with torch.no_grad():
        model.readout.bias[PAD] += 50
        model.readout.bias[BOS] += 60
    for row in greedy(model, source, lengths, 6).tokens:
        assert not {PAD, BOS} & set(row)
    for beams in beam_search(model, source, lengths, beam_size=4, max_length=6):
        for hypothesis in beams:
            assert not {PAD, BOS} & set(hypothesis.tokens)
            # They keep their share of the probability: what is reported is the model's own.
            assert hypothesis.log_prob < -40


def test_decoding_runs_in_eval_mode_without_gradients_and_puts_the_mode_back():
    model, (source, lengths) = sharp(dropout=0.9).train(), sources()
    first, second = (greedy(model, source, lengths, 6) for _ in range(2))
    assert first.tokens == second.tokens and torch.equal(first.log_probs, second.log_probs)
    assert not first.log_probs.requires_grad and model.training and model.dropout.training
    beams = beam_search(model, source, lengths, beam_size=1, max_length=6)
    assert [best.tokens for (best,) in beams] == first.tokens


def test_models_without_attention_give_no_weights():
    class Blind(TinyAttention):
        def step(self, token, state, memory, *, need_weights=False):
            return super().step(token, state, memory)._replace(weights=None)

    assert greedy(Blind(), *sources(), 3, need_weights=True).weights is None
    assert greedy(sharp(), *sources(), 3).weights is None  # nobody asks for them


def test_max_length_counts_eos():
    class Counts(nn.Module):
        """Produces 3, 3, EOS: three tokens."""

        token_ids = TOKEN_IDS

        def encode(self, source, lengths):
            return source

        def start(self, memory):
            return (torch.zeros(len(memory), dtype=torch.long),)

        def step(self, token, state, memory):
            wanted = torch.where(state[0] < 2, 3, EOS)
            return Step(torch.nn.functional.one_hot(wanted, 5) * 20.0, (state[0] + 1,), None)

    source, lengths = sources(1)
    for limit, finished in ((2, False), (3, True), (9, True)):
        result = greedy(Counts(), source, lengths, limit)
        assert result.tokens == [[3, 3]] and result.finished.tolist() == [finished]
        best = beam_search(Counts(), source, lengths, beam_size=2, max_length=limit)[0][0]
        assert best.tokens == [3, 3] and best.finished is finished
