"""Pictures drawn from words: captions that the patches attend to, or squeezed into one vector."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import torch

from attnbook.models.vision.captioned_denoiser import (
    CaptionedDenoiser,
    NoisyBatch,
    draw_from_noise,
    flow_loss,
    with_noise,
)
from attnbook.models.vision.vision_transformer import pre_norm_parts
from attnbook.modules import device_of, temporary_mode
from attnbook.tasks.endless_batches import GeneratedBatches
from attnbook.tasks.images.labelled import to_floats
from attnbook.tasks.images.scenes import vocabulary
from attnbook.tasks.images.small_scenes import SIDE, Described, read_two, two_objects

from ..common import save_checkpoint, select, train, training_figures
from ..registry import register

__all__ = ["drawn_right", "make_painter", "pictures_from_words"]


@dataclass(frozen=True)
class Settings:
    """What a run takes."""

    conditioning: str = "cross-attention"  # or "one vector"
    steps: int = 3000  # updates
    batch_size: int = 64
    learning_rate: float = 3e-3
    d_model: int = 48
    num_layers: int = 2
    side: int = 4  # of a patch
    drawings: int = 500  # for the figures, of each part
    checkpoint: str | None = None  # name of the stored weights


def make_painter(
    conditioning: str = "cross-attention", *, d_model: int = 48, num_layers: int = 2, side: int = 4
) -> CaptionedDenoiser:
    """The denoiser of the recorded runs, for pictures of two objects."""
    return CaptionedDenoiser(
        SIDE,
        side,
        len(vocabulary()),
        7,
        pre_norm_parts(d_model, 4, 4 * d_model, dropout=0.0),
        num_layers=num_layers,
        conditioning=conditioning,
        mean=0.5,
    )


def drawn_right(
    model: CaptionedDenoiser, told: Described, *, steps: int = 20, seed: int = 0
) -> dict[str, float]:
    """Draw from captions, read what was drawn, and count: objects right in both words, colours and
    shapes right, and objects that stand in the wrong half.
    """
    generator, pictures = torch.Generator().manual_seed(seed), []
    device = device_of(model)
    with temporary_mode(model, False):
        for words in told.words.split(250):
            drawn = draw_from_noise(model, words.to(device), steps=steps, generator=generator)
            pictures.append(drawn.cpu())
    seen = read_two(torch.cat(pictures))
    right, shapes = seen == told.kinds, 4
    return {
        "pictures": round(float(right.all(1).double().mean()), 4),
        "objects": round(float(right.double().mean()), 4),
        "colours": round(float((seen // shapes == told.kinds // shapes).double().mean()), 4),
        "shapes": round(float((seen % shapes == told.kinds % shapes).double().mean()), 4),
        "swapped": round(float((seen == told.kinds.flip(1)).all(1).double().mean()), 4),
    }


def pictures_from_words(
    settings: Settings, *, seed: int = 0, device: str = "cpu", folder: Path = Path("results")
) -> dict:
    """Train on captions of which a fifth of the pairs is held out, then draw from those too."""
    data = two_objects(20_000, seed=100 + seed)
    pictures = to_floats(data.pictures)

    def noisy(size: int, generator: torch.Generator) -> NoisyBatch:
        chosen = torch.randint(len(pictures), (size,), generator=generator)
        return with_noise(pictures[chosen], data.words[chosen], generator)

    torch.manual_seed(seed)
    sizes = select(settings, "conditioning", "d_model", "num_layers", "side")
    model = make_painter(**sizes)
    batches = GeneratedBatches(noisy, settings.batch_size, seed)
    history = train(model, batches, flow_loss, settings, seed=seed, device=device, warmup=100)
    save_checkpoint(model, settings.checkpoint, folder, seed, **sizes)
    last = history.losses[-200:]
    return {
        "loss": round(sum(last) / len(last), 4),
        **{
            part: drawn_right(model, two_objects(settings.drawings, seed=1, part=part))
            for part in ("train", "test")
        },
        **training_figures(model, history),
    }


BASE = Settings(checkpoint="pictures-from-words")
register(
    "pictures-from-words",
    pictures_from_words,
    BASE,
    title="Two objects drawn from their caption, by cross-attention",
    minutes="2 minutes on one CPU core",
)
register(
    "pictures-from-one-vector",
    pictures_from_words,
    replace(BASE, conditioning="one vector", checkpoint=None),
    title="Two objects drawn from one vector for the caption",
    minutes="2 minutes on one CPU core",
)
