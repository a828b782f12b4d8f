"""The captioner against its equations in NumPy, one picture and one step at a time; its losses
against enumeration.
"""

import itertools

import numpy as np
import pytest
import torch
from refusing import refusals

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

EXACT = {"atol": 1e-10, "rtol": 0}


def batch_of(model_pictures, target=TARGET):
    out = torch.cat([target[:, 1:], torch.zeros(len(target), 1, dtype=torch.long)], 1)
    return PictureBatch(model_pictures, target, out, (out != 0).sum(1))


@pytest.mark.parametrize("attention", ["soft", "hard", "none"])
def test_logits_and_weights_equal_the_equations(attention):
    model = build(attention)
    out = model(pictures(), TARGET)
    for b in range(3):
        logits, alphas = caption_by_hand(model, pictures()[b], TARGET[b].tolist(), attention)
        torch.testing.assert_close(out.logits[b], torch.tensor(logits), **EXACT)
        if attention != "none":
            torch.testing.assert_close(out.weights[b], torch.tensor(np.stack(alphas)), **EXACT)
    assert (out.weights is None) == (attention == "none")


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
        torch.testing.assert_close(logits, expected.logits[:, t], **EXACT)
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
    torch.testing.assert_close(model.encoder(ints), model.encoder(ints.double() / 255), **EXACT)


def test_hard_attention_reads_one_region_in_evaluation():
    model = build("hard")
    regions, state = model.encode(pictures()), None
    state = model.start(regions)
    before = model.step(TARGET[:, 0], state, regions, need_weights=True)
    chosen = before.weights.argmax(-1)
    others = torch.ones(3, 6, dtype=torch.bool).scatter(1, chosen[:, None], False)
    spoilt = regions._replace(
        features=torch.where(
            others[..., None], torch.full_like(regions.features, 1e6), regions.features
        )
    )
    after = model.step(TARGET[:, 0], state, spoilt)
    torch.testing.assert_close(after.logits, before.logits, **EXACT)
    assert not torch.allclose(build("soft").step(TARGET[:, 0], state, spoilt).logits, before.logits)
    touched = regions._replace(
        features=torch.where(others[..., None], regions.features, regions.features + 1)
    )
    assert not torch.allclose(model.step(TARGET[:, 0], state, touched).logits, before.logits)


def test_hard_training_draws_from_the_weights_and_scores_what_it_drew():
    torch.manual_seed(1)
    attention = HardAttention(4, 5, 3).double()
    features, query = torch.randn(1, 3, 5).double(), torch.randn(1, 4).double()
    n = 20000
    regions = module.Regions(
        *(
            t.expand(n, *t.shape[1:])
            for t in (features, attention.project_keys(features), features.mean(1))
        )
    )
    with torch.no_grad():
        glimpse = attention(query.expand(n, -1), regions)
    alpha = glimpse.weights[0]
    # one of the three regions, exactly
    drawn = (glimpse.context[:, None] == features).all(-1).double()
    assert (drawn.sum(-1) == 1).all()
    torch.testing.assert_close(drawn.mean(0), alpha, atol=0.015, rtol=0)
    torch.testing.assert_close(glimpse.log_choice, (drawn @ alpha[:, None])[:, 0].log(), **EXACT)
    expected = torch.arange(n) % 2 == 0
    with torch.no_grad():
        glimpse = attention(query.expand(n, -1), regions, expected)
    torch.testing.assert_close(glimpse.context[0], alpha @ features[0], **EXACT)
    assert (glimpse.log_choice[expected] == 0).all() and (glimpse.log_choice[~expected] < 0).all()


# REINFORCE against the whole expectation: two looks at three places, so nine ways to look.


def _log_p(context):
    """log p(y | s) of a toy caption that depends on what was seen in both looks: (…, 2) -> (…)."""
    return (
        -(context[..., 0] - 0.3).square() - (context[..., 1] * context[..., 0] - 1.0).square() - 1.0
    )


def _toy():
    torch.manual_seed(3)
    return torch.randn(2, 3, dtype=torch.float64, requires_grad=True), torch.randn(
        3, dtype=torch.float64
    )


def _objective(scores, values, entropy_weight):
    """−E_s[log p(y|s)] − λ_e H, summed over all nine ways to look."""
    alpha = scores.softmax(-1)
    ways = [(i, j) for i in range(3) for j in range(3)]
    expected = sum(
        alpha[0, i] * alpha[1, j] * _log_p(torch.stack([values[i], values[j]])) for i, j in ways
    )
    entropy = -(alpha * alpha.log()).sum()
    return -expected - entropy_weight * entropy


def _surrogate_gradient(scores, values, baseline, entropy_weight, loss=reinforce_loss):
    """The expectation of the estimate's gradient, each of the nine samples with its probability."""
    alpha = scores.softmax(-1)
    total = torch.zeros_like(scores)
    for i, j in itertools.product(range(3), repeat=2):
        log_choice = alpha[0, i].log() + alpha[1, j].log()
        entropy = -(alpha * alpha.log()).sum()
        value = loss(
            _log_p(torch.stack([values[i], values[j]])),
            log_choice,
            entropy,
            baseline,
            1.0,
            entropy_weight,
        )
        (gradient,) = torch.autograd.grad(value, scores, retain_graph=True)
        total += (alpha[0, i] * alpha[1, j]).detach() * gradient
    return total


@pytest.mark.parametrize("baseline", [0.0, -3.0, 7.5])
def test_reinforce_is_the_gradient_of_the_expectation_whatever_the_baseline(baseline):
    scores, values = _toy()
    (exact,) = torch.autograd.grad(_objective(scores, values, 0.2), scores)
    torch.testing.assert_close(_surrogate_gradient(scores, values, baseline, 0.2), exact, **EXACT)
    step = 1e-6  # and the expectation's gradient against finite differences
    for k in range(6):
        moved = [scores.detach().clone() for _ in range(2)]
        moved[0].view(-1)[k] += step
        moved[1].view(-1)[k] -= step
        slope = (_objective(moved[0], values, 0.2) - _objective(moved[1], values, 0.2)) / (2 * step)
        assert abs(float(slope - exact.view(-1)[k])) < 1e-8


def _wrong_sign_of_the_baseline(
    log_p, log_choice, entropy, baseline, reward_weight, entropy_weight
):
    return -log_p - (log_p + baseline).detach() * log_choice - entropy_weight * entropy


def _reward_is_a_loss(log_p, log_choice, entropy, baseline, reward_weight, entropy_weight):
    return -log_p + (log_p - baseline).detach() * log_choice - entropy_weight * entropy


def _advantage_not_detached(log_p, log_choice, entropy, baseline, reward_weight, entropy_weight):
    return -log_p - (log_p - baseline) * log_choice - entropy_weight * entropy


def _entropy_is_punished(log_p, log_choice, entropy, baseline, reward_weight, entropy_weight):
    return -log_p - (log_p - baseline).detach() * log_choice + entropy_weight * entropy


def test_known_wrong_surrogates_are_told_apart():
    scores, values = _toy()
    (exact,) = torch.autograd.grad(_objective(scores, values, 0.2), scores)
    for wrong in (_reward_is_a_loss, _entropy_is_punished):
        assert not torch.allclose(
            _surrogate_gradient(scores, values, -3.0, 0.2, wrong), exact, atol=1e-3
        ), wrong.__name__
    # Two faults do not bend the expectation over s, and are seen on one sample.
    log_p = torch.tensor([-2.0, -5.0], requires_grad=True)
    log_choice = torch.tensor([-1.0, -3.0], requires_grad=True)
    arguments = (torch.zeros(2), -3.0, 1.0, 0.0)
    right = torch.autograd.grad(
        reinforce_loss(log_p, log_choice, *arguments).sum(), (log_p, log_choice)
    )
    torch.testing.assert_close(right, (torch.tensor([-1.0, -1.0]), torch.tensor([-1.0, 2.0])))
    for wrong in (_wrong_sign_of_the_baseline, _advantage_not_detached):
        got = torch.autograd.grad(wrong(log_p, log_choice, *arguments).sum(), (log_p, log_choice))
        assert not all(torch.allclose(a, b) for a, b in zip(got, right)), wrong.__name__


def test_no_gradient_passes_through_the_sample():
    model = build("hard").train()
    batch = batch_of(pictures())
    score = list(model.attention.score.parameters())

    def gradient(**options):
        torch.manual_seed(0)
        total, _ = caption_loss(model, batch, **options)
        return torch.autograd.grad(total, score, allow_unused=True)

    for g in gradient(expected_share=0.0, reward_weight=0.0, entropy_weight=0.0):
        # the sample passes nothing back: without a reward nothing is learnt
        assert g is None or (g == 0).all()
    assert any(
        (g != 0).any() for g in gradient(expected_share=1.0, reward_weight=0.0, entropy_weight=0.0)
    )
    assert any(
        (g != 0).any() for g in gradient(expected_share=0.0, reward_weight=1.0, entropy_weight=0.0)
    )


def test_the_loss_of_hard_attention_is_the_surrogate_of_what_was_drawn():
    """Every step's choice is rebuilt from log α and the forward pass is repeated by hand with
    these regions.
    """
    model = build("hard").train()
    batch, baseline = batch_of(pictures()), -2.5
    model.baseline.fill_(baseline)
    torch.manual_seed(5)
    total, count = caption_loss(
        model, batch, expected_share=0.0, entropy_weight=0.3, reward_weight=0.7, coverage=0.1
    )
    torch.manual_seed(5)
    torch.rand(3)  # who takes the expectation
    out = model(batch.pictures, batch.target_in)
    real = batch.target_out != 0
    expected = 0.0
    log_ps = []
    for b in range(3):
        log_p = sum(
            out.logits[b, t].log_softmax(-1)[batch.target_out[b, t]] for t in range(4) if real[b, t]
        )
        steps = [t for t in range(4) if real[b, t]]
        choice = sum(out.log_choice[b, t] for t in steps)
        entropy = sum(-(out.weights[b, t] * out.weights[b, t].log()).sum() for t in steps)
        cover = ((1 - sum(out.weights[b, t] for t in steps)) ** 2).sum()
        expected = (
            expected - log_p - 0.7 * (log_p - baseline) * choice - 0.3 * entropy + 0.1 * cover
        )
        log_ps.append(log_p)
    assert count == int(real.sum())
    torch.testing.assert_close(total, expected, atol=1e-5, rtol=0)
    torch.testing.assert_close(
        model.baseline,
        0.9 * torch.tensor(baseline).double() + 0.1 * torch.stack(log_ps).mean(),
        atol=1e-6,
        rtol=0,
    )


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


def test_the_penalty_leaves_out_padded_steps():
    weights = torch.softmax(
        torch.randn(2, 4, 3, generator=torch.Generator().manual_seed(0)).double(), -1
    )
    real = torch.tensor([[True, True, True, True], [True, True, False, False]])
    w = weights.numpy()
    by_hand = [
        sum((1 - w[0, :, i].sum()) ** 2 for i in range(3)),
        sum((1 - w[1, :2, i].sum()) ** 2 for i in range(3)),
    ]
    torch.testing.assert_close(coverage_penalty(weights, real), torch.tensor(by_hand), **EXACT)
    assert not torch.allclose(
        coverage_penalty(weights, torch.ones_like(real))[1], torch.tensor(by_hand[1])
    )
    model, batch = build("soft"), batch_of(pictures())
    longer = PictureBatch(
        batch.pictures,
        *(torch.cat([t, t.new_zeros(3, 2)], 1) for t in batch[1:3]),
        batch.target_lengths,
    )
    torch.testing.assert_close(
        caption_loss(model, batch, coverage=1.0), caption_loss(model, longer, coverage=1.0), **EXACT
    )


@pytest.mark.parametrize("attention", ["soft", "hard", "none"])
def test_every_parameter_learns(attention):
    model = build(attention).train()
    caption_loss(model, batch_of(pictures()), coverage=0.1)[0].backward()
    for name, p in model.named_parameters():
        assert p.grad is not None and p.grad.abs().sum() > 0, name


test_bad_input_is_named = refusals(
    ("attention", lambda: build("firm")),
    ("vocabulary_size", lambda: Captioner(0, PictureEncoder((2, 3)))),
    *(
        (
            f"{name} must be an integer",
            lambda name=name: Captioner(8, PictureEncoder((2, 3)), **{name: 0}),
        )
        for name in ("d_feature", "d_embed", "hidden_size", "d_attention")
    ),
    (
        "d_feature must be the width",
        lambda: Captioner(8, PictureEncoder((2, 3), 16))(pictures().float(), TARGET),
    ),
    ("rows", lambda: PictureEncoder((0, 3))),
    ("pictures must be uint8", lambda: build()(pictures() > 0.5, TARGET)),
    ("pictures must be (batch", lambda: build()(pictures(3, (3, 3)), TARGET)),
    ("target_in must have", lambda: build()(pictures(2), TARGET)),
    ("target_in must be", lambda: build()(pictures(), TARGET + 6)),
)
