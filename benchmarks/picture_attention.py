"""The attention layer over feature maps beside its peers: ratios of medians from alternating
blocks, forward and backward.
"""

from __future__ import annotations

import json
import time

from common import alternate, calibration, command_line, environment, run_parts, save, summary

BATCH, CHANNELS, SIDE = 16, 64, 32
LAYERS = {"equation": {}, "wide values": {"d_value": CHANNELS}, "pooled": {}}


def measure(name: str, blocks: int, clock) -> dict:
    import torch
    from torch.nn import functional as F

    from attnbook import PictureAttention, PooledPictureAttention

    torch.manual_seed(0)
    layer = (PooledPictureAttention if name == "pooled" else PictureAttention)(
        CHANNELS, **LAYERS[name]
    )
    with torch.no_grad():
        layer.gamma.fill_(0.5)
    x = torch.randn(BATCH, CHANNELS, SIDE, SIDE, requires_grad=True)

    def around(found):
        """A layer as it is usually written, with the weights of ours; `found` makes (B, N, d_v)
        of queries, keys and values.
        """

        def run():
            query, key, value = layer.query(x), layer.key(x), layer.value(x)
            if name == "pooled":
                key, value = F.max_pool2d(key, 2), F.max_pool2d(value, 2)
            context = found(*(t.flatten(2).transpose(1, 2) for t in (query, key, value)))
            return x + layer.gamma * layer.output(
                context.transpose(1, 2).reshape(BATCH, -1, SIDE, SIDE)
            )

        return run

    def two_products(query, key, value):
        return torch.bmm(torch.bmm(query, key.transpose(1, 2)).softmax(-1), value)

    def kernel(query, key, value):
        return F.scaled_dot_product_attention(
            query.unsqueeze(1), key.unsqueeze(1), value.unsqueeze(1), scale=1.0
        ).squeeze(1)

    sides = {
        "attnbook": lambda: layer(x),
        "scaled_dot_product_attention": around(kernel),
        "two bmm": around(two_products),
        "attnbook with weights": lambda: x + layer.gamma * layer.attended(x).context,
    }
    with torch.no_grad():
        ours = layer(x)
        for side, run in sides.items():
            off = (run() - ours).abs().max().item()
            assert off < 1e-4, f"all sides must compute the same, {side} differs by {off}"
    return summary(
        alternate(
            {side: lambda run=run: run().sum().backward() for side, run in sides.items()},
            blocks,
            repeats=1,
            clock=clock,
        ),
        "attnbook",
    )


def main() -> None:
    parser = command_line(__doc__, blocks=15, parts=list(LAYERS))
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
        print(
            json.dumps(
                {
                    "calibration": calibration(),
                    "figures": measure(options.part, options.blocks, clock),
                }
            )
        )
        return
    found = {
        **environment(),
        "clock": "processor" if options.busy else "wall",
        "batch": BATCH,
        "channels": CHANNELS,
        "side": SIDE,
    }
    busy = ["--busy"] if options.busy else []
    found["threads"] = 1 if options.busy else found["threads"]
    for run in run_parts(__file__, LAYERS, "--blocks", options.blocks, *busy):
        found["runs"].append(run)
        for side, row in run["figures"].items():
            print(f"  {side:<32}{row['ms']:>9.1f} ms   times ours: {row['times_ours']:.2f}")
    save(found, options.json)


if __name__ == "__main__":
    main()
