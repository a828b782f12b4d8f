"""Training two networks against each other: who gets gradients when, rates, average, samples."""

import copy
import math

import numpy as np
import pytest
import torch
from assertions import assert_refused, refusals
from torch import nn
from torch.nn import functional as F
from training_doubles import flat

from attnbook.training import adversarial, fit_adversarial, sample_pictures, standing_statistics
from attnbook.training.adversarial import ADVERSARIAL_LOSSES, hinge_loss
from attnbook.training.loop.history import NonFiniteError
from attnbook.training.loop.processes import Processes
from attnbook.training.loop.resume import read_checkpoint, write_checkpoint
from attnbook.training.loop.run import Run


class Generator(nn.Module):
    d_noise = 3

    def __init__(self):
        super().__init__()
        self.layer, self.norm, self.out = nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Linear(8, 2)
        self.table = nn.Embedding(4, 2)

    def forward(self, noise, labels=None):
        x = self.out(torch.relu(self.norm(self.layer(noise))))
        return x if labels is None else x + self.table(labels)


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 8), nn.LeakyReLU(0.2), nn.Linear(8, 1))

    def forward(self, pictures, labels=None):
        return self.net(pictures).squeeze(-1)


class Batches:
    def __init__(self, labels=False):
        self.labels, self.requested = labels, []

    def batch(self, k):
        self.requested.append(k)
        g = torch.Generator().manual_seed(k)
        pictures, labels = 2 + torch.randn(16, 2, generator=g), torch.randint(4, (16,), generator=g)
        return pictures, labels if self.labels else None


def nets(seed=0):
    torch.manual_seed(seed)
    return Generator(), Discriminator()


def train(both=None, batches=None, **options):
    both, options = both or nets(), {"steps": 3, "device": "cpu", **options}
    return both, fit_adversarial(*both, batches or Batches(), progress=False, **options)


def weights(net):
    return {name: p.detach().clone() for name, p in net.named_parameters()}


def assert_equal(nets, others):
    for net, other in zip(nets, others, strict=True):
        torch.testing.assert_close(net.state_dict(), other.state_dict(), rtol=0, atol=0)


# Losses


def mean(function, scores):
    return np.mean([function(score) for score in scores])


def log_p(score):
    return math.log(1 / (1 + math.exp(-score)))


def log_not_p(score):
    return math.log(1 - 1 / (1 + math.exp(-score)))


def by_probabilities(real, fake):
    return -mean(log_p, real) - mean(log_not_p, fake)


def by_margins(real, fake):
    return mean(lambda s: max(0, 1 - s), real) + mean(lambda s: max(0, 1 + s), fake)


LOOPS = {
    "hinge": (by_margins, lambda fake: -np.mean(fake)),
    "non_saturating": (by_probabilities, lambda fake: -mean(log_p, fake)),
    "minimax": (by_probabilities, lambda fake: mean(log_not_p, fake)),
}


@pytest.mark.parametrize("name", ADVERSARIAL_LOSSES)
def test_losses_equal_loops_over_the_formulas(name):
    g = torch.Generator().manual_seed(0)
    real, fake = (2 * torch.randn(9, generator=g, dtype=torch.float64) for _ in range(2))
    loss = ADVERSARIAL_LOSSES[name]
    assert loss.discriminator(real, fake).item() == pytest.approx(
        LOOPS[name][0](real.tolist(), fake.tolist()), abs=1e-10
    )
    assert loss.generator(fake).item() == pytest.approx(LOOPS[name][1](fake.tolist()), abs=1e-10)


@pytest.mark.parametrize("name", ADVERSARIAL_LOSSES)
def test_the_discriminator_wants_real_up_and_fake_down_and_the_generator_wants_fake_up(name):
    real = torch.tensor([0.2, -3.0], requires_grad=True)
    fake = torch.tensor([-0.2, 3.0], requires_grad=True)
    up, down = torch.autograd.grad(ADVERSARIAL_LOSSES[name].discriminator(real, fake), (real, fake))
    assert (up < 0).all() and (down > 0).all()
    (wish,) = torch.autograd.grad(ADVERSARIAL_LOSSES[name].generator(fake), fake)
    assert (wish < 0).all()


def test_beyond_the_margin_the_hinge_is_flat():
    real = torch.tensor([1.5, 0.9], requires_grad=True)
    fake = torch.tensor([-1.5, -0.9], requires_grad=True)
    up, down = torch.autograd.grad(hinge_loss.discriminator(real, fake), (real, fake))
    assert up.tolist() == [0.0, -0.5] and down.tolist() == [0.0, 0.5]


def test_losses_are_finite_where_the_discriminator_is_sure():
    far = torch.tensor([1e4, -1e4])
    for loss in ADVERSARIAL_LOSSES.values():
        assert loss.discriminator(far, far).isfinite() and loss.generator(far).isfinite()


# Who is trained when


def test_the_generator_gets_no_gradient_in_the_update_of_the_discriminator():
    both, seen = nets(), []

    def discriminator_loss(real, fake):
        seen.append(
            (real.requires_grad, fake.requires_grad, [p.grad for p in both[0].parameters()])
        )
        # The graph of the fake scores ends at the discriminator's own weights.
        nodes, leaves = [fake.grad_fn], set()
        while nodes:
            node = nodes.pop()
            if hasattr(node, "variable"):
                leaves.add(id(node.variable))
            nodes += [n for n, _ in node.next_functions if n is not None]
        assert leaves <= {id(p) for p in both[1].parameters()} and leaves
        return hinge_loss.discriminator(real, fake)

    train(both, loss=hinge_loss._replace(discriminator=discriminator_loss), steps=1)
    assert seen == [(True, True, [None] * len(list(both[0].parameters())))]


def test_the_discriminator_gets_no_gradient_in_the_update_of_the_generator():
    both = nets()
    left = {}

    def generator_loss(fake):
        assert fake.requires_grad
        left.update({name: p.grad.clone() for name, p in both[1].named_parameters()})
        return hinge_loss.generator(fake)

    train(both, loss=hinge_loss._replace(generator=generator_loss), steps=1)
    assert all(
        torch.equal(p.grad, left[name]) and p.requires_grad
        for name, p in both[1].named_parameters()
    )


def by_hand(steps, rates=(1e-4, 4e-4), detach=True):
    """The same training in the plainest words."""
    G, D = nets()
    g_opt, d_opt = (
        torch.optim.Adam(net.parameters(), lr=lr, betas=(0.0, 0.9))
        for net, lr in zip((G, D), rates)
    )
    torch.manual_seed(0)
    for step in range(steps):
        x, _ = Batches().batch(step)
        fake = G(torch.randn(16, 3))
        loss = F.relu(1 - D(x)).mean() + F.relu(1 + D(fake.detach() if detach else fake)).mean()
        G.zero_grad(), D.zero_grad()
        loss.backward()
        d_opt.step()
        if not detach:
            g_opt.step()  # what a shared step does with gradients that were not kept away
        loss = -D(G(torch.randn(16, 3))).mean()
        G.zero_grad(), D.zero_grad()
        loss.backward()
        g_opt.step()
    return G, D


@pytest.mark.parametrize("rates", [(1e-4, 4e-4), (3e-3, 1e-3)])
def test_it_trains_as_the_plainest_loop_does(rates):
    batches = Batches()
    both, history = train(
        batches=batches, steps=4, generator_rate=rates[0], discriminator_rate=rates[1]
    )
    for net, other in zip(both, by_hand(4, rates)):
        torch.testing.assert_close(flat(net), flat(other), atol=1e-6, rtol=1e-5)
    assert batches.requested == [0, 1, 2, 3]
    assert history.steps == len(history.discriminator_losses) == 4


@pytest.mark.parametrize("wrong", [{"detach": False}, {"rates": (4e-4, 1e-4)}])
def test_a_wrong_loop_is_told_apart(wrong):
    both, _ = train(steps=4)
    differences = [(flat(a) - flat(b)).abs().max() for a, b in zip(both, by_hand(4, **wrong))]
    assert max(differences) > 1e-4


def test_fakes_have_the_labels_of_the_batch():
    both, seen = nets(), []
    both[0].register_forward_pre_hook(lambda m, args: seen.append(args[1]))
    train(both, Batches(labels=True), steps=2)
    expected = [Batches(labels=True).batch(k)[1] for k in (0, 0, 1, 1)]
    assert all(torch.equal(a, b) for a, b in zip(seen, expected)) and len(seen) == 4


def test_a_spectral_norm_is_followed_once_for_real_and_fake():
    both = nets()
    torch.nn.utils.parametrizations.spectral_norm(both[1].net[0])
    moved = []
    norm = both[1].net[0].parametrizations.weight[0]
    norm.register_forward_hook(lambda m, i, o: moved.append(m.training))
    train(both, steps=2)
    assert moved == [True] * 4  # once for each update


def test_two_runs_are_equal_the_seed_counts_and_the_callers_stream_goes_on():
    runs = [train(steps=3, seed=seed)[0] for seed in (1, 1, 2)]
    assert_equal(*runs[:2])
    assert not torch.equal(runs[0][0].out.weight, runs[2][0].out.weight)
    both = nets()
    torch.manual_seed(5)
    train(both)
    after = torch.rand(1)
    torch.manual_seed(5)
    assert torch.equal(after, torch.rand(1))


# The averaged generator, samples


def test_the_average_follows_the_weights_and_copies_the_buffers():
    both, history = train(steps=1, average=0.9)
    start, now, mean = weights(nets()[0]), weights(both[0]), weights(history.averaged)
    torch.testing.assert_close(mean, {name: 0.9 * start[name] + 0.1 * now[name] for name in now})
    for a, b in zip(history.averaged.buffers(), both[0].buffers(), strict=True):
        assert torch.equal(a, b) and a is not b
    assert not any(p.requires_grad for p in history.averaged.parameters())
    assert train()[1].averaged is None


def test_standing_statistics_are_those_of_the_weights_as_they_are():
    G, _ = nets()
    G(10 + 5 * torch.randn(16, 3))  # running means of something else
    modes = [m.training for m in G.modules()]
    assert standing_statistics(G) is G
    assert modes == [True] * 5
    assert not any(m.training for m in G.modules())
    assert G.norm.momentum == 0.1
    with torch.no_grad():
        g = torch.Generator().manual_seed(0)
        before = G.layer(torch.cat([torch.randn(64, 3, generator=g) for _ in range(16)]))
    torch.testing.assert_close(G.norm.running_mean, before.mean(0), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(
        G.norm.running_var, before.unflatten(0, (16, 64)).var(1).mean(0), atol=1e-5, rtol=1e-5
    )
    twin = copy.deepcopy(G)
    standing_statistics(twin)
    assert torch.equal(twin.norm.running_mean, G.norm.running_mean)


@pytest.mark.parametrize("after", [0, 2])
def test_standing_statistics_that_end_in_an_error_leave_the_generator_as_it_was(after):
    G, calls = nets()[0], []
    G(10 + 5 * torch.randn(16, 3))
    G.out.eval()
    before = {name: value.clone() for name, value in G.state_dict().items()}
    modes = [m.training for m in G.modules()]

    def fail(module, args):
        calls.append(0)
        if len(calls) > after:
            raise RuntimeError("labels are wanted")

    G.register_forward_pre_hook(fail)
    with pytest.raises(RuntimeError, match="labels are wanted"):
        standing_statistics(G)
    assert all(torch.equal(value, before[name]) for name, value in G.state_dict().items())
    assert [m.training for m in G.modules()] == modes and G.norm.momentum == 0.1


def test_standing_statistics_draw_the_labels_evenly():
    G, seen = nets()[0], []
    G.register_forward_pre_hook(lambda m, args: seen.append(args[1]))
    standing_statistics(G, torch.arange(4))
    counts = torch.cat(seen).bincount()
    assert len(counts) == 4 and counts.min() > 200


def test_samples_are_drawn_one_by_one_in_evaluation_from_the_seed(monkeypatch):
    G, _ = nets()
    standing_statistics(G)
    G.train()
    whole = sample_pictures(G, 10)
    monkeypatch.setattr(adversarial, "_ROWS", 3)
    first = sample_pictures(G, 10)
    assert first.shape == (10, 2) and not first.requires_grad
    assert all(m.training for m in G.modules())
    torch.testing.assert_close(first, whole)
    assert not torch.allclose(first, sample_pictures(G, 10, seed=1))
    labels = torch.arange(4).repeat(2)
    by_class = sample_pictures(G, labels) - sample_pictures(G, 8)
    torch.testing.assert_close(by_class, G.table(labels).detach())


# Evaluation and errors


def test_evaluate_is_called_in_evaluation_mode_and_changes_nothing():
    modes = []

    def evaluate(generator, discriminator):
        modes.append((generator.training, discriminator.training, torch.is_grad_enabled()))
        return float(torch.randn(1))

    both, history = train(steps=5, evaluate=evaluate, evaluate_every=2)
    assert [step for step, _ in history.evaluations] == [2, 4, 5]
    assert set(modes) == {(False, False, False)}
    assert_equal(both, train(steps=5)[0])


def rootless(value):
    """Finite, with a slope that is not: that of a root at 0."""
    return value + (0 * value).abs().sqrt()


@pytest.mark.parametrize("name", ["discriminator", "generator"])
@pytest.mark.parametrize(
    ("what", "spoil"), [("loss", lambda value: value * math.nan), ("gradient", rootless)]
)
def test_what_is_not_finite_stops_before_any_weight_changes(name, what, spoil):
    both, calls = nets(), []

    def spoiled(*scores):
        value = getattr(hinge_loss, name)(*scores)
        calls.append(0)
        return spoil(value) if len(calls) == 2 else value

    message = f"{what} of the {name} must be finite, got nan at step 1"
    with pytest.raises(NonFiniteError, match=message):
        train(both, loss=hinge_loss._replace(**{name: spoiled}))
    assert all(torch.equal(flat(a), flat(b)) for a, b in zip(both, train(steps=1)[0]))
    assert all(p.requires_grad for net in both for p in net.parameters())


class Pixels(Batches):
    def batch(self, k):
        return super().batch(k)[0].to(torch.uint8), None


test_bad_input_is_named = refusals(
    ("steps", lambda: train(steps=0)),
    ("loss", lambda: train(loss="wasserstein")),
    ("generator_rate", lambda: train(generator_rate=0.0)),
    ("discriminator_rate", lambda: train(discriminator_rate=True)),
    ("precision", lambda: train(precision="fp16")),
    ("d_noise of the generator", lambda: train((Discriminator(), Discriminator()))),
    ("discriminator", lambda: train((Generator(), len))),
    ("batches must have a method", lambda: train(batches=[1, 2])),
    ("batches must hold pictures", lambda: train(batches=Pixels())),
    ("labels", lambda: standing_statistics(Generator(), torch.zeros(0, dtype=torch.int64))),
    ("labels", lambda: standing_statistics(Generator(), torch.zeros(3))),
    ("number", lambda: sample_pictures(Generator(), 0)),
    ("number", lambda: sample_pictures(Generator(), torch.tensor(3))),
)


@pytest.mark.parametrize("precision, expected", [("bf16", torch.bfloat16), ("no", torch.float32)])
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_half_precision(device, precision, expected):
    both, seen, made = nets(), [], {"generator": [], "discriminator": []}
    for name, layer in (("generator", both[0].out), ("discriminator", both[1].net)):
        layer.register_forward_hook(lambda m, i, out, name=name: made[name].append(out.dtype))

    def loss(real, fake):
        seen.append((real.dtype, fake.device.type))
        return hinge_loss.discriminator(real, fake)

    options = dict(precision=precision, device=device, average=0.9)
    train(both, Batches(labels=True), loss=hinge_loss._replace(discriminator=loss), **options)
    # In a step the generator is called for both updates, the discriminator for the real and the
    # fake pictures and once more.
    assert made == {"generator": [expected] * 6, "discriminator": [expected] * 9}
    assert set(seen) == {(torch.float32, device)}
    for net in both:
        assert all(p.dtype == torch.float32 and p.isfinite().all() for p in net.parameters())


# Checkpoints

RUN = {"steps": 7, "average": 0.9, "evaluate_every": 2, "seed": 3}


def chance(generator, discriminator):
    return {"noise": torch.randn(2).tolist(), "score": discriminator(torch.ones(1, 2))}


class StopsAt(Batches):
    def __init__(self, step):
        super().__init__(labels=True)
        self.step = step

    def batch(self, k):
        if k == self.step:
            raise KeyboardInterrupt
        return super().batch(k)


def stopped_and_resumed(folder):
    options = dict(evaluate=chance, checkpoint_dir=folder, save_every=2, **RUN)
    with pytest.raises(KeyboardInterrupt):
        train(batches=StopsAt(5), **options)
    batches = Batches(labels=True)
    both, history = train(nets(seed=8), batches, **options)  # the checkpoint's weights count
    assert batches.requested == [0, 4, 5, 6]  # the first one is compared with the checkpoint's
    return both, history


def test_a_run_that_was_stopped_goes_on_to_the_last_bit(tmp_path):
    whole, expected = train(batches=Batches(labels=True), evaluate=chance, **RUN)
    resumed, history = stopped_and_resumed(tmp_path)
    assert_equal((*whole, expected.averaged), (*resumed, history.averaged))
    assert history.discriminator_losses == expected.discriminator_losses
    assert history.generator_losses == expected.generator_losses and history.steps == 7
    assert [step for step, _ in history.evaluations] == [2, 4, 6, 7]
    for (_, a), (_, b) in zip(expected.evaluations, history.evaluations, strict=True):
        assert a["noise"] == b["noise"] and float(a["score"]) == float(b["score"])
    assert [path.name for path in tmp_path.iterdir()] == ["step_000007"]


@pytest.mark.parametrize("lost", ["generator optimizer", "discriminator optimizer", "averaged"])
def test_each_part_of_the_state_is_needed(tmp_path, monkeypatch, lost):
    expected, history = train(batches=Batches(labels=True), evaluate=chance, **RUN)
    kept = Run.resume

    def resume(run, *args):
        parts = run.parts
        run.parts = {name: part for name, part in parts.items() if name != lost}
        kept(run, *args)
        run.parts = parts

    monkeypatch.setattr(Run, "resume", resume)
    resumed, other = stopped_and_resumed(tmp_path)
    pairs = zip((*expected, history.averaged), (*resumed, other.averaged), strict=True)
    assert not all(torch.equal(flat(a), flat(b)) for a, b in pairs)


def test_a_checkpoint_of_an_earlier_version_is_gone_on_from(tmp_path):
    """It has one random state, not one for each process, and fewer entries in its history."""
    whole, expected = train(steps=6)
    train(steps=4, checkpoint_dir=tmp_path)
    (path,) = tmp_path.iterdir()
    settings, state = read_checkpoint(path)
    (state["random"],) = state["random"]
    for name in ("seconds", "resumed_from", "averaged"):
        del state["history"][name]
    for name in ("dtypes", "processes"):
        del settings[name]
    write_checkpoint(tmp_path, 4, state, settings, keep=1)
    resumed, history = train(nets(seed=8), steps=6, checkpoint_dir=tmp_path)
    assert history.resumed_from == 4 and history.steps == 6
    assert history.generator_losses == expected.generator_losses
    assert_equal(whole, resumed)


def test_a_launch_of_several_processes_is_refused(monkeypatch):
    several = Processes(torch.device("cpu"), 1, 2)
    monkeypatch.setattr(adversarial, "join_processes", lambda device: several)
    with pytest.raises(ValueError, match="launch must start one process for fit_adversarial, got"):
        train()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": 4}, "checkpoint_dir"),
        ({"loss": "minimax"}, "checkpoint_dir"),
        ({"loss": ADVERSARIAL_LOSSES["minimax"]}, "checkpoint_dir"),
        ({"generator_rate": 2e-4}, "checkpoint_dir"),
        ({"betas": (0.5, 0.9)}, "checkpoint_dir"),
        ({"slope": 0.1}, "checkpoint_dir"),
        ({"steps": 2}, "steps"),
    ],
)
def test_a_checkpoint_of_another_run_is_refused(tmp_path, change, message):
    train(checkpoint_dir=tmp_path)
    both, change = nets(), dict(change)
    both[1].net[1].negative_slope = change.pop("slope", 0.2)
    assert_refused(message, train, both, checkpoint_dir=tmp_path, **change)
    assert_equal(both, nets())


def test_a_rate_of_numpy_is_the_same_rate(tmp_path):
    train(checkpoint_dir=tmp_path, generator_rate=np.float32(0.25))
    assert train(checkpoint_dir=tmp_path, generator_rate=0.25)[1].resumed_from == 3
