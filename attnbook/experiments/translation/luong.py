"""The eight systems of Luong's table 4, global and local with each score: a ranking on numbers,
and Multi30k.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from ...models import Luong
from ...tasks import make_task
from ...tasks.text.batches import SequenceBatches, collate
from ...tasks.translation.alignments import alignment_accuracy
from ...training import cosine_decay, exact_match, fit, greedy, token_loss
from . import real_sentences

__all__ = ["PAPER_BLEU", "PAPER_PERPLEXITY", "SYSTEMS", "multi30k", "ranking", "spearman", "starts"]

SYSTEMS = {
    "global (location)": ("global", "location"),
    "global (dot)": ("global", "dot"),
    "global (general)": ("global", "general"),
    "global (concat)": ("global", "additive"),
    "local-m (dot)": ("local-m", "dot"),
    "local-m (general)": ("local-m", "general"),
    "local-p (dot)": ("local-p", "dot"),
    "local-p (general)": ("local-p", "general"),
}
"""Name in the paper → attention and score of :class:`attnbook.Luong`."""

PAPER_PERPLEXITY = {
    "global (location)": 6.4,
    "global (dot)": 6.1,
    "global (general)": 6.1,
    "global (concat)": 6.7,
    "local-m (dot)": 7.0,
    "local-m (general)": 6.2,
    "local-p (dot)": 6.6,
    "local-p (general)": 5.9,
}
"""English to German, all with input feeding; the paper says "> 7.0" of local-m (dot), and gives
concat in a footnote.

Source: Luong, Pham and Manning 2015, table 4.
"""

PAPER_BLEU = {
    "global (location)": 18.1,
    "global (dot)": 18.6,
    "global (general)": 17.3,
    "local-m (general)": 18.6,
    "local-p (dot)": 18.0,
    "local-p (general)": 19.0,
}
"""Of the systems for which the paper gives one, without the replacement of unknown words.

Source: the same table.
"""


def spearman(a: Sequence[float], b: Sequence[float]) -> float:
    """Rank correlation: Pearson's correlation of the ranks, equal values sharing the mean of
    theirs.

    Raises ValueError for lists of two lengths, or of values that are all equal. Source: Spearman
    1904."""
    if len(a) != len(b) or len(a) < 2:
        raise ValueError(
            f"a and b must hold one value each an item, two items or more, got {len(a)} and "
            f"{len(b)}"
        )

    def ranks(values):
        array = np.asarray(values, dtype=float)
        return (array[:, None] > array).sum(1) + ((array[:, None] == array).sum(1) - 1) / 2

    x, y = (r - r.mean() for r in (ranks(a), ranks(b)))
    if not x.any() or not y.any():
        raise ValueError("a and b must not be constant: equal values have no order")
    return float(x @ y / math.sqrt((x @ x) * (y @ y)))


def _measure(net, pairs, task) -> dict:
    """Perplexity a token, exact answers, and how often the largest weight lies where the token
    comes from.
    """
    device = next(net.parameters()).device
    batch = collate(pairs, task.source_vocab, task.target_vocab)
    with torch.no_grad():
        total, count = token_loss(net, batch)
        weights = net(*(t.to(device) for t in batch[:3]), need_weights=True).weights
    found = greedy(net, batch.source, batch.lengths, batch.target_out.shape[1] + 2).tokens
    return {
        "perplexity": round(math.exp(float(total) / float(count)), 4),
        "exact": round(
            exact_match(found, [task.target_vocab.encode(pair.target) for pair in pairs]), 4
        ),
        "alignment_accuracy": round(
            alignment_accuracy(weights, [pair.alignment for pair in pairs]), 4
        ),
    }


def ranking(
    *,
    seed: int = 0,
    device: str = "cpu",
    folder: Path = Path("results"),
    task: str = "numbers-en",
    options: dict | None = None,
    train_pairs: int = 20000,
    test_pairs: int = 1000,
    d_embed: int = 48,
    hidden_size: int = 64,
    half_width: int = 2,
    input_feeding: bool = True,
    batch_size: int = 64,
    steps: int = 400,
    learning_rate: float = 6e-3,
) -> dict:
    """Train all eight systems alike on one of the book's tasks, with its ``options``; measure
    each on unseen pairs.
    """
    made = make_task(task, train=train_pairs, valid=0, test=test_pairs, seed=0, **(options or {}))
    batches = SequenceBatches(
        made.train, made.source_vocab, made.target_vocab, batch_size, seed=seed
    )
    longest = max(len(pair.source) for pair in made.train + made.test)
    rows = []
    for name, (attention, score) in SYSTEMS.items():
        torch.manual_seed(seed)
        net = Luong(
            len(made.source_vocab),
            len(made.target_vocab),
            d_embed=d_embed,
            hidden_size=hidden_size,
            attention=attention,
            score=score,
            half_width=half_width,
            max_source=longest,
            input_feeding=input_feeding,
        )
        history = fit(
            net,
            batches,
            token_loss,
            steps=steps,
            learning_rate=learning_rate,
            schedule=cosine_decay(steps, 20),
            seed=seed,
            device=device,
        )
        rows.append(
            {
                "system": name,
                "parameters": sum(p.numel() for p in net.parameters()),
                **_measure(net, made.test, made),
                "training_seconds": round(history.seconds, 1),
            }
        )
    paper = [PAPER_PERPLEXITY[row["system"]] for row in rows]
    return {
        "longest_source": longest,
        "systems": rows,
        "rank_correlation": round(spearman([row["perplexity"] for row in rows], paper), 3),
    }


def _windows(net, batch, pairs) -> dict:
    """Where the windows of a local-p model stand: their places against those of the words that
    say the digit.
    """
    device = next(net.parameters()).device
    with torch.no_grad():
        memory = net.encode(batch.source.to(device), batch.lengths)
        state, places = net.start(memory), []
        for token in batch.target_in.to(device).unbind(1):
            t, state = state.t, net.step(token, state, memory).state
            # of the state of the top layer
            places.append(net.positions(state.recurrent[0][:, -1:], memory, t[:, None]))
        places = torch.cat(places, 1).cpu()
    found = [
        (float(places[b, t]), min(words))
        for b, pair in enumerate(pairs)
        for t, words in enumerate(pair.alignment)
        if words
    ]
    inside = sum(abs(math.floor(p + 0.5) - i) <= net.half_width for p, i in found) / len(found)
    return {
        "correlation": round(float(np.corrcoef(np.array(found).T)[0, 1]), 3),
        "inside": round(inside, 3),
    }


def starts(
    *,
    seed: int = 0,
    device: str = "cpu",
    folder: Path = Path("results"),
    warmups: Sequence[int] = (20, 100),
    train_pairs: int = 20000,
    test_pairs: int = 1000,
    steps: int = 400,
    learning_rate: float = 6e-3,
    d_embed: int = 48,
    hidden_size: int = 64,
    half_width: int = 3,
    looks: Sequence[int] = (0, 25, 50, 100, 200, 300),
) -> dict:
    """Train local-p (general) on numbers from one start, with each length of the warm-up, and watch
    where its windows stand.

    The batches are the same for every seed: nothing differs but the numbers that the model starts
    from.
    """
    task = make_task(
        "numbers-en",
        train=train_pairs,
        valid=0,
        test=test_pairs,
        seed=0,
        digits=(1, 9),
        british=True,
    )
    batches = SequenceBatches(task.train, task.source_vocab, task.target_vocab, 64, seed=0)
    pairs = [pair for pair in task.test if len(pair.source) >= 12][:200]
    watched = collate(pairs, task.source_vocab, task.target_vocab)
    rows = []
    for warmup in warmups:
        torch.manual_seed(seed)
        net = Luong(
            len(task.source_vocab),
            len(task.target_vocab),
            d_embed=d_embed,
            hidden_size=hidden_size,
            attention="local-p",
            score="general",
            half_width=half_width,
        )
        track = []

        def loss(model, batch):
            if len(track) < len(looks) and made[0] == looks[len(track)]:
                track.append({"step": made[0], **_windows(model, watched, pairs)})
            made[0] += 1
            return token_loss(model, batch)

        made = [0]
        fit(
            net,
            batches,
            loss,
            steps=steps,
            learning_rate=learning_rate,
            schedule=cosine_decay(steps, warmup),
            device=device,
        )
        track.append({"step": steps, **_windows(net, watched, pairs)})
        rows.append({"warmup": warmup, "track": track, **_measure(net, task.test, task)})
    return {"rows": rows}


def multi30k(
    *,
    seed: int = 0,
    device: str = "cpu",
    folder: Path = Path("results"),
    system: str = "global (general)",
    target: str = "de",
    half_width: int = 4,
    num_layers: int = 1,
    input_feeding: bool = True,
    pieces: int = 6000,
    d_embed: int = 256,
    hidden_size: int = 512,
    dropout: float = 0.4,
    label_smoothing: float = 0.1,
    batch_size: int = 128,
    steps: int = 6000,
    learning_rate: float = 1e-3,
    precision: str = "no",
) -> dict:
    """Train one system on Multi30k English to ``target``; perplexity on the validation part, BLEU
    on the test of 2016.

    The captions have about 14 pieces: D = 10 as in the paper would hold nearly all of them, so D is
    4.
    """
    if system not in SYSTEMS:
        raise ValueError(f"system must be one of {', '.join(SYSTEMS)}, got {system!r}")
    attention, score = SYSTEMS[system]

    def make(source_size, target_size):
        return Luong(
            source_size,
            target_size,
            d_embed=d_embed,
            hidden_size=hidden_size,
            dropout=dropout,
            attention=attention,
            score=score,
            half_width=half_width,
            num_layers=num_layers,
            input_feeding=input_feeding,
            max_source=160,
        )

    figures = real_sentences.train_on_multi30k(
        make,
        seed=seed,
        device=device,
        target=target,
        pieces=pieces,
        label_smoothing=label_smoothing,
        batch_size=batch_size,
        steps=steps,
        learning_rate=learning_rate,
        precision=precision,
    )[0]
    figures["perplexity_valid"] = round(math.exp(figures["validation_loss"][-1][1]), 3)
    return figures
