"""Decoding with grouped queries and a cache, beside the Llama of transformers: python
benchmarks/decoder.py.

Both sides hold the same weights, from one folder, and must choose the same tokens before they are
timed. Theirs runs under inference_mode with sdpa, with a dynamic and with a static cache; ratios
are of alternating blocks, each batch in a process of its own, with both settings of the allocator.
Needs transformers: pip install -e .[reference]."""

from __future__ import annotations

import json
import tempfile

import torch
from common import alternate, calibration, command_line, environment, run_parts, save, summary

from attnbook import load_decoder

BATCHES = {"B = 1": 1, "B = 8": 8}
SIZES = {
    "vocab_size": 8000,
    "hidden_size": 256,
    "intermediate_size": 688,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "tie_word_embeddings": True,
    "attn_implementation": "sdpa",
}


def sides(batch: int, tokens: int) -> dict:
    """Functions that decode so many tokens from BOS and return them, ``(batch, tokens)``."""
    from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM, StaticCache

    torch.manual_seed(0)
    config = LlamaConfig(**SIZES)
    with tempfile.TemporaryDirectory() as folder:
        LlamaForCausalLM(config).save_pretrained(folder)
        theirs = LlamaForCausalLM.from_pretrained(folder, attn_implementation="sdpa").eval()
        ours = load_decoder(folder)

    @torch.inference_mode()
    def own():
        state, token, found = ours.begin(batch), torch.full((batch,), 1), []
        for _ in range(tokens):
            logits, state, _ = ours.step(token, state)
            token = logits.argmax(-1)
            found.append(token)
        return torch.stack(found, 1)

    def peer(make_cache):
        @torch.inference_mode()
        def run():
            cache, token, found = make_cache(), torch.full((batch, 1), 1), []
            for _ in range(tokens):
                out = theirs(token, past_key_values=cache, use_cache=True)
                token = out.logits[:, -1:].argmax(-1)
                found.append(token)
            return torch.cat(found, 1)

        return run

    return {
        "attnbook": own,
        "transformers, dynamic cache": peer(DynamicCache),
        "transformers, static cache": peer(
            lambda: StaticCache(config=config, max_cache_len=tokens)
        ),
    }


def measure(part: str, blocks: int, tokens: int) -> dict:
    made = sides(BATCHES[part], tokens)
    first, *others = [run() for run in made.values()]
    assert all(torch.equal(first, other) for other in others), "all must choose the same tokens"
    found = summary(alternate(made, blocks, repeats=1), "attnbook")
    for row in found.values():
        row["tokens_per_s"] = round(BATCHES[part] * tokens / row["ms"] * 1e3)
    return found


def main() -> None:
    parser = command_line(__doc__, blocks=9, parts=list(BATCHES))
    parser.add_argument("--tokens", type=int, default=256, help="decoded by each side")
    options = parser.parse_args()
    if options.part:
        figures = measure(options.part, options.blocks, options.tokens)
        print(json.dumps({"calibration": calibration(), "figures": figures}))
        return
    found = environment()
    for run in run_parts(__file__, BATCHES, "--blocks", options.blocks, "--tokens", options.tokens):
        found["runs"].append(run)
        for name, row in run["figures"].items():
            print(
                f"    {name:<30}{row['ms']:>9.1f} ms {row['tokens_per_s']:>8} tokens/s   "
                f"times ours: {row['times_ours']:.2f}"
            )
    save(found, options.json)


if __name__ == "__main__":
    main()
