"""Linear attention in chunks beside its own recurrence and beside softmax attention: ratios of
medians from alternating blocks, forward alone and with the backward pass.
"""

from __future__ import annotations

import json
import time

from common import alternate, calibration, command_line, environment, run_parts, save, summary

HEADS, WIDTH, LENGTH = 4, 64, 2048
LENGTHS = (256, 512, 1024, 2048, 4096, 8192)
KINDS = {  # log_decay and strength, by their last dimensions
    "sum": (None, False),
    "one decay a head": (1, False),
    "one decay a feature": (WIDTH, False),
    "delta rule": (None, True),
    "delta rule, one decay a head": (1, True),
}
PARTS = ("forms, batch 1", "forms, batch 4", "crossing")


def arguments(kind: str, batch: int, n: int) -> tuple[list, dict]:
    """Query, key and value, and the gates of a kind."""
    import torch

    from attnbook import unit_features

    decay, delta = KINDS[kind]
    tensors = [torch.randn(batch, HEADS, n, WIDTH) for _ in range(3)]
    tensors[:2] = [unit_features(t) for t in tensors[:2]]
    gates = {}
    if decay:
        gates["log_decay"] = -torch.rand(batch, HEADS, n, decay)
    if delta:
        gates["strength"] = torch.rand(batch, HEADS, n)
    for t in (*tensors, *gates.values()):
        t.requires_grad_()
    return tensors, gates


def ways(call) -> dict:
    """A call forward alone, and with the backward pass."""
    import torch

    def forward():
        with torch.no_grad():
            call()

    return {"forward": forward, "and backward": lambda: call().sum().backward()}


def forms(batch: int, blocks: int, clock) -> dict:
    """For each kind, how many times the time of the chunks the recurrence takes."""
    from attnbook import linear_attention

    found = {}
    for kind in KINDS:
        tensors, gates = arguments(kind, batch, LENGTH)

        def run(form, tensors=tensors, gates=gates):
            return linear_attention(*tensors, **gates, form=form).context

        off = (run("chunks") - run("recurrent")).abs().max().item()
        assert off < 1e-3, f"both forms must compute the same, they differ by {off}"
        for way in ways(run):
            sides = {
                form: ways(lambda form=form, run=run: run(form))[way]
                for form in ("chunks", "recurrent")
            }
            times = alternate(sides, blocks, repeats=1, clock=clock)
            found[f"{kind}, {way}"] = summary(times, "chunks")
    return found


def crossing(blocks: int, clock) -> dict:
    """For each length, how many times the time of the sum in chunks softmax attention takes and
    the other kinds take."""
    from torch.nn import functional as F

    from attnbook import linear_attention

    found = {}
    for n in LENGTHS:
        made = {kind: arguments(kind, 1, n) for kind in KINDS}
        calls = {
            kind: lambda t=t, g=g: linear_attention(*t, **g).context
            for kind, (t, g) in made.items()
        }
        softmax = made["sum"][0]
        calls["softmax"] = lambda t=softmax: F.scaled_dot_product_attention(*t, is_causal=True)
        for way in ("forward", "and backward"):
            sides = {kind: ways(call)[way] for kind, call in calls.items()}
            times = alternate(sides, blocks, repeats=1, clock=clock)
            found[f"{n} positions, {way}"] = summary(times, "sum")
    return found


def main() -> None:
    parser = command_line(__doc__, blocks=7, parts=PARTS)
    parser.add_argument(
        "--busy",
        action="store_true",
        help="count the processor's time, with one thread: for a machine that does other work",
    )
    options = parser.parse_args()
    if options.part:
        if options.busy:
            import torch

            torch.set_num_threads(1)
        clock = time.process_time if options.busy else time.perf_counter
        if options.part == "crossing":
            figures = crossing(options.blocks, clock)
        else:
            figures = forms(int(options.part[-1]), options.blocks, clock)
        print(json.dumps({"calibration": calibration(), "figures": figures}))
        return
    found = {
        **environment(),
        "clock": "processor" if options.busy else "wall",
        "heads": HEADS,
        "width": WIDTH,
        "length": LENGTH,
    }
    busy = ["--busy"] if options.busy else []
    found["threads"] = 1 if options.busy else found["threads"]
    for run in run_parts(__file__, PARTS, "--blocks", options.blocks, *busy):
        found["runs"].append(run)
        for what, sides in run["figures"].items():
            print(f"  {what}")
            for side, row in sides.items():
                print(f"    {side:<30}{row['ms']:>9.1f} ms   times: {row['times_ours']:.2f}")
    save(found, options.json)


if __name__ == "__main__":
    main()
