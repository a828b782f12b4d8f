"""Temperature, top-k, top-p and min-p against sums, transformers, and counts of samples."""

import math

import numpy as np
import pytest
import torch
from assertions import assert_exact, assert_refused
from scipy import stats

from attnbook.decoding import Step, sample
from attnbook.decoding.sampling import keep_min_p, keep_top_k, keep_top_p, token_distribution
from attnbook.tasks import TOKEN_IDS

BOS, EOS = 1, 2


def by_hand(logits, temperature=1.0, top_k=None, top_p=1.0, min_p=0.0, order="kpm"):
    """One row, in plain floats; the order of the filters is that of their letters."""
    weights = [math.exp((x - max(logits)) / temperature) for x in logits]
    for letter in order:
        total = sum(weights)
        ranked = sorted(range(len(weights)), key=lambda v: -weights[v])
        if letter == "k" and top_k is not None:
            least = weights[ranked[min(top_k, len(ranked)) - 1]]
            weights = [w if w >= least else 0.0 for w in weights]
        elif letter == "p":
            nucleus, mass = set(), 0.0
            for v in ranked:
                if mass / total >= top_p:
                    break
                nucleus.add(v)
                mass += weights[v]
            weights = [w if v in nucleus else 0.0 for v, w in enumerate(weights)]
        elif letter == "m":
            weights = [w if w >= min_p * max(weights) else 0.0 for w in weights]
    return [w / sum(weights) for w in weights]


OPTIONS = [
    {},
    {"temperature": 0.3},
    {"top_k": 3},
    {"top_p": 0.6},
    {"min_p": 0.2},
    {"temperature": 1.7, "top_k": 6, "top_p": 0.8, "min_p": 0.3},
    {"temperature": 0.5, "top_k": 4, "top_p": 0.7},
]


def logits(rows=40, size=9, seed=0):
    generator = torch.Generator().manual_seed(seed)
    drawn = 2 * torch.randn(rows, size, generator=generator, dtype=torch.float64)
    return drawn.masked_fill(torch.rand(rows, size, generator=generator) < 0.1, -torch.inf)


@pytest.mark.parametrize("options", OPTIONS)
def test_it_is_what_sums_over_the_vocabulary_give(options):
    given = logits()
    wanted = torch.tensor([by_hand(row, **options) for row in given.tolist()], dtype=torch.float64)
    assert_exact(token_distribution(given, **options), wanted)


WRONG = {
    "filters first, then the temperature": lambda row, temperature, **o: by_hand(
        [math.log(p) if p else -math.inf for p in by_hand(row, **o)], temperature
    ),
    "top-p before top-k": lambda row, **o: by_hand(row, order="pkm", **o),
    "min-p first": lambda row, **o: by_hand(row, order="mkp", **o),
    "the nucleus without its last token": lambda row, top_p, **o: by_hand(
        row, top_p=top_p - 0.2, **o
    ),
    "min-p as a probability of its own": lambda row, min_p, **o: [
        p * (p >= min_p) for p in by_hand(row, **o)
    ],
}


@pytest.mark.parametrize("name", WRONG)
def test_known_wrong_distributions_are_told_apart(name):
    options = {"temperature": 1.7, "top_k": 6, "top_p": 0.8, "min_p": 0.3}
    right = token_distribution(logits(), **options)
    wrong = torch.tensor([WRONG[name](row, **options) for row in logits().tolist()])
    assert (right - wrong).abs().max() > 0.01


@pytest.mark.parametrize("options", OPTIONS)
def test_it_is_that_of_the_package_transformers(options):
    transformers = pytest.importorskip("transformers")
    model = transformers.GPT2Config(vocab_size=9, n_embd=8, n_layer=1, n_head=1)
    generation = transformers.GPT2LMHeadModel(model)
    settings = transformers.GenerationConfig(
        do_sample=True, **{"top_k": 0, "temperature": 1.0, "top_p": 1.0, **options}
    )
    # the list that `generate` makes, so that the order is the package's
    processors = generation._get_logits_processor(settings)
    theirs = processors(torch.zeros(40, 1, dtype=torch.long), logits()).softmax(-1)
    torch.testing.assert_close(token_distribution(logits(), **options), theirs)


class Table(torch.nn.Module):
    """A model whose next token depends on the last one alone."""

    token_ids = TOKEN_IDS

    def __init__(self, rows):
        super().__init__()
        self.rows = torch.nn.Parameter(rows)

    def begin(self, batch, device=None):
        return ()

    encode = start = None

    def step(self, token, state, memory=None):
        return Step(self.rows[token], state, None)


@pytest.mark.parametrize("options", OPTIONS[1:])
def test_texts_have_the_probability_that_enumeration_gives(options):
    size, length, number = 6, 2, 4000
    rows = logits(size, size, seed=3).nan_to_num(neginf=-4.0) / 3
    masked = rows.detach().clone()
    masked[:, :2] = -torch.inf
    next_to = np.array([by_hand(row, **options) for row in masked.tolist()])
    expected = {}
    for first in range(size):
        for second in range(size) if first != EOS else [None]:
            p = next_to[BOS, first] * (1 if second is None else next_to[first, second])
            text = tuple(t for t in (first, second) if t not in (None, EOS))
            expected[text] = expected.get(text, 0.0) + p
    prompts = torch.full((number, 1), BOS), torch.ones(number, dtype=torch.long)
    generator = torch.Generator().manual_seed(0)
    drawn = sample(Table(rows), *prompts, length, generator=generator, **options)
    texts = [text for text, p in expected.items() if p > 0]
    counts = [sum(tuple(row) == text for row in drawn) for text in texts]
    assert sum(counts) == number  # nothing else is ever drawn

    def p_value(distribution):
        frequencies = np.array([distribution[text] for text in texts])
        return stats.chisquare(counts, number * frequencies / frequencies.sum()).pvalue

    assert p_value(expected) > 0.001
    flattened = {text: math.sqrt(p) for text, p in expected.items()}
    assert len(texts) < 3 or p_value(flattened) < 0.001


def test_edges():
    row = torch.tensor([[1.0, 3.0, 3.0, -torch.inf, 0.0]])
    inf = torch.inf
    for k in (5, 99):
        assert torch.equal(keep_top_k(row, k), row)
    assert keep_top_k(row, 1).tolist() == [[-inf, 3, 3, -inf, -inf]]  # a tie is kept whole
    assert torch.equal(keep_top_p(row, 1.0), row)
    assert keep_top_p(row, 1e-9).tolist() == [[-inf, 3, -inf, -inf, -inf]]  # a tie is cut
    assert keep_min_p(row, 1.0).tolist() == [[-inf, 3, 3, -inf, -inf]]
    assert torch.equal(keep_min_p(row, 0.0), row)
    assert token_distribution(row, temperature=0).tolist() == [[0, 1, 0, 0, 0]]
    for little in (1e-37, 1e-320):  # the limit, but for a tie
        got = token_distribution(torch.tensor([[300.0, 1.0, 299.0]]), temperature=little)
        assert got.tolist() == [[1, 0, 0]]
    hot = token_distribution(row[0], temperature=1e30)
    torch.testing.assert_close(hot, torch.tensor([1, 1, 1, 0, 1]) / 4)
    # what is before the second token is rounded to 1
    assert token_distribution(torch.tensor([0.0, -30.0]), top_p=1.0)[1] > 0


@pytest.mark.parametrize("bad", [-torch.inf, torch.nan, torch.inf])
def test_a_row_without_a_distribution_is_named(bad):
    assert_refused("logits", token_distribution, torch.full((2, 3), bad))
    assert_refused("logits", token_distribution, [1.0])
