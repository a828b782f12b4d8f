"""The captioner against its equations in NumPy; its losses against enumeration."""

import itertools

import numpy as np
import pytest
import torch
from assertions import assert_exact, refusals

from attnbook.models import captioner as module
from attnbook.models.captioner import (
    Captioner,
    HardAttention,
    PictureEncoder,
    caption_loss,
    coverage_penalty,
    reinforce_loss,
)
from attnbook.tasks.images.captioned_pictures import PictureBatch

from .oracles_captioner import TARGET, build, caption_by_hand, pictures
from .properties import assert_every_parameter_learns, wrong_versions


def batch_of(model_pictures, target=TARGET):
    out = torch.cat([target[:, 1:], torch.zeros(len(target), 1, dtype=torch.long)], 1)
    return PictureBatch(model_pictures, target, out, (out != 0).sum(1))


@pytest.mark.parametrize("attention", ["soft", "hard", "none"])
def test_logits_and_weights_equal_the_equations(attention):
    model = build(attention)
    out = model(pictures(), TARGET)
    for b in range(3):
        logits, alphas = caption_by_hand(model, pictures()[b], TARGET[b].tolist(), attention)
        assert_exact(out.logits[b], torch.tensor(logits))
        if attention != "none":
            assert_exact(out.weights[b], torch.tensor(np.stack(alphas)))
    assert (out.weights is None) == (attention == "none")


def spoil_vector_gate(model):
    model.gate = torch.nn.Linear(6, 5).double()


def spoil_no_gate(model):
    model.gate = torch.nn.Linear(6, 1).double()
    torch.nn.init.zeros_(model.gate.weight), torch.nn.init.constant_(model.gate.bias, 50.0)


def spoil_softmax_over_channels(model):
    forward = type(model.attention).forward

    def wrong(query, regions, expected=None):
        context = (regions.features.softmax(-1) * regions.features).mean(1)
        return forward(model.attention, query, regions)._replace(context=context)

    model.attention.forward = wrong


def spoil_relu_for_tanh(model):
    score, v = model.attention.score, model.attention.score.vector.weight[0]
    pairs = lambda q, p: score.query_projection(q)[..., None, :] + p[..., None, :, :]  # noqa: E731
    score.compare = lambda q, p: pairs(q, p).relu() @ v


def spoil_query_after_the_step(model):
    advance = model._advance
    model._advance = lambda e, state, *rest: advance(e, (state[1], state[1]), *rest)


def spoil_mean_context(model):
    model.attention = module.MeanContext()


@pytest.mark.parametrize("spoil", wrong_versions(globals()))
def test_known_wrong_captioners_are_told_apart_by_the_oracle(spoil):
    model = build()
    rows = zip(pictures(), TARGET.tolist())
    expected = [caption_by_hand(model, picture, ids, "soft")[0] for picture, ids in rows]
    spoil(model)
    assert not np.allclose(model(pictures(), TARGET).logits.detach(), expected, atol=1e-5)


def test_soft_context_at_test_time_is_told_apart_from_hard():
    model = build("hard")
    expected = caption_by_hand(model, pictures()[0], TARGET[0].tolist(), "hard")[0]
    model.attention.forward = lambda *a: module.SoftAttention.forward(model.attention, *a)
    assert not np.allclose(model(pictures(), TARGET).logits[0].detach(), expected, atol=1e-5)


@pytest.mark.parametrize("attention", ["soft", "hard", "none"])
def test_step_by_step_equals_teacher_forcing_and_keys_are_projected_once(attention):
    model, calls = build(attention), []
    if attention != "none":
        model.attention.score.key_projection.register_forward_hook(lambda *_: calls.append(1))
    expected = model(pictures(), TARGET)
    assert len(calls) == (attention != "none")
    regions = model.encode(pictures())
    state = model.start(regions)
    for t in range(4):
        logits, state, weights = model.step(TARGET[:, t], state, regions, need_weights=True)
        assert_exact(logits, expected.logits[:, t])
        assert weights is None or torch.equal(weights, expected.weights[:, t])


@pytest.mark.parametrize("overlap", [False, True])
def test_how_far_a_region_sees(overlap):
    encoder = PictureEncoder((5, 5), 6, overlap).double()
    with torch.no_grad():
        for p in encoder.parameters():  # positive everywhere, so that no ReLU hides a pixel
            p.abs_()
    x = torch.ones(1, 3, 40, 40, dtype=torch.float64, requires_grad=True)
    encoder(x)[0, 12].sum().backward()  # the region in the middle: pixels 16 … 23
    seen = (x.grad[0] != 0).any(0).nonzero()
    low, high = (9, 30) if overlap else (16, 23)
    assert seen.min() == low and seen.max() == high


def test_whole_numbers_and_shares_of_one_are_the_same_picture():
    model, ints = build(), torch.randint(0, 256, (2, 3, 16, 24), dtype=torch.uint8)
    assert_exact(model.encoder(ints), model.encoder(ints.double() / 255))


def test_hard_attention_reads_one_region_in_evaluation():
    model, first = build("hard"), TARGET[:, 0]
    regions = model.encode(pictures())
    state = model.start(regions)
    before = model.step(first, state, regions, need_weights=True)
    chosen = torch.arange(6) == before.weights.argmax(-1, keepdim=True)
    spoilt = regions._replace(features=regions.features.where(chosen[..., None], 1e6))
    assert_exact(model.step(first, state, spoilt).logits, before.logits)
    assert not torch.allclose(build("soft").step(first, state, spoilt).logits, before.logits)
    touched = regions._replace(features=regions.features + chosen[..., None])
    assert not torch.allclose(model.step(first, state, touched).logits, before.logits)


def test_hard_training_draws_from_the_weights_and_scores_what_it_drew():
    torch.manual_seed(1)
    attention = HardAttention(4, 5, 3).double()
    features, query = torch.randn(1, 3, 5).double(), torch.randn(1, 4).double()
    n = 20000
    parts = features, attention.project_keys(features), features.mean(1)
    regions = module.Regions(*(t.expand(n, *t.shape[1:]) for t in parts))
    with torch.no_grad():
        glimpse = attention(query.expand(n, -1), regions)
    alpha = glimpse.weights[0]
    # one of the three regions, exactly
    drawn = (glimpse.context[:, None] == features).all(-1).double()
    assert (drawn.sum(-1) == 1).all()
    torch.testing.assert_close(drawn.mean(0), alpha, atol=0.015, rtol=0)
    assert_exact(glimpse.log_choice, (drawn @ alpha[:, None])[:, 0].log())
    expected = torch.arange(n) % 2 == 0
    with torch.no_grad():
        glimpse = attention(query.expand(n, -1), regions, expected)
    assert_exact(glimpse.context[0], alpha @ features[0])
    assert (glimpse.log_choice[expected] == 0).all() and (glimpse.log_choice[~expected] < 0).all()


# REINFORCE against the whole expectation: two looks at three places, so nine ways to look.


def _log_p(context):
    """log p(y | s) of a toy caption that depends on what was seen in both looks: (…, 2) -> (…)."""
    first, both = context[..., 0], context.prod(-1)
    return -(first - 0.3).square() - (both - 1.0).square() - 1.0


def _toy():
    torch.manual_seed(3)
    scores = torch.randn(2, 3, dtype=torch.float64, requires_grad=True)
    return scores, torch.randn(3, dtype=torch.float64)


def _objective(scores, values, entropy_weight):
    """−E_s[log p(y|s)] − λ_e H, summed over all nine ways to look."""
    alpha = scores.softmax(-1)
    ways = itertools.product(range(3), repeat=2)
    expected = sum(alpha[0, i] * alpha[1, j] * _log_p(values[[i, j]]) for i, j in ways)
    entropy = -(alpha * alpha.log()).sum()
    return -expected - entropy_weight * entropy


def _surrogate_gradient(scores, values, baseline, entropy_weight, loss=reinforce_loss):
    """The expectation of the estimate's gradient, each of the nine samples with its probability."""
    alpha = scores.softmax(-1)
    total = torch.zeros_like(scores)
    for i, j in itertools.product(range(3), repeat=2):
        log_choice = alpha[0, i].log() + alpha[1, j].log()
        entropy = -(alpha * alpha.log()).sum()
        log_p = _log_p(values[[i, j]])
        value = loss(log_p, log_choice, entropy, baseline, 1.0, entropy_weight)
        (gradient,) = torch.autograd.grad(value, scores, retain_graph=True)
        total += (alpha[0, i] * alpha[1, j]).detach() * gradient
    return total


@pytest.mark.parametrize("baseline", [0.0, -3.0, 7.5])
def test_reinforce_is_the_gradient_of_the_expectation_whatever_the_baseline(baseline):
    scores, values = _toy()
    (exact,) = torch.autograd.grad(_objective(scores, values, 0.2), scores)
    assert_exact(_surrogate_gradient(scores, values, baseline, 0.2), exact)


SIGNS = {  # of the advantage and of the entropy, whether it is a constant, and of the baseline
    "the reward is a loss": (+1, -1, True, -1),
    "the entropy is punished": (-1, +1, True, -1),
    "the baseline has the wrong sign": (-1, -1, True, +1),
    "the advantage is not a constant": (-1, -1, False, -1),
}


def surrogate(sign, of_entropy, constant, of_baseline):
    def loss(log_p, log_choice, entropy, baseline, reward_weight, entropy_weight):
        advantage = log_p + of_baseline * baseline
        advantage = advantage.detach() if constant else advantage
        return -log_p + sign * advantage * log_choice + of_entropy * entropy_weight * entropy

    return loss


@pytest.mark.parametrize("name", SIGNS)
def test_known_wrong_surrogates_are_told_apart(name):
    wrong, (scores, values) = surrogate(*SIGNS[name]), _toy()
    if "reward" in name or "entropy" in name:
        (exact,) = torch.autograd.grad(_objective(scores, values, 0.2), scores)
        found = _surrogate_gradient(scores, values, -3.0, 0.2, wrong)
        assert not torch.allclose(found, exact, atol=1e-3)
        return
    # Two faults do not bend the expectation over s, and are seen on one sample.
    log_p = torch.tensor([-2.0, -5.0], requires_grad=True)
    log_choice = torch.tensor([-1.0, -3.0], requires_grad=True)
    right, found = (
        torch.autograd.grad(
            loss(log_p, log_choice, torch.zeros(2), -3.0, 1.0, 0.0).sum(), (log_p, log_choice)
        )
        for loss in (reinforce_loss, wrong)
    )
    torch.testing.assert_close(right, (torch.tensor([-1.0, -1.0]), torch.tensor([-1.0, 2.0])))
    assert not all(torch.allclose(a, b) for a, b in zip(found, right))


def test_no_gradient_passes_through_the_sample():
    model = build("hard").train()
    batch = batch_of(pictures())
    score = list(model.attention.score.parameters())

    def gradient(**options):
        torch.manual_seed(0)
        total, _ = caption_loss(model, batch, **options)
        return torch.autograd.grad(total, score, allow_unused=True)

    # the sample passes nothing back: without a reward nothing is learnt
    for share, reward, learns in ((0.0, 0.0, False), (1.0, 0.0, True), (0.0, 1.0, True)):
        slopes = gradient(expected_share=share, reward_weight=reward, entropy_weight=0.0)
        assert any(g is not None and (g != 0).any() for g in slopes) == learns


def test_the_loss_of_hard_attention_is_the_surrogate_of_what_was_drawn():
    """Every step's choice is rebuilt from log α, and the pass is repeated with these regions."""
    model = build("hard").train()
    batch, baseline = batch_of(pictures()), -2.5
    model.baseline.fill_(baseline)
    torch.manual_seed(5)
    weights = {"entropy_weight": 0.3, "reward_weight": 0.7, "coverage": 0.1}
    total, count = caption_loss(model, batch, expected_share=0.0, **weights)
    torch.manual_seed(5)
    torch.rand(3)  # who takes the expectation
    out = model(batch.pictures, batch.target_in)
    real = batch.target_out != 0
    expected, log_ps = 0.0, []
    for b in range(3):
        steps = [t for t in range(4) if real[b, t]]
        log_p = sum(out.logits[b, t].log_softmax(-1)[batch.target_out[b, t]] for t in steps)
        choice = sum(out.log_choice[b, t] for t in steps)
        entropy = sum(-(out.weights[b, t] * out.weights[b, t].log()).sum() for t in steps)
        cover = ((1 - sum(out.weights[b, t] for t in steps)) ** 2).sum()
        reward = 0.7 * (log_p - baseline) * choice
        expected = expected - log_p - reward - 0.3 * entropy + 0.1 * cover
        log_ps.append(log_p)
    assert count == int(real.sum())
    torch.testing.assert_close(total, expected, atol=1e-5, rtol=0)
    moved = 0.9 * baseline + 0.1 * torch.stack(log_ps).mean()
    torch.testing.assert_close(model.baseline, moved, atol=1e-6, rtol=0)


def test_the_baseline_starts_at_the_first_mean_and_then_moves_a_tenth_of_the_way():
    model, batch = build("hard").train(), batch_of(pictures())
    seen, moved = [], 0.0
    for _ in range(3):
        with torch.no_grad():
            # no draw, so total = -Σ log p
            total, _ = caption_loss(model, batch, expected_share=1.0, entropy_weight=0.0)
        seen.append(-float(total) / 3)
        moved = seen[0] if len(seen) == 1 else 0.9 * moved + 0.1 * seen[-1]
        assert abs(float(model.baseline) - moved) < 1e-5
    model.eval()
    caption_loss(model, batch)
    # looking at the validation loss does not move it
    assert abs(float(model.baseline) - moved) < 1e-5


@pytest.mark.parametrize("attention", ["soft", "hard", "none"])
def test_half_precision_trains(attention):
    model = build(attention).float().train()
    torch.manual_seed(0)
    with torch.autocast("cpu", torch.bfloat16):
        total, _ = caption_loss(model, batch_of(pictures().float()), coverage=0.1)
    total.backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


@pytest.mark.parametrize("attention", ["soft", "hard", "none"])
def test_every_parameter_learns(attention):
    model = build(attention).train()
    assert_every_parameter_learns(model, caption_loss(model, batch_of(pictures()), coverage=0.1)[0])


def test_the_penalty_leaves_out_padded_steps():
    weights = torch.randn(2, 4, 3, generator=torch.Generator().manual_seed(0)).double().softmax(-1)
    real = torch.tensor([[True, True, True, True], [True, True, False, False]])
    by_hand = torch.stack([(1 - weights[0].sum(0)) ** 2, (1 - weights[1, :2].sum(0)) ** 2]).sum(1)
    assert_exact(coverage_penalty(weights, real), by_hand)
    assert not torch.allclose(coverage_penalty(weights, torch.ones_like(real))[1], by_hand[1])
    model, batch = build("soft"), batch_of(pictures())
    wider = (torch.cat([t, t.new_zeros(3, 2)], 1) for t in batch[1:3])
    longer = PictureBatch(batch.pictures, *wider, batch.target_lengths)
    plain, padded = (caption_loss(model, b, coverage=1.0) for b in (batch, longer))
    assert_exact(plain, padded)


SIX, NARROW = PictureEncoder((2, 3)), PictureEncoder((2, 3), 16)
test_bad_input_is_named = refusals(
    ("attention", lambda: build("firm")),
    ("vocabulary_size", lambda: Captioner(0, SIX)),
    *(
        (f"{name} must be an integer", lambda name=name: Captioner(8, SIX, **{name: 0}))
        for name in ("d_feature", "d_embed", "hidden_size", "d_attention")
    ),
    ("d_feature must be the width", lambda: Captioner(8, NARROW)(pictures().float(), TARGET)),
    ("rows", lambda: PictureEncoder((0, 3))),
    ("pictures must be uint8", lambda: build()(pictures() > 0.5, TARGET)),
    ("pictures must be (batch", lambda: build()(pictures(3, (3, 3)), TARGET)),
    ("target_in must have", lambda: build()(pictures(2), TARGET)),
    ("target_in must be", lambda: build()(pictures(), TARGET + 6)),
)
