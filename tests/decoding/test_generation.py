"""Texts that go on: what is drawn, what ends them, prompts in every form, and published models."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from assertions import assert_refused

from attnbook import TransformerLM, generate, paper_parts
from attnbook.decoding import Step, TokenIds, beam_search, greedy, sample, speculative_sample
from attnbook.mechanisms.recurrent.multi_head import LinearAttention

SIZE = 6


def build(seed=0, size=SIZE, layers=2, **options):
    torch.manual_seed(seed)
    parts = paper_parts(8, 2, 16, dropout=0.0)
    model = TransformerLM(size, parts, num_layers=layers, **options).double().eval()
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(1.7)  # more decided than at the start
    return model


def next_logits(model, text):
    with torch.no_grad():
        return model(torch.tensor([text])).logits[0, -1]


def by_hand(model, prompt, number, *, ends=(), never=(), stop=(), penalty=1.0):
    """The likeliest text, one token after the other, from the whole text each time."""
    text, said = list(prompt), []
    for _ in range(number):
        logits = next_logits(model, text).clone()
        for token in set(text):
            logits[token] *= 1 / penalty if logits[token] > 0 else penalty
        logits[list(never)] = -math.inf
        token = int(logits.argmax())
        if token in ends:
            break
        text.append(token)
        said.append(token)
        hit = next((s for s in stop if said[-len(s) :] == list(s)), None)
        if hit:
            said = said[: -len(hit)]
            break
    return said


PROMPTS = [[4], [1, 5, 2, 0], [3, 3], [0]]


@pytest.mark.parametrize("ends", [(), (0,), (2, 5), (1,)])
@pytest.mark.parametrize("never", [(), (3,), (0, 1)])
def test_the_likeliest_text_whatever_ends_it_and_in_whatever_form_the_prompts_come(ends, never):
    never = tuple(set(never) - set(ends))
    model = build(1, token_ids=TokenIds(end=ends, forbidden=never))
    wanted = [by_hand(model, p, 7, ends=ends, never=never) for p in PROMPTS]
    options = {"max_new_tokens": 7, "temperature": 0.0}
    assert generate(model, PROMPTS, **options) == wanted
    assert generate(model, [np.array(p) for p in PROMPTS], **options) == wanted
    n = max(map(len, PROMPTS))
    filling = 3  # an id like any other: the mask says what is padding
    for left in (True, False):
        rows, masks = [], []
        for prompt in PROMPTS:
            pad, one = [filling] * (n - len(prompt)), [1] * len(prompt)
            rows.append(pad + prompt if left else prompt + pad)
            masks.append([0] * len(pad) + one if left else one + [0] * len(pad))
        for mask in (torch.tensor(masks), torch.tensor(masks) == 1):
            assert generate(model, torch.tensor(rows), mask=mask, **options) == wanted
    for prompt, text in zip(map(torch.tensor, PROMPTS), wanted):
        assert generate(model, prompt[None], **options) == [text]
        assert greedy(model, prompt[None], torch.tensor([len(prompt)]), 7).tokens == [text]
        assert speculative_sample(model, build(2), prompt, 7, temperature=0.0).tokens == text


def test_an_end_that_is_given_takes_the_place_of_the_models_own():
    model = build(1, token_ids=TokenIds(end=(2,), forbidden=(4,)))
    prompt = [[1, 5]]
    for end in (0, 1, 3, (3, 5), ()):
        ends = end if isinstance(end, tuple) else (end,)
        wanted = by_hand(model, prompt[0], 9, ends=ends, never=(4,))
        assert generate(model, prompt, max_new_tokens=9, temperature=0, end=end) == [wanted]
    wanted = by_hand(model, prompt[0], 9, ends=(4,))  # one that was forbidden may come
    assert generate(model, prompt, max_new_tokens=9, temperature=0, end=4) == [wanted]


def test_a_penalty_makes_what_was_said_less_likely():
    prompts, changed = [[4, 4, 2], [1], [2], [3], [5], [4]], 0
    for seed in range(8):
        model = build(seed)
        wanted = [by_hand(model, p, 6, penalty=1.6) for p in prompts]
        options = {"max_new_tokens": 6, "temperature": 0, "repetition_penalty": 1.6}
        assert generate(model, prompts, **options) == wanted
        changed += wanted != [by_hand(model, p, 6) for p in prompts]
    assert changed > 4


def test_a_sequence_stops_a_text_and_what_is_streamed_is_what_comes_back():
    model = build(1)
    whole = [by_hand(model, p, 12) for p in PROMPTS]
    stop = [whole[0][3:6], whole[1][2:3]]
    told: dict[int, list[int]] = {row: [] for row in range(len(PROMPTS))}
    options = {"max_new_tokens": 12, "temperature": 0}
    stream = lambda row, token: told[row].append(token)  # noqa: E731
    found = generate(model, PROMPTS, stop=stop, stream=stream, **options)
    assert found == [by_hand(model, p, 12, stop=stop) for p in PROMPTS]
    assert list(told.values()) == found
    arrays = [np.array(stop[0]), torch.tensor(stop[1])]
    assert generate(model, PROMPTS, stop=arrays, **options) == found
    assert len(found[0]) <= 3 and len(found[1]) <= 2


class Script(torch.nn.Module):
    """Says 3 1 4 1 5 0 0 …, and counts its steps."""

    says, steps = [3, 1, 4, 1, 5, 0, 0, 0], 0

    def begin(self, batch, device=None):
        return ()

    def step(self, token, state, memory):
        logits = torch.full((len(token), SIZE), -1.0)
        logits[:, self.says[self.steps]] = 1.0
        self.steps += 1
        return Step(logits, (), None)


@pytest.mark.parametrize(
    "stop, told_at, found",
    [
        ((), [1, 2, 3, 4, 5, 6], [3, 1, 4, 1, 5, 0]),
        ([[1, 5]], [1, 3, 3], [3, 1, 4]),  # the first 1 waits for what comes after it
        ([[1, 4, 0]], [1, 4, 4, 5, 5, 6], [3, 1, 4, 1, 5, 0]),
        ([[4, 1, 4]], [1, 2, 5, 5, 5, 6], [3, 1, 4, 1, 5, 0]),
        ([[0, 2]], [1, 2, 3, 4, 5, 6], [3, 1, 4, 1, 5, 0]),  # what waits at the end comes, too
        ([[5], [1, 4, 1]], [1], [3]),
    ],
)
def test_a_token_is_told_as_soon_as_it_is_certain(stop, told_at, found):
    model, at, told = Script(), [], []

    def stream(row, token):
        at.append(model.steps)
        told.append(token)

    options = {"max_new_tokens": 6, "temperature": 0}
    assert generate(model, [[2]], stop=stop, stream=stream, **options) == [found]
    assert told == found and at == told_at


def test_a_recurrent_attention_reads_prompts_of_every_length():
    torch.manual_seed(0)
    parts = replace(paper_parts(8, 2, 16, dropout=0.0), attention=lambda: LinearAttention(8, 2))
    model = TransformerLM(SIZE, parts, num_layers=2).double().eval()
    together = generate(model, PROMPTS, max_new_tokens=6, temperature=0)
    assert together == [by_hand(model, p, 6) for p in PROMPTS]


def test_it_repeats_with_its_generator_and_leaves_the_model_as_it_was():
    model = build().train()

    def drawn(seed):
        generator = torch.Generator().manual_seed(seed)
        return generate(model, [[3]] * 4, max_new_tokens=9, generator=generator)

    assert drawn(1) == drawn(1) != drawn(2) and model.training
    whole = torch.tensor([[3]] * 4), torch.ones(4, dtype=torch.long)
    assert sample(model, *whole, 9, generator=torch.Generator().manual_seed(1)) == drawn(1)


@pytest.mark.parametrize("dtype", [torch.int16, torch.int32, torch.int64])
def test_sample_takes_a_padded_batch(dtype):
    model, lengths = build(1), torch.tensor([len(p) for p in PROMPTS])
    padded = torch.tensor([p + [3] * (4 - len(p)) for p in PROMPTS])
    found = sample(model, padded, lengths.to(dtype), 7, temperature=0)
    assert found == [by_hand(model, p, 7) for p in PROMPTS]
    assert_refused("prompts", sample, model, PROMPTS, lengths, 7)
    assert_refused("lengths", sample, model, padded, lengths - 1, 7)
    assert_refused("max_length", sample, model, padded, lengths, 0)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_nan_from_the_model(temperature):
    model, options = build(), {"max_new_tokens": 3, "temperature": temperature}
    with torch.no_grad():
        next(model.parameters()).fill_(torch.nan)
    assert_refused("model must give finite", generate, model, [[1, 3]], **options)


def test_it_works_under_another_default_device():
    model, options = build(), {"max_new_tokens": 4, "temperature": 0, "repetition_penalty": 1.1}
    wanted = generate(model, PROMPTS, **options)
    with torch.device("meta"):
        assert generate(model, PROMPTS, **options) == wanted


GAP = torch.tensor([[1, 0, 1]])


@pytest.mark.parametrize(
    "change, words",
    [
        ({"prompts": [[]]}, "prompts[0] must have"),
        ({"prompts": []}, "prompts"),
        ({"prompts": [1, 2]}, "prompts"),
        ({"prompts": "hello"}, "prompts"),
        ({"prompts": ["hello"]}, "prompts[0] must be a"),
        ({"prompts": [[1, 2.0]]}, "prompts[0] must be an"),
        ({"prompts": [[1], [-1]]}, "prompts[1]"),
        ({"prompts": [[SIZE]]}, "prompts must be between"),
        ({"prompts": torch.tensor([1, 2])}, "prompts"),
        ({"mask": torch.ones(1, 2)}, "mask must come"),
        ({"prompts": torch.tensor([[1, 2]]), "mask": torch.ones(1, 3).long()}, "mask"),
        ({"prompts": torch.tensor([[1, 2]]), "mask": torch.tensor([[0, 0]])}, "mask must leave"),
        ({"prompts": GAP, "mask": GAP > 0}, "mask must be without"),
        ({"max_new_tokens": 0}, "max_new_tokens"),
        ({"temperature": -1.0}, "temperature"),
        ({"top_k": 0}, "top_k"),
        ({"top_p": 1.5}, "top_p"),
        ({"min_p": -0.1}, "min_p"),
        ({"repetition_penalty": 0.0}, "repetition_penalty"),
        ({"end": -1}, "end must be an"),
        ({"end": "</s>"}, "end must be an"),
        ({"end": SIZE}, "end must be below"),
        ({"stop": "stop"}, "stop"),
        ({"stop": [3]}, "stop"),
        ({"stop": [[]]}, "stop"),
        ({"stream": 3}, "stream"),
    ],
)
def test_bad_input_is_named(change, words):
    given = {"prompts": [[1, 3]], "max_new_tokens": 3, **change}
    assert_refused(words, generate, build(), given.pop("prompts"), **given)


@pytest.mark.parametrize(
    "change, words",
    [
        ({"end": (7,)}, "end of token_ids"),
        ({"start": 6}, "start of token_ids"),
        ({"padding": -1}, "padding"),
        ({"forbidden": ("a",)}, "forbidden"),
    ],
)
def test_token_ids_outside_the_vocabulary(change, words):
    assert_refused(words, lambda: build(token_ids=TokenIds(**change)))


def test_nothing_is_assumed_of_a_model_that_says_nothing():
    """Ids 0, 1 and 2 are words: they are drawn, and none of them ends a text."""
    model = build(3)
    options = {"max_new_tokens": 8, "generator": torch.Generator().manual_seed(0)}
    drawn = generate(model, [[4]] * 50, **options)
    assert {0, 1, 2} <= {token for text in drawn for token in text}
    assert {len(text) for text in drawn} == {8}
    model(torch.tensor([[0, 1, 2]])).logits.sum().backward()
    assert model.embedding.weight.grad[0].abs().sum() > 0  # word 0 learns


def test_a_search_takes_the_ids_from_the_model_or_from_its_argument():
    source, lengths = torch.tensor([[4, 3, 5]]), torch.tensor([3])
    ids = TokenIds(start=0, end=(5, 2), forbidden=(0,))
    by_model, plain = build(7, token_ids=ids), build(7)
    for search in (
        lambda m, **given: greedy(m, source, lengths, 5, **given).tokens,
        lambda m, **given: beam_search(m, source, lengths, beam_size=3, max_length=5, **given),
    ):
        assert search(by_model) == search(plain, token_ids=ids) != search(plain)
    said = by_hand(plain, [4, 3, 5, 0], 5, ends=(5, 2), never=(0,))
    assert greedy(by_model, source, lengths, 5).tokens == [said]


@pytest.mark.parametrize("ends", [(3,), (0,), (5, 1)])
def test_a_beam_that_holds_everything_is_exhaustive_search_whatever_the_ids(ends):
    model, prompt = build(4, token_ids=TokenIds(end=ends)), [2, 4]
    with torch.no_grad():
        log_p = {
            text: model(torch.tensor([prompt + list(text)])).logits[0, 1:].log_softmax(-1)
            for text in itertools.product(range(SIZE), repeat=2)
        }
    wanted = {}
    for text in itertools.product(range(SIZE), repeat=3):
        first = next((k for k, token in enumerate(text) if token in ends), None)
        read = text if first is None else text[: first + 1]
        score = sum(log_p[text[:2]][k, token].item() for k, token in enumerate(read))
        said = read if first is None else read[:-1]
        wanted[read] = (list(said), score, first is not None)
    given = torch.tensor([prompt]), torch.tensor([2])
    (found,) = beam_search(model, *given, beam_size=300, max_length=3)
    assert len(found) == len(wanted)
    expected = sorted(wanted.values(), key=lambda one: -one[1])
    for one, (tokens, log_prob, finished) in zip(found, expected):
        assert one.tokens == tokens and one.finished is finished
        assert one.log_prob == pytest.approx(log_prob, abs=1e-10)
