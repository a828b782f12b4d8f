"""Small models that end early, late or not at all, and the long way round to what decoding
gives.
"""

import itertools

import torch
from training_doubles import BOS, EOS, CopyBatches, make_model

TARGETS = 6  # PAD, BOS, EOS and three words


def sharp(seed=2, target_size=TARGETS, **options):
    """A model whose targets end early, late or not at all: EOS is about as probable as a word."""
    model = make_model(seed, torch.float64, target_size=target_size, sharpness=4.0, **options)
    with torch.no_grad():
        model.readout.bias[EOS] += 0.2
    return model


def sources(rows=7, seed=0):
    batch = CopyBatches(rows, seed, tokens=8).batch(0)
    return batch.source, batch.lengths


def step_by_step(model, source, length, tokens):
    """Σ log p of `tokens` through `step` alone, for one sentence, with an independent softmax."""
    model.eval()
    with torch.no_grad():
        memory = model.encode(source[None, :length], torch.tensor([length]))
        state, token, total = model.start(memory), BOS, 0.0
        for following in tokens:
            out = model.step(torch.tensor([token]), state, memory)
            logits, state = out.logits[0], out.state
            total += (logits[following] - logits.exp().sum().log()).item()
            token = following
    return total


def all_targets(max_length, words=range(3, TARGETS)):
    """Every sequence that ends with EOS within max_length tokens, and every one of max_length
    words.
    """
    for n in range(max_length):
        for body in itertools.product(words, repeat=n):
            yield (*body, EOS)
    yield from itertools.product(words, repeat=max_length)


def produced(hypothesis):
    return [*hypothesis.tokens, EOS] if hypothesis.finished else hypothesis.tokens
