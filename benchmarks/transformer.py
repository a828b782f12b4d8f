"""The Transformer beside nn.Transformer and x-transformers: a training step, and decoding with and
without a cache.

Ratios of medians from alternating blocks, each part in a process of its own, with both settings of
the allocator. Peers that are not installed are left out: pip install --target build/peers --no-deps
x-transformers einops einx loguru torch-einops-utils frozendict"""

from __future__ import annotations

import json
import math
import sys
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import torch
from common import alternate, calibration, command_line, environment, run_parts, save, summary
from torch import nn
from torch.nn import functional as F

from attnbook import LayerNorm, Transformer, paper_parts, sinusoids
from attnbook.decoding import TokenIds, greedy
from attnbook.training import smoothed_cross_entropy

D, HEADS, HIDDEN, LAYERS, BATCH, LENGTH, SIZE, SMOOTHING = 256, 4, 1024, 3, 64, 32, 8000, 0.1
PARTS = ("training", "decoding")


class TorchModel(nn.Module):
    """What a reader would write: embeddings, sinusoids, nn.Transformer, a linear layer."""

    def __init__(self, dropout: float, padding: bool) -> None:
        super().__init__()
        self.source, self.target = (
            nn.Embedding(SIZE, D, padding_idx=0),
            nn.Embedding(SIZE, D, padding_idx=0),
        )
        self.body = nn.Transformer(D, HEADS, LAYERS, LAYERS, HIDDEN, dropout, batch_first=True)
        self.output, self.dropout, self.padding = (
            nn.Linear(D, SIZE, bias=False),
            nn.Dropout(dropout),
            padding,
        )
        self.register_buffer("positions", sinusoids(LENGTH, D), persistent=False)
        self.register_buffer(
            "future", nn.Transformer.generate_square_subsequent_mask(LENGTH), persistent=False
        )

    def forward(self, source, lengths, target):
        outside = (
            (torch.arange(source.shape[1], device=source.device) >= lengths[:, None])
            if self.padding
            else None
        )
        x, y = (
            self.dropout(e(t) * math.sqrt(D) + self.positions)
            for e, t in ((self.source, source), (self.target, target))
        )
        return self.output(
            self.body(
                x,
                y,
                tgt_mask=self.future,
                src_key_padding_mask=outside,
                memory_key_padding_mask=outside,
                tgt_is_causal=True,
            )
        )


def ours(dropout: float, **options) -> Transformer:
    torch.manual_seed(0)
    # nn.Transformer ends both stacks with a norm, in post-norm too: here it is given to both sides.
    parts = paper_parts(
        D, HEADS, HIDDEN, dropout=dropout, final_norm=partial(LayerNorm, D), **options
    )
    return Transformer(SIZE, SIZE, parts, num_layers=LAYERS, tie="none")


def x_transformers(dropout: float, flash: bool, folder: str = "build/peers") -> nn.Module | None:
    """``x_transformers.XTransformer`` of the same sizes as a function to logits, or None where
    it is not installed.
    """
    if not (Path(folder) / "x_transformers").is_dir():
        return None
    sys.path.append(folder)
    from x_transformers import XTransformer

    options = {
        "depth": LAYERS,
        "heads": HEADS,
        "num_tokens": SIZE,
        "max_seq_len": LENGTH,
        "attn_flash": flash,
        "attn_dropout": dropout,
        "ff_dropout": dropout,
        "emb_dropout": dropout,
    }
    both = {f"{side}_{name}": value for side in ("enc", "dec") for name, value in options.items()}

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = XTransformer(dim=D, **both)

        def forward(self, source, lengths, target):
            mask = torch.arange(source.shape[1], device=source.device) < lengths[:, None]
            encoded = self.body.encoder(source, mask=mask, return_embeddings=True)
            return self.body.decoder.net(target, context=encoded, context_mask=mask)

    return Model()


def copy_weights(model: Transformer, other: TorchModel) -> None:
    """Give both sides one set of weights, so that they can be held against each other."""

    def attention(a, b):
        parts = (a.query_projection, a.key_projection, a.value_projection)
        b.in_proj_weight.copy_(torch.cat([p.weight for p in parts]))
        b.in_proj_bias.copy_(torch.cat([p.bias for p in parts]))
        b.out_proj.load_state_dict(a.output_projection.state_dict())

    with torch.no_grad():
        for a, b in (
            (model.source_embedding, other.source),
            (model.target_embedding, other.target),
            (model.output, other.output),
        ):
            b.weight.copy_(a.weight)
        for side in ("encoder", "decoder"):
            for a, b in zip(getattr(model, side).layers, getattr(other.body, side).layers):
                attention(a.attention, b.self_attn)
                wirings = [a.around_attention, a.around_feed_forward]
                if side == "decoder":
                    attention(a.cross_attention, b.multihead_attn)
                    wirings.insert(1, a.around_cross_attention)
                for k, wiring in enumerate(wirings, 1):
                    getattr(b, f"norm{k}").load_state_dict(wiring.norm.state_dict())
                b.linear1.load_state_dict(a.feed_forward.hidden.state_dict())
                b.linear2.load_state_dict(a.feed_forward.output.state_dict())


def batch_of(device: str) -> tuple[torch.Tensor, ...]:
    g = torch.Generator().manual_seed(1)
    source, target = (torch.randint(4, SIZE, (BATCH, LENGTH), generator=g) for _ in range(2))
    return tuple(
        t.to(device) for t in (source, torch.full((BATCH,), LENGTH), target, target.roll(-1, 1))
    )


def training_step(forward, parameters, loss, batch, device: str):
    source, lengths, target, wanted = batch
    optimizer = torch.optim.Adam(
        parameters, lr=1e-4, betas=(0.9, 0.98), eps=1e-9, fused=device == "cuda"
    )

    def step():
        with torch.autocast("cuda", torch.bfloat16) if device == "cuda" else nullcontext():
            logits = forward(source, lengths, target).flatten(0, 1)
        total = loss(logits.float(), wanted.flatten()) / wanted.numel()
        optimizer.zero_grad()
        total.backward()
        optimizer.step()
        if device == "cuda":
            torch.cuda.synchronize()

    return step


def training(dropout: float, blocks: int, device: str) -> dict:
    batch = batch_of(device)
    own_loss = partial(smoothed_cross_entropy, label_smoothing=SMOOTHING)
    their_loss = partial(F.cross_entropy, label_smoothing=SMOOTHING, reduction="sum")
    models = {"attnbook": ours(dropout)}
    if dropout:
        models["attnbook, dropout where nn.Transformer has it"] = ours(
            dropout, attention_dropout=dropout, feed_forward_dropout=dropout
        )
    models["nn.Transformer"], models["nn.Transformer, no padding mask"] = (
        TorchModel(dropout, True),
        TorchModel(dropout, False),
    )
    copy_weights(models["attnbook"], models["nn.Transformer"])
    for flash in (False, True):
        if (peer := x_transformers(dropout, flash)) is not None:
            models[f"x-transformers, flash={flash}"] = peer
    for model in models.values():
        model.to(device)
    with torch.no_grad():
        for model in (first := models["attnbook"], second := models["nn.Transformer"]):
            model.eval()
        difference = (first(*batch[:3]).logits - second(*batch[:3])).abs().max().item()
        assert difference < (1e-2 if device == "cuda" else 1e-3), (
            f"the two sides must compute the same, they differ by {difference}"
        )
    sides = {}
    for name, model in models.items():
        model.train()
        mine = name.startswith("attnbook")
        call = (lambda *a, m=model: m(*a).logits) if mine else model
        sides[name] = training_step(
            call, model.parameters(), own_loss if mine else their_loss, batch, device
        )
        if device == "cuda" and name in ("attnbook", "nn.Transformer"):
            fast = torch.compile(model)
            call = (lambda *a, m=fast: m(*a).logits) if mine else fast
            sides[f"{name}, compiled"] = training_step(
                call, model.parameters(), own_loss if mine else their_loss, batch, device
            )
    return summary(alternate(sides, blocks, repeats=10 if device == "cuda" else 1), "attnbook")


def decoding(batch: int, tokens: int, blocks: int) -> dict:
    """Greedy decoding: with the cache, and the ways without it."""
    torch.manual_seed(0)
    parts, ids = paper_parts(D, HEADS, HIDDEN), TokenIds(start=1, forbidden=(0, 1, 2))  # no end
    model = Transformer(SIZE, SIZE, parts, num_layers=LAYERS, tie="none", token_ids=ids).eval()
    source, lengths = torch.randint(4, SIZE, (batch, LENGTH)), torch.full((batch,), LENGTH)

    def pick(logits):
        logits[:, :3] = -math.inf
        return logits.argmax(-1, keepdim=True)

    def cached():
        return torch.tensor(greedy(model, source, lengths, tokens).tokens)

    @torch.no_grad()
    def uncached():
        prefix = torch.ones(batch, 1, dtype=torch.long)
        for _ in range(tokens):
            prefix = torch.cat([prefix, pick(model(source, lengths, prefix).logits[:, -1])], 1)
        return prefix[:, 1:]

    @torch.no_grad()
    def encoded_once():
        memory, prefix = model.encode(source, lengths), torch.ones(batch, 1, dtype=torch.long)
        for _ in range(tokens):
            x = model.target_positions(model.target_embedding(prefix))
            decoded = model.decoder(x, memory.projected, source_mask=memory.mask, is_causal=True)
            prefix = torch.cat([prefix, pick(model.output(decoded.x[:, -1]))], 1)
        return prefix[:, 1:]

    assert torch.equal(cached(), uncached()) and torch.equal(cached(), encoded_once()), (
        "all ways must decode the same tokens"
    )
    sides = {
        "attnbook, with the cache": cached,
        "the whole model for every token": uncached,
        "source encoded once, the prefix for every token": encoded_once,
    }
    return summary(alternate(sides, blocks, repeats=1), "attnbook, with the cache")


def measure(part: str, options) -> dict:
    if part == "decoding":
        return {
            f"B = {batch}, {options.tokens} tokens": decoding(
                batch, options.tokens, max(1, options.blocks // 3)
            )
            for batch in options.batches
        }
    return {
        f"dropout {dropout}": training(dropout, options.blocks, options.device)
        for dropout in (0.0, 0.1)
    }


def report(options) -> None:
    found = {**environment(), "device": options.device}
    parts = PARTS if options.device == "cpu" else PARTS[:1]
    passed = ["--blocks", options.blocks, "--tokens", options.tokens, "--device", options.device]
    for run in run_parts(__file__, parts, *passed, "--batches", *options.batches):
        found["runs"].append(run)
        for what, rows in run["figures"].items():
            print(f"  {what}")
            for name, row in rows.items():
                print(f"    {name:<52}{row['ms']:>10.1f} ms   times ours: {row['times_ours']:.2f}")
    save(found, options.json)


def main() -> None:
    parser = command_line(__doc__, blocks=9, parts=PARTS)
    parser.add_argument("--tokens", type=int, default=256, help="decoded by each side")
    parser.add_argument(
        "--batches", type=int, nargs="+", default=[1, 8, 32], help="sentences decoded together"
    )
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    options = parser.parse_args()
    if options.part:
        print(json.dumps({"calibration": calibration(), "figures": measure(options.part, options)}))
    else:
        report(options)


if __name__ == "__main__":
    main()
