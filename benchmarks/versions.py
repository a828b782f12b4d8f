"""This library beside an earlier version of itself: python benchmarks/versions.py OLD.

Two processes of one thread each, one with the library of OLD and one with that of the working tree,
take turns: only one of them works at any time, and each block begins with the other one. Both must
compute the same from the same seed before they are timed. Times are of the processor; ratios are
new / old, so that below 1 the working tree is faster.
"""

from __future__ import annotations

import argparse
import gc
import io
import math
import multiprocessing
import os
import statistics
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from common import calibration, environment, save

ROOT = Path(__file__).resolve().parents[1]
SECONDS = 0.3
"""What a block of one side should take."""
SLOWER, CONFIDENCE, SAME = 1.03, 0.95, 1e-5


def forward(run: Callable) -> Callable:
    """A call without gradients, as in evaluation."""

    def call():
        with torch.no_grad():
            return [run()]

    return call


def backward(run: Callable, tensors) -> Callable:
    """A call with the gradients of ``tensors`` for a fixed gradient of the result."""
    tensors = [*tensors]
    gradient = torch.randn_like(run())

    def call():
        result = run()
        return [result, *torch.autograd.grad(result, tensors, gradient)]

    return call


def update(model: torch.nn.Module, loss: Callable) -> Callable:
    """A training step on ``loss(model) → (total, count)``. The rate is too small for the weights
    to leave where they began, so that every step is as much work as the first."""
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-6)

    def call():
        optimizer.zero_grad()
        total, count = loss(model)
        (total / count).backward()
        optimizer.step()
        return [total, *(p.grad for p in model.parameters() if p.grad is not None)]

    return call


def texts(size: int, batch: int, n: int):
    """Sources and targets of drawn tokens, the rows n down to n / 2 long."""
    from attnbook.tasks import Batch

    source, target = torch.randint(4, size, (2, batch, n))
    lengths = torch.linspace(n, n // 2, batch).long()
    return Batch(source, lengths, target, target.roll(-1, 1), lengths)


def heads(way: str, batch: int, n: int, *, weights: bool, masked: bool = False, **options):
    """Multi-head self-attention of width 64 in 8 heads."""
    from attnbook import MultiHeadAttention

    layer = MultiHeadAttention(64, 8, **options)
    x = torch.randn(batch, n, 64, requires_grad=True)
    lengths = torch.linspace(n, n // 2, batch).long()
    mask = (torch.arange(n) < lengths[:, None])[:, None] if masked else None

    def run():
        return layer(x, mask=mask, need_weights=weights).context

    return forward(run) if way == "forward" else backward(run, [x, *layer.parameters()])


def tiny_heads():
    """A layer as small as that of an exercise: all of its time is the way to the arithmetic."""
    from attnbook import MultiHeadAttention

    layer, x = MultiHeadAttention(16, 4), torch.randn(2, 5, 16)
    return forward(lambda: layer(x).context)


def scored(name: str, batch: int, n: int, *, weights: bool):
    """Forward and backward of ``attend`` with one score, width 64."""
    from attnbook import attend, make_score

    score = make_score(name, 64, 64)
    query, key, value = torch.randn(3, batch, n, 64).unbind()
    tensors = [t.requires_grad_() for t in (query, key, value)]
    return backward(
        lambda: attend(score, query, key, value, need_weights=weights).context,
        [*tensors, *score.parameters()],
    )


def window():
    """A text of 64 tokens through a window with sinks, one token a step."""
    import attnbook
    from attnbook import MultiHeadAttention, RotaryPositions

    seen = {"window": 16, "sinks": 4}  # as long as they were numbers
    if hasattr(attnbook, "SlidingWindow"):
        seen = {"window": attnbook.SlidingWindow(16, 4)}
    layer = MultiHeadAttention(64, 8, rotary=RotaryPositions(8), **seen)
    x = torch.randn(1, 64, 64)

    def run():
        cache, found = None, []
        for t, row in enumerate(x.split(1, 1)):
            more = layer.project(row, position=t)
            cache = more if cache is None else cache.extend(more)
            found.append(layer(row, projected=cache, position=t, need_weights=False).context)
        return torch.cat(found, 1)

    return forward(run)


def language_model(llama: bool = False):
    from attnbook import TransformerLM, decoder_parts, paper_parts

    if llama:
        parts = decoder_parts(64, 4, 172, num_kv_heads=2)
    else:
        parts = paper_parts(64, 4, 256, dropout=0.0)
    return TransformerLM(1000, parts, num_layers=2)


def cached(batch: int, llama: bool = False):
    """64 tokens, one a step, with the cache."""
    model = language_model(llama).eval()
    tokens = torch.randint(4, 1000, (batch, 64))

    def run():
        state, found = model.begin(batch), []
        for token in tokens.unbind(1):
            logits, state, _ = model.step(token, state)
            found.append(logits)
        return torch.stack(found, 1)

    return forward(run)


def sampled():
    """Four prompts continued by 32 drawn tokens."""
    from attnbook import generate

    model, prompts = language_model(llama=True).eval(), torch.randint(4, 1000, (4, 8))

    def run():
        drawn = torch.Generator().manual_seed(0)
        return generate(model, prompts, max_new_tokens=32, top_k=50, generator=drawn)

    return forward(run)


def language_step(llama: bool = False):
    from attnbook.training import language_loss

    batch = texts(1000, 16, 32)
    return update(language_model(llama), lambda model: language_loss(model, batch))


def translator(name: str, dropout: float = 0.0):
    import attnbook

    ids = attnbook.TokenIds(start=1, end=2, padding=0)
    if name == "Transformer":
        parts = attnbook.paper_parts(64, 4, 256, dropout=dropout)
        return attnbook.Transformer(1000, 1000, parts, num_layers=2, token_ids=ids)
    sizes = {"d_embed": 64, "hidden_size": 128, "dropout": dropout}
    return getattr(attnbook, name)(1000, 1000, **sizes, token_ids=ids)


def translator_step(name: str, dropout: float = 0.0):
    from attnbook.training import token_loss

    batch = texts(1000, 16, 20)
    return update(translator(name, dropout), lambda model: token_loss(model, batch))


def searched(name: str, beam_size: int):
    """Four sources decoded with up to 20 tokens; greedily, where the beam is 1 wide."""
    from attnbook import beam_search, greedy

    model, batch = translator(name).eval(), texts(1000, 4, 20)

    def run():
        if beam_size == 1:
            return greedy(model, batch.source, batch.lengths, 20).log_probs
        found = beam_search(model, batch.source, batch.lengths, beam_size=beam_size, max_length=20)
        return [hypothesis.log_prob for row in found for hypothesis in row]

    return forward(run)


def turing_machine():
    """The copy task with rows of 8 bits, length 10."""
    from torch.nn import functional as F

    from attnbook import NTM

    model = NTM(9, 8, controller="lstm")
    rows = torch.randint(0, 2, (16, 10, 8)).float()
    inputs = torch.zeros(16, 21, 9)
    inputs[:, :10, :8], inputs[:, 10, 8] = rows, 1

    def loss(model):
        logits = model(inputs).logits[:, -10:]
        return F.binary_cross_entropy_with_logits(logits, rows, reduction="sum"), rows.numel()

    return update(model, loss)


def pointer():
    from attnbook import PointerNetwork
    from attnbook.tasks.geometry.points import PointBatches
    from attnbook.training import pointing_loss

    batch = PointBatches("tours", 10, 32).batch(0)
    return update(PointerNetwork(2, 128, ends=False), lambda model: pointing_loss(model, batch))


def lstmn():
    from attnbook import LSTMN
    from attnbook.training import language_loss

    batch = texts(1000, 16, 32)
    return update(LSTMN(1000), lambda model: language_loss(model, batch))


def snail():
    """Episodes of five classes, one picture each."""
    from torch.nn import functional as F

    from attnbook import FewShotSNAIL, PictureEmbedding

    model = FewShotSNAIL(PictureEmbedding(28, filters=16, d_output=64), 5)
    pictures, labels = torch.rand(4, 6, 28, 28), torch.arange(5).expand(4, 5)
    target = torch.randint(0, 5, (4,))

    def loss(model):
        logits = model(pictures[:, :5], labels, pictures[:, 5:]).logits[:, 0]
        return F.cross_entropy(logits, target, reduction="sum"), len(target)

    return update(model, loss)


def picture_attention():
    from attnbook import PictureAttention

    layer, x = PictureAttention(32), torch.randn(4, 32, 16, 16, requires_grad=True)
    with torch.no_grad():
        layer.gamma.fill_(0.5)
    return backward(lambda: layer(x), [x, *layer.parameters()])


def linear(gated_delta: bool):
    """Linear attention in chunks, 512 positions, 4 heads of width 32."""
    from attnbook import linear_attention, unit_features

    query, key, value = torch.randn(3, 1, 4, 512, 32).unbind()
    tensors = [unit_features(query), unit_features(key), value]
    gates = {}
    if gated_delta:
        gates = {"log_decay": -torch.rand(1, 4, 512, 1), "strength": torch.rand(1, 4, 512)}
    for t in (*tensors, *gates.values()):
        t.requires_grad_()
    return backward(
        lambda: linear_attention(*tensors, **gates).context, [*tensors, *gates.values()]
    )


class Pictures:
    """One batch of drawn pictures at every step, for ``fit_adversarial``."""

    def __init__(self) -> None:
        self.drawn = torch.rand(8, 3, 16, 16) * 2 - 1

    def batch(self, step: int) -> tuple[torch.Tensor, None]:
        return self.drawn, None


def adversarial():
    from attnbook import sagan_pair
    from attnbook.training import fit_adversarial

    pair, batches = sagan_pair(16, channels=8, d_noise=16, attention_at=8), Pictures()
    options = {"steps": 3, "generator_rate": 1e-6, "discriminator_rate": 1e-6, "progress": False}

    def call():
        history = fit_adversarial(*pair, batches, **options)
        return [history.discriminator_losses, history.generator_losses]

    return call


def fitted():
    from attnbook.tasks import CharacterWindows
    from attnbook.training import fit, language_loss

    model = language_model()
    windows = CharacterWindows(torch.arange(2000) % 97, length=32, batch_size=8)
    options = {"steps": 5, "learning_rate": 1e-6, "progress": False}
    return lambda: [fit(model, windows, language_loss, **options).losses]


def named_heads() -> dict[str, Callable]:
    """Multi-head attention, forward and with the backward pass, every way to call it."""
    return {
        f"heads, {way}{', mask' * masked}{', weights' * weights}": partial(
            heads, way, 8, 50, weights=weights, masked=masked
        )
        for way in ("forward", "and backward")
        for masked in (False, True)
        for weights in (False, True)
    }


ROWS: dict[str, Callable] = {
    "tiny heads, forward": tiny_heads,
    **named_heads(),
    "grouped queries": partial(heads, "and backward", 8, 50, weights=False, num_kv_heads=2),
    **{
        f"{name} score{', weights' * weights}": partial(scored, name, 8, 50, weights=weights)
        for name in ("dot", "additive", "general")
        for weights in (False, True)
    },
    "heads, n = 1024": partial(heads, "and backward", 1, 1024, weights=False),
    "additive score, n = 1024": partial(scored, "additive", 1, 1024, weights=False),
    "linear attention": partial(linear, False),
    "linear attention, gated delta rule": partial(linear, True),
    "window with sinks, 64 tokens": window,
    "language model, 64 tokens, B = 1": partial(cached, 1),
    "language model, 64 tokens, B = 8": partial(cached, 8),
    "Llama, 64 tokens, B = 1": partial(cached, 1, llama=True),
    "Llama, sampling": sampled,
    "Transformer, beam search": partial(searched, "Transformer", 4),
    "Bahdanau, greedy": partial(searched, "Bahdanau", 1),
    "Transformer, step": partial(translator_step, "Transformer"),
    "Transformer, step, dropout": partial(translator_step, "Transformer", 0.1),
    "language model, step": language_step,
    "Llama, step": partial(language_step, llama=True),
    "Bahdanau, step": partial(translator_step, "Bahdanau"),
    "Luong, step": partial(translator_step, "Luong"),
    "LSTMN, step": lstmn,
    "Turing machine, step": turing_machine,
    "pointer network, step": pointer,
    "SNAIL, step": snail,
    "picture attention": picture_attention,
    "fit_adversarial, 3 steps": adversarial,
    "fit, 5 steps": fitted,
}


def work(connection, folder: str) -> None:
    """One side. Of the name of a row it makes the call and answers with what that computes, or with
    the error; of a number it answers with the seconds of so many calls.
    """
    sys.path.insert(0, folder)
    import attnbook

    assert Path(attnbook.__file__).is_relative_to(folder), attnbook.__file__
    torch.set_num_threads(1)
    if hasattr(os, "sched_setaffinity"):
        # Both sides on one core: another may be slowed more by what else the machine does.
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    call: Callable = list
    while (order := connection.recv()) is not None:
        if isinstance(order, str):
            call = list  # what the last row held is freed before the next is made
            gc.collect()
            torch.manual_seed(0)
            try:
                call = ROWS[order]()
                answer = [torch.as_tensor(t).detach().double().numpy() for t in call()]
            except Exception as error:
                answer = f"{type(error).__name__}: {error}"
        else:
            started = time.process_time()
            for _ in range(order):
                call()
            answer = time.process_time() - started
        connection.send(answer)


class Side:
    """A process with the library of ``folder``."""

    def __init__(self, folder: Path) -> None:
        processes = multiprocessing.get_context("spawn")
        self.connection, theirs = processes.Pipe()
        self.process = processes.Process(target=work, args=(theirs, str(folder)), daemon=True)
        self.process.start()
        theirs.close()

    def ask(self, order: str | int):
        self.connection.send(order)
        return self.connection.recv()

    def end(self) -> None:
        self.connection.send(None)
        self.process.join()


def difference(old, new) -> str | None:
    """Why the two sides cannot be timed beside each other, or None."""
    for side, found in (("old", old), ("new", new)):
        if isinstance(found, str):
            return f"{side}: {found}"
    if [a.shape for a in old] != [a.shape for a in new]:
        return "the results have different shapes"
    off = max(abs(a - b).max() / max(1, abs(a).max()) for a, b in zip(old, new))
    return None if off <= SAME else f"the results differ by {off:.1e}"


def interval(ratios: list[float]) -> tuple[float, float]:
    """Order statistics between which the median lies in at least 95 of 100 runs, whatever the
    ratios are drawn from. With 12 blocks: the third from below and from above.
    """
    n, rank = len(ratios), 0
    outside = 2 * 0.5**n  # how often all are on one side of the median
    while outside <= 1 - CONFIDENCE:
        rank += 1
        outside += 2 * math.comb(n, rank) * 0.5**n
    return sorted(ratios)[rank - 1], sorted(ratios)[n - rank]


def compare(old: Side, new: Side, name: str, blocks: int) -> dict:
    """Both sides on one row: milliseconds, the ratio new / old and its interval, or the reason why
    there are none.
    """
    if (reason := difference(old.ask(name), new.ask(name))) is not None:
        return {"row": name, "not_timed": reason}
    calls = 1
    while (seconds := max(side.ask(calls) for side in (old, new))) < SECONDS / 4:
        calls *= 4
    calls = max(1, round(calls * SECONDS / seconds))
    times: dict[Side, list[float]] = {old: [], new: []}
    for block in range(blocks):
        for side in (old, new) if block % 2 == 0 else (new, old):
            times[side].append(side.ask(calls) / calls * 1e3)
    ratios = [b / a for a, b in zip(times[old], times[new])]
    ratio, (low, high) = statistics.median(ratios), interval(ratios)
    return {
        "row": name,
        "calls": calls,
        "old_ms": round(statistics.median(times[old]), 4),
        "new_ms": round(statistics.median(times[new]), 4),
        "ratio": round(ratio, 3),
        "interval": [round(low, 3), round(high, 3)],
        "slower": ratio > SLOWER and low > 1,
    }


def exported(old: str) -> Path:
    """The folder with the ``attnbook`` of a folder or a git commit, the latter exported once into
    build/versions.
    """
    if Path(old, "attnbook").is_dir():
        return Path(old).resolve()
    git = ["git", "-C", str(ROOT)]
    done = subprocess.run(
        [*git, "rev-parse", "--verify", "--quiet", f"{old}^{{commit}}"],
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise ValueError(f"OLD must be a commit or a folder with the package attnbook, got {old!r}")
    folder = ROOT / "build" / "versions" / done.stdout.strip()
    if not folder.is_dir():
        packed = subprocess.run(
            [*git, "archive", folder.name, "attnbook"], stdout=subprocess.PIPE, check=True
        ).stdout
        partly = folder.with_suffix(".partial")
        with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
            archive.extractall(partly, filter="data")
        partly.rename(folder)
    return folder


def line(row: dict) -> str:
    if "not_timed" in row:
        return f"{row['row']:<40} not timed: {row['not_timed']}"
    low, high = row["interval"]
    return (
        f"{row['row']:<40}{row['old_ms']:>10.3f} ms{row['new_ms']:>10.3f} ms   {row['ratio']:.3f}"
        f"   {low:.3f} to {high:.3f}{'   slower' * row['slower']}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("old", metavar="OLD", help="a git commit, or a folder with an attnbook")
    parser.add_argument("--rows", nargs="+", metavar="NAME", help="only rows whose name has NAME")
    parser.add_argument("--blocks", type=int, default=12, help="alternating blocks per side")
    parser.add_argument("--json", type=Path, help="where the figures are saved")
    options = parser.parse_args()
    chosen = [row for row in ROWS if any(name in row for name in options.rows or [""])]
    if not chosen:
        parser.error(f"--rows must be in the name of a row, got {options.rows}: {'; '.join(ROWS)}")
    if options.blocks < 6:
        parser.error(f"--blocks must be at least 6 for an interval, got {options.blocks}")
    try:
        folder = exported(options.old)
    except ValueError as error:
        parser.error(str(error))
    if hasattr(os, "getloadavg") and (load := os.getloadavg()[0]) > 0.5:
        print(f"this machine is busy (load {load:.1f}): ratios will be uncertain", file=sys.stderr)
    os.environ["OMP_NUM_THREADS"] = "1"  # of both sides, which inherit it
    torch.set_num_threads(1)
    found = {**environment(), "old": options.old, "calibration": calibration()}
    print(f"calibration {found['calibration']}\n{'':<40}{'old':>13}{'new':>13}   new / old")
    old, new = Side(folder), Side(ROOT)
    for name in chosen:
        found["runs"].append(compare(old, new, name, options.blocks))
        print(line(found["runs"][-1]), flush=True)
    old.end()
    new.end()
    save(found, options.json)


if __name__ == "__main__":
    main()
