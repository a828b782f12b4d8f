"""What holds for every model that reads a source and says a target."""

import torch
from assertions import assert_exact


def assert_steps_are_the_whole(model, source, lengths, target, weights=True):
    """Token by token a decoder gives the logits, and if asked the weights, of the whole target."""
    memory = model.encode(source, lengths)
    state, asked = model.start(memory), {"need_weights": True} if weights else {}
    whole = model(source, lengths, target, **asked)
    for t in range(target.shape[1]):
        step = model.step(target[:, t], state, memory, **asked)
        assert_exact(step.logits, whole.logits[:, t])
        if weights:
            assert_exact(step.weights, whole.weights[:, t])
        state = step.state


def assert_every_parameter_learns(model, total, but=()):
    """Each gets a gradient that is not zero, but those whose name has one of the words in it."""
    total.backward()
    for name, p in model.named_parameters():
        learns = p.grad is not None and p.grad.isfinite().all() and p.grad.abs().sum() > 0
        assert bool(learns) == (not any(word in name for word in but)), name


def assert_reads_what_it_may_and_no_more(model, source, lengths, target):
    """Logits of the second step depend on both tokens so far and on every real one of the source,
    and neither on a later target nor on padding.
    """
    seen = []

    def keep(module, given, out):
        out.retain_grad()
        seen.append(out)

    for embedding in (model.source_embedding, model.target_embedding):
        embedding.register_forward_hook(keep)
    model(source, lengths, target).logits[:, 1].square().sum().backward()
    of_source, of_target = (t.grad.abs().sum(-1) for t in seen)
    real = torch.arange(source.shape[1]) < lengths[:, None]
    assert (of_target[:, 2:] == 0).all() and (of_target[:, :2] > 0).all()
    assert (of_source[~real] == 0).all() and (of_source[real] > 0).all()


def assert_trains_in_half_precision(model, compute):
    """Under autocast what is computed stays near float32, and all gradients are finite."""
    plain = compute()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        low = compute()
    low.float().square().sum().backward()
    assert (low.float() - plain).abs().max() < 0.1 * plain.abs().max()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


def wrong_versions(names):
    """The functions whose names begin with ``spoil_``: a test must see what they do to a model."""
    return [f for name, f in names.items() if name.startswith("spoil_")]
