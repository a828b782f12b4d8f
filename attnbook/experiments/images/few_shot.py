"""Classes from one example or a few: SNAIL and its halves, prototypes, and the nearest picture;
where the query looks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import torch

from ...models.snail.few_shot import FewShotSNAIL, PictureEmbedding, Prototypes, few_shot_loss
from ...models.snail.network import PAPER_PARTS, AttentionPart, TCPart
from ...tasks.images import omniglot, strokes
from ...tasks.images.few_shot_episodes import (
    Classes,
    EpisodeBatches,
    draw_episodes,
    with_mirrors,
    with_rotations,
)
from ...training import constant, cosine_decay, fit, save_model
from ...training.loop.temporary_state import temporary_mode
from ...validate import check_choice
from ..registry import register

__all__ = [
    "KINDS",
    "NETWORKS",
    "accuracy",
    "few_shot",
    "interval",
    "looks",
    "make_network",
    "named",
    "nearest_picture",
    "the_data",
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

But for a plain start, queries and keys start alike, which is the book's addition.
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


def the_data(data: str) -> tuple[Classes, Classes]:
    """Classes to learn from and classes of other alphabets for the test, by name.

    - "strokes": letters that the book draws: 8 alphabets of 25 letters, and 4 others.
    - "omniglot-small": the small sets of Omniglot: 136 characters and 106 others, all also turned
      by 90, 180 and 270 degrees.
    - "omniglot": the full sets: 964 and 659 characters, turned as well.
    """
    if data == "strokes":
        return strokes.alphabets(8, 25, seed=0), strokes.alphabets(4, 25, seed=1)
    if data not in ("omniglot-small", "omniglot"):
        raise ValueError(f"data must be strokes, omniglot-small or omniglot, got {data!r}")
    train, test = omniglot.split("small" if data.endswith("small") else "full")
    return with_rotations(train), with_rotations(test)


def interval(shares: torch.Tensor) -> tuple[float, float]:
    """Mean of one number an episode, and half the width of its 95 % interval: ``1.96 s / √n``."""
    return float(shares.double().mean()), 1.96 * float(shares.double().std()) / math.sqrt(
        len(shares)
    )


def _parts(classes: Classes, ways: int, shots: int, queries: int, episodes: int, seed: int, device):
    """Test episodes, fifty at a time; they depend on the numbers and the seed alone."""
    pictures = classes.pictures.cpu()
    for start in range(0, episodes, 50):
        generator = torch.Generator().manual_seed(7_000_003 + 100_003 * seed + start)
        batch = draw_episodes(pictures, ways, shots, queries, min(50, episodes - start), generator)
        yield tuple(part.to(device) for part in batch)


@torch.no_grad()
def named(
    model,
    classes: Classes,
    *,
    shots: int = 1,
    queries: int = 5,
    episodes: int = 1000,
    seed: int = 0,
) -> torch.Tensor:
    """For each of ``episodes`` the share of its queries that a network names rightly,
    ``(episodes,)``; in evaluation mode.
    """
    device, found = next(model.parameters()).device, []
    with temporary_mode(model, False):
        for support, labels, query, answers in _parts(
            classes, model.ways, shots, queries, episodes, seed, device
        ):
            found.append(
                (model(support, labels, query).logits.argmax(-1) == answers).float().mean(1).cpu()
            )
    return torch.cat(found)


def nearest_picture(
    classes: Classes,
    ways: int,
    *,
    shots: int = 1,
    queries: int = 5,
    episodes: int = 1000,
    seed: int = 0,
) -> torch.Tensor:
    """The same for the rule that learns nothing: the class of the example whose pixels lie
    nearest.
    """
    found = []
    for support, labels, query, answers in _parts(
        classes, ways, shots, queries, episodes, seed, "cpu"
    ):
        near = torch.cdist(query.flatten(2).float(), support.flatten(2).float()).argmin(-1)
        found.append((labels.gather(1, near) == answers).float().mean(1))
    return torch.cat(found)


def accuracy(shares: torch.Tensor) -> list[float]:
    """Mean and half interval in percent, rounded for a record."""
    return [round(100 * value, 2) for value in interval(shares)]


@torch.no_grad()
def looks(
    model, classes: Classes, *, shots: int = 1, queries: int = 5, episodes: int = 200, seed: int = 0
) -> list[dict]:
    """For each attention block where a query looks, over many episodes.

    Returns:
        own: weight on the examples of its own class, all together
        other: weight on those of one other class, on average
        itself: weight on its own position
        first: how often the example with the largest weight is of its class
        chance: how often it would be by chance
    """
    device, parts = next(model.parameters()).device, {}
    with temporary_mode(model, False):
        for support, labels, query, answers in _parts(
            classes, model.ways, shots, queries, episodes, seed, device
        ):
            found = model(support, labels, query, need_weights=True)
            of_class = labels[:, None] == answers[..., None]  # (B, Q, S)
            for k, weights in enumerate(found.weights):
                if weights is None:
                    continue
                examples = weights[..., :-1]
                own = (examples * of_class).sum(-1)
                rows = torch.stack(
                    [
                        own,
                        (examples.sum(-1) - own) / (model.ways - 1),
                        weights[..., -1],
                        of_class.gather(-1, examples.argmax(-1, keepdim=True))
                        .squeeze(-1)
                        .to(own.dtype),
                    ]
                )
                parts.setdefault(k, []).append(rows.flatten(1).cpu())
    rows = []
    for k, pieces in parts.items():
        values = torch.cat(pieces, 1).double()
        own, other, itself, first = values.mean(1).tolist()
        rows.append(
            {
                "part": k,
                "own": round(own, 4),
                "other": round(other, 4),
                "itself": round(itself, 4),
                "first": round(first, 4),
                "chance": round(1 / model.ways, 4),
            }
        )
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
    learning_rate: float = 3e-3  # peak learning rate
    decay: bool = True  # let the learning rate decay by a cosine
    bend: float = 0.0  # how far each training picture is bent
    mirrored: bool = False  # add the mirrored training classes
    precision: str = "no"  # no, bf16 or fp16
    episodes: int = 1000  # test episodes
    checkpoint: str = ""  # name of the saved weights; empty: none are saved


def few_shot(
    settings: Settings, *, seed: int = 0, device: str = "cpu", folder: Path = Path("results")
) -> dict:
    """Train on episodes of the training classes; the share of queries named rightly in ``episodes``
    episodes of other alphabets.

    Returns:
        shots: K of the test; ``shots_to_train`` is that of training, or (least, most), the same
            when not given
        queries: pictures to name in each episode, of training and test; the paper has one
        bend: how far the pictures of training are bent, each by itself
        mirrored: whether the classes of training count once more in the mirror; those of the test
            do not
    """
    train, test = the_data(settings.data)
    torch.manual_seed(seed)
    model = make_network(settings.kind, settings.ways, settings.shots, settings.network)
    shown = with_mirrors(train) if settings.mirrored else train
    batches = EpisodeBatches(
        shown.to(device),
        settings.ways,
        settings.shots_to_train or settings.shots,
        settings.queries,
        settings.batch_size,
        seed,
        settings.bend,
    )
    history = fit(
        model,
        batches,
        few_shot_loss,
        steps=settings.steps,
        learning_rate=settings.learning_rate,
        seed=seed,
        device=device,
        precision=settings.precision,
        schedule=cosine_decay(settings.steps, min(100, settings.steps))
        if settings.decay
        else constant(min(100, settings.steps)),
        evaluate=lambda m: float(
            named(m, test, shots=settings.shots, episodes=min(100, settings.episodes)).mean()
        ),
        evaluate_every=max(1, settings.steps // 10),
    )
    width = max(1, settings.steps // 40)
    record = {
        "parameters": sum(p.numel() for p in model.parameters()),
        "classes": [len(shown), len(test)],
        "pictures": settings.steps
        * settings.batch_size
        * (settings.ways * settings.shots + settings.queries),
        "accuracy": accuracy(named(model, test, shots=settings.shots, episodes=settings.episodes)),
        "accuracy_on_training_classes": accuracy(
            named(model, train, shots=settings.shots, episodes=min(settings.episodes, 200))
        ),
        "nearest_picture": accuracy(
            nearest_picture(test, settings.ways, shots=settings.shots, episodes=settings.episodes)
        ),
        "course": [[step, round(value, 4)] for step, value in history.evaluations],
        "losses": [
            round(sum(part) / len(part), 4)
            for part in (history.losses[k : k + width] for k in range(0, settings.steps, width))
        ],
        "training_seconds": round(history.seconds, 1),
    }
    if settings.kind in ("snail", "no TC"):
        record["looks"] = looks(
            model, test, shots=settings.shots, episodes=min(settings.episodes, 400)
        )
    if settings.checkpoint:
        save_model(
            model,
            Path(folder) / f"{settings.checkpoint}.seed{seed}.safetensors",
            half=True,
            kind=settings.kind,
            network=settings.network,
            ways=str(settings.ways),
            shots=str(settings.shots),
        )
    return record


for _name, _kind, _title in (
    ("snail-omniglot", "snail", "SNAIL"),
    ("snail-omniglot-no-attention", "no attention", "its TC blocks alone"),
    ("snail-omniglot-no-tc", "no TC", "its attention blocks alone"),
):
    register(
        _name,
        few_shot,
        Settings(kind=_kind, data="omniglot-small", steps=2500),
        title=f"Small Omniglot, 5 classes of one example, small enough for one CPU core: {_title}",
        minutes="5 minutes on one CPU core",
        needs="omniglot",
    )
register(
    "snail-strokes",
    few_shot,
    Settings(kind="snail", steps=1000, checkpoint="snail-strokes"),
    title="Letters that the book draws, 5 classes of one example: SNAIL",
    minutes="15 minutes on one CPU core",
)
register(
    "snail-strokes-no-tc",
    few_shot,
    Settings(kind="no TC", steps=1000),
    title="Letters that the book draws, 5 classes of one example: its attention blocks alone",
    minutes="15 minutes on one CPU core",
)
register(
    "snail-omniglot-long",
    few_shot,
    Settings(data="omniglot-small", steps=10_000, checkpoint="snail-omniglot-long"),
    title="Small Omniglot, 5 classes of one example: SNAIL, four times as long, with checkpoint",
    minutes="20 minutes on one CPU core",
    needs="omniglot",
)
register(
    "snail-omniglot-bent",
    few_shot,
    Settings(data="omniglot-small", steps=10_000, bend=0.15),
    title="The same, with every picture of the training bent a little",
    minutes="20 minutes on one CPU core",
    needs="omniglot",
)
register(
    "snail-omniglot-mirrored",
    few_shot,
    Settings(data="omniglot-small", steps=12_000, bend=0.15, mirrored=True),
    title="The same, longer, with the classes of the training in the mirror as well",
    minutes="25 minutes on one CPU core",
    needs="omniglot",
)
for _ways, _shots in ((5, 1), (5, 5), (20, 1), (20, 5)):
    for _data, _where in (("omniglot", "full"), ("omniglot-small", "small")):
        register(
            f"snail-{_data}-{_ways}-way-{_shots}-shot-paper",
            few_shot,
            Settings(
                data=_data,
                network="paper",
                ways=_ways,
                shots=_shots,
                shots_to_train=(1, 5) if _shots == 5 else 1,
                batch_size=32,
                steps=60_000,
                learning_rate=1e-3,
            ),
            title=f"The {_where} Omniglot with the network of the paper, {_ways} classes of "
            f"{_shots}, K drawn from 1 to 5 in training",
            minutes="2 hours on one GPU",
            needs="omniglot",
        )
