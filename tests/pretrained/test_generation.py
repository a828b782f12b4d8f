"""Published models that go on with texts as the package transformers lets them: whatever ids end a
text, 0 among them, and with prompts of every length.
"""

import itertools
import json
from types import SimpleNamespace

import pytest
import torch
from assertions import assert_refused
from safetensors.torch import load_file, save_file
from transformers import LlamaForCausalLM

from attnbook import generate, greedy, load_decoder
from attnbook.training import language_loss

from .published_models import GPT2, SMALL, WORDS, make_theirs

KINDS = {"GPT2": GPT2, "Llama": SMALL, "Mistral": {**SMALL, "sliding_window": 5}, "Qwen3": SMALL}
PROMPTS = [[7], [0, 1, 2, 9, 30], [60, 3, 3], [1], [2, 2]]
# ids that end a text, the filling of a batch, ids that are never said
ENDS = [(0, 5, ()), ((1, 17, 40), 0, (3,)), (None, None, ()), (2, 2, (0, 1))]


@pytest.fixture(scope="module", params=itertools.product(KINDS, range(len(ENDS))), ids=str)
def pair(request, tmp_path_factory):
    kind, which = request.param
    end, padding, never = ENDS[which]
    theirs = make_theirs(kind, KINDS[kind], seed=which, spread=0.4)
    given = {"eos_token_id": list(end) if isinstance(end, tuple) else end}
    given |= {"pad_token_id": padding, "suppress_tokens": list(never) or None}
    for name, value in given.items():
        setattr(theirs.generation_config, name, value)
    folder = tmp_path_factory.mktemp("published")
    theirs.save_pretrained(folder)
    return theirs, load_decoder(folder), (end,) if isinstance(end, int) else end or (), never


def theirs_says(theirs, prompts, ends, **options):
    """Their new tokens up to an end, from prompts with their padding in front."""
    longest = max(map(len, prompts))
    rows = torch.tensor([[5] * (longest - len(p)) + p for p in prompts])
    mask = torch.tensor([[0] * (longest - len(p)) + [1] * len(p) for p in prompts])
    options = {"max_new_tokens": 12, "do_sample": False, **options}
    if theirs.generation_config.pad_token_id is None:
        options["pad_token_id"] = 5
    with torch.no_grad():
        found = theirs.generate(rows, attention_mask=mask, **options)
    said = [row[longest:].tolist() for row in found]
    return [row[: next((k for k, t in enumerate(row) if t in ends), 12)] for row in said]


def test_the_likeliest_text_is_theirs(pair):
    theirs, ours, ends, _ = pair
    wanted = theirs_says(theirs, PROMPTS, ends)
    assert generate(ours, PROMPTS, max_new_tokens=12, temperature=0) == wanted
    for prompt, text in zip(PROMPTS, wanted):
        found = greedy(ours, torch.tensor([prompt]), torch.tensor([len(prompt)]), 12)
        assert found.tokens == [text] and found.finished.item() == (len(text) < 12)


def test_a_penalty_is_theirs(pair):
    theirs, ours, ends, _ = pair
    options = {"max_new_tokens": 12, "temperature": 0, "repetition_penalty": 1.7}
    for prompt in PROMPTS:  # alone: theirs also counts the filling as said
        wanted = theirs_says(theirs, [prompt], ends, repetition_penalty=1.7)
        assert generate(ours, [prompt], **options) == wanted


def test_a_text_is_scored_as_theirs_scores_it(pair):
    theirs, ours, *_ = pair
    texts = torch.tensor([[0, 1, 2, 9, 0, 5], [17, 2, 2, 0, 1, 60]])
    windows = SimpleNamespace(target_in=texts[:, :-1], target_out=texts[:, 1:])
    with torch.no_grad():
        total, count = language_loss(ours, windows)
        wanted = theirs(texts, labels=texts).loss * 10
    assert count == 10 and total.item() == pytest.approx(wanted.item(), rel=1e-5)


def test_a_text_that_would_leave_the_positions_is_refused_before_it_begins(tmp_path):
    make_theirs("GPT2", GPT2 | {"n_positions": 8}, seed=0).save_pretrained(tmp_path)
    model = load_decoder(tmp_path)
    assert len(generate(model, [[1, 2, 3]], max_new_tokens=6, temperature=0, end=())[0]) == 6
    assert_refused("max_new_tokens", generate, model, [[1, 2, 3]], max_new_tokens=7)
    assert_refused("generator", generate, model, [[1]], max_new_tokens=1, generator=5)


def test_words_that_are_bad_are_forbidden_and_what_is_not_supported_is_named(tmp_path):
    theirs = make_theirs("Llama", SMALL, seed=3, spread=0.4)
    theirs.generation_config.suppress_tokens = [4]
    theirs.save_pretrained(tmp_path)
    (first,) = generate(load_decoder(tmp_path), [[9]], max_new_tokens=1, temperature=0)
    path = tmp_path / "generation_config.json"
    fields = json.loads(path.read_text())
    path.write_text(json.dumps(fields | {"bad_words_ids": [first, [7]]}))
    model = load_decoder(tmp_path)
    assert model.token_ids.forbidden == (4, *first, 7)
    back = LlamaForCausalLM.from_pretrained(tmp_path)
    assert generate(model, [[9]], max_new_tokens=12, temperature=0) == theirs_says(back, [[9]], ())
    path.write_text(json.dumps(fields | {"bad_words_ids": [[1, 2]]}))
    assert_refused("generation_config.json", load_decoder, tmp_path)


def test_a_head_that_is_stored_beside_a_tied_embedding_counts(tmp_path):
    theirs = make_theirs("Llama", SMALL | {"tie_word_embeddings": True}, seed=1)
    theirs.save_pretrained(tmp_path)
    file = tmp_path / "model.safetensors"
    tensors = load_file(file)
    tokens = torch.tensor([[3, 1, 60, 0]])
    for head in (tensors["model.embed_tokens.weight"].clone(), torch.randn(WORDS, 32)):
        save_file(tensors | {"lm_head.weight": head}, file, metadata={"format": "pt"})
        wanted = LlamaForCausalLM.from_pretrained(tmp_path)(tokens).logits
        model = load_decoder(tmp_path)
        torch.testing.assert_close(model(tokens).logits, wanted, atol=1e-5, rtol=1e-5)
        same = torch.equal(head, tensors["model.embed_tokens.weight"])
        assert (model.output.weight is model.embedding.weight) == same
