"""Additive attention and the Bahdanau step beside their peers: ratios of medians from
alternating blocks.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

from common import alternate, calibration, command_line, environment, run_parts, save, summary


def attention(blocks: int) -> dict:
    import torch
    from implementations.textbook import TextbookAttention, d2l_additive

    from attnbook import AdditiveScore, attend

    torch.manual_seed(0)
    batch, length, width = 32, 50, 256
    query = torch.randn(batch, length, width, requires_grad=True)
    key = torch.randn(batch, length, width, requires_grad=True)
    lengths = torch.full((batch,), length)
    mask = torch.ones(batch, 1, length, dtype=torch.bool)
    score, textbook, d2l = (
        AdditiveScore(width, width, width),
        TextbookAttention(width, width, width),
        d2l_additive(width),
    )
    sides = {
        "attnbook": lambda: (
            attend(score, query, key, mask=mask, need_weights=False).context.sum().backward()
        ),
        "attnbook with weights": lambda: (
            attend(score, query, key, mask=mask).context.sum().backward()
        ),
        "textbook": lambda: textbook(query, key, mask).sum().backward(),
    }
    if d2l is not None:
        sides["d2l 1.0.3"] = lambda: d2l(query, key, key, lengths).sum().backward()
    return summary(alternate(sides, blocks), "attnbook")


def training_step(blocks: int) -> dict:
    import torch
    from implementations.textbook import TextbookBahdanau
    from torch.nn import functional as F

    from attnbook import Bahdanau

    torch.manual_seed(0)
    batch, length, size = 32, 50, 4000
    model = Bahdanau(size, size, d_embed=128, hidden_size=256)
    textbook = TextbookBahdanau(model)
    source, target = (
        torch.randint(4, size, (batch, length)),
        torch.randint(4, size, (batch, length)),
    )
    lengths = torch.full((batch,), length)
    optimizer = torch.optim.Adam(model.parameters())

    def step(forward):
        loss = F.cross_entropy(forward().flatten(0, 1), target.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    with torch.no_grad():
        same = (
            (model(source, lengths, target).logits - textbook(source, lengths, target))
            .abs()
            .max()
            .item()
        )
    assert same < 1e-4, f"the two sides must compute the same, they differ by {same}"
    return summary(
        alternate(
            {
                "attnbook": lambda: step(lambda: model(source, lengths, target).logits),
                "attnbook with weights": lambda: step(
                    lambda: model(source, lengths, target, need_weights=True).logits
                ),
                "textbook loop": lambda: step(lambda: textbook(source, lengths, target)),
            },
            max(3, blocks // 2),
            repeats=1,
        ),
        "attnbook",
    )


PRODUCTS = {
    "32 x 50 x 50, d 256": ((32, 50, 256), False),
    "8 x 8 x 512 x 512, d 64": ((8, 8, 512, 64), False),
    "8 x 8 x 512 x 512, d 64, padded": ((8, 8, 512, 64), True),
    "1 x 2048 x 2048, d 64": ((1, 2048, 64), False),
    "1 x 2048 x 2048, d 64, padded": ((1, 2048, 64), True),
}


def inner_products(blocks: int) -> dict:
    """Every score that is an inner product, without weights, beside PyTorch's kernel on the same
    projected tensors.
    """
    import torch
    from torch.nn import functional as F

    from attnbook import attend, make_score

    torch.manual_seed(0)
    found = {}
    for size, (shape, padded) in PRODUCTS.items():
        n, width = shape[-2:]
        query, key, value = (torch.randn(shape, requires_grad=True) for _ in range(3))
        mask = None
        if padded:
            lengths = torch.linspace(n // 2, n, shape[0]).long().view(-1, *(1,) * (len(shape) - 1))
            mask = torch.arange(n) < lengths
        for name in ("dot", "scaled_dot", "general", "reduced_rank", "content", "location"):
            score = make_score(name, width, width, rank=width // 4, max_length=n)
            scale, projected = (
                score.inner_product(query)[1],
                score.project_keys(key).detach().requires_grad_(),
            )

            def ours():
                return attend(
                    score,
                    query,
                    key,
                    value,
                    mask=mask,
                    projected_keys=projected,
                    need_weights=False,
                ).context

            def kernel():
                transformed = score.inner_product(query)[0]
                return F.scaled_dot_product_attention(
                    transformed, projected, value, attn_mask=mask, scale=scale
                )

            sides = {
                "attnbook": lambda: ours().sum().backward(),
                "kernel": lambda: kernel().sum().backward(),
            }
            with torch.no_grad():
                forward = summary(
                    alternate({"attnbook": ours, "kernel": kernel}, max(3, blocks // 2)), "attnbook"
                )
            both = summary(alternate(sides, max(3, blocks // 2)), "attnbook")
            found[f"{name}, {size}"] = {
                "forward_times_ours": forward["kernel"]["times_ours"],
                "forward_and_backward_times_ours": both["kernel"]["times_ours"],
                "ms": both["attnbook"]["ms"],
            }
    return found


def memory() -> list[dict]:
    """Peak resident memory above the start, each point in a process of its own."""
    rows = []
    for length in (128, 256, 512, 1024, 2048):
        row = {"m": length, "n": length}
        for name, need in (("with weights", True), ("without", False)):
            row[name] = float(
                subprocess.run(
                    [sys.executable, __file__, "--peak", str(length), str(int(need))],
                    capture_output=True,
                    text=True,
                    check=True,
                ).stdout
            )
        rows.append(row)
    return rows


def memory_of_all_scores() -> list[dict]:
    """Peak memory without weights of each score."""
    from attnbook import SCORES

    return [
        {
            "m": length,
            "n": length,
            **{
                name: float(
                    subprocess.run(
                        [sys.executable, __file__, "--peak", str(length), "0", "--score", name],
                        capture_output=True,
                        text=True,
                        check=True,
                    ).stdout
                )
                for name in sorted(SCORES)
            },
        }
        for length in (1024, 2048, 4096)
    ]


def peak(length: int, need_weights: bool, name: str = "additive") -> float:
    """MB above the start of one forward and backward pass of attention, width 64, one row."""
    import resource

    import torch

    from attnbook import attend, make_score

    torch.set_num_threads(1)
    torch.manual_seed(0)
    score = make_score(name, 64, 64, max_length=length)

    def once(n, need):
        query, key = (
            torch.randn(1, n, 64, requires_grad=True),
            torch.randn(1, n, 64, requires_grad=True),
        )
        attend(score, query, key, need_weights=need).context.sum().backward()

    once(16, need_weights)  # libraries and threads are loaded before the count starts
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    once(length, need_weights)
    return round((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024, 1)


def main() -> None:
    parts = {"attention": attention, "products": inner_products, "step": training_step}
    parser = command_line(__doc__, blocks=12, parts=list(parts))
    parser.add_argument("--score", default="additive", help=argparse.SUPPRESS)
    parser.add_argument("--peak", nargs=2, type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peak:
        print(peak(options.peak[0], bool(options.peak[1]), options.score))
    elif options.part:
        figures = parts[options.part](options.blocks)
        print(json.dumps({"calibration": calibration(), "figures": figures}))
    else:
        report(options.blocks, list(parts), options.json)


def report(blocks: int, parts: list[str], path: Path | None) -> None:
    found = environment()
    for run in run_parts(__file__, parts, "--blocks", blocks):
        found["runs"].append(run)
        for name, row in run["figures"].items():
            ratios = "   ".join(
                f"{what}: {ratio:.2f}" for what, ratio in row.items() if what != "ms"
            )
            print(f"  {name:<52}{row['ms']:>9.1f} ms   {ratios}")
    found["memory_mb"] = memory()
    print("\npeak memory of attention (MB above the start, width 64, one row)")
    for row in found["memory_mb"]:
        print(
            f"  m = n = {row['m']:<6}with weights {row['with weights'] or '-':>8}   without "
            f"{row['without']:>8}"
        )
    found["memory_without_weights_mb"] = memory_of_all_scores()
    print("\npeak memory without weights (MB above the start, width 64, one row)")
    for row in found["memory_without_weights_mb"]:
        print("  " + "   ".join(f"{name} {number}" for name, number in row.items()))
    save(found, path)


if __name__ == "__main__":
    main()
