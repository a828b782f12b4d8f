"""Captions of pictures with soft, hard and no attention: their scores, and what the model attends
to.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from attnbook.decoding import greedy
from attnbook.models.captioner import Captioner, PictureEncoder, caption_loss
from attnbook.modules import device_of, temporary_mode
from attnbook.tasks import TOKEN_IDS, Vocabulary
from attnbook.tasks.images import nlvr, scenes
from attnbook.tasks.images.captioned_pictures import Captioned, PictureBatches
from attnbook.tasks.sequences.batches import collate
from attnbook.tasks.sequences.pairs import Pair
from attnbook.tasks.translation.alignments import alignment_accuracy
from attnbook.training import bleu, cider, exact_match
from attnbook.training.evaluation.metrics import check_installed

from ..common import rounded, save_checkpoint, select, train, training_figures
from ..registry import register_family

__all__ = [
    "Gallery",
    "caption_weights",
    "describe",
    "drawn_scenes",
    "make_captioner",
    "nlvr_sentences",
    "pointing",
]


class Gallery(torch.nn.Module):
    """A captioner over fixed pictures, with the interface of `greedy` and `beam_search`.

    The source of picture k is its index for each of its L regions, ``source[k] = (k, …, k)``;
    `encode` looks the pictures up."""

    def __init__(self, model: Captioner, pictures: Tensor):
        super().__init__()
        self.model, self.pictures = model, pictures
        self.token_ids = model.token_ids

    def sources(self) -> tuple[Tensor, Tensor]:
        """Source ``(N, L)`` and lengths ``(N,)`` of all pictures."""
        rows, columns = self.model.encoder.grid
        source = torch.arange(len(self.pictures))[:, None].expand(-1, rows * columns).contiguous()
        return source, torch.full((len(source),), rows * columns)

    def encode(self, source: Tensor, lengths: Tensor):
        return self.model.encode(self.pictures.to(source.device)[source[:, 0]])

    def start(self, regions):
        return self.model.start(regions)

    def step(self, token, state, regions, *, need_weights=False):
        return self.model.step(token, state, regions, need_weights=need_weights)


def describe(
    model: Captioner,
    pictures: Tensor,
    vocab: Vocabulary,
    max_length: int = 12,
    batch_size: int = 500,
) -> tuple[list[list[str]], list[Tensor] | None]:
    """Greedy captions of pictures, each a list of words, and the weights of each, ``(words, L)``
    on the CPU, or None.
    """
    captions, weights = [], []
    for part in pictures.split(batch_size):
        gallery = Gallery(model, part)
        output = greedy(gallery, *gallery.sources(), max_length, need_weights=True)
        captions += [vocab.decode(ids) for ids in output.tokens]
        weights += output.weights or []
    return captions, weights or None


@torch.no_grad()
def caption_weights(
    model: Captioner, data: Captioned, vocab: Vocabulary, batch_size: int = 500
) -> list[Tensor]:
    """The weights of each picture under teacher forcing of its caption: ``(words + 1, L)`` on the
    CPU, or more rows where another caption is longer.
    """
    device, weights = device_of(model), []
    with temporary_mode(model, False):
        for start in range(0, len(data), batch_size):
            part = data.take(slice(start, start + batch_size))
            text = collate([Pair(caption, caption) for caption in part.captions], vocab, vocab)
            output = model(part.pictures.to(device), text.target_in.to(device))
            weights += output.weights.cpu()
    return weights


def pointing(weights: list[Tensor], data: Captioned, grid: tuple[int, int]) -> dict[str, float]:
    """How often the largest weight at a word that names something is on a region of what it names;
    and how often by chance.
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
    return Captioner(
        len(vocab),
        encoder,
        attention,
        d_feature=d_feature,
        hidden_size=hidden_size,
        token_ids=TOKEN_IDS,
    )


def _figures(
    model: Captioner, data: Captioned, vocab: Vocabulary, references: list[str], max_length: int
) -> tuple[dict, list[list[str]]]:
    """Scores of greedy captions, and the captions; the pointing is measured under teacher forcing
    of the given captions.
    """
    captions, _ = describe(model, data.pictures, vocab, max_length)
    texts = [" ".join(words) for words in captions]
    score = bleu(texts, references, tokenize="none")
    figures = {
        "exact": round(exact_match(captions, [list(c) for c in data.captions]), 4),
        "bleu": round(score.score, 2),
        "bleu_signature": score.signature,
        "cider": round(cider(texts, references), 4),
    }
    if model.attention.__class__.__name__ != "MeanContext":
        figures |= pointing(caption_weights(model, data, vocab), data, model.encoder.grid)
    return figures, captions


@dataclass(frozen=True)
class CaptionSettings:
    """Settings of every captioner."""

    attention: str = "soft"  # soft, hard or none
    batch_size: int = 64  # examples per step
    steps: int = 2000  # training steps
    learning_rate: float = 2e-3  # peak learning rate
    # weight λ of the coverage penalty beside the log-probability of a whole caption, both summed as
    # in the paper, which has λ = 1
    coverage: float = 0.0
    # weights of the REINFORCE term and of the entropy bonus of hard attention, beside the same sum;
    # the paper sets them by its validation part and does not give them
    reward_weight: float = 0.3
    entropy_weight: float = 0.003
    expected_share: float = 0.5  # probability of training on the expected context


def _train(model: Captioner, data: Captioned, vocab: Vocabulary, settings, *, seed, **options):
    weights = select(settings, "coverage", "reward_weight", "entropy_weight", "expected_share")
    batches = PictureBatches(data, vocab, settings.batch_size, seed)
    loss = partial(caption_loss, **weights)
    return train(model, batches, loss, settings, seed=seed, warmup=50, evaluations=12, **options)


@dataclass(frozen=True)
class DrawnSettings(CaptionSettings):
    overlap: bool = False  # regions that overlap
    train_pictures: int = 8000  # training pictures
    test_pictures: int = 1000  # test pictures


def drawn_scenes(
    settings: DrawnSettings, *, seed: int = 0, device: str = "cpu", folder: Path = Path("results")
) -> dict:
    """Train on the book's own scenes, save the weights, test on pairs of objects that do not occur
    together in the training captions.
    """
    check_installed("bleu", "cider")
    vocab, data = scenes.vocabulary(), scenes.scenes(settings.train_pictures, seed=seed)
    test = scenes.scenes(settings.test_pictures, seed=seed + 1000, part="test")
    probe = scenes.scenes(min(200, settings.test_pictures), seed=seed + 2000, part="test")
    torch.manual_seed(seed)
    model = make_captioner(settings.attention, vocab, scenes.GRID, settings.overlap)
    references = [" ".join(caption) for caption in test.captions]

    def evaluate(model: Captioner) -> float:
        captions, _ = describe(model, probe.pictures, vocab)
        return exact_match(captions, [list(c) for c in probe.captions])

    history = _train(model, data, vocab, settings, seed=seed, device=device, evaluate=evaluate)
    ending = ("-overlap" if settings.overlap else "") + ("-coverage" if settings.coverage else "")
    name = f"captions-{settings.attention}{ending}"
    save_checkpoint(model, name, folder, seed, attention=settings.attention)
    return {
        **_figures(model, test, vocab, references, 12)[0],
        "exact_while_training": rounded(history.evaluations),
        "last_losses": [round(x, 4) for x in history.losses[-5:]],
        **training_figures(model, history),
    }


@dataclass(frozen=True)
class NLVRSettings(CaptionSettings):
    batch_size: int = 32  # examples per step
    steps: int = 600  # training steps


def nlvr_sentences(settings: NLVRSettings, *, seed: int = 0, device: str = "cpu") -> dict:
    """Train on the true sentences of NLVR; test on scenes and sentences of other prompts.

    Each scene has one sentence as its reference. Beside the scores stand those of a baseline, one
    training sentence for every scene: the best by BLEU of the fifty most frequent ones.
    """
    check_installed("bleu", "cider")
    statements = [s for file in nlvr.FILES for s in nlvr.read(file)]
    parts = nlvr.split(statements, seed=seed)
    data = nlvr.captioned(parts[0], permute=True)
    valid, test = nlvr.captioned(parts[1]), nlvr.captioned(parts[2])
    vocab = nlvr.vocabulary(data)
    torch.manual_seed(seed)
    model = make_captioner(settings.attention, vocab, nlvr.GRID)
    valid_batch = PictureBatches(valid, vocab, len(valid)).batch(0)

    def evaluate(model: Captioner) -> float:
        total, count = caption_loss(model, valid_batch)
        return float(total) / float(count)

    history = _train(model, data, vocab, settings, seed=seed, device=device, evaluate=evaluate)
    references = [" ".join(caption) for caption in test.captions]
    frequent = Counter(" ".join(caption) for caption in data.captions).most_common(50)
    best, sentence = max(
        (bleu([text] * len(references), references, tokenize="none").score, text)
        for text, _ in frequent
    )
    figures, captions = _figures(model, test, vocab, references, 30)
    texts = [" ".join(words) for words in captions]
    return {
        "words": len(vocab),
        "statements": [len(part) for part in parts],
        **figures,
        "bleu_of_one_sentence": round(best, 2),
        "one_sentence": sentence,
        "cider_of_one_sentence": round(cider([sentence] * len(references), references), 4),
        "different_captions": len(set(texts)),
        "of_captions": len(texts),
        "captions": texts[:12],
        "validation_loss": rounded(history.evaluations),
        **training_figures(model, history),
    }


_KINDS = ("soft", "hard", "none")
register_family(
    drawn_scenes,
    DrawnSettings(),
    *(
        (
            f"captions-{_attention}",
            f"Captions of drawn scenes, {_attention} attention, with checkpoint",
            "2 minutes on one CPU core",
            dict(attention=_attention),
        )
        for _attention in _KINDS
    ),
    (
        "captions-soft-overlap",
        "Soft attention over regions that see beyond their edges: where the peak drifts",
        "2 minutes on one CPU core",
        dict(overlap=True),
    ),
    (
        "captions-soft-coverage",
        "Captions of drawn scenes, soft attention with the coverage penalty of the paper, λ = 1",
        "2 minutes on one CPU core",
        dict(coverage=1.0),
    ),
)
register_family(
    nlvr_sentences,
    NLVRSettings(),
    *(
        (
            f"captions-nlvr-{_attention}",
            f"Human sentences about NLVR pictures, {_attention} attention",
            "3 minutes on one CPU core",
            dict(attention=_attention),
        )
        for _attention in _KINDS
    ),
    (
        "captions-nlvr-soft-coverage",
        "Human sentences about NLVR pictures, soft attention with the coverage penalty, λ = 1",
        "3 minutes on one CPU core",
        dict(coverage=1.0),
    ),
    needs="nlvr",
)
