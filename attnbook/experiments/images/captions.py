"""Captions of pictures with soft, hard and no attention: how good they are, and where the model
looks.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch

from ...models.captioner import Captioner, PictureEncoder, caption_loss
from ...tasks import Vocabulary
from ...tasks.images import nlvr, scenes
from ...tasks.images.captioned_pictures import Captioned, PictureBatches
from ...tasks.sequences.batches import collate
from ...tasks.sequences.pairs import Pair
from ...tasks.translation.alignments import alignment_accuracy
from ...training import bleu, cider, cosine_decay, exact_match, fit, greedy, save_model
from ...training.loop.temporary_state import temporary_mode
from ..registry import register

__all__ = ["Gallery", "describe", "drawn", "human", "look", "make_captioner", "pointing"]


class Gallery(torch.nn.Module):
    """A captioner over fixed pictures, in the shape that `greedy` and `beam_search` ask for.

    The source of picture k is its L regions, ``source[k] = (k, …, k)``; `encode` looks the pictures
    up."""

    def __init__(self, model: Captioner, pictures: torch.Tensor):
        super().__init__()
        self.model, self.pictures = model, pictures

    def sources(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Source ``(N, L)`` and lengths ``(N,)`` of all pictures."""
        rows, columns = self.model.encoder.grid
        source = torch.arange(len(self.pictures))[:, None].expand(-1, rows * columns).contiguous()
        return source, torch.full((len(source),), rows * columns)

    def encode(self, source: torch.Tensor, lengths: torch.Tensor):
        return self.model.encode(self.pictures.to(source.device)[source[:, 0]])

    def start(self, regions):
        return self.model.start(regions)

    def step(self, token, state, regions):
        return self.model.step(token, state, regions)


def describe(
    model: Captioner,
    pictures: torch.Tensor,
    vocab: Vocabulary,
    max_length: int = 12,
    batch_size: int = 500,
):
    """Greedy captions of pictures, each a list of words, and the weights of each, ``(words, L)``
    on the CPU, or None.
    """
    said, weights = [], []
    for part in pictures.split(batch_size):
        gallery = Gallery(model, part)
        found = greedy(gallery, *gallery.sources(), max_length)
        said += [vocab.decode(ids) for ids in found.tokens]
        weights += found.weights or []
    return said, weights or None


def look(
    model: Captioner, data: Captioned, vocab: Vocabulary, batch_size: int = 500
) -> list[torch.Tensor]:
    """The weights of each picture while the model reads its own caption: ``(words + 1, L)`` on
    the CPU, or more rows.
    """
    device, found = next(model.parameters()).device, []
    with torch.no_grad(), temporary_mode(model, False):
        for start in range(0, len(data), batch_size):
            part = data.take(slice(start, start + batch_size))
            text = collate([Pair(caption, caption) for caption in part.captions], vocab, vocab)
            found += model(part.pictures.to(device), text.target_in.to(device)).weights.cpu()
    return found


def pointing(
    weights: list[torch.Tensor], data: Captioned, grid: tuple[int, int]
) -> dict[str, float]:
    """How often the largest weight at a word that names something lies in a region of what it
    names; and by chance.
    """
    gold = data.alignment(grid)
    shares = [len(regions) / (grid[0] * grid[1]) for row in gold for regions in row if regions]
    return {
        "pointing": round(alignment_accuracy(weights, gold), 4),
        "pointing_by_chance": round(sum(shares) / len(shares), 4),
    }


def make_captioner(
    attention: str,
    vocab: Vocabulary,
    grid: tuple[int, int],
    overlap: bool = False,
    *,
    d_feature: int = 64,
    hidden_size: int = 128,
) -> Captioner:
    """The captioner of the recorded runs."""
    encoder = PictureEncoder(grid, d_feature, overlap)
    return Captioner(len(vocab), encoder, attention, d_feature=d_feature, hidden_size=hidden_size)


def _figures(
    model: Captioner, data: Captioned, vocab: Vocabulary, references, max_length: int
) -> dict:
    """Scores of greedy captions; where the largest weight lies is measured along the given
    captions.
    """
    said, _ = describe(model, data.pictures, vocab, max_length)
    texts = [" ".join(words) for words in said]
    score = bleu(texts, references, tokenize="none")
    figures = {
        "exact": round(exact_match(said, [list(c) for c in data.captions]), 4),
        "bleu": round(score.score, 2),
        "bleu_signature": score.signature,
        "cider": round(cider(texts, references), 4),
    }
    if model.attention.__class__.__name__ != "MeanContext":
        figures |= pointing(look(model, data, vocab), data, model.encoder.grid)
    return figures


def _train(
    model, data, vocab, *, seed, device, batch_size, steps, learning_rate, evaluate, **options
):
    return fit(
        model,
        PictureBatches(data, vocab, batch_size, seed),
        partial(caption_loss, **options),
        steps=steps,
        learning_rate=learning_rate,
        schedule=cosine_decay(steps, 50),
        seed=seed,
        device=device,
        evaluate=evaluate,
        evaluate_every=max(1, steps // 12),
    )


@dataclass(frozen=True)
class DrawnSettings:
    attention: str = "soft"  # soft, hard or none
    overlap: bool = False  # regions that overlap
    train_pictures: int = 8000  # training pictures
    test_pictures: int = 1000  # test pictures
    batch_size: int = 64  # examples per step
    steps: int = 2000  # training steps
    learning_rate: float = 2e-3  # peak learning rate
    coverage: float = 0.0  # weight of the coverage penalty
    reward_weight: float = 0.3  # weight of the REINFORCE term
    entropy_weight: float = 0.003  # weight of the entropy bonus of hard attention
    expected_share: float = 0.5  # probability of training on the expected context


def drawn(
    settings: DrawnSettings, *, seed: int = 0, device: str = "cpu", folder: Path = Path("results")
) -> dict:
    """Train on the book's own scenes, keep the weights, test on pairs of objects that were never
    named together.
    """
    vocab, train = scenes.vocabulary(), scenes.scenes(settings.train_pictures, seed=seed)
    test = scenes.scenes(settings.test_pictures, seed=seed + 1000, part="test")
    probe = scenes.scenes(min(200, settings.test_pictures), seed=seed + 2000, part="test")
    torch.manual_seed(seed)
    model = make_captioner(settings.attention, vocab, scenes.GRID, settings.overlap)
    references = [" ".join(caption) for caption in test.captions]

    def evaluate(model):
        said, _ = describe(model, probe.pictures, vocab)
        return exact_match(said, [list(c) for c in probe.captions])

    history = _train(
        model,
        train,
        vocab,
        seed=seed,
        device=device,
        batch_size=settings.batch_size,
        steps=settings.steps,
        learning_rate=settings.learning_rate,
        evaluate=evaluate,
        coverage=settings.coverage,
        reward_weight=settings.reward_weight,
        entropy_weight=settings.entropy_weight,
        expected_share=settings.expected_share,
    )
    name = f"captions-{settings.attention}{'-overlap' if settings.overlap else ''}"
    save_model(
        model, folder / f"{name}.seed{seed}.safetensors", half=True, attention=settings.attention
    )
    return {
        "parameters": sum(p.numel() for p in model.parameters()),
        **_figures(model, test, vocab, references, 12),
        "exact_while_training": [[step, round(value, 4)] for step, value in history.evaluations],
        "last_losses": [round(x, 4) for x in history.losses[-5:]],
        "training_seconds": round(history.seconds, 1),
    }


@dataclass(frozen=True)
class HumanSettings:
    attention: str = "soft"  # soft, hard or none
    batch_size: int = 32  # examples per step
    steps: int = 600  # training steps
    learning_rate: float = 2e-3  # peak learning rate
    coverage: float = 0.0  # weight of the coverage penalty
    reward_weight: float = 0.3  # weight of the REINFORCE term
    entropy_weight: float = 0.003  # weight of the entropy bonus of hard attention
    expected_share: float = 0.5  # probability of training on the expected context


def human(
    settings: HumanSettings, *, seed: int = 0, device: str = "cpu", folder: Path = Path("results")
) -> dict:
    """Train on the true sentences of NLVR; test on scenes and sentences of other people's prompts.

    Each scene has one sentence as its reference. The scores of always saying one and the same
    training sentence, the best of the fifty most frequent by BLEU, stand beside, as the least that
    a captioner should beat."""
    statements = [s for file in nlvr.FILES for s in nlvr.read(file)]
    parts = nlvr.split(statements, seed=seed)
    train, valid, test = (
        nlvr.captioned(parts[0], permute=True),
        nlvr.captioned(parts[1]),
        nlvr.captioned(parts[2]),
    )
    vocab = nlvr.vocabulary(train)
    torch.manual_seed(seed)
    model = make_captioner(settings.attention, vocab, nlvr.GRID)
    batches, whole = PictureBatches(valid, vocab, len(valid)), {}

    def evaluate(model):
        batch = whole.setdefault("batch", batches.batch(0))
        total, count = caption_loss(model, batch)
        return float(total) / float(count)

    history = _train(
        model,
        train,
        vocab,
        seed=seed,
        device=device,
        batch_size=settings.batch_size,
        steps=settings.steps,
        learning_rate=settings.learning_rate,
        evaluate=evaluate,
        coverage=settings.coverage,
        reward_weight=settings.reward_weight,
        entropy_weight=settings.entropy_weight,
        expected_share=settings.expected_share,
    )
    references = [" ".join(caption) for caption in test.captions]
    common = [
        sentence for sentence, _ in Counter(" ".join(c) for c in train.captions).most_common(50)
    ]
    scores = [(bleu([s] * len(references), references, tokenize="none").score, s) for s in common]
    best, sentence = max(scores)
    said, _ = describe(model, test.pictures, vocab, 30)
    return {
        "parameters": sum(p.numel() for p in model.parameters()),
        "words": len(vocab),
        "statements": [len(part) for part in parts],
        **_figures(model, test, vocab, references, 30),
        "bleu_of_one_sentence": round(best, 2),
        "one_sentence": sentence,
        "cider_of_one_sentence": round(cider([sentence] * len(references), references), 4),
        "different_captions": len({" ".join(words) for words in said}),
        "of_captions": len(said),
        "captions": [" ".join(w) for w in said[:12]],
        "validation_loss": [[step, round(value, 4)] for step, value in history.evaluations],
        "training_seconds": round(history.seconds, 1),
    }


for _attention in ("soft", "hard", "none"):
    register(
        f"captions-{_attention}",
        drawn,
        DrawnSettings(attention=_attention),
        title=f"Captions of drawn scenes, {_attention} attention, with checkpoint",
        minutes="2 minutes on one CPU core",
    )
    register(
        f"captions-nlvr-{_attention}",
        human,
        HumanSettings(attention=_attention),
        title=f"Human sentences about NLVR pictures, {_attention} attention",
        minutes="3 minutes on one CPU core",
        needs="nlvr",
    )
register(
    "captions-soft-overlap",
    drawn,
    DrawnSettings(attention="soft", overlap=True),
    title="Soft attention over regions that see beyond their edges: where the peak drifts",
    minutes="2 minutes on one CPU core",
)
