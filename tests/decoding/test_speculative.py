"""Speculative decoding: texts have the distribution of the large model, known mistakes do not."""

import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from assertions import assert_refused
from scipy import stats

from attnbook import TransformerLM, paper_parts
from attnbook.decoding import Step, generate, speculative
from attnbook.decoding.sampling import draw
from attnbook.decoding.speculative import expected_tokens, keep_or_replace, speculative_sample
from attnbook.mechanisms.recurrent import LinearAttention
from attnbook.tasks import TOKEN_IDS

BOS, EOS, SIZE = 1, 2, 5


class Reader(torch.nn.Module):
    """A model of all tokens that it has read, in their order; its state is these tokens."""

    token_ids = TOKEN_IDS

    def __init__(self, seed, strength=1.0):
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        table = torch.randn(7, SIZE, generator=generator, dtype=torch.float64)
        self.table, self.calls = torch.nn.Parameter(strength * table), 0

    def logits(self, tokens):
        return self.table[sum((k + 1) * t for k, t in enumerate(tokens)) % 7]

    def begin(self, batch, device=None):
        return torch.zeros(1, 0, dtype=torch.long)

    def encode(self, tokens, lengths):
        return tokens

    def start(self, memory):
        return memory

    def step(self, token, state, memory=None):
        step = self.read(token[:, None], state)
        return step._replace(logits=step.logits[:, 0])

    def read(self, tokens, state):
        self.calls += 1
        both = torch.cat([state, tokens], 1)[0].tolist()
        ends = range(state.shape[1] + 1, len(both) + 1)
        logits = torch.stack([self.logits(both[:n]) for n in ends])
        return Step(logits[None], torch.tensor([both]), None)

    def cut(self, state, number):
        return state[:, : state.shape[1] - number]


PROMPT, LENGTH = [BOS, 4], 3


def all_texts(model):
    """Every text up to LENGTH tokens with its probability."""
    found, open_texts = {}, {(): 1.0}
    for _ in range(LENGTH):
        longer = {}
        for text, p in open_texts.items():
            logits = model.logits(PROMPT + list(text))[EOS:].tolist()
            total = sum(map(math.exp, logits))
            for token, logit in enumerate(logits, start=EOS):
                into = found if token == EOS else longer
                into[text if token == EOS else (*text, token)] = p * math.exp(logit) / total
        open_texts = longer
    return found | open_texts


def drawn(number, num_draft, **options):
    model, draft, prompt = Reader(9, 1.2), Reader(8, 1.2), torch.tensor(PROMPT)
    options |= {"num_draft": num_draft, "generator": torch.Generator().manual_seed(0)}
    found = [speculative_sample(model, draft, prompt, LENGTH, **options) for _ in range(number)]
    return [tuple(text.tokens) for text in found], all_texts(model), all_texts(draft)


def p_value(texts, expected):
    """Of the counts under these probabilities; those that expect fewer than five are one."""
    assert set(texts) <= set(expected) and abs(sum(expected.values()) - 1) < 1e-9
    common = [text for text in expected if expected[text] * len(texts) >= 5]
    counts = [texts.count(text) for text in common]
    frequencies = [expected[text] * len(texts) for text in common]
    counts.append(len(texts) - sum(counts))
    frequencies.append(len(texts) - sum(frequencies))
    return stats.chisquare(counts, frequencies).pvalue


def test_texts_have_the_distribution_of_the_large_model():
    texts, large, small = drawn(600, 2)
    assert p_value(texts, large) > 0.01
    assert p_value(texts, small) < 1e-6


def accept_always(target, draft, proposed, generator):
    return len(proposed), int(draw(target[-1:], generator))


def residual(make):
    """The rule with another distribution for the token that replaces one."""

    def rule(target, draft, proposed, generator):
        kept, following = keep_or_replace(target, draft, proposed, generator)
        if kept < len(proposed):
            following = int(draw(make(target[kept], draft[kept])[None], generator))
        return kept, following

    return rule


def not_renormalised(p, q):
    """What is missing goes to the last token, as where a cumulative sum is searched."""
    left = (p - q).clamp(min=0)
    return left + (1 - left.sum()) * torch.nn.functional.one_hot(torch.tensor(SIZE - 1), SIZE)


def last_from_the_draft(target, draft, proposed, generator):
    if len(proposed):
        target = torch.cat([target[:-1], draft[-1:]])
    return keep_or_replace(target, draft, proposed, generator)


WRONG = {
    "accept always": accept_always,
    "not renormalised": residual(not_renormalised),
    "max(0, q − p)": residual(lambda p, q: (q - p).clamp(min=0)),
    "replaced from p": residual(lambda p, q: p),
    "the extra token from the draft": last_from_the_draft,
}


@pytest.mark.parametrize("name", [*WRONG, "cache not cut back"])
def test_known_mistakes_have_another_distribution(name, monkeypatch):
    if name in WRONG:
        monkeypatch.setattr(speculative, "keep_or_replace", WRONG[name])
    else:
        monkeypatch.setattr(Reader, "cut", lambda self, state, number: state)
    texts, large, _ = drawn(250, 1)
    assert p_value(texts, large) < 0.001


def test_the_rule_gives_p_exactly():
    """The chance of each token by the rule's formula, from counts over its whole range."""
    generator = torch.Generator().manual_seed(0)
    p, q = torch.rand(2, 6, generator=generator, dtype=torch.float64).softmax(-1)
    q[5] = 0
    q /= q.sum()
    number, counts, kept_of = 2000, np.zeros(6), 0
    for _ in range(number):
        x = draw(q[None], generator)
        kept, following = keep_or_replace(torch.stack([p, p]), q[None], x, generator)
        counts[int(x) if kept else following] += 1
        kept_of += kept
    assert stats.chisquare(counts, number * p.numpy()).pvalue > 0.01
    alpha = float(torch.minimum(p, q).sum())
    assert abs(kept_of / number - alpha) < 4 * math.sqrt(alpha * (1 - alpha) / number)


def test_tokens_for_each_call_are_those_of_the_formula():
    p = torch.tensor([0.0, 0.0, 0.0, 0.6, 0.4])
    q = torch.tensor([0.0, 0.0, 0.0, 0.2, 0.8])

    class Constant(Reader):
        def __init__(self, row):
            super().__init__(0)
            self.row = row.log().clamp(min=-1e9)

        def logits(self, tokens):
            return self.row

    alpha = float(torch.minimum(p, q).sum())
    given = Constant(p), Constant(q), torch.tensor([BOS]), 300
    generator = torch.Generator().manual_seed(0)
    for num_draft in (1, 4):
        result = speculative_sample(*given, num_draft=num_draft, generator=generator)
        wanted = (1 - alpha ** (num_draft + 1)) / (1 - alpha)
        assert expected_tokens(alpha, num_draft) == pytest.approx(wanted)
        assert len(result.tokens) == 300 == result.accepted + result.calls
        assert 300 / result.calls == pytest.approx(wanted, rel=0.1)
    assert expected_tokens(1.0, 4) == 5 and expected_tokens(0.0, 4) == 1


def continued(model, tokens, number):
    """The greedy continuation, the whole text read anew for each token."""
    for _ in range(number):
        logits = model(torch.tensor([tokens])).logits[0, -1]
        tokens = [*tokens, EOS + int(logits[EOS:].argmax())]
    return tokens


def counted(model, draft, prompt, text, num_draft):
    """Calls of the large model and tokens kept, for a greedy text without EOS."""
    calls = kept = done = 0
    while done < len(text):
        number = min(num_draft, len(text) - done - 1)
        guessed = continued(draft, prompt + text[:done], number)[len(prompt) + done :]
        agree = 0
        while agree < number and guessed[agree] == text[done + agree]:
            agree += 1
        calls, kept, done = calls + 1, kept + agree, done + agree + 1
    return calls, kept


def transformer(seed, layers=2):
    torch.manual_seed(seed)
    parts = paper_parts(8, 2, 16, dropout=0.0)
    return TransformerLM(9, parts, num_layers=layers, token_ids=TOKEN_IDS).double()


@pytest.mark.parametrize("num_draft", [1, 4])
def test_greedy_texts_are_those_of_the_large_model_alone(num_draft):
    whole = 0
    for seed in range(3):
        model, draft = transformer(seed), transformer(seed + 10, 1)
        draft.load_state_dict(model.state_dict(), strict=False)  # it agrees now and then
        for prompt in ([1], [1, 5, 3]):
            (wanted,) = generate(model, [prompt], max_new_tokens=12, temperature=0)
            options = {"num_draft": num_draft, "temperature": 0}
            got, twin = (
                speculative_sample(model, small, torch.tensor(prompt), 12, **options)
                for small in (draft, model)
            )
            assert got.tokens == wanted
            if len(wanted) == 12:  # the draft, too, went on from what was kept
                assert got[1::2] == counted(model.eval(), draft.eval(), prompt, wanted, num_draft)
                whole += 1
            assert twin.tokens == wanted and twin.accepted == twin.proposed
            assert twin.calls <= math.ceil(12 / (num_draft + 1))
    assert whole > 1


def test_it_calls_the_large_model_as_often_as_it_says_and_leaves_the_modes():
    model, draft = Reader(0).train(), Reader(1).train()
    generator = torch.Generator().manual_seed(1)
    result = speculative_sample(model, draft, torch.tensor(PROMPT), 4, generator=generator)
    assert model.calls == result.calls and model.training and draft.training


@pytest.mark.parametrize(
    "change, words",
    [
        ({"prompt": torch.tensor([[1, 3]])}, "prompt"),
        ({"prompt": torch.tensor([], dtype=torch.long)}, "prompt"),
        ({"num_draft": 0}, "num_draft"),
        ({"max_length": 0}, "max_length"),
        ({"top_p": 2.0}, "top_p"),
    ],
)
def test_wrong_arguments_are_named(change, words):
    given = {"prompt": torch.tensor(PROMPT), "max_length": 3, **change}
    prompt, most = given.pop("prompt"), given.pop("max_length")
    assert_refused(words, speculative_sample, Reader(0), Reader(1), prompt, most, **given)


def test_a_large_model_that_takes_nothing_back_is_refused_whatever_is_drawn():
    attention = partial(LinearAttention, 8, 2, decay="constant")
    recurrent = replace(paper_parts(8, 2, 16, dropout=0.0), attention=attention)
    model = TransformerLM(9, recurrent, num_layers=1, token_ids=TOKEN_IDS)
    prompt = torch.tensor(PROMPT)
    assert_refused("model", speculative_sample, model, model, prompt, 4)  # every guess would stay


def test_models_of_two_vocabularies_are_refused():
    draft = Reader(1)
    draft.table = torch.nn.Parameter(torch.zeros(7, SIZE + 1))
    assert_refused("draft", lambda: speculative_sample(Reader(0), draft, torch.tensor(PROMPT), 4))


def test_it_works_under_another_default_device():
    model, prompt = transformer(0), torch.tensor([1, 5])
    wanted = speculative_sample(model, model, prompt, 6, temperature=0)
    with torch.device("meta"):
        assert speculative_sample(model, model, prompt, 6, temperature=0) == wanted
