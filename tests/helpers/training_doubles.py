"""Small models and batches with the shape of the real ones, for tests of training and decoding;
models that end early, late or not at all, and the long way round to what decoding gives.
"""

import itertools
from typing import NamedTuple

import torch
from torch import nn

from attnbook.tasks import TOKEN_IDS
from attnbook.training import fit, token_loss

PAD, BOS, EOS = 0, 1, 2
TARGETS = 6  # PAD, BOS, EOS and three words


class Batch(NamedTuple):
    source: torch.Tensor
    lengths: torch.Tensor
    target_in: torch.Tensor
    target_out: torch.Tensor

    @property
    def target_lengths(self):
        return (self.target_out != PAD).sum(1)


class Memory(NamedTuple):
    states: torch.Tensor  # (B, n, d)
    mask: torch.Tensor  # (B, n)
    unused: None = None


class Step(NamedTuple):
    logits: torch.Tensor
    state: tuple
    weights: torch.Tensor | None


class Decoded(NamedTuple):
    logits: torch.Tensor
    weights: torch.Tensor | None


class TinyAttention(nn.Module):
    """A GRU decoder with dot-product attention over embedded source tokens; its state is a nest
    with a None.
    """

    token_ids = TOKEN_IDS

    def __init__(self, source_size=11, target_size=7, width=8, dropout=0.0, sharpness=1.0):
        super().__init__()
        self.source = nn.Embedding(source_size, width)
        self.mix = nn.Linear(width, width)
        self.target = nn.Embedding(target_size, width)
        self.cell = nn.GRUCell(width, width)
        self.dropout = nn.Dropout(dropout)
        self.readout = nn.Linear(2 * width, target_size)
        self.sharpness = sharpness

    def encode(self, source, lengths):
        mask = torch.arange(source.shape[1], device=source.device) < lengths[:, None]
        return Memory(torch.tanh(self.mix(self.source(source))), mask)

    def start(self, memory):
        mean = (memory.states * memory.mask[..., None]).sum(1) / memory.mask.sum(1, keepdim=True)
        # The running sum of tokens must follow its beam too.
        return (mean, (torch.zeros(len(mean), dtype=torch.long, device=mean.device), None))

    def step(self, token, state, memory, *, need_weights=True):
        hidden, (seen, nothing) = state
        hidden = self.cell(self.target(token), hidden)
        scores = (memory.states @ hidden[:, :, None])[..., 0].masked_fill(~memory.mask, -torch.inf)
        weights = scores.softmax(-1)
        context = (weights[:, None] @ memory.states)[:, 0]
        logits = self.readout(self.dropout(torch.cat([hidden, context], -1))) * self.sharpness
        seen = seen + token
        logits = logits + 0.3 * torch.sin(
            seen[:, None] * (1 + torch.arange(logits.shape[1], device=token.device)).to(logits)
        )
        return Step(logits, (hidden, (seen, nothing)), weights)

    def forward(self, source, lengths, target_in):
        memory = self.encode(source, lengths)
        state = self.start(memory)
        logits, weights = [], []
        for token in target_in.unbind(1):
            out = self.step(token, state, memory)
            state = out.state
            logits.append(out.logits)
            weights.append(out.weights)
        return Decoded(torch.stack(logits, 1), torch.stack(weights, 1))


class CopyBatches:
    """Copy sequences of 1 to 5 tokens; batch(step) is a function of the step alone."""

    def __init__(self, rows=6, seed=0, tokens=4):
        self.rows, self.seed, self.tokens = rows, seed, tokens

    def batch(self, step):
        generator = torch.Generator().manual_seed(1000 * self.seed + step)
        lengths = torch.randint(1, 6, (self.rows,), generator=generator)
        n = int(lengths.max())
        body = torch.randint(3, 3 + self.tokens, (self.rows, n), generator=generator)
        body = body.masked_fill(torch.arange(n) >= lengths[:, None], PAD)
        zeros = torch.zeros(self.rows, 1, dtype=torch.long)
        target_out = torch.cat([body, zeros], 1)
        target_out[torch.arange(self.rows), lengths] = EOS
        target_in = torch.cat([torch.full((self.rows, 1), BOS), body], 1)
        return Batch(body, lengths, target_in, target_out)


def make_model(seed=0, dtype=torch.float32, **options):
    """The same random weights for the same seed, without touching the global generator."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return TinyAttention(**options).to(dtype)


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


def train(model=None, batches=None, loss=token_loss, **options):
    """A model, and the history of its short training on copies."""
    model = make_model() if model is None else model
    options = {"steps": 2, "progress": False, **options}
    return model, fit(model, CopyBatches() if batches is None else batches, loss, **options)


def flat(model):
    """All parameters of a model in one vector."""
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


def assert_same_state(first, second):
    """Two models are equal to the last bit."""
    torch.testing.assert_close(first.state_dict(), second.state_dict(), rtol=0, atol=0)
