"""Few-shot classification: SNAIL and its halves, prototypes, and the nearest picture; what the
query attends to.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from attnbook.models.snail.few_shot import FewShotSNAIL, PictureEmbedding, Prototypes, few_shot_loss
from attnbook.models.snail.network import PAPER_PARTS, AttentionPart, TCPart
from attnbook.modules import device_of, temporary_mode
from attnbook.tasks.images import omniglot, strokes
from attnbook.tasks.images.few_shot_episodes import (
    Classes,
    EpisodeBatches,
    draw_episodes,
    with_mirrors,
    with_rotations,
)
from attnbook.training import average_checkpoints, constant
from attnbook.validate import check_choice

from ..common import (
    block_means,
    checkpoint_folder,
    rounded,
    save_checkpoint,
    select,
    train,
    training_figures,
)
from ..registry import register_family

__all__ = [
    "KINDS",
    "NETWORKS",
    "accuracy",
    "attention_by_class",
    "class_sets",
    "episode_accuracies",
    "few_shot",
    "interval",
    "make_network",
    "nearest_picture_accuracies",
]

ALIKE = 6.0


def _alike(parts: tuple, factor: float | None) -> tuple:
    return tuple(
        part._replace(alike=factor) if isinstance(part, AttentionPart) else part for part in parts
    )


SMALL_PARTS = (
    AttentionPart(32, 32),
    TCPart(32),
    AttentionPart(64, 64),
    TCPart(32),
    AttentionPart(64, 64),
)
NETWORKS = {
    "paper": dict(filters=64, d_embed=64, parts=_alike(PAPER_PARTS, ALIKE)),
    "paper, plain start": dict(filters=64, d_embed=64, parts=PAPER_PARTS),
    "small": dict(filters=32, d_embed=64, parts=_alike(SMALL_PARTS, ALIKE)),
    "small, plain start": dict(filters=32, d_embed=64, parts=SMALL_PARTS),
}
"""Sizes by name: those of the paper, and ours for two cores.

Except with a plain start, queries and keys have similar initial weights, which is the book's
addition.
"""
KINDS = ("snail", "no attention", "no TC", "prototypes")
"""SNAIL, its two halves, and a network that learns nothing but the embedding."""


def make_network(kind: str, ways: int, shots: int, network: str = "small"):
    """One of :data:`KINDS` with the sizes of one of :data:`NETWORKS`; its weights come from
    PyTorch's global generator.
    """
    check_choice("kind", kind, KINDS)
    check_choice("network", network, NETWORKS)
    sizes = NETWORKS[network]
    embedding = PictureEmbedding(filters=sizes["filters"], d_output=sizes["d_embed"])
    if kind == "prototypes":
        return Prototypes(embedding, ways)
    left_out = {"snail": (), "no attention": (AttentionPart,), "no TC": (TCPart,)}[kind]
    return FewShotSNAIL(
        embedding,
        ways,
        shots,
        tuple(part for part in sizes["parts"] if not isinstance(part, left_out)),
    )


def class_sets(data: str) -> tuple[Classes, Classes]:
    """Classes for training and classes of other alphabets for the test, by name.

    - "strokes": letters that the book draws: 8 alphabets of 25 letters, and 4 others.
    - "omniglot-small": the small sets of Omniglot: 136 characters and 106 others, all also turned
      by 90, 180 and 270 degrees.
    - "omniglot": the full sets: 964 and 659 characters, turned as well.
    """
    if check_choice("data", data, ("strokes", "omniglot-small", "omniglot")) == "strokes":
        return strokes.alphabets(8, 25, seed=0), strokes.alphabets(4, 25, seed=1)
    train, test = omniglot.split("small" if data.endswith("small") else "full")
    return with_rotations(train), with_rotations(test)


def interval(shares: Tensor) -> tuple[float, float]:
    """The mean of one number per episode, and half the width of its 95 % interval:
    ``1.96 s / √n``.
    """
    spread = float(shares.double().std()) / math.sqrt(len(shares))
    return float(shares.double().mean()), 1.96 * spread


def _test_episodes(
    classes: Classes, ways: int, shots: int, queries: int, episodes: int, seed: int, device
) -> Iterator[tuple[Tensor, ...]]:
    """Test episodes, fifty at a time; they depend on the numbers and the seed alone."""
    pictures = classes.pictures.cpu()
    for start in range(0, episodes, 50):
        generator = torch.Generator().manual_seed(7_000_003 + 100_003 * seed + start)
        batch = draw_episodes(pictures, ways, shots, queries, min(50, episodes - start), generator)
        yield tuple(part.to(device) for part in batch)


@torch.no_grad()
def episode_accuracies(
    model,
    classes: Classes,
    *,
    shots: int = 1,
    queries: int = 5,
    episodes: int = 1000,
    seed: int = 0,
) -> Tensor:
    """For each episode the share of its queries that a network classifies right, in evaluation
    mode: ``(episodes,)``.
    """
    test = _test_episodes(classes, model.ways, shots, queries, episodes, seed, device_of(model))
    with temporary_mode(model, False):
        return torch.cat(
            [
                (model(support, labels, query).logits.argmax(-1) == answers).float().mean(1).cpu()
                for support, labels, query, answers in test
            ]
        )


def nearest_picture_accuracies(
    classes: Classes,
    ways: int,
    *,
    shots: int = 1,
    queries: int = 5,
    episodes: int = 1000,
    seed: int = 0,
) -> Tensor:
    """The same for a rule without training: the class of the example with the nearest pixels."""
    shares = []
    test = _test_episodes(classes, ways, shots, queries, episodes, seed, "cpu")
    for support, labels, query, answers in test:
        near = torch.cdist(query.flatten(2).float(), support.flatten(2).float()).argmin(-1)
        shares.append((labels.gather(1, near) == answers).float().mean(1))
    return torch.cat(shares)


def accuracy(shares: Tensor) -> list[float]:
    """Mean and half width of the interval in percent, rounded for a record."""
    return [round(100 * value, 2) for value in interval(shares)]


@torch.no_grad()
def attention_by_class(
    model, classes: Classes, *, shots: int = 1, queries: int = 5, episodes: int = 200, seed: int = 0
) -> list[dict]:
    """For each attention block, what a query attends to, over many episodes.

    Returns:
        own: Weight on the examples of its class, summed.
        other: Weight on those of one other class, on average.
        itself: Weight on its own position.
        first: How often the example with the largest weight is of its class.
        chance: How often it would be by chance.
    """
    test = _test_episodes(classes, model.ways, shots, queries, episodes, seed, device_of(model))
    parts: dict[int, list[Tensor]] = {}
    with temporary_mode(model, False):
        for support, labels, query, answers in test:
            output = model(support, labels, query, need_weights=True)
            of_class = labels[:, None] == answers[..., None]  # (B, Q, S)
            for k, weights in enumerate(output.weights):
                if weights is None:
                    continue
                examples = weights[..., :-1]
                own = (examples * of_class).sum(-1)
                other = (examples.sum(-1) - own) / (model.ways - 1)
                first = of_class.gather(-1, examples.argmax(-1, keepdim=True)).squeeze(-1)
                rows = torch.stack([own, other, weights[..., -1], first.to(own.dtype)])
                parts.setdefault(k, []).append(rows.flatten(1).cpu())
    rows = []
    for k, pieces in parts.items():
        means = [round(value, 4) for value in torch.cat(pieces, 1).double().mean(1).tolist()]
        shares = dict(zip(("own", "other", "itself", "first"), means))
        rows.append({"part": k, **shares, "chance": round(1 / model.ways, 4)})
    return rows


@dataclass(frozen=True)
class Settings:
    data: str = "strokes"  # name of the data set
    kind: str = "snail"  # one of KINDS
    network: str = "small"  # one of NETWORKS
    ways: int = 5  # classes per episode
    shots: int = 1  # examples per class in the test
    # examples per class in training, or (least, most); None: as in the test
    shots_to_train: tuple[int, int] | int | None = None
    queries: int = 5  # pictures to classify per episode
    batch_size: int = 16  # examples per step
    steps: int = 1500  # training steps
    # peak learning rate of Adam; the bound of ``fit`` on the gradient, 1, of which the paper says
    # nothing, cuts some of the first steps
    learning_rate: float = 3e-3
    decay: bool = True  # let the learning rate decay by a cosine
    bend: float = 0.0  # how far each training picture is bent
    mirrored: bool = False  # add the mirrored training classes
    average: int = 0  # checkpoints of the last fifth of the training to average; 0: none
    precision: str = "no"  # no, bf16 or fp16
    episodes: int = 1000  # test episodes
    checkpoint: str = ""  # name of the saved weights; empty: none are saved


def few_shot(
    settings: Settings, *, seed: int = 0, device: str = "cpu", folder: Path = Path("results")
) -> dict:
    """Train on episodes of the training classes; the accuracy on the queries of ``episodes``
    episodes of other alphabets. (The paper has one query per episode.)
    """
    train_classes, test = class_sets(settings.data)
    torch.manual_seed(seed)
    model = make_network(settings.kind, settings.ways, settings.shots, settings.network)
    extended = with_mirrors(train_classes) if settings.mirrored else train_classes
    shots_to_train = settings.shots_to_train or settings.shots
    batches = EpisodeBatches(
        extended.to(device),
        settings.ways,
        shots_to_train,
        settings.queries,
        settings.batch_size,
        seed,
        settings.bend,
    )

    def shares(model, classes: Classes, most: int) -> Tensor:
        episodes = min(most, settings.episodes)
        return episode_accuracies(model, classes, shots=settings.shots, episodes=episodes)

    warmup = min(100, settings.steps)
    options: dict[str, Any] = {} if settings.decay else {"schedule": constant(warmup)}
    with checkpoint_folder() if settings.average else nullcontext() as folder_of_weights:
        if folder_of_weights is not None:
            options |= {
                "checkpoint_dir": folder_of_weights,
                "save_every": max(1, settings.steps // (5 * settings.average)),
                "keep_checkpoints": settings.average,
            }
        history = train(
            model,
            batches,
            few_shot_loss,
            settings,
            seed=seed,
            device=device,
            warmup=warmup,
            evaluate=lambda m: float(shares(m, test, 100).mean()),
            evaluations=10,
            **options,
        )
        if folder_of_weights is not None:
            average_checkpoints(model, folder_of_weights)
    mean_shots = shots_to_train if isinstance(shots_to_train, int) else sum(shots_to_train) / 2
    pictures_per_episode = settings.ways * mean_shots + settings.queries
    nearest = nearest_picture_accuracies(
        test, settings.ways, **select(settings, "shots", "episodes")
    )
    record = {
        **training_figures(model, history),
        "classes": [len(extended), len(test)],
        "pictures": round(settings.steps * settings.batch_size * pictures_per_episode),
        "accuracy": accuracy(shares(model, test, settings.episodes)),
        "accuracy_on_training_classes": accuracy(shares(model, train_classes, 200)),
        "nearest_picture": accuracy(nearest),
        "course": rounded(history.evaluations),
        "losses": block_means(history.losses, 40),
    }
    if settings.kind in ("snail", "no TC"):
        record["looks"] = attention_by_class(
            model, test, shots=settings.shots, episodes=min(settings.episodes, 400)
        )
    sizes = select(settings, "kind", "network", "ways", "shots")
    save_checkpoint(model, settings.checkpoint, folder, seed, **sizes)
    return record


register_family(
    few_shot,
    Settings(data="omniglot-small", steps=2500),
    *(
        (
            f"snail-omniglot{_ending}",
            "Small Omniglot, 5 classes of one example, small enough for one CPU core: " + _title,
            "5 minutes on one CPU core",
            dict(kind=_kind),
        )
        for _ending, _kind, _title in (
            ("", "snail", "SNAIL"),
            ("-no-attention", "no attention", "its TC blocks alone"),
            ("-no-tc", "no TC", "its attention blocks alone"),
        )
    ),
    needs="omniglot",
)
register_family(
    few_shot,
    Settings(steps=1000),
    (
        "snail-strokes",
        "Letters that the book draws, 5 classes of one example: SNAIL",
        "15 minutes on one CPU core",
        dict(checkpoint="snail-strokes"),
    ),
    (
        "snail-strokes-no-tc",
        "Letters that the book draws, 5 classes of one example: its attention blocks alone",
        "15 minutes on one CPU core",
        dict(kind="no TC"),
    ),
)
BENT = dict(bend=0.15)
MIRRORED = dict(steps=12_000, mirrored=True, **BENT)
AVERAGED = dict(learning_rate=2e-3, decay=False, average=20, **MIRRORED)
# episodes of two to three times as many pictures: half as many of them in a step
LARGER = dict(batch_size=8, **AVERAGED)
register_family(
    few_shot,
    Settings(data="omniglot-small", steps=10_000),
    (
        "snail-omniglot-long",
        "Small Omniglot, 5 classes of one example: SNAIL, four times as long, with checkpoint",
        "20 minutes on one CPU core",
        dict(checkpoint="snail-omniglot-long"),
    ),
    (
        "snail-omniglot-bent",
        "The same, with every picture of the training bent a little",
        "20 minutes on one CPU core",
        BENT,
    ),
    (
        "snail-omniglot-mirrored",
        "The same, longer, with the classes of the training in the mirror as well",
        "25 minutes on one CPU core",
        MIRRORED,
    ),
    (
        "snail-omniglot-averaged",
        "The same at a constant rate, with the mean of twenty of its last weights",
        "25 minutes on one CPU core",
        AVERAGED,
    ),
    (
        "snail-omniglot-small-5-way-5-shot",
        "The same with 5 classes of 5, small enough for one CPU core",
        "20 minutes on one CPU core",
        dict(ways=5, shots=5, shots_to_train=(1, 5), **LARGER),
    ),
    (
        "snail-omniglot-small-20-way-1-shot",
        "The same with 20 classes of 1, small enough for one CPU core",
        "25 minutes on one CPU core",
        dict(ways=20, shots=1, shots_to_train=1, **LARGER),
    ),
    needs="omniglot",
)
register_family(
    few_shot,
    Settings(network="paper", batch_size=32, steps=60_000, learning_rate=1e-3),
    *(
        (
            f"snail-{_data}-{_ways}-way-{_shots}-shot-paper",
            f"The {_where} Omniglot with the network of the paper, {_ways} classes of {_shots}, K "
            "drawn from 1 to 5 in training",
            "2 hours on one GPU",
            dict(data=_data, ways=_ways, shots=_shots, shots_to_train=(1, 5) if _shots == 5 else 1),
        )
        for _ways, _shots in ((5, 1), (5, 5), (20, 1), (20, 5))
        for _data, _where in (("omniglot", "full"), ("omniglot-small", "small"))
    ),
    needs="omniglot",
)
