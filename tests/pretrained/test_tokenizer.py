"""Text to ids, conversations included, as the package transformers makes them.

The tokenizers are trained here: nothing is downloaded.
"""

import json

import pytest
from assertions import assert_refused

from attnbook import Tokenizer, load_tokenizer

from .published_models import transformers

tokenizers = pytest.importorskip("tokenizers")

TEXTS = [
    "Attention is all you need.",
    "  two  spaces\n\nand lines\t",
    "naïve café — Ünïcödé 漢字 🙂",
    "",
    "<s>user</s> wrote <|end|> here",
]
CHATML = """
{%- for message in messages %}
    {%- if loop.first and message.role != 'system' %}
{{ bos_token }}{% endif %}
    {%- if message.content is not defined %}{% continue %}{% endif %}
    {{- '<|start|>' + message['role'] + '\n' + message['content'] | trim + '<|end|>' + '\n' }}
    {%- generation %}{{ message.name | default('nobody') }}{% endgeneration %}
{%- endfor %}
{%- if tools %}{{ tools | tojson }}{% endif %}
{%- if add_generation_prompt %}
{{ '<|start|>assistant\n' }}
{%- if enable_thinking is defined and not enable_thinking %}<think></think>{% endif %}
{%- endif %}
"""
STRICT = """
{%- set counted = namespace(n=0) %}
{%- for message in messages %}
  {%- if (message.role == 'user') != (loop.index0 % 2 == 0) %}
    {{- raise_exception('roles must take turns') }}
  {%- endif %}
  {%- set counted.n = counted.n + 1 %}
    {% if message.content %}
    {{ message.content }}{{ eos_token }} {{ counted.n }}
    {% endif %}
{% endfor %}
Today is {{ strftime_now('%Y') }}.
"""
MESSAGES = [
    {"role": "user", "content": " Hello, <b>you</b> & 'me' "},
    {"role": "assistant", "content": "Good day.", "name": None},
    {"role": "user", "content": "naïve 漢字?", "name": "Ann"},
]


def train(folder, kind):
    """A tokenizer of a small text, saved as transformers saves it."""
    specials = ["<unk>", "<s>", "</s>", "<|start|>", "<|end|>"]
    if kind == "bytes":
        words = tokenizers.Tokenizer(tokenizers.models.BPE())
        words.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
        words.decoder = tokenizers.decoders.ByteLevel()
        alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
        trainer = tokenizers.trainers.BpeTrainer(
            vocab_size=400, special_tokens=specials, initial_alphabet=alphabet, show_progress=False
        )
    else:  # as in Llama 2: spaces are ▁, what is not known becomes bytes
        words = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token="<unk>", byte_fallback=True))
        words.normalizer = tokenizers.normalizers.Sequence(
            [tokenizers.normalizers.Prepend("▁"), tokenizers.normalizers.Replace(" ", "▁")]
        )
        words.decoder = tokenizers.decoders.Sequence(
            [
                tokenizers.decoders.Replace("▁", " "),
                tokenizers.decoders.ByteFallback(),
                tokenizers.decoders.Fuse(),
                tokenizers.decoders.Strip(" ", 1, 0),
            ]
        )
        specials += [f"<0x{k:02X}>" for k in range(256)]
        trainer = tokenizers.trainers.BpeTrainer(
            vocab_size=600, special_tokens=specials, show_progress=False
        )
    words.train_from_iterator(TEXTS[:2] * 20, trainer)
    words.post_processor = tokenizers.processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", words.token_to_id("<s>"))]
    )
    words.enable_truncation(7)  # settings of a training, that are none of the model's
    words.enable_padding(length=30)
    theirs = transformers.PreTrainedTokenizerFast(
        tokenizer_object=words, bos_token="<s>", eos_token="</s>", unk_token="<unk>"
    )
    theirs.chat_template = CHATML
    theirs.save_pretrained(folder)
    stored = json.loads((folder / "tokenizer.json").read_text())
    stored["truncation"] = {
        "direction": "Right",
        "max_length": 7,
        "strategy": "LongestFirst",
        "stride": 0,
    }
    (folder / "tokenizer.json").write_text(json.dumps(stored))
    return transformers.AutoTokenizer.from_pretrained(folder)


@pytest.fixture(scope="module", params=["bytes", "pieces"])
def pair(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    theirs = train(folder, request.param)
    return folder, load_tokenizer(folder), theirs


def theirs_of(theirs, messages, **options):
    return theirs.apply_chat_template(messages, tokenize=True, return_dict=False, **options)


def test_texts_become_their_ids_and_come_back(pair):
    _, ours, theirs = pair
    for text in (*TEXTS, TEXTS[0] * 20):
        ids = ours.encode(text)
        assert ids == theirs(text)["input_ids"]
        plain = ours.encode(text, add_special_tokens=False)
        assert plain == theirs(text, add_special_tokens=False)["input_ids"] == ids[1:]
        for skip in (True, False):
            wanted = theirs.decode(
                ids, skip_special_tokens=skip, clean_up_tokenization_spaces=False
            )
            assert ours.decode(ids, skip_special_tokens=skip) == wanted
    assert ours.decode(ours.encode(TEXTS[0])) == TEXTS[0]
    assert ours.vocabulary_size == len(theirs)


@pytest.mark.parametrize("add_generation_prompt", [True, False])
def test_conversations_become_their_ids(pair, add_generation_prompt):
    _, ours, theirs = pair
    options = {"add_generation_prompt": add_generation_prompt}
    tools = [{"type": "function", "function": {"name": "f", "description": "<ü> & 'x'"}}]
    more = [{"role": "system", "content": "Be brief."}, *MESSAGES]
    for messages in (MESSAGES, more, MESSAGES[:1]):
        for extra in ({}, {"enable_thinking": False}, {"tools": tools}):
            wanted = theirs.apply_chat_template(messages, tokenize=False, **options, **extra)
            assert ours.render(messages, **options, **extra) == wanted
            assert ours.chat(messages, **options, **extra) == theirs_of(
                theirs, messages, **options, **extra
            )
    assert len(ours.chat(MESSAGES)) > len(ours.chat(MESSAGES, add_generation_prompt=False))
    assert theirs.bos_token_id in ours.chat(MESSAGES)


@pytest.mark.parametrize("where", ["file", "text", "list"])
def test_the_template_is_found_where_it_may_stand(pair, tmp_path, where):
    folder, _, theirs = pair
    config = json.loads((folder / "tokenizer_config.json").read_text())
    config.pop("chat_template", None)
    if where == "text":
        config["chat_template"] = STRICT
    elif where == "list":
        config["chat_template"] = [
            {"name": "other", "template": "no"},
            {"name": "default", "template": STRICT},
        ]
    else:
        (tmp_path / "chat_template.jinja").write_text(STRICT, encoding="utf-8")
        config["chat_template"] = "the file counts more"
    config["eos_token"] = {"__type": "AddedToken", "content": "</s>", "lstrip": False}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    (tmp_path / "tokenizer.json").write_bytes((folder / "tokenizer.json").read_bytes())
    ours = load_tokenizer(tmp_path)
    assert ours.chat(MESSAGES) == theirs_of(theirs, MESSAGES, chat_template=STRICT)
    assert_refused("messages", ours.chat, MESSAGES[1:])


def test_a_template_reaches_nothing_but_text(pair, tmp_path):
    _, ours, _ = pair

    class Loud(str):
        def shout(self):
            raise AssertionError("called")

    for template in (
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ messages.append(1) }}",
        "{{ cycler.__init__.__globals__ }}",
        "{{ messages[0].content.shout() }}",
        "{{ raise_exception.__globals__.clear() }}",
        "{% include '/etc/passwd' %}",
        "{% for i in range(10**9) %}{% endfor %}",
    ):
        hostile = Tokenizer(ours.words, template=template)
        assert_refused(
            "messages must fit", lambda: hostile.chat([{"role": "user", "content": Loud("x")}])
        )
    assert_refused("messages must hold", ours.chat, [{"role": "user", "content": open}])
    assert_refused(
        "chat_template", lambda: Tokenizer(ours.words, template="{% for %}").chat(MESSAGES)
    )


def test_wrong_arguments_and_files_are_named(pair, tmp_path):
    folder, ours, _ = pair
    bare = Tokenizer(ours.words)
    with pytest.raises(ValueError, match="chat needs a template"):
        bare.chat(MESSAGES)
    for messages in ([], "Hello", ["Hello"], [{"content": "Hello"}], {"role": "user"}, None):
        assert_refused("messages", ours.chat, messages)
    assert_refused("text", ours.encode, ["Hello"])
    assert_refused("ids", ours.decode, [3, -1])
    with pytest.raises(FileNotFoundError, match="must hold tokenizer.json"):
        load_tokenizer(tmp_path)
    with pytest.raises(FileNotFoundError, match="snapshot_download"):
        load_tokenizer("openai-community/gpt2")
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(ValueError, match="tokenizer.json must be a tokenizer"):
        load_tokenizer(tmp_path)


@pytest.mark.parametrize("missing", ["tokenizers", "jinja2"])
def test_what_is_not_installed_is_named(pair, monkeypatch, missing):
    import sys

    folder, ours, _ = pair
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ImportError, match=rf'needs {missing}: pip install "attnbook\[text\]"'):
        load_tokenizer(folder).chat(MESSAGES)
