"""A training step of the pointer network on tours of ten cities beside textbook decoder loops,
and instances a second.
"""

from __future__ import annotations

import json
from functools import partial

import torch
from common import alternate, calibration, command_line, environment, run_parts, save, summary
from torch import nn
from torch.nn import functional as F

from attnbook.models import PointerNetwork
from attnbook.tasks.geometry.points import PointBatches
from attnbook.training import pointing_loss

CITIES, BATCH, HIDDEN = 10, 128, 256
BARS = {"times_ours": 2.0, "instances_a_second": 1500}
"""The textbook loop's time over ours; training instances a second on two cores with the tuned
allocator.
"""


class TextbookPointer(nn.Module):
    """The same network, with the same numbers, as one would write it down: a cell a step, and all
    keys anew at every step.

    joined  whether W [e; d] is taken of the two side by side, as most tutorials write it, or as W_1
            e + W_2 d, which costs less
    """

    def __init__(self, model: PointerNetwork, joined: bool) -> None:
        super().__init__()
        self.model, self.joined = model, joined
        self.cell = nn.LSTMCell(model.decoder.input_size, model.hidden_size)
        for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
            setattr(self.cell, name, getattr(model.decoder, f"{name}_l0"))

    def forward(self, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """(B, n, 2), (B, n) -> logits (B, n, n)."""
        model, logits = self.model, []
        embedded = model.embedding(inputs)
        e, (h, c) = model.encoder(embedded)
        h, c = h[0], c[0]
        x = model.start_input.expand(len(inputs), -1)
        used = torch.zeros(targets.shape, dtype=torch.bool)
        rows = torch.arange(len(inputs))
        for i in range(targets.shape[1]):
            h, c = self.cell(x, (h, c))
            if self.joined:
                # W
                both = torch.cat(
                    [model.score.key_projection.weight, model.score.query_projection.weight], dim=1
                )
                hidden = torch.tanh(F.linear(torch.cat([e, h[:, None].expand_as(e)], dim=-1), both))
            else:
                hidden = torch.tanh(
                    model.score.key_projection(e) + model.score.query_projection(h)[:, None]
                )
            u = model.score.vector(hidden)[..., 0].masked_fill(used, float("-inf"))  # (B, n)
            logits.append(u)
            used = used.clone()
            used[rows, targets[:, i]] = True
            x = embedded[rows, targets[:, i]]
        return torch.stack(logits, 1)


def step(blocks: int) -> dict:
    """Forward, backward and Adam, by both, on one batch of solved tours."""
    torch.manual_seed(0)
    model = PointerNetwork(2, HIDDEN, ends=False)
    batch = PointBatches("tours", CITIES, BATCH).batch(0)
    optimizer = torch.optim.Adam(model.parameters())

    def ours():
        total, count = pointing_loss(model, batch)
        return total / count

    def loop(textbook):
        return F.cross_entropy(
            textbook(batch.inputs, batch.targets).flatten(0, 1), batch.targets.flatten()
        )

    losses = {
        "attnbook": ours,
        "textbook loop": partial(loop, TextbookPointer(model, joined=True)),
        "loop, W_1 e + W_2 d": partial(loop, TextbookPointer(model, joined=False)),
    }

    def update(loss):
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()

    grads = {}
    for name, loss in losses.items():
        optimizer.zero_grad()
        value = loss()
        value.backward()
        grads[name] = float(value.detach()), [p.grad.clone() for p in model.parameters()]
    value, expected = grads["attnbook"]
    for name, (other, found) in grads.items():
        assert abs(value - other) < 1e-5, (
            f"all sides must compute the same loss: {value}, but {name} {other}"
        )
        assert all(torch.allclose(a, b, atol=1e-5) for a, b in zip(expected, found)), (
            f"and the same gradients as {name}"
        )
    found = summary(
        alternate({name: partial(update, loss) for name, loss in losses.items()}, blocks),
        "attnbook",
    )
    return {
        name: {**row, "instances_a_second": round(BATCH / row["ms"] * 1e3)}
        for name, row in found.items()
    }


def main() -> None:
    options = command_line(__doc__, blocks=20, parts=["step"]).parse_args()
    if options.part:
        print(json.dumps({"calibration": calibration(), "figures": step(options.blocks)}))
        return
    found = {**environment(), "bars": BARS, "cities": CITIES, "batch": BATCH, "hidden": HIDDEN}
    for run in run_parts(__file__, ["step"], "--blocks", options.blocks):
        found["runs"].append(run)
        for name, row in run["figures"].items():
            print(
                f"  {name:<22}{row['ms']:>8.1f} ms   {row['times_ours']:.2f} times ours   "
                f"{row['instances_a_second']:>6,} instances a second"
            )
    save(found, options.json)


if __name__ == "__main__":
    main()
