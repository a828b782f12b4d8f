"""The LSTMN against the equations of Cheng, Dong and Lapata 2016, written here with loops."""

import numpy as np
import pytest
import torch
from assertions import assert_exact, assert_refused, refusals

from attnbook.models.rnn.lstm_language_model import LSTMLanguageModel
from attnbook.models.rnn.lstmn import LSTMN, LSTMNLayer

from .. import oracles
from ..oracles import numbers_of, sigmoid
from ..properties import assert_every_parameter_learns, assert_trains_in_half_precision

BATCH, N, D_X, D_H, D_A = 3, 6, 3, 4, 5
LENGTHS = torch.tensor([6, 4, 1])
TOKENS = torch.tensor([[1, 5, 3, 7, 4, 6], [1, 4, 6, 2, 0, 0], [1, 0, 0, 0, 0, 0]])


def layer(seed=0):
    torch.manual_seed(seed)
    built = LSTMNLayer(D_X, D_H, D_A).double()
    with torch.no_grad():  # away from the flat weights of the start
        for p in built.parameters():
            p.copy_(torch.randn_like(p))
        built.score.vector.weight.mul_(2)
    return built


def inputs(seed=1):
    g = torch.Generator().manual_seed(seed)
    return torch.randn(BATCH, N, D_X, generator=g, dtype=torch.float64)


WRONG = ["leak", "own position", "shifted", "other weights for the memory", "last memory"]
WRONG += ["last state", "state for summary", "softmax over the batch", "gates swapped", "no tanh"]
WRONG += ["no tanh of the memory"]


def cheng(layer, x, wrong=None):
    """Both tapes (B, n, d) and weights (B, n, n) from the equations; or one of WRONG."""
    x = x.detach().numpy()
    batch, n, d_x = x.shape
    numbers = numbers_of(layer)
    d = numbers["context_gates.weight"].shape[1]
    w_query, w_h, v = (
        numbers[f"score.{name}.weight"] for name in ("query_projection", "key_projection", "vector")
    )
    w_x, w_summary = w_query[:, :d_x], w_query[:, d_x:]
    gates = {}
    for k, name in enumerate("ifoc" if wrong != "gates swapped" else "fioc"):
        names = ("context_gates.weight", "input_gates.weight", "input_gates.bias")
        gates[name] = [numbers[part][k * d : (k + 1) * d] for part in names]
    h, c, weights = np.zeros((batch, n, d)), np.zeros((batch, n, d)), np.zeros((batch, n, n))
    summary = np.zeros((batch, d))  # h̃ of the step before
    for t in range(n):
        m = {"leak": n, "own position": t + 1, "shifted": max(0, t - 1)}.get(wrong, t)
        e = np.zeros((batch, m))
        for b, i in np.ndindex(batch, m):
            before = h[b, t - 1] if wrong == "state for summary" and t else summary[b]
            inside = w_h @ h[b, i] + w_x @ x[b, t] + w_summary @ before
            e[b, i] = np.exp(v @ (inside if wrong == "no tanh" else np.tanh(inside)))[0]
        over = 0 if wrong == "softmax over the batch" else 1
        weights[:, t, :m] = e / e.sum(over, keepdims=True)
        h_tilde, c_tilde = np.zeros((batch, d)), np.zeros((batch, d))
        for b in range(batch):
            for i in range(m):
                share = 1 / m if wrong == "other weights for the memory" else weights[b, t, i]
                h_tilde[b] += weights[b, t, i] * h[b, i]
                c_tilde[b] += share * c[b, i]
            if t and wrong == "last memory":
                c_tilde[b] = c[b, t - 1]
            if t and wrong == "last state":
                h_tilde[b] = h[b, t - 1]
            z = {name: w @ h_tilde[b] + u @ x[b, t] + bias for name, (w, u, bias) in gates.items()}
            c[b, t] = sigmoid(z["f"]) * c_tilde[b] + sigmoid(z["i"]) * np.tanh(z["c"])
            inside = c[b, t] if wrong == "no tanh of the memory" else np.tanh(c[b, t])
            h[b, t] = sigmoid(z["o"]) * inside
        summary = h_tilde
    return h, c, weights


def memory_tape(layer, x):
    tapes = layer.start(len(x))
    for t in range(x.shape[1]):
        tapes, _ = layer.step(x[:, t], tapes)
    return tapes.states[..., layer.hidden_size :]


def differences(layer, x, wrong=None):
    """The largest difference of hidden tape, memory tape and weights from the equations."""
    hidden, weights = layer(x, need_weights=True)
    result = hidden, memory_tape(layer, x), weights
    return [
        float(np.abs(mine.detach().numpy() - theirs).max())
        for mine, theirs in zip(result, cheng(layer, x, wrong))
    ]


@pytest.mark.parametrize("seed", range(3))
def test_both_tapes_and_the_weights_equal_the_equations(seed):
    assert max(differences(layer(seed), inputs(seed + 10))) < 1e-10


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_reading_of_the_equations_is_told_apart(wrong):
    assert max(differences(layer(), inputs(), wrong)) > 1e-3


def test_gradients_of_inputs_and_parameters_are_those_of_finite_differences():
    built, x = layer(), inputs()[:2, :4].requires_grad_()
    run = lambda x, *_: built(x, torch.tensor([4, 2]), need_weights=True)  # noqa: E731
    assert torch.autograd.gradcheck(run, (x, *built.parameters()))


def test_weights_sum_to_one_over_the_words_before_and_the_first_row_is_empty():
    _, weights = layer()(inputs(), LENGTHS, need_weights=True)
    for b, length in enumerate(LENGTHS.tolist()):
        expected = [float(0 < t < length) for t in range(N)]
        assert_exact(weights[b].sum(-1), torch.tensor(expected, dtype=torch.float64))
        for t in range(N):
            assert (weights[b, t, t:] == 0).all() and (t >= length or (weights[b, t, :t] > 0).all())


def test_nothing_depends_on_a_later_input():
    built, x = layer(), inputs()
    for t in range(N):
        changed = x.clone()
        changed[:, t] += 1.0
        for mine, other in zip(built(x, need_weights=True), built(changed, need_weights=True)):
            assert torch.equal(mine[:, :t], other[:, :t])
            assert not torch.allclose(mine[:, t:], other[:, t:])


def test_every_earlier_input_matters():
    x = inputs().requires_grad_()
    layer()(x)[0][:, -1].sum().backward()
    assert (x.grad.abs().sum(-1) > 0).all()


def made(kind):
    torch.manual_seed(0)
    return kind(8, d_embed=D_X, hidden_size=D_H).double()


@pytest.mark.parametrize("kind", [LSTMN, LSTMLanguageModel])
def test_padding_changes_nothing_and_a_batch_of_one_equals_a_row(kind):
    model = made(kind)
    out = model(TOKENS, LENGTHS)
    refilled = model(torch.where(TOKENS == 0, 5, TOKENS), LENGTHS)
    for b, length in enumerate(LENGTHS.tolist()):
        alone = model(TOKENS[b : b + 1, :length])
        assert_exact(out.logits[b, :length], alone.logits[0])
        assert_exact(out.logits[b], refilled.logits[b])
        assert_exact(out.logits[b, length:], model.output.bias.expand(N - length, -1))


def test_padding_gets_no_gradient():
    x = inputs().requires_grad_()
    hidden, weights = layer()(x, LENGTHS, need_weights=True)
    (hidden.sum() + weights.square().sum()).backward()
    for b, length in enumerate(LENGTHS.tolist()):
        assert (x.grad[b, :length].abs().sum(-1) > 0).all() and (x.grad[b, length:] == 0).all()


def test_step_by_step_equals_the_whole_text():
    model = made(LSTMN)
    out, tapes = model(TOKENS, need_weights=True), model.start(BATCH)
    for t in range(N):
        logits, tapes, weights = model.step(TOKENS[:, t], tapes)
        assert_exact(logits, out.logits[:, t])
        assert_exact(weights, out.weights[:, t, :t])
        assert tapes.states.shape == (BATCH, t + 1, 2 * D_H) and tapes.keys.shape[1] == t + 1


def test_a_row_that_is_hidden_might_as_well_not_be_there():
    built, x = layer(), inputs()
    tapes = built.start(BATCH)
    for t in range(N - 1):
        tapes, _ = built.step(x[:, t], tapes)
    allowed = torch.ones(BATCH, N - 1, dtype=torch.bool)
    hidden = torch.tensor([0, 3, 2])
    allowed[torch.arange(BATCH), hidden] = False
    longer, weights = built.step(x[:, N - 1], tapes, key_mask=allowed)
    for b, row in enumerate(hidden.tolist()):
        keep = [i for i in range(N - 1) if i != row]
        alone = slice(b, b + 1)
        states, keys = tapes.states[alone, keep], tapes.keys[alone, keep]
        short = tapes._replace(states=states, keys=keys, summary=tapes.summary[alone])
        expected, shares = built.step(x[alone, N - 1], short)
        assert_exact(longer.states[b, -1], expected.states[0, -1])
        assert_exact(weights[b, keep], shares[0])
        assert weights[b, row] == 0
    # fewer dimensions, or 1 for some
    for few in (allowed[0], allowed[:1], torch.tensor([False]), torch.tensor(True)):
        expected = built.step(x[:, 0], tapes, key_mask=few.expand(BATCH, N - 1))
        assert_exact(built.step(x[:, 0], tapes, key_mask=few), expected)
    wide = torch.ones(BATCH, N, dtype=torch.bool)
    assert_refused("key_mask", built.step, x[:, 0], tapes, key_mask=wide)
    assert_refused("key_mask", built.step, x[:, 0], tapes, key_mask=allowed.tolist())


def test_every_row_of_the_tape_is_projected_once():
    built, rows = layer(), []
    keep = lambda module, given, out: rows.append(out.numel() // (BATCH * D_A))  # noqa: E731
    built.score.key_projection.register_forward_hook(keep)
    built(inputs())
    assert sum(rows) == N


def test_the_language_models_are_an_embedding_the_layer_and_one_product():
    torch.manual_seed(0)
    model, plain = (made(kind) for kind in (LSTMN, LSTMLanguageModel))
    hidden, _ = model.layer(model.embedding.weight[TOKENS])
    assert_exact(model(TOKENS).logits, hidden @ model.output.weight.T + model.output.bias)
    embedded = plain.embedding.weight[TOKENS[0]]
    states, _ = oracles.read("lstm", oracles.weights(plain.layer), embedded, D_H)
    expected = torch.stack(states) @ plain.output.weight.T + plain.output.bias
    assert_exact(plain(TOKENS[:1]).logits[0], expected)


@pytest.mark.parametrize("kind", [LSTMN, LSTMLanguageModel])
def test_every_parameter_learns_also_in_half_precision(kind):
    model = made(kind).float()
    assert_trains_in_half_precision(model, lambda: model(TOKENS, LENGTHS).logits)
    assert_every_parameter_learns(model, model(TOKENS, LENGTHS).logits.square().sum())


test_bad_input_is_named = refusals(
    *(
        (name, lambda call=call, kind=kind: call(made(kind)))
        for kind in (LSTMN, LSTMLanguageModel)
        for name, call in (
            ("tokens", lambda m: m(TOKENS + 8)),
            ("lengths", lambda m: m(TOKENS, LENGTHS[:2])),
        )
    ),
    ("hidden_size", lambda: LSTMN(8, hidden_size=0)),
    ("hidden_size", lambda: LSTMLanguageModel(8, hidden_size=0)),
    ("vocabulary_size", lambda: LSTMN(0)),
    ("d_embed", lambda: LSTMN(8, d_embed=0)),
    ("d_embed", lambda: LSTMLanguageModel(8, d_embed=0)),
    ("d_attention", lambda: LSTMN(8, d_attention=0)),
    ("lengths", lambda: LSTMNLayer(D_X, D_H)(torch.zeros(2, 3, D_X), [3, 2])),
    ("inputs", lambda: LSTMNLayer(D_X, D_H)(torch.zeros(2, 3, D_X + 1))),
    ("inputs must be", lambda: LSTMNLayer(D_X, D_H)(torch.zeros(3, D_X))),
)
