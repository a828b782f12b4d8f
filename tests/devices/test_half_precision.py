"""Training in half precision on a GPU, with the scaler of gradients: where float32 goes."""

import pytest
import torch
from any_gpu import GPU_TOO, REAL, any_gpu
from small_models import TRANSLATORS, WORDS, Pictures
from torch.nn.functional import cross_entropy

import attnbook
from attnbook.training import fit, fit_adversarial

pytestmark = GPU_TOO


class Copies:
    def batch(self, step):
        g = torch.Generator().manual_seed(step)
        words = torch.randint(4, WORDS, (8, 5), generator=g)
        return words, torch.full((8,), 5), words.roll(1, 1), words


def translation_loss(model, batch):
    source, lengths, target_in, wanted = batch
    logits = model(source, lengths, target_in).logits
    return cross_entropy(logits.flatten(0, 1), wanted.flatten(), reduction="sum"), wanted.numel()


@pytest.mark.parametrize("name", TRANSLATORS)
def test_training_in_half_precision_with_the_scaler_goes_where_float32_goes(name):
    losses, options = {}, {"steps": 6, "learning_rate": 1e-2, "device": "cuda", "progress": False}
    for precision in ("no", "fp16"):
        torch.manual_seed(0)
        model = TRANSLATORS[name]()
        with any_gpu():
            history = fit(model, Copies(), translation_loss, precision=precision, **options)
        losses[precision] = history.losses
    assert losses["fp16"] != losses["no"]
    assert losses["fp16"][:2] == pytest.approx(losses["no"][:2], rel=0.02)
    # a real GPU passes over the updates whose gradients overflow, until the factor fits
    assert losses["fp16"] == pytest.approx(losses["no"], rel=0.1 if REAL else 0.02)


def test_adversarial_training_in_half_precision_begins_as_float32_and_moves():
    """The scaler passes over the first updates, until its factor is small enough."""
    first, moved = {}, {}
    for precision in ("no", "fp16"):
        torch.manual_seed(0)
        pair = attnbook.sagan_pair(16, channels=4, d_noise=4, num_classes=2, attention_at=8)
        before = [p.detach().clone() for p in pair.discriminator.parameters()]
        with any_gpu():
            history = fit_adversarial(
                *pair, Pictures(), steps=8, precision=precision, progress=False
            )
            after = [p.detach().cpu() for p in pair.discriminator.parameters()]
        first[precision] = history.discriminator_losses[0]
        moved[precision] = sum(float((a - b).norm()) for a, b in zip(after, before, strict=True))
    assert first["fp16"] != first["no"] and first["fp16"] == pytest.approx(first["no"], rel=0.02)
    assert 0 < moved["fp16"] <= 1.5 * moved["no"]
