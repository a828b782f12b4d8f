"""A decoder of today computes what the published classes compute, from the same files.

The oracle are the classes of ``transformers``, small, with random weights: norms and biases too,
and an ε that counts.
"""

import json

import pytest
import torch
from assertions import refusals
from safetensors.torch import load_file, save_file
from torch.nn import functional as F

from attnbook import (
    PostNorm,
    PreNorm,
    RMSNorm,
    RotaryPositions,
    TransformerLM,
    decoder_parts,
    load_decoder,
)
from attnbook.decoding import beam_search
from attnbook.modules import map_tensors

from .published_models import (
    GPT2,
    LENGTH,
    NEAR,
    SMALL,
    WORDS,
    make_theirs,
    read_by,
    rope,
    text,
    transformers,
)


def turned(**fields):
    return {"rope_parameters": fields}


CONFIGS = {
    "llama": ("Llama", SMALL),
    "llama, tied, wide heads, biases": (
        "Llama",
        SMALL | {"tie_word_embeddings": True, "head_dim": 12, "attention_bias": True},
    ),
    "llama 3": (
        "Llama",
        SMALL
        | rope(
            "llama3", low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=24
        ),
    ),
    "llama, linear": ("Llama", SMALL | rope("linear")),
    "llama, yarn": (
        "Llama",
        SMALL | rope("yarn", original_max_position_embeddings=24, beta_fast=4.0),
    ),
    "mistral": ("Mistral", SMALL | {"sliding_window": 7}),
    "mistral, no window": ("Mistral", SMALL | {"sliding_window": None}),
    "qwen3": ("Qwen3", SMALL | {"head_dim": 16, "tie_word_embeddings": True}),
    "qwen3, some windows": (
        "Qwen3",
        SMALL
        | {"head_dim": 8, "use_sliding_window": True, "sliding_window": 6, "max_window_layers": 1},
    ),
    "qwen2": ("Qwen2", SMALL | {"tie_word_embeddings": True}),
    "qwen2, some windows": (
        "Qwen2",
        SMALL | {"use_sliding_window": True, "sliding_window": 5, "max_window_layers": 2},
    ),
    "llama, yarn, magnitudes": (
        "Llama",
        SMALL
        | rope(
            "yarn",
            original_max_position_embeddings=240,
            mscale=0.7,
            mscale_all_dim=2.0,
            truncate=False,
        ),
    ),
    "phi3": ("Phi3", SMALL | {"pad_token_id": None}),
    "phi3, half of a head, window": (
        "Phi3",
        SMALL
        | {"pad_token_id": None, "num_key_value_heads": 4, "sliding_window": 6}
        | turned(rope_theta=100.0, partial_rotary_factor=0.5),
    ),
    "gemma2": (
        "Gemma2",
        SMALL
        | {"pad_token_id": None, "head_dim": 12, "query_pre_attn_scalar": 5, "sliding_window": 7}
        | {"attn_logit_softcapping": 1.5, "final_logit_softcapping": 4.0},
    ),
    "gemma2, no caps, biases": (
        "Gemma2",
        SMALL
        | {"pad_token_id": None, "head_dim": 8, "sliding_window": 300, "attention_bias": True}
        | {"attn_logit_softcapping": None, "final_logit_softcapping": None},
    ),
    "gemma3": (
        "Gemma3Text",
        SMALL
        | {"pad_token_id": None, "head_dim": 12, "query_pre_attn_scalar": 5, "sliding_window": 7}
        | {"layer_types": ["sliding_attention", "full_attention", "sliding_attention"]}
        | turned(
            full_attention={"rope_type": "linear", "factor": 4.0, "rope_theta": 1000.0},
            sliding_attention={"rope_type": "default", "rope_theta": 50.0},
        ),
    ),
    "gemma3, six in turn": (
        "Gemma3Text",
        SMALL
        | {"pad_token_id": None, "head_dim": 8, "sliding_window": 4, "num_hidden_layers": 7}
        | {"final_logit_softcapping": 4.0},
    ),
    "gpt2": ("GPT2", GPT2),
    "gpt2, untied": ("GPT2", GPT2 | {"tie_word_embeddings": False, "n_inner": 50}),
}


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """Folders as they are published, and the class of each, made once."""
    made = {}

    def make(name):
        if name not in made:
            kind, fields = CONFIGS_BY_LENGTH[name]
            theirs = make_theirs(kind, fields, len(name))
            folder = tmp_path_factory.mktemp("published")
            theirs.save_pretrained(folder)
            made[name] = folder, theirs
        return made[name]

    return make


def copy(folder, into, **changed):
    """The folder, with other fields in its config.json; None takes one away."""
    config = json.loads((folder / "config.json").read_text())
    config = {k: v for k, v in (config | changed).items() if v is not None}
    (into / "config.json").write_text(json.dumps(config))
    (into / "model.safetensors").write_bytes((folder / "model.safetensors").read_bytes())
    return into


@pytest.mark.parametrize("name", CONFIGS)
@torch.no_grad()
def test_logits_are_those_of_the_published_class(published, name):
    """A text at once, step by step, in chunks; in a batch whose texts begin with other lengths."""
    folder, theirs = published(name)
    model, tokens = load_decoder(folder), text()
    wanted = theirs(tokens).logits
    assert wanted.std() > 0.5  # so that 1e-5 is small
    torch.testing.assert_close(model(tokens).logits, wanted, **NEAR)
    state = model.begin(2)
    for t in range(LENGTH):
        logits, state, _ = model.step(tokens[:, t], state)
        torch.testing.assert_close(logits, wanted[:, t], **NEAR)
    state, start = model.begin(2), 0
    for m in (11, 1, 9, 16):
        logits, state, _ = model.read(tokens[:, start : start + m], state)
        torch.testing.assert_close(logits, wanted[:, start : start + m], **NEAR)
        start += m
    lengths = torch.tensor([9, 20])
    state = model.encode(tokens[:, :20], lengths)
    for t in range(12):
        logits, state, _ = model.step(tokens[[0, 1], lengths + t], state)
        torch.testing.assert_close(logits, wanted[[0, 1], lengths + t], **NEAR)
    with_padding = theirs(
        tokens[:, :20], attention_mask=(torch.arange(20) < lengths[:, None]).long()
    ).logits
    ours = model(tokens[:, :20], lengths).logits
    torch.testing.assert_close(ours[0, :9], with_padding[0, :9], **NEAR)
    torch.testing.assert_close(ours[1], with_padding[1], **NEAR)


LONG = [1.0, 1.5, 3.0, 7.0]
FACTORS = {"short_factor": [1.0, 1.1, 1.2, 1.3], "long_factor": LONG}
SHORT = SMALL | {"pad_token_id": None, "original_max_position_embeddings": 16}
BY_LENGTH = {
    "dynamic NTK": ("Llama", SMALL | rope("dynamic") | {"max_position_embeddings": 16}),
    "LongRoPE": ("Phi3", SHORT | turned(rope_theta=1000.0, **FACTORS, rope_type="longrope")),
    "LongRoPE, half of a head": (
        "Phi3",
        SHORT
        | turned(
            rope_type="longrope",
            partial_rotary_factor=0.5,
            attention_factor=1.3,
            short_factor=[1.0, 1.2],
            long_factor=[1.0, 5.0],
        ),
    ),
}
CONFIGS_BY_LENGTH = CONFIGS | BY_LENGTH


@pytest.mark.parametrize("name", BY_LENGTH)
@torch.no_grad()
def test_angles_that_depend_on_the_length_change_where_they_do(published, name):
    """Behind 16 positions the angles are others, also for what is in a cache already: a text at
    once, step by step and in chunks across the change differ, and each is as theirs."""
    folder, theirs = published(name)
    model, tokens = load_decoder(folder), text()
    whole = theirs(tokens).logits
    torch.testing.assert_close(model(tokens).logits, whole, **NEAR)
    theirs(tokens[:, :1])  # theirs forgets the longer text
    short = theirs(tokens[:, :16]).logits
    torch.testing.assert_close(model(tokens[:, :16]).logits, short, **NEAR)
    assert (whole[:, :16] - short).abs().max() > 0.01
    for parts in ([1] * LENGTH, [16, 1, 20, 3], [11, 9, 20]):
        theirs(tokens[:, :1])
        wanted, state, start = read_by(theirs, tokens, parts), model.begin(2), 0
        for m in parts:
            logits, state, _ = model.read(tokens[:, start : start + m], state)
            torch.testing.assert_close(logits, wanted[:, start : start + m], **NEAR)
            start += m
        assert (wanted - whole).abs().max() > 0.01
    lengths = torch.tensor([9, 20])  # one text is short, and its angles are those of a short one
    state = model.encode(tokens[:, :20], lengths)
    alone = []
    for row, n in enumerate((9, 20)):
        theirs(tokens[:, :1])
        alone.append(read_by(theirs, tokens[row : row + 1], [n] + [1] * 12))
    for t in range(12):
        logits, state, _ = model.step(tokens[[0, 1], lengths + t], state)
        for row, n in enumerate((9, 20)):
            torch.testing.assert_close(logits[row], alone[row][0, n + t], **NEAR)


@torch.no_grad()
def test_double_precision_is_kept(published):
    folder, theirs = published("gpt2")
    model, tokens = load_decoder(folder, dtype=torch.float64), text()
    wanted = make_theirs("GPT2", GPT2, len("gpt2")).double()(tokens).logits
    torch.testing.assert_close(model(tokens).logits, wanted, atol=1e-10, rtol=1e-10)


@pytest.mark.parametrize("name", ["llama 3", "mistral", "qwen3, some windows", "gpt2, untied"])
@torch.no_grad()
def test_greedy_texts_agree_for_200_tokens(published, name):
    folder, theirs = published(name)
    model, prompts = load_decoder(folder), text(2, 9)
    wanted = theirs.generate(
        prompts, max_new_tokens=200, do_sample=False, attention_mask=torch.ones_like(prompts)
    )
    logits, state, _ = model.read(prompts, model.begin(2))
    found, token = [], logits[:, -1].argmax(-1)
    for _ in range(200):
        found.append(token)
        logits, state, _ = model.step(token, state)
        token = logits.argmax(-1)
    assert torch.equal(torch.stack(found, 1), wanted[:, 9:])
    assert len(set(wanted[0, 9:].tolist())) > 2  # not one word again and again


@pytest.mark.parametrize("name", ["llama", "mistral", "qwen3, some windows"])
@torch.no_grad()
def test_a_beginning_that_several_texts_share_is_read_once(published, name):
    folder, theirs = published(name)
    model, tokens = load_decoder(folder), text(3, 30)
    tokens[:, :17] = tokens[0, :17]
    shared = model.read(tokens[:1, :17], model.begin(1)).state
    state = map_tensors(lambda t: t.expand(3, *t.shape[1:]), shared)
    torch.testing.assert_close(
        model.read(tokens[:, 17:], state).logits, theirs(tokens).logits[:, 17:], **NEAR
    )


@torch.no_grad()
def test_beams_take_a_rolling_cache_along(published):
    """Texts of a padded batch go on as each alone, their caches reordered and cut to the window."""
    model, prompts, lengths = load_decoder(published("mistral")[0]), text(2, 15), [15, 9]
    batch = beam_search(model, prompts, torch.tensor(lengths), beam_size=3, max_length=12)
    for row, (n, found) in enumerate(zip(lengths, batch)):
        (alone,) = beam_search(
            model, prompts[row : row + 1, :n], torch.tensor([n]), beam_size=3, max_length=12
        )
        assert [beam.tokens for beam in found] == [beam.tokens for beam in alone]
        assert len({tuple(beam.tokens) for beam in found}) == 3


def for_blocks(change):
    def applied(model):
        for layer in model.stack.layers:
            change(layer)

    return applied


def interleaved(layer):
    layer.attention.rotary.layout = "interleaved"


def post_norm(layer):
    layer.around_attention.__class__ = layer.around_feed_forward.__class__ = PostNorm


def norms_after_rotation(layer):
    attention = layer.attention
    rotary, norm = attention.rotary, attention.key_norm
    attention.query_norm, attention.key_norm = None, None

    class Late(torch.nn.Module):
        d_head = rotary.d_head

        def forward(self, x, position=0):
            return norm(rotary(x, position))

    attention.rotary = Late()


def heads_in_turn(layer):
    """Query head i reads head i mod g instead of ⌊i g / h⌋."""
    attention = layer.attention
    for projection, axis in ((attention.query_projection, 0), (attention.output_projection, 1)):
        heads = projection.weight.unflatten(axis, (2, 2, -1)).transpose(axis, axis + 1)
        projection.weight.copy_(heads.flatten(axis, axis + 2))


def gate_swapped(layer):
    ff = layer.feed_forward
    ff.gate_projection, ff.value_projection = ff.value_projection, ff.gate_projection


def no_head_norm(layer):
    layer.attention.query_norm = layer.attention.key_norm = None


def one_head_norm(layer):
    layer.attention.key_norm = layer.attention.query_norm


def exact_gelu(layer):
    layer.feed_forward.activation = F.gelu


def no_norms_after(layer):
    for around in (layer.around_attention, layer.around_feed_forward):
        around.__class__ = PreNorm


def norms_from_zero(layer):
    for module in layer.modules():
        if isinstance(module, RMSNorm):
            module.offset = 0.0


def no_score_cap(layer):
    layer.attention.score = layer.attention.score.score


def usual_scale(layer):
    layer.attention.score.score.scale = None


def whole_heads(layer):
    rotary = layer.attention.rotary
    layer.attention.rotary = RotaryPositions(rotary.d_head, base=rotary.base)


def gate_above_value(layer):
    ff = layer.feed_forward
    halves = torch.cat([ff.value_projection.weight, ff.gate_projection.weight])
    ff.gate_projection.weight, ff.value_projection.weight = map(torch.nn.Parameter, halves.chunk(2))


def no_bias(layer):
    layer.attention.key_projection.bias.zero_()  # which the softmax does not see …
    layer.attention.value_projection.bias.zero_()  # … and this it does


YARN = CONFIGS["llama, yarn, magnitudes"][1]["rope_parameters"]
LLAMA3 = CONFIGS["llama 3"][1]["rope_parameters"]
PLAIN = turned(rope_type="default", rope_theta=1000.0)
WRONG_MODELS = {
    "interleaved layout": ("llama", for_blocks(interleaved)),
    "norms behind the sum": ("llama", for_blocks(post_norm)),
    "heads of keys in turn": ("llama", for_blocks(heads_in_turn)),
    "gate and value swapped": ("llama", for_blocks(gate_swapped)),
    "no norm at the end": ("llama", lambda m: setattr(m.stack, "norm", torch.nn.Identity())),
    "embeddings times √d": ("llama", lambda m: m.embedding.weight.mul_(32**0.5)),
    "no norms of heads": ("qwen3", for_blocks(no_head_norm)),
    "one norm for queries and keys": ("qwen3", for_blocks(one_head_norm)),
    "norms behind the rotation": ("qwen3", for_blocks(norms_after_rotation)),
    "exact GELU": ("gpt2", for_blocks(exact_gelu)),
    "no biases": ("gpt2", for_blocks(no_bias)),
    "norms of GPT-2 behind the sum": ("gpt2", for_blocks(post_norm)),
    "biases of Qwen2 missing": ("qwen2", for_blocks(no_bias)),
    "all of a head turned": ("phi3, half of a head, window", for_blocks(whole_heads)),
    "gate and value of Phi-3 swapped": ("phi3", for_blocks(gate_above_value)),
    "no norms after the sublayers": ("gemma2", for_blocks(no_norms_after)),
    "norms that start at 1": ("gemma2", for_blocks(norms_from_zero)),
    "no cap of scores": ("gemma2", for_blocks(no_score_cap)),
    "no cap of logits": ("gemma2", lambda m: setattr(m.output, "cap", 1e6)),
    "scores scaled by the width": ("gemma2", for_blocks(usual_scale)),
    "gate of exact GELU": ("gemma3", for_blocks(lambda b: setattr(b.feed_forward, "gate", F.gelu))),
    "one base for all blocks": (
        "gemma3",
        for_blocks(lambda b: setattr(b.attention, "rotary", RotaryPositions(12, base=50.0))),
    ),
    "positions from 1": (
        "gpt2",
        lambda m: m.positions.weight.copy_(m.positions.weight.roll(-1, 0)),
    ),
}
WRONG_FIELDS = {
    "ε missing": ("llama", {"rms_norm_eps": 0.0}),
    "ε of GPT-2 missing": ("gpt2", {"layer_norm_epsilon": 0.0}),
    "another base": ("llama", turned(rope_type="default", rope_theta=1e6)),
    "scaling of Llama 3 ignored": ("llama 3", PLAIN),
    "length of Llama 3's training ignored": (
        "llama 3",
        turned(**LLAMA3 | {"original_max_position_embeddings": 8192}),
    ),
    "interpolation ignored": ("llama, linear", PLAIN),
    "magnitude of YaRN ignored": (
        "llama, yarn",
        turned(**CONFIGS["llama, yarn"][1]["rope_parameters"], attention_factor=1),
    ),
    "magnitudes of YaRN ignored": ("llama, yarn, magnitudes", turned(**YARN | {"mscale": None})),
    "ramp of YaRN cut": ("llama, yarn, magnitudes", turned(**YARN | {"truncate": True})),
    "windows of Gemma in the other blocks": (
        "gemma2",
        {"layer_types": ["full_attention", "sliding_attention", "full_attention"]},
    ),
    "window one too long": ("mistral", {"sliding_window": 8}),
    "window one too short": ("mistral", {"sliding_window": 6}),
    "no window": ("mistral", {"model_type": "llama"}),
    "windows everywhere": ("qwen3, some windows", {"layer_types": ["sliding_attention"] * 3}),
    "windows in the first blocks": (
        "qwen3, some windows",
        {"layer_types": ["sliding_attention"] * 2 + ["full_attention"]},
    ),
}


@pytest.mark.parametrize("wrong", [*WRONG_MODELS, *WRONG_FIELDS])
@torch.no_grad()
def test_known_wrong_versions_are_told_apart(published, tmp_path, wrong):
    name, change = (WRONG_MODELS | WRONG_FIELDS)[wrong]
    folder, theirs = published(name)
    if wrong in WRONG_FIELDS:
        model = load_decoder(copy(folder, tmp_path, **change))
    else:
        model = load_decoder(folder)
        change(model)
    tokens = text()
    assert (model(tokens).logits - theirs(tokens).logits).abs().max() > 10 * NEAR["atol"]


@torch.no_grad()
def test_shards_and_half_precision(published, tmp_path):
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        original, _ = published("qwen3")
        kind, folder = transformers.Qwen3ForCausalLM, tmp_path / str(dtype)
        kind.from_pretrained(original, dtype=dtype).save_pretrained(folder, max_shard_size="20KB")
        assert len(list(folder.glob("*.safetensors"))) > 2
        theirs, model = kind.from_pretrained(folder, dtype=torch.float32), load_decoder(folder)
        torch.testing.assert_close(model(text()).logits, theirs(text()).logits, **NEAR)
        assert model.output.weight is model.embedding.weight  # tied
        assert {p.dtype for p in load_decoder(folder, dtype=dtype).parameters()} == {dtype}


def of_gpt2(tensors):
    """The body alone, and a mask."""
    tensors = {name.removeprefix("transformer."): t for name, t in tensors.items()}
    return tensors | {"h.0.attn.bias": torch.ones(1, 1, 256, 256, dtype=torch.bool)}


def with_frequencies(tensors):
    return tensors | {"model.layers.0.self_attn.rotary_emb.inv_freq": torch.ones(4)}


SCALING = {k: v for k, v in LLAMA3.items() if k not in ("rope_theta", "rope_type")}
OLD = {  # rotation in two fields, no head_dim or layer_types; masks among the tensors
    "llama 3": (
        {"rope_parameters": None, "head_dim": None, "rope_theta": LLAMA3["rope_theta"]}
        | {"rope_scaling": SCALING | {"type": "llama3"}},
        with_frequencies,
    ),
    "qwen3, some windows": ({"layer_types": None}, dict),
    "gpt2": ({}, of_gpt2),
}
OLDER = {  # two bases in two fields; the limit of LongRoPE outside its object
    "gemma2, no caps, biases": {"rope_theta": 10_000.0, "sliding_window": 5},
    "gemma3, six in turn": {"rope_theta": 1e6, "rope_local_base_freq": 1e4, "rope_scaling": None}
    | {"sliding_window_pattern": 6},
    "LongRoPE": {"rope_theta": 1000.0, "rope_scaling": {"type": "longrope"} | FACTORS},
}


@pytest.mark.parametrize("name", [*OLD, *OLDER])
@torch.no_grad()
def test_files_of_older_versions_are_read(published, tmp_path, name):
    folder, theirs = published(name)
    if name in OLD:
        changed, rename = OLD[name]
        old = copy(folder, tmp_path, **changed)
        save_file(rename(load_file(folder / "model.safetensors")), old / "model.safetensors")
    else:
        gone = {"layer_types": None, "rope_parameters": None, "pad_token_id": 0}
        old = copy(folder, tmp_path, **gone, **OLDER[name])
        theirs = type(theirs).from_pretrained(old).eval()
    torch.testing.assert_close(load_decoder(old)(text()).logits, theirs(text()).logits, **NEAR)


LONG_FACTORS = turned(
    rope_type="longrope", short_factor=LONG, long_factor=LONG, partial_rotary_factor=0.5
)
REFUSED = [
    ("llama", {"model_type": "falcon"}, "model_type .* llama, mistral, .*, gpt2, got 'falcon'"),
    ("llama", {"model_type": ["llama"]}, "model_type .* got \\['llama'\\]"),
    ("llama", {"hidden_act": "gelu"}, "hidden_act .* must be 'silu'.* got 'gelu'"),
    ("llama", {"mlp_bias": True}, "mlp_bias .* must be False.* got True"),
    ("llama", {"quantization_config": {"bits": 4}}, "quantization_config .* got {'bits': 4}"),
    ("gpt2", {"activation_function": "relu"}, "activation_function .* 'gelu_new'.* got 'relu'"),
    ("gpt2", {"scale_attn_by_inverse_layer_idx": True}, "scale_attn_by_inverse_layer_idx"),
    ("llama", rope("spiral"), "rope_type .* default, linear, dynamic, yarn, .*, got 'spiral'"),
    ("llama", rope("longrope"), "rope_parameters .* longrope, got .*'short_factor'"),
    ("llama", rope("yarn", mscale="x"), "mscale must be a finite number .*'x'"),
    ("llama", rope("yarn", truncate=3), "truncate must be one of True, False, got 3"),
    ("llama", rope("linear") | {"rope_theta": 10**400}, "a number has 401 digits"),
    ("phi3", LONG_FACTORS, "long_factor must be 2 numbers.* got 4"),
    ("phi3", {"hidden_act": "gelu"}, "hidden_act .* 'silu'.* got 'gelu'"),
    ("phi3", {"rope_parameters": {"partial_rotary_factor": 0.4}}, "d_rotary must be even .* got 3"),
    (
        "qwen2",
        {"model_type": "llama"},
        "no place for, got \\['model.layers.0.self_attn.k_proj.bias",
    ),
    ("gemma2", {"hidden_activation": "gelu"}, "hidden_activation .* got 'gelu'"),
    ("gemma2", {"use_bidirectional_attention": True}, "use_bidirectional_attention .* got True"),
    ("gemma2", {"attn_logit_softcapping": -1}, "attn_logit_softcapping .* > 0, got -1"),
    ("gemma3", {"attn_logit_softcapping": 50.0}, "attn_logit_softcapping .* must be None"),
    ("gemma3", {"rope_parameters": {"rope_type": "linear"}}, "one object for full_attention and"),
    ("gemma3", {"model_type": "gemma2"}, "rope_parameters .* that of default, got"),
    ("llama", {"eos_token_id": 61}, "eos_token_id in config.json must be .* 0 to 60, got 61"),
    ("llama", {"eos_token_id": [1, -1]}, "eos_token_id in config.json .* got -1"),
    ("llama", {"bos_token_id": [1]}, r"bos_token_id in config.json must be one id, got \[1\]"),
    ("llama", {"pad_token_id": "x"}, "pad_token_id in config.json .* got 'x'"),
    ("llama", rope("linear", mscale=1.0), "rope_parameters .* linear, got .*'mscale'"),
    ("llama", rope("llama3"), "rope_parameters .* llama3, got .*low_freq_factor"),
    ("llama", rope("default", partial_rotary_factor=0.5), "partial_rotary_factor .* got 0.5"),
    ("llama", {"rope_parameters": [1]}, "rope_parameters .* object, got \\[1\\]"),
    ("llama", {"hidden_size": None}, "hidden_size .* integer .* got None"),
    ("llama", {"hidden_size": 2**60}, "hidden_size .* integer from 1 to"),
    ("llama", {"vocab_size": 2**24}, "embed_tokens.weight .* shape \\(16777216, 32\\).* \\(61, 32"),
    ("llama", {"num_hidden_layers": 10**12}, "num_hidden_layers .* from 1 to 30, got 10000000"),
    ("llama", {"num_hidden_layers": 2}, "no place for, got \\['model.layers.2"),
    ("llama", {"num_hidden_layers": 4}, "hold the tensor model.layers.3.self_attn.q_proj.weight"),
    ("llama", {"intermediate_size": 41}, "mlp.gate_proj.weight .* shape \\(41, 32\\)"),
    ("llama", {"num_key_value_heads": 3}, "num_kv_heads must divide num_heads = 4, got 3"),
    ("llama", {"rms_norm_eps": "small"}, "rms_norm_eps .* got 'small'"),
    ("llama", {"model_type": "qwen3"}, "hold the tensor model.layers.0.self_attn.q_norm.weight"),
    ("qwen3", {"model_type": "llama"}, "no place for, got \\['model.layers.0.self_attn.k_norm"),
    ("llama", {"tie_word_embeddings": "no"}, "tie_word_embeddings .* got 'no'"),
    ("gpt2", {"n_positions": 300}, "wpe.weight .* shape \\(300, 32\\)"),
    ("gpt2", {"n_head": 5}, "d_model must divide by num_heads"),
    ("gpt2", {"tie_word_embeddings": False}, "hold the tensor lm_head.weight"),
    ("qwen3, some windows", {"layer_types": ["full_attention"]}, "layer_types .* must be 3 of"),
    ("qwen3, some windows", {"layer_types": [{}, {}, {}]}, "layer_types .* must be 3 of"),
    ("mistral", {"sliding_window": -1}, "sliding_window .* got -1"),
]


@pytest.mark.parametrize(("name", "changed", "message"), REFUSED)
def test_what_it_cannot_be_is_named(published, tmp_path, name, changed, message):
    folder, _ = published(name)
    with pytest.raises(ValueError, match=message):
        load_decoder(copy(folder, tmp_path, **changed))


def test_missing_files_and_numbers_that_are_no_weights(published, tmp_path):
    folder, _ = published("llama")
    with pytest.raises(FileNotFoundError, match="config.json"):
        load_decoder(tmp_path)
    copied = copy(folder, tmp_path)
    tensors = load_file(folder / "model.safetensors")
    tensors["lm_head.weight"] = torch.ones(WORDS, 32, dtype=torch.int8)
    save_file(tensors, copied / "model.safetensors")
    with pytest.raises(ValueError, match="lm_head.weight .* floating point .* torch.int8"):
        load_decoder(copied)
    (copied / "model.safetensors").unlink()
    with pytest.raises(FileNotFoundError, match=r"model\.safetensors"):
        load_decoder(copied)


test_wrong_arguments_of_parts_are_named = refusals(
    ("d_model", lambda: decoder_parts("8", 2, 16)), ("num_heads", lambda: decoder_parts(8, 0, 16))
)


def test_blocks_made_without_a_file_share_one_rotation():
    parts = decoder_parts(32, 4, 40, num_kv_heads=2, normalise=True, window=9)
    model = TransformerLM(WORDS, parts, num_layers=2)
    first, second = model.stack.layers
    assert first.attention.rotary is second.attention.rotary
    assert isinstance(first.attention.key_norm, RMSNorm) and model.stack.norm.eps == 1e-6
