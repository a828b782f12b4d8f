"""Pointer networks that sort, beside decoders with a fixed dictionary of positions; tested on
sizes never seen.
"""

from __future__ import annotations

from pathlib import Path

import torch

from ...models import FixedDictionary, PointerNetwork
from ...tasks.geometry.points import PointBatch, PointBatches, answers, draw
from ...training import cosine_decay, exact_match, fit, pointing_loss, save_model
from ...training.decoding.pointing import permutation
from .hulls_and_triangulations import Repeated, decoded

__all__ = ["SORTERS", "held", "make_sorter", "sorted_share", "sorting", "start_as_the_paper"]

SORTERS = {
    "pointer": dict(repeats=False),
    "pointer, no mask": dict(repeats=True),
    "LSTM + attention": dict(attention=True),
    "LSTM": dict(attention=False),
}
"""What learns to sort: the pointer with and without the mask of used positions, and both
baselines, which have the mask.
"""


def make_sorter(name: str, *, most: int, hidden_size: int = 64, d_embed: int = 32):
    """One of :data:`SORTERS`; the dictionary of a baseline names ``most`` positions."""
    if name not in SORTERS:
        raise ValueError(f"name must be one of {', '.join(SORTERS)}, got {name!r}")
    options = dict(hidden_size=hidden_size, d_embed=d_embed, ends=False, **SORTERS[name])
    return (
        PointerNetwork(1, **options)
        if name.startswith("pointer")
        else FixedDictionary(1, most, **options)
    )


def start_as_the_paper(model, seed: int = 0):
    """Draw every number of a model from U[−0.08, 0.08] (Vinyals et al. 2015, section 4.1)."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.rand(parameter.shape, generator=generator) * 0.16 - 0.08)
    return model


def held(kind: str, n: int, count: int) -> PointBatch:
    """``count`` problems of n that no training sees."""
    return draw(kind, n, count, torch.Generator().manual_seed(2_000_000_011 + n))


def sorted_share(model, n: int, *, count: int = 1000, rule=permutation) -> float:
    """The share of ``count`` new rows of n numbers that come out in order, decoded greedily
    under a rule.
    """
    batch = held("sorting", n, count)
    return round(exact_match(decoded(model, batch, rule=rule), answers(batch)), 4)


def sorting(
    *,
    seed: int = 0,
    device: str = "cpu",
    folder: Path = Path("results"),
    models=tuple(SORTERS),
    n: int | tuple[int, int] = (5, 10),
    test=(5, 8, 10, 12, 15, 20, 30, 50),
    hidden_size: int = 64,
    d_embed: int = 32,
    steps: int = 800,
    batch_size: int = 128,
    optimizer: str = "adam",
    learning_rate: float = 1e-2,
    clip_norm: float = 1.0,
    decay: bool = True,
    paper_start: bool = False,
    pairs: int | None = None,
    count: int = 1000,
    checkpoint: str = "",
) -> dict:
    """Train each model on the same rows of ``n`` numbers; the share sorted without a fault, by
    size.

    n      a size, or (least, most)
    pairs  how many different rows training sees, over and over; None: each step's are new
    """
    n, found = tuple(n) if isinstance(n, (list, tuple)) else n, []
    most = n if isinstance(n, int) else n[1]
    for name in models:
        torch.manual_seed(seed)
        model = make_sorter(name, most=most, hidden_size=hidden_size, d_embed=d_embed)
        if paper_start:
            start_as_the_paper(model, seed)
        batches = PointBatches("sorting", n, batch_size, seed=seed)
        history = fit(
            model,
            Repeated(batches, pairs) if pairs else batches,
            pointing_loss,
            steps=steps,
            optimizer=optimizer,
            learning_rate=learning_rate,
            schedule=cosine_decay(steps, 20) if decay else None,
            clip_norm=clip_norm,
            seed=seed,
            device=device,
            evaluate=lambda m: sorted_share(m, most, count=min(count, 200)),
            evaluate_every=max(1, steps // 8),
        )
        sizes = [size for size in test if name.startswith("pointer") or size <= most]
        row = {
            "model": name,
            "parameters": sum(p.numel() for p in model.parameters()),
            "exact": [[size, sorted_share(model, size, count=count)] for size in sizes],
            "course": [[step, value] for step, value in history.evaluations],
            "training_seconds": round(history.seconds, 1),
        }
        if "no mask" in name:
            batch = held("sorting", most, count)
            said = decoded(model, batch, rule=None)
            row["repeated_free"] = round(
                sum(len(set(answer)) < len(answer) for answer in said) / count, 4
            )
            row["exact_free"] = round(exact_match(said, answers(batch)), 4)
        found.append(row)
        if checkpoint and name == "pointer":
            save_model(
                model,
                Path(folder) / f"{checkpoint}.seed{seed}.safetensors",
                half=True,
                hidden_size=str(hidden_size),
                d_embed=str(d_embed),
            )
    return {"sequences": steps * batch_size, "rows": found}
