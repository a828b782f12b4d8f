"""What is saved is the published form: transformers reads it, with equal logits, and so do we."""

import json
import os
from dataclasses import replace

import numpy as np
import pytest
import torch
from assertions import assert_refused
from torch import nn

from attnbook import (
    NTK,
    DynamicNTK,
    Interpolation,
    Llama3,
    LongRoPE,
    RotaryPositions,
    TransformerLM,
    YaRN,
    decoder_parts,
    gemma_parts,
    gpt2_parts,
    load_decoder,
    save_decoder,
)
from attnbook.decoding import TokenIds
from attnbook.pretrained.token_ids import read_token_ids

from .published_models import GPT2, SMALL, WORDS, make_theirs, text, transformers

CLOSE = {"atol": 1e-5, "rtol": 1e-5}
GEMMA = SMALL | {"head_dim": 12, "sliding_window": 7, "pad_token_id": None}
LOADED = {
    "llama": ("Llama", SMALL | {"attention_bias": True}),
    "qwen2": ("Qwen2", SMALL | {"tie_word_embeddings": True}),
    "phi3": ("Phi3", SMALL | {"pad_token_id": None}),
    "gemma2": ("Gemma2", GEMMA),
    "gemma3": ("Gemma3Text", GEMMA),
    "gpt2": ("GPT2", GPT2),
    "gpt2, untied": ("GPT2", GPT2 | {"tie_word_embeddings": False}),
}


@pytest.mark.parametrize("name", LOADED)
@torch.no_grad()
def test_a_loaded_model_is_saved_as_it_came_and_as_it_was_changed(tmp_path, name):
    theirs = make_theirs(*LOADED[name], seed=3)
    theirs.save_pretrained(tmp_path / "theirs")
    model, tokens = load_decoder(tmp_path / "theirs"), text()
    folder = save_decoder(model, tmp_path / "ours", max_shard_size=20_000)
    assert (folder / "model.safetensors.index.json").is_file()
    back = type(theirs).from_pretrained(folder).eval()
    assert torch.equal(back(tokens).logits, theirs(tokens).logits)
    first, second = (
        json.loads((tmp_path / name / "config.json").read_text()) for name in ("theirs", "ours")
    )
    assert first == second
    for parameter in model.parameters():
        parameter.mul_(1.01)
    save_decoder(model, folder)  # over what was there, and in one file now
    assert sorted(path.name for path in folder.iterdir()) == [
        "config.json",
        "generation_config.json",
        "model.safetensors",
    ]
    back = type(theirs).from_pretrained(folder).eval()
    torch.testing.assert_close(back(tokens).logits, model(tokens).logits, **CLOSE)
    assert (back(tokens).logits - theirs(tokens).logits).abs().max() > 1e-3
    assert torch.equal(load_decoder(folder)(tokens).logits, model(tokens).logits)


def rotary(scaling=None, base=1000.0):
    return RotaryPositions(8, base=base, scaling=scaling)


LONG = LongRoPE((1.0, 1.0, 1.2, 1.4), (1.0, 2.0, 3.0, 9.0), 16, 4.0)
BY_HAND = {
    "llama": decoder_parts(32, 4, 40, num_kv_heads=2),
    "llama, biases": decoder_parts(32, 4, 40, bias=True, rotary=rotary(Interpolation(2.0))),
    "llama, yarn": decoder_parts(32, 4, 40, rotary=rotary(YaRN(4.0, 16, truncate=False))),
    "llama, llama 3": decoder_parts(32, 4, 40, rotary=rotary(Llama3(8.0, 1.0, 4.0, 16))),
    "llama, dynamic": decoder_parts(32, 4, 40, rotary=rotary(DynamicNTK(2.0, 16))),
    "llama, longrope": decoder_parts(32, 4, 40, rotary=rotary(LONG)),
    "mistral": decoder_parts(32, 4, 40, d_head=8, window=9, eps=0.01),
    "qwen2": decoder_parts(32, 4, 40, bias=True, output_bias=False),
    "qwen3": decoder_parts(32, 2, 40, d_head=8, normalise=True, window=9),
    "gpt2": gpt2_parts(32, 4, 50, 64, eps=0.01),
}


@pytest.mark.parametrize("tie", [True, False])
@pytest.mark.parametrize("name", BY_HAND)
@torch.no_grad()
def test_a_model_built_by_hand_is_read_by_transformers(tmp_path, name, tie):
    torch.manual_seed(len(name))
    model, tokens = TransformerLM(WORDS, BY_HAND[name], num_layers=2, tie=tie).eval(), text()
    for parameter in model.parameters():
        parameter.add_(torch.randn_like(parameter), alpha=0.1)
    folder = save_decoder(model, tmp_path / "new" / "folder")
    back = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
    assert back.config.model_type == name.split(",")[0]
    torch.testing.assert_close(back(tokens).logits, model(tokens).logits, **CLOSE)
    assert torch.equal(load_decoder(folder)(tokens).logits, model(tokens).logits)
    assert back.generation_config.eos_token_id is None


def changed(parts, change):
    model = TransformerLM(WORDS, parts, num_layers=2)
    change(model)
    return model


LLAMA = decoder_parts(32, 4, 40)
NOT_PUBLISHED = {
    "another gate": (LLAMA, lambda m: setattr(m.stack.layers[1].feed_forward, "gate", torch.relu)),
    "another ε": (LLAMA, lambda m: setattr(m.stack.layers[1].around_attention.norm, "eps", 0.1)),
    "another scale": (LLAMA, lambda m: setattr(m.stack.layers[0].attention.score, "scale", 1.0)),
    "pairs side by side": (
        decoder_parts(32, 4, 40, rotary=RotaryPositions(8, layout="interleaved")),
        lambda m: None,
    ),
    "a block without its norm": (
        LLAMA,
        lambda m: setattr(m.stack.layers[0].around_attention, "norm", nn.Identity()),
    ),
    "sinks": (LLAMA, lambda m: setattr(m.stack.layers[0].attention, "sinks", 4)),
    "a learned sink": (
        LLAMA,
        lambda m: setattr(m.stack.layers[0].attention, "sink", nn.Parameter(torch.zeros(4))),
    ),
    "a scaling without a name": (decoder_parts(32, 4, 40, rotary=rotary(NTK(2.0))), lambda m: None),
    "a Gemma": (gemma_parts(32, 4, 40), lambda m: None),
    "the paper's parts": (None, lambda m: None),
}


@pytest.mark.parametrize("name", NOT_PUBLISHED)
def test_what_the_published_form_cannot_say_is_refused(tmp_path, name):
    model = changed(*NOT_PUBLISHED[name])
    with pytest.raises(ValueError, match="model must|scaling must"):
        save_decoder(model, tmp_path / "folder")
    assert not list(tmp_path.iterdir())


def test_wrong_arguments_are_named(tmp_path):
    model = TransformerLM(WORDS, LLAMA, num_layers=1)
    assert_refused("model", lambda: save_decoder(nn.Linear(2, 2), tmp_path / "folder"))
    assert_refused("max_shard_size", save_decoder, model, tmp_path / "folder", max_shard_size=0)
    model.output.half()
    assert_refused("model", save_decoder, model, tmp_path / "folder")
    save_decoder(TransformerLM(WORDS, LLAMA, num_layers=1), tmp_path / "folder")
    for dtype in (torch.int8, torch.complex64, "float32", None):
        assert_refused("dtype", load_decoder, tmp_path / "folder", dtype=dtype)
    for device in ("cuda:77", "toaster", 3.5):
        assert_refused("device", load_decoder, tmp_path / "folder", device=device)
    for device in ("cpu", torch.device("meta")):
        model = load_decoder(tmp_path / "folder", device=device)
        assert {p.device for p in model.parameters()} == {torch.device(device)}
    with torch.device("meta"):  # the default device
        assert load_decoder(tmp_path / "folder").output.weight.device.type == "meta"


@pytest.mark.parametrize("name", ["openai-community/gpt2", "gpt2"])
def test_a_name_on_the_hub_is_answered_with_the_line_that_downloads_it(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError, match=rf"snapshot_download\('{name}', allow_patterns="):
        load_decoder(name)
    with pytest.raises(FileNotFoundError) as raised:
        load_decoder(tmp_path / "no folder")
    assert "snapshot_download" not in str(raised.value)


@pytest.mark.parametrize("failing", ["model-00002-of", "config.json"])
def test_nothing_half_written_remains(tmp_path, monkeypatch, failing):
    """The disk is full in the second file, or before the last: what stood there still stands."""
    from attnbook.pretrained import decoders, tensors

    torch.manual_seed(0)
    model, tokens = TransformerLM(WORDS, LLAMA, num_layers=2).eval(), text()
    folder = save_decoder(model, tmp_path / "folder")
    (folder / "tokenizer.json").write_text("{}")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}

    def full(write):
        def wrapped(*arguments, **options):
            if any(failing in str(argument) for argument in arguments):
                raise OSError(28, "No space left on device")
            return write(*arguments, **options)

        return wrapped

    monkeypatch.setattr(tensors, "save_file", full(tensors.save_file))
    monkeypatch.setattr(decoders.Path, "write_text", full(decoders.Path.write_text))
    for target in (folder, tmp_path / "other"):
        with pytest.raises(OSError, match="No space"):
            save_decoder(model, target, max_shard_size=10_000)
    assert os.listdir(tmp_path) == ["folder"]
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    monkeypatch.undo()
    assert torch.equal(load_decoder(folder)(tokens).logits, model(tokens).logits)


@pytest.mark.parametrize(
    ("config", "generation", "ids"),
    [
        (
            {"bos_token_id": 5, "eos_token_id": 0, "pad_token_id": 7},
            None,
            TokenIds(begin=5, end=0, padding=7),
        ),
        ({"eos_token_id": [4, 0, 4]}, None, TokenIds(end=(4, 0))),
        ({"bos_token_id": 5, "eos_token_id": 1}, {"eos_token_id": [2, 3]}, TokenIds(end=(2, 3))),
        ({"eos_token_id": 1}, {"suppress_tokens": [8, 9]}, TokenIds(forbidden=(8, 9))),
        ({"pad_token_id": -1, "eos_token_id": None}, None, TokenIds()),
    ],
)
def test_token_ids_are_those_of_transformers_and_are_saved(tmp_path, config, generation, ids):
    none = {"bos_token_id": None, "eos_token_id": None, "pad_token_id": None}
    make_theirs("Llama", SMALL | none, seed=1).save_pretrained(tmp_path)
    (tmp_path / "generation_config.json").unlink()
    fields = json.loads((tmp_path / "config.json").read_text()) | config
    (tmp_path / "config.json").write_text(json.dumps(fields))
    if generation is not None:
        (tmp_path / "generation_config.json").write_text(json.dumps(generation))
    model = load_decoder(tmp_path)
    assert model.token_ids == read_token_ids(config, generation, WORDS) == ids
    if fields["pad_token_id"] != -1:
        wanted = transformers.LlamaForCausalLM.from_pretrained(tmp_path).generation_config
        end = wanted.eos_token_id
        end = () if end is None else tuple(end) if isinstance(end, list) else (end,)
        assert model.token_ids.begin == wanted.bos_token_id
        assert model.token_ids.end == tuple(dict.fromkeys(end))
        assert model.token_ids.padding == wanted.pad_token_id
        assert list(model.token_ids.forbidden) == (wanted.suppress_tokens or [])
    model.token_ids = replace(model.token_ids, end=60)
    folder = save_decoder(model, tmp_path / "saved")
    assert load_decoder(folder).token_ids == model.token_ids
    saved = transformers.LlamaForCausalLM.from_pretrained(folder)
    assert saved.generation_config.eos_token_id == saved.config.eos_token_id == 60


@torch.no_grad()
def test_other_fields_of_generation_and_half_precision_stay(tmp_path):
    theirs = make_theirs("Llama", SMALL, seed=1).bfloat16()
    theirs.generation_config.do_sample = True
    theirs.generation_config.temperature = 0.6
    theirs.save_pretrained(tmp_path / "theirs")
    save_decoder(load_decoder(tmp_path / "theirs", dtype=torch.bfloat16), tmp_path / "ours")
    back = transformers.LlamaForCausalLM.from_pretrained(tmp_path / "ours")
    assert back.generation_config.temperature == 0.6 and back.dtype == torch.bfloat16
    assert all(torch.equal(a, b) for a, b in zip(back.parameters(), theirs.parameters()))


@torch.no_grad()
def test_the_text_part_of_a_model_that_sees(tmp_path):
    """Of a Gemma 3 with pictures the decoder is loaded, by the names of then and of now."""
    from safetensors.torch import save_file

    theirs = make_theirs("Gemma3Text", GEMMA | {"num_attention_heads": 8, "head_dim": 256}, seed=2)
    text_config = theirs.config.to_dict()
    defaults = type(theirs.config)().to_dict()
    text_config = {
        k: v
        for k, v in text_config.items()
        if v != defaults.get(k) or k in ("model_type", "vocab_size")
    }
    config = {"model_type": "gemma3", "text_config": text_config, "vision_config": {}}
    tensors = {k: v.contiguous() for k, v in theirs.state_dict().items() if k != "lm_head.weight"}
    for body, eye in (("language_model.model.", ""), ("model.language_model.", "model.")):
        folder = tmp_path / f"seeing {eye}"
        folder.mkdir()
        named = {body + name.removeprefix("model."): tensor for name, tensor in tensors.items()}
        named[f"{eye}vision_tower.patch.weight"] = torch.zeros(2)
        named[f"{eye}multi_modal_projector.weight"] = torch.zeros(2)
        save_file(named, folder / "model.safetensors")
        (folder / "config.json").write_text(json.dumps(config))
        model = load_decoder(folder)
        torch.testing.assert_close(model(text()).logits, theirs(text()).logits, **CLOSE)
    back = type(theirs).from_pretrained(save_decoder(model, tmp_path / "text"))
    torch.testing.assert_close(back(text()).logits, theirs(text()).logits, **CLOSE)


def test_sizes_from_numpy_are_saved(tmp_path):
    parts = decoder_parts(np.int64(16), np.int64(2), np.int64(32))
    model = TransformerLM(np.int64(20), parts, num_layers=np.int64(1)).eval()
    tokens = torch.tensor([[1, 2, 3]])
    with torch.no_grad():
        found = load_decoder(save_decoder(model, tmp_path / "folder"))(tokens).logits
        assert torch.equal(found, model(tokens).logits)
