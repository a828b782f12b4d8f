"""attnbook beside what a reader would import instead: python benchmarks/peers.py.

Fetches the peers by name, then times both sides in alternating blocks, each row in a process of
its own, with both settings of the allocator; about ten minutes on two cores. Everything but
decoding is a training step: forward, backward and, for whole models, the optimizer.
"""

from __future__ import annotations

import json
import typing
import warnings
from dataclasses import replace
from functools import partial

import torch
from common import alternate, calibration, command_line, environment, run_parts, save, summary
from implementations.projects import definitions, install, is_there, use
from torch import nn
from torch.nn import functional as F

ROWS: dict[str, typing.Callable] = {}
PEERS = {  # the side that is timed: what it is, and how many times ours it should take
    "d2l": ("additive attention, 32 × 50 × 50 × 256: `d2l.AdditiveAttention`", 3.0),
    "pytorch-ntm": ("Neural Turing machine, copy 20, B = 16: pytorch-ntm", 7.0),
    "pytorch-ntm / compiled": ("the same, beside ours compiled", 15.0),
    "dnc / compiled": ("the same, dnc beside ours compiled", 20.0),
    "gchaperon": ("pointer network, 10 cities, B = 128: gchaperon", 1.6),
    "snail-pytorch": ("SNAIL, 5-way 1-shot, B = 32: snail-pytorch", 1.8),
    "heykeetae": ("attention layer of SAGAN, 64 × 32 × 32, B = 16: heykeetae", 1.3),
    "nn.Transformer, dropout 0": ("Transformer, training step: `nn.Transformer`", 1.1),
    "nn.Transformer, dropout 0.1": ("the same with dropout 0.1", 1.35),
    "the whole model for every token": ("256 tokens, B = 1: the Transformer without a cache", 8.0),
    "transformers, Llama, B = 1": ("256 tokens, B = 1: Llama of transformers", 1.4),
    "transformers, Llama, B = 8": ("the same, B = 8", 1.4),
}


def row(function):
    ROWS[function.__name__] = function
    return function


def compare(sides: dict, blocks: int, repeats: int = 1) -> dict:
    """Times of all sides and how many times ours each takes; ours is the first."""
    return summary(alternate(sides, blocks, repeats), next(iter(sides)))


def update(parameters, loss) -> typing.Callable:
    """A training step on the given loss."""
    optimizer = torch.optim.Adam(list(parameters), lr=1e-4)

    def step():
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()

    return step


@row
def additive(blocks: int) -> dict:
    """Additive attention, 32 × 50 × 50, width 256, one padding mask: d2l.AdditiveAttention."""
    from attnbook import AdditiveScore, attend

    batch, n, d = 32, 50, 256
    query, key = (torch.randn(batch, n, d, requires_grad=True) for _ in range(2))
    lengths = torch.full((batch,), n)
    mask = torch.ones(batch, 1, n, dtype=torch.bool)
    score = AdditiveScore(d, d, d)
    sides = {
        "attnbook": lambda: attend(score, query, key, mask=mask, need_weights=False).context,
        "attnbook, with weights": lambda: attend(score, query, key, mask=mask).context,
    }
    if is_there("d2l"):
        space = definitions("d2l/torch.py", "masked_softmax", "AdditiveAttention")
        theirs = space["AdditiveAttention"](d, 0.0)
        theirs(query[:1], key[:1], key[:1], lengths[:1])  # its layers are lazy
        with torch.no_grad():
            theirs.W_q.weight.copy_(score.query_projection.weight)
            theirs.W_k.weight.copy_(score.key_projection.weight)
            theirs.w_v.weight.copy_(score.vector.weight)
        sides["d2l"] = lambda: theirs(query, key, key, lengths)
        torch.testing.assert_close(sides["attnbook"](), sides["d2l"](), atol=1e-5, rtol=1e-5)
    return compare(
        {name: lambda run=run: run().sum().backward() for name, run in sides.items()}, blocks, 3
    )


@row
def turing_machine(blocks: int) -> dict:
    """Neural Turing machine, LSTM controller of 100, memory 128 × 20, copy task of length 20, B =
    16, RMSProp: pytorch-ntm and dnc (another model, with a link matrix beside the memory)."""
    from ntm import BITS, CONTROLLER, LENGTH, SLOTS, WIDTH, compiled, machine, peer, training_step

    own, fast = machine("lstm"), compiled("lstm")
    sides = {
        "attnbook": training_step(own.parameters(), lambda x: own(x).logits, 16),
        "attnbook, compiled": training_step(fast.parameters(), lambda x: fast(x).logits, 16),
    }
    if is_there("pytorch-ntm"):
        theirs = _pytorch_ntm(BITS + 1, BITS, CONTROLLER, 1, 1, SLOTS, WIDTH)

        def run(inputs):
            theirs.init_sequence(len(inputs))
            for x in inputs[:, : LENGTH + 1].unbind(1):
                theirs(x)
            probabilities = torch.stack([theirs()[0] for _ in range(LENGTH)], 1)
            return probabilities.logit(1e-6)

        sides["pytorch-ntm"] = training_step(theirs.parameters(), run, 16)
    if is_there("dnc") and (other := peer()) is not None:
        sides["dnc"] = training_step(other.parameters(), lambda x: other(x)[0], 16)
    found = compare(sides, blocks)
    for name in ("pytorch-ntm", "dnc"):
        if name in found:
            ratio = found[name]["ms"] / found["attnbook, compiled"]["ms"]
            found[f"{name} / compiled"] = {"ms": found[name]["ms"], "times_ours": round(ratio, 2)}
    return found


def _pytorch_ntm(*sizes: int) -> nn.Module:
    import sys

    ours = sys.modules.pop("ntm")  # the benchmark of that name; the peer's package has it too
    use("pytorch-ntm")
    from ntm.aio import EncapsulatedNTM

    theirs = EncapsulatedNTM(*sizes)
    sys.modules["ntm"] = ours
    return theirs


@row
def pointer(blocks: int) -> dict:
    """Pointer network on tours of ten cities, hidden 256, B = 128, eleven pointings: gchaperon."""
    from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence

    from attnbook.models import PointerNetwork
    from attnbook.tasks.geometry.points import PointBatches
    from attnbook.training import pointing_loss

    batch = PointBatches("tours", 10, 128).batch(0)
    end = torch.full((128, 1), batch.end)
    batch = batch._replace(targets=torch.cat([batch.targets, end], 1))  # it has an end, so ours too
    own = PointerNetwork(2, 256, ends=True, d_embed=2)

    def loss():
        total, count = pointing_loss(own, batch)
        return total / count

    sides = {"attnbook": update(own.parameters(), loss)}
    if is_there("pointer-networks"):
        whole = definitions(
            "pointer-networks/ptrnets/model.py",
            "PointerNetwork",
            "Attention",
            "_prepend",
            tp=typing,
            PackedSequence=PackedSequence,
            pl=_Lightning,
            ptrnets=_Anything(),
            torchmetrics=_Anything(),
            metrics=_Anything(),
        )
        theirs = whole["PointerNetwork"](2, 256, 1e-4, (-0.08, 0.08))
        lengths = torch.full((128,), 10)
        read = batch.inputs.gather(1, batch.targets[:, :10, None].expand(-1, -1, 2))
        packed = [
            pack_padded_sequence(t, n, batch_first=True)
            for t, n in (
                (batch.inputs, lengths),
                (read, lengths),
                ((batch.targets + 1) % 11, lengths + 1),  # it counts the end as 0
            )
        ]
        sides["gchaperon"] = update(
            theirs.parameters(),
            lambda: F.cross_entropy(theirs(packed[0], packed[1]).data, packed[2].data),
        )
        same_size(own, theirs, 0.02)
    return compare(sides, blocks, 2)


class _Anything:
    """Stands for the loggers and metrics that a peer makes and that no step of this script uses."""

    def __getattr__(self, name: str):
        return self

    def __call__(self, *args: object, **kwargs: object):
        return self


class _Lightning:
    class LightningModule(nn.Module):
        def save_hyperparameters(self) -> None:
            pass


def same_size(ours: nn.Module, theirs: nn.Module, share: float) -> None:
    """Refuse to time two models of different size."""
    a, b = (sum(p.numel() for p in model.parameters()) for model in (ours, theirs))
    assert abs(a - b) <= share * b, f"the models must be of one size: {a:,} and {b:,} parameters"


@row
def snail(blocks: int) -> dict:
    """SNAIL, 5-way 1-shot episodes of 28 × 28 pictures, 64 filters, B = 32: snail-pytorch."""
    import numpy as np

    from attnbook.models import FewShotSNAIL, PictureEmbedding

    pictures, labels = torch.rand(32, 6, 28, 28), torch.arange(5).expand(32, 5)
    target = torch.randint(0, 5, (32,))
    own = FewShotSNAIL(PictureEmbedding(28, filters=64, d_output=64), 5)

    def loss():
        return F.cross_entropy(own(pictures[:, :5], labels, pictures[:, 5:]).logits[:, 0], target)

    sides = {"attnbook": update(own.parameters(), loss)}
    if is_there("snail-pytorch"):
        use("snail-pytorch/src")
        import blocks as parts
        import snail as theirs

        theirs.np = np
        # Written for CUDA and PyTorch 0.4, where a mask was of bytes.
        torch.Tensor.cuda = lambda self, *_: self
        torch.ByteTensor = lambda a: torch.tensor(np.asarray(a), dtype=torch.bool)
        assert parts.AttentionBlock is theirs.AttentionBlock
        model = theirs.SnailFewShot(5, 1, "omniglot", use_cuda=False)
        one_hot = F.one_hot(torch.cat([labels, target[:, None]], 1), 5).float().flatten(0, 1)
        sides["snail-pytorch"] = update(
            model.parameters(),
            lambda: F.cross_entropy(
                model(pictures.flatten(0, 1)[:, None], one_hot.clone())[:, -1], target
            ),
        )
        same_size(own, model, 0.05)
    return compare(sides, blocks)


@row
def picture_attention(blocks: int) -> dict:
    """The attention layer of SAGAN, 64 × 32 × 32, values 64 wide, B = 16: heykeetae."""
    from attnbook import PictureAttention

    x = torch.randn(16, 64, 32, 32, requires_grad=True)
    own = PictureAttention(64, d_value=64)
    sides = {"attnbook": lambda: own(x)}
    if is_there("Self-Attention-GAN"):
        theirs = definitions("Self-Attention-GAN/sagan_models.py", "Self_Attn")["Self_Attn"](64, "")
        with torch.no_grad():
            for a, b in (
                (own.query, theirs.query_conv),
                (own.key, theirs.key_conv),
                (own.value, theirs.value_conv),
            ):
                a.weight.copy_(b.weight)
                b.bias.zero_()
            own.output.weight.copy_(torch.eye(64)[:, :, None, None])  # it leaves v out
            own.gamma.fill_(0.5), theirs.gamma.fill_(0.5)
        sides["heykeetae"] = lambda: theirs(x)[0]
        torch.testing.assert_close(own(x), theirs(x)[0], atol=1e-4, rtol=1e-4)
    return compare(
        {name: lambda run=run: run().sum().backward() for name, run in sides.items()}, blocks
    )


@row
def transformer(blocks: int) -> dict:
    """Transformer, width 256, 3 + 3 layers, B = 64, 32 tokens, 8,000 words, dropout where the
    paper has it: nn.Transformer (which has it in two more places)."""
    from transformer import TorchModel, batch_of, copy_weights, ours, training_step

    from attnbook.training import smoothed_cross_entropy

    batch, found = batch_of("cpu"), {}
    for dropout in (0.0, 0.1):
        own, theirs = ours(dropout), TorchModel(dropout, True)
        copy_weights(own, theirs)
        with torch.no_grad():
            a, b = own.eval()(*batch[:3]).logits, theirs.eval()(*batch[:3])
        torch.testing.assert_close(a, b, atol=1e-3, rtol=1e-3)
        own.train(), theirs.train()
        sides = {
            f"attnbook, dropout {dropout:g}": training_step(
                lambda *a, own=own: own(*a).logits,
                own.parameters(),
                partial(smoothed_cross_entropy, label_smoothing=0.1),
                batch,
                "cpu",
            ),
            f"nn.Transformer, dropout {dropout:g}": training_step(
                theirs,
                theirs.parameters(),
                partial(F.cross_entropy, label_smoothing=0.1, reduction="sum"),
                batch,
                "cpu",
            ),
        }
        found |= compare(sides, max(3, blocks // 3))
    return found


@row
def cached_decoding(blocks: int) -> dict:
    """256 tokens with the key/value cache, width 256: a Transformer of 3 + 3 layers without its
    cache, and transformers' Llama of four layers beside our language model of that size (RMSNorm,
    SwiGLU; sinusoids where Llama rotates)."""
    from transformer import decoding

    found = decoding(1, 256, max(2, blocks // 4))
    if not is_there("transformers"):
        return found
    use()
    from transformers import LlamaConfig, LlamaForCausalLM

    size, d, hidden, layers, tokens = 8000, 256, 688, 4, 256
    theirs = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=size,
            hidden_size=d,
            intermediate_size=hidden,
            num_hidden_layers=layers,
            num_attention_heads=4,
            max_position_embeddings=512,
            tie_word_embeddings=True,
        )
    ).eval()
    own = language_model(size, d, hidden, layers)
    same_size(own, theirs, 0.01)

    @torch.no_grad()
    def step_by_step(batch: int):
        state, token = own.begin(batch), torch.full((batch,), 1)
        for _ in range(tokens):
            logits, state, _ = own.step(token, state)
            token = logits.argmax(-1)

    @torch.no_grad()
    def their_steps(batch: int):
        cache, token = None, torch.full((batch, 1), 1)
        for _ in range(tokens):
            out = theirs(token, past_key_values=cache, use_cache=True)
            cache, token = out.past_key_values, out.logits[:, -1:].argmax(-1)

    for batch in (1, 8):
        sides = {
            f"attnbook, language model, B = {batch}": partial(step_by_step, batch),
            f"transformers, Llama, B = {batch}": partial(their_steps, batch),
        }
        found |= compare(sides, max(3, blocks // 2))
    return found


def language_model(size: int, d: int, hidden: int, layers: int) -> nn.Module:
    """Our decoder-only model with the parts of a Llama, but for the rotation."""
    from attnbook import GatedFeedForward, PreNorm, RMSNorm, TransformerLM, paper_parts

    parts = replace(
        paper_parts(d, 4, dropout=0.0, residual=PreNorm, norm=RMSNorm, bias=False),
        feed_forward=partial(GatedFeedForward, d, hidden),
    )
    return TransformerLM(size, parts, num_layers=layers).eval()


def main() -> None:
    parser = command_line(__doc__, blocks=12, parts=list(ROWS))
    parser.add_argument("--rows", nargs="+", choices=list(ROWS), default=list(ROWS))
    options = parser.parse_args()
    if options.part:
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        figures = ROWS[options.part](options.blocks)
        print(json.dumps({"calibration": calibration(), "figures": figures}))
        return
    for fault in install():
        print(f"left out, it could not be fetched: {fault}")
    found = environment()
    for run in run_parts(__file__, options.rows, "--blocks", options.blocks):
        found["runs"].append(run)
        print("  " + " ".join((ROWS[run["part"]].__doc__ or "").split()))
        for name, figures in run["figures"].items():
            goal = f"   goal {PEERS[name][1]:g}" if name in PEERS else ""
            print(
                f"    {name:<50}{figures['ms']:>9.1f} ms   "
                f"times ours: {figures['times_ours']:5.2f}{goal}"
            )
    save(found, options.json)
    print("\n" + table(found))


def table(found: dict) -> str:
    """The record of a run as it stands in README.md."""
    by_allocator: dict[str, dict] = {}
    for run in found["runs"]:
        by_allocator.setdefault(run["allocator"], {}).update(run["figures"])
    default, tuned = by_allocator["default allocator"], by_allocator["tuned allocator"]
    lines = ["| its time over ours | default allocator | tuned | goal |", "|---|---|---|---|"]
    for name, (what, goal) in PEERS.items():
        if name in default:
            times = [f"{figures[name]['times_ours']:.2f}" for figures in (default, tuned)]
            lines.append(f"| {what} | {' | '.join(times)} | {goal:g} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
