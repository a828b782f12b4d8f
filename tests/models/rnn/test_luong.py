import math
from collections import Counter

import numpy as np
import pytest
import torch
from assertions import assert_exact, assert_refused, refusals

from attnbook import Luong
from attnbook.decoding import beam_search, greedy
from attnbook.models.rnn.luong import ATTENTIONS
from attnbook.tasks import TOKEN_IDS

from ..oracles import lstm_step, numbers_of, sigmoid
from ..properties import (
    assert_every_parameter_learns,
    assert_reads_what_it_may_and_no_more,
    assert_steps_are_the_whole,
    assert_trains_in_half_precision,
)

SOURCE = torch.tensor(
    [[5, 3, 7, 4, 6, 2, 5, 4], [4, 6, 2, 0, 0, 0, 0, 0], [3, 0, 0, 0, 0, 0, 0, 0]]
)
LENGTHS = torch.tensor([8, 3, 1])
# the second and third outgrow their source
TARGET = torch.tensor([[1, 4, 5, 3, 6], [1, 3, 5, 2, 4], [1, 5, 4, 0, 0]])
PAIRS = [
    ("global", "dot"),
    ("global", "general"),
    ("global", "additive"),
    ("global", "location"),
    ("local-m", "dot"),
    ("local-m", "general"),
    ("local-p", "dot"),
    ("local-p", "general"),
    ("local-p", "additive"),
]


def build(attention="global", score="general", feed=False, seed=0, **options):
    torch.manual_seed(seed)
    options |= {"d_embed": 4, "hidden_size": 5, "half_width": 1, "max_source": 9}
    options |= {"attention": attention, "score": score, "input_feeding": feed}
    model = Luong(8, 7, token_ids=TOKEN_IDS, **options).double().eval()
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(1.7)  # away from the flat weights of the start
        if model.position is not None:  # and from windows in the middle of every source
            model.position.vector.weight.mul_(4)
    return model


# The oracle: one token and one source position at a time, in NumPy, from the paper's equations.


def score_of(p, name, s, h, i):
    if name == "dot":
        return s @ h
    if name == "general":
        return s @ p["score.key_projection.weight"] @ h
    if name == "additive":
        return p["score.vector.weight"][0] @ np.tanh(
            p["score.query_projection.weight"] @ s + p["score.key_projection.weight"] @ h
        )
    return (p["score.rows.weight"] @ s)[i]


def oracle(model, name, source, target, wrong=""):
    """Logits (m, V) and weights (m, n) of one pair without padding; or a known mistake."""
    p = numbers_of(model)
    size, d, n = 5, model.half_width, len(source)
    h, c, states = np.zeros(size), np.zeros(size), []
    for token in source:
        h, c = lstm_step(p, "encoder", p["source_embedding.weight"][token], h, c)
        states.append(h)
    if wrong == "the decoder starts from zeros":
        h, c = np.zeros(size), np.zeros(size)
    fed, logits, rows = np.zeros(size), [], []
    for t, token in enumerate(target):
        x, before = p["target_embedding.weight"][token], h
        if model.input_feeding:
            x = np.concatenate([x, fed])
        h, c = lstm_step(p, "decoder", x, h, c)
        s = before if wrong == "the query is s_{t-1}" else h
        if model.attention == "global":
            low, high, centre = 0, n - 1, None
        else:
            centre = min(t, n - 1)
            if model.attention == "local-p":
                centre = n * sigmoid(
                    p["position.vector.weight"][0] @ np.tanh(p["position.hidden.weight"] @ s)
                )
            off = {"local-m": 1, "local-p": -1}[model.attention]
            middle = math.floor(centre + 0.5) + off * (wrong == "the window is off by one")
            low, high = max(0, middle - d), min(n - 1, middle + d)
        inside = range(low, high + 1)
        seen = range(n) if wrong == "the window mask comes after the softmax" else inside
        powers = {i: math.exp(score_of(p, name, s, states[i], i)) for i in seen}
        row, sigma = np.zeros(n), d if wrong == "sigma is D" else d / 2
        for i in inside:
            row[i] = powers[i] / sum(powers.values())
            if model.attention == "local-p":
                row[i] *= math.exp(-((i - centre) ** 2) / (2 * sigma**2))
        context = sum((row[i] * states[i] for i in inside), np.zeros(size))
        vector = p["combine.weight"] @ np.concatenate([context, s])
        vector = vector if wrong == "no tanh in the attention vector" else np.tanh(vector)
        fed = context if wrong == "the context is fed, not the attention vector" else vector
        logits.append(p["output.weight"] @ vector + p["output.bias"])
        rows.append(row)
    return np.stack(logits), np.stack(rows)


def rows():
    for b in range(3):
        yield b, SOURCE[b, : LENGTHS[b]].tolist(), TARGET[b].tolist()


@pytest.mark.parametrize("feed", [False, True], ids=["decoupled", "input feeding"])
@pytest.mark.parametrize(("attention", "score"), PAIRS)
def test_logits_and_weights_equal_the_equations_row_by_row(attention, score, feed):
    model = build(attention, score, feed)
    out = model(SOURCE, LENGTHS, TARGET, need_weights=True)
    for b, source, target in rows():
        logits, weights = oracle(model, score, source, target)
        assert_exact(out.logits[b], torch.from_numpy(logits))
        assert_exact(out.weights[b, :, : LENGTHS[b]], torch.from_numpy(weights))
        assert (out.weights[b, :, LENGTHS[b] :] == 0).all()
    lean = model(SOURCE, LENGTHS, TARGET)
    assert lean.weights is None
    assert_exact(lean.logits, out.logits)


WRONG = [
    ("the query is s_{t-1}", "global", False),
    ("the window is off by one", "local-m", False),
    ("the window is off by one", "local-p", False),
    ("sigma is D", "local-p", False),
    ("the window mask comes after the softmax", "local-m", False),
    ("the window mask comes after the softmax", "local-p", True),
    ("no tanh in the attention vector", "global", False),
    ("the context is fed, not the attention vector", "global", True),
    ("the decoder starts from zeros", "global", False),
]


@pytest.mark.parametrize(("mistake", "attention", "feed"), WRONG)
def test_known_wrong_versions_are_told_apart(mistake, attention, feed):
    model = build(attention, "general", feed)
    logits = model(SOURCE, LENGTHS, TARGET).logits.detach().numpy()
    wrong = [oracle(model, "general", s, t, mistake)[0] for _, s, t in rows()]
    assert max(np.abs(w - right).max() for w, right in zip(wrong, logits)) > 1e-3


def test_padding_inside_a_window_is_told_apart():
    model = build("local-m")
    encode, expected = model.encode, model(SOURCE, LENGTHS, TARGET).logits

    def without_mask(source, lengths):
        memory = encode(source, lengths)
        states = memory.states + (1 - 1 * memory.mask[:, 0, :, None])
        return memory._replace(mask=torch.ones_like(memory.mask), states=states)

    model.encode = without_mask
    got = model(SOURCE, LENGTHS, TARGET).logits
    assert torch.allclose(got[0], expected[0])
    assert not torch.allclose(got[1:], expected[1:], atol=1e-4)


@pytest.mark.parametrize("feed", [False, True], ids=["decoupled", "input feeding"])
@pytest.mark.parametrize("attention", ATTENTIONS)
@pytest.mark.parametrize(
    "options", [{}, {"num_layers": 2}, {"unit": "gru"}, {"unit": "tanh", "num_layers": 2}], ids=str
)
def test_step_by_step_equals_teacher_forcing(attention, feed, options):
    model = build(attention, feed=feed, **options)
    assert_steps_are_the_whole(model, SOURCE, LENGTHS, TARGET)


@pytest.mark.parametrize("attention", ATTENTIONS)
def test_the_loop_equals_the_single_call_when_what_is_fed_counts_nothing(attention):
    feeding, plain = build(attention, feed=True), build(attention, feed=False)
    weight = feeding.decoder.weight_ih_l0
    with torch.no_grad():
        state = feeding.state_dict()
        state["decoder.weight_ih_l0"] = weight[:, :4].clone()
        plain.load_state_dict(state)
        # In the first step h̃ is zeros, so the weights that meet it do not matter.
        fed, free = (model(SOURCE, LENGTHS, TARGET).logits for model in (feeding, plain))
        assert_exact(fed[:, 0], free[:, 0])
        assert not torch.allclose(fed[:, 1:], free[:, 1:], atol=1e-3)
        weight[:, 4:] = 0
    results = []
    for model in (feeding, plain):
        out = model(SOURCE, LENGTHS, TARGET, need_weights=True)
        slopes = torch.autograd.grad(out.logits.square().sum(), model.parameters())
        grads = dict(zip(dict(model.named_parameters()), slopes))
        grads["decoder.weight_ih_l0"] = grads["decoder.weight_ih_l0"][:, :4]
        results.append({"logits": out.logits, "weights": out.weights, **grads})
    for name, value in results[0].items():
        assert_exact(value, results[1][name])


PARTS = "encoder decoder position combine output score.key_projection".split()


@pytest.mark.parametrize("feed", [False, True], ids=["decoupled", "input feeding"])
def test_how_often_each_part_is_called(feed):
    """Once, whatever the target; with input feeding the attention vector once for each token."""
    model, calls = build("local-p", feed=feed, num_layers=1 if feed else 2), Counter()
    for name in PARTS:
        model.get_submodule(name).register_forward_hook(lambda *_, name=name: calls.update([name]))
    opened, windows = [], model.windows
    # one gradient buffer a source, not one a step
    model.windows = lambda memory: opened.append(1) or windows(memory)
    model(SOURCE, LENGTHS, TARGET)
    expected = dict.fromkeys(PARTS, 1)
    if feed:
        del expected["decoder"]
        expected |= dict.fromkeys(["position", "combine"], TARGET.shape[1])
    assert calls == expected and len(opened) == 1


@pytest.mark.parametrize("attention", ATTENTIONS)
def test_input_feeding_in_half_precision(attention):
    model = build(attention, feed=True).float()
    assert_trains_in_half_precision(model, lambda: model(SOURCE, LENGTHS, TARGET).logits)


@pytest.mark.parametrize("feed", [False, True], ids=["decoupled", "input feeding"])
@pytest.mark.parametrize(("attention", "score"), PAIRS)
def test_every_parameter_learns_from_what_may_be_read(attention, score, feed):
    model = build(attention, score, feed)
    assert_every_parameter_learns(model, model(SOURCE, LENGTHS, TARGET).logits.square().sum())
    assert_reads_what_it_may_and_no_more(model, SOURCE, LENGTHS, TARGET)


def test_dropout_in_the_loop_works_between_the_layers_too():
    model = build("global", feed=True, num_layers=2, dropout=0.5).train()
    torch.manual_seed(1)
    a = model(SOURCE, LENGTHS, TARGET).logits
    model.decoder.dropout = 0.0  # what nn.LSTM drops between its layers
    torch.manual_seed(1)
    b = model(SOURCE, LENGTHS, TARGET).logits
    assert not torch.allclose(a[:, 0], b[:, 0])
    off = model.eval()(SOURCE, LENGTHS, TARGET).logits
    model.decoder.dropout = 0.5
    assert torch.equal(model(SOURCE, LENGTHS, TARGET).logits, off)


@pytest.mark.parametrize("attention", ATTENTIONS)
def test_greedy_and_beam_search_decode_alike(attention):
    model = build(attention, feed=True)
    result = greedy(model, SOURCE, LENGTHS, 6, need_weights=True)
    for row, tokens, n in zip(result.weights, result.tokens, LENGTHS.tolist()):
        assert row.shape == (len(tokens), n)
    one = beam_search(model, SOURCE, LENGTHS, beam_size=1, max_length=6)
    assert [b[0].tokens for b in one] == result.tokens


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (dict(attention="local"), "attention"),
        (dict(score="concat"), "score"),
        (dict(half_width=0), "half_width"),
        (dict(unit="LSTM"), "unit"),
        (dict(d_embed=0), "d_embed"),
        (dict(score="location", max_source=0), "max_source"),
        (dict(dropout=1.5), "dropout"),
        (dict(target_size=0), "target_size"),
    ],
)
def test_bad_options_are_named(options, words):
    given = {"source_size": 8, "target_size": 7, "token_ids": TOKEN_IDS, **options}
    assert_refused(words, Luong, **given)


MADE, STATES = build(score="location"), torch.zeros(3, 2, 5).double()
MEMORY = MADE.encode(SOURCE, LENGTHS)
test_bad_input_is_named = refusals(
    ("lengths", lambda: MADE(SOURCE, torch.tensor([8, 0, 1]), TARGET)),
    ("target_in", lambda: MADE(SOURCE, LENGTHS, TARGET[:2])),
    ("source", lambda: MADE(SOURCE + 5, LENGTHS, TARGET)),
    ("key has 16", lambda: MADE(SOURCE.repeat(1, 2), LENGTHS, TARGET)),
    ("global attention has", lambda: MADE.positions(STATES, MEMORY, torch.arange(2))),
)
