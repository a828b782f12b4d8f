"""The tokenizer of a published folder: text to ids and back, and conversations by its template."""

import datetime
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..extras import extra
from ..validate import require
from .config import check_folder, read_json

__all__ = ["Tokenizer", "load_tokenizer"]

_LONGEST = 2**28
"""Bytes of the longest tokenizer.json that is read: those of 262,000 words take 33 MB."""


class Tokenizer:
    """Text to token ids and back, as a published model reads it.

    Args:
        words: a ``tokenizers.Tokenizer``.
        special: tokens that the template may name, such as ``bos_token``.
        template: of conversations, in the language of Jinja; None where there is none.
    """

    def __init__(
        self, words: Any, special: Mapping[str, str] | None = None, template: str | None = None
    ) -> None:
        self.words, self.special, self.template = words, dict(special or {}), template
        self._compiled: Any = None

    @property
    def vocabulary_size(self) -> int:
        """The number of tokens, with those that were added; a model's table may have more rows."""
        return self.words.get_vocab_size(with_added_tokens=True)

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        """The ids of a text and of what the tokenizer puts around each, unless told otherwise."""
        require(isinstance(text, str), f"text must be a string, got {type(text).__name__}")
        return list(self.words.encode(text, add_special_tokens=add_special_tokens).ids)

    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        """The text of some ids, without the special ones unless told otherwise."""
        ids = [int(each) for each in ids]
        require(
            all(0 <= each < 2**32 for each in ids),
            f"ids must be token ids from 0 on, got numbers from {min(ids, default=0)} to "
            f"{max(ids, default=0)}",
        )
        return self.words.decode(ids, skip_special_tokens=skip_special_tokens)

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        add_generation_prompt: bool = True,
        **variables: Any,
    ) -> str:
        """The text of a conversation, as the model was trained on it: see :meth:`chat`."""
        require(
            self.template is not None,
            "chat needs a template, chat_template.jinja or chat_template in tokenizer_config.json, "
            "and the folder has none: it holds a model that was not trained on conversations",
        )
        require(
            isinstance(messages, Sequence)
            and len(messages) > 0
            and all(isinstance(m, Mapping) and "role" in m for m in messages),
            "messages must be a list of dictionaries such as {'role': 'user', 'content': 'Hello'}, "
            f"at least one, got {messages!r:.200}",
        )
        # plain copies: a template may call the methods of what it is given
        given = _plain({"tools": None, "documents": None, **self.special, **variables})
        given |= {
            "messages": [
                {k: v for k, v in message.items() if v is not None}
                for message in _plain([dict(message) for message in messages])
            ],
            "add_generation_prompt": bool(add_generation_prompt),
        }
        if self._compiled is None:
            self._compiled = _compile(str(self.template))
        try:
            return self._compiled.render(**given)
        except Exception as error:  # whatever the template does
            raise ValueError(f"messages must fit the template, which says: {error}") from None

    def chat(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        add_generation_prompt: bool = True,
        **variables: Any,
    ) -> list[int]:
        """The ids of a conversation, by the template of the folder.

        Args:
            messages: dictionaries with ``role``, such as "system", "user", "assistant", and
                ``content``.
            add_generation_prompt: whether the text ends with what stands before an answer.
            variables: what else the template asks for, such as ``enable_thinking`` of Qwen3.

        Raises:
            ValueError: where there is no template, or the template refuses the messages.
            ImportError: without ``jinja2``.
        """
        text = self.render(messages, add_generation_prompt=add_generation_prompt, **variables)
        return self.encode(text, add_special_tokens=False)


def load_tokenizer(folder: str | os.PathLike) -> Tokenizer:
    """The tokenizer in a published folder: ``tokenizer.json``, and ``tokenizer_config.json`` and
    ``chat_template.jinja`` where there are such files.

    Templates run in Jinja's sandbox, which reaches neither files nor the interpreter.

    Raises:
        ValueError: for a file that is no tokenizer.
        FileNotFoundError: where there is no ``tokenizer.json``.
        ImportError: without the package ``tokenizers``.
    """
    with extra("text", "load_tokenizer"):
        from tokenizers import Tokenizer as Words
    folder = check_folder(folder)
    path = folder / "tokenizer.json"
    if not path.is_file():
        raise FileNotFoundError(f"{folder} must hold tokenizer.json, it does not")
    require(
        path.stat().st_size <= _LONGEST, f"{path} must have at most {_LONGEST:,} bytes, it has more"
    )
    try:
        words = Words.from_file(str(path))
    except Exception as error:  # the package raises no narrower class
        raise ValueError(f"{path} must be a tokenizer, it is not: {error!s:.300}") from None
    words.no_truncation()  # settings of the training
    words.no_padding()
    config: dict[str, Any] = {}
    for name in ("special_tokens_map.json", "tokenizer_config.json"):  # the second counts more
        if (folder / name).is_file():
            config |= read_json(folder / name)
    return Tokenizer(words, _special(config), _template(folder, config))


def _plain(value: Any) -> Any:
    try:
        return json.loads(json.dumps(value))
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"messages must hold text, numbers, lists and dictionaries alone: {error}"
        ) from None


def _special(config: dict[str, Any]) -> dict[str, str]:
    """The tokens with a name in tokenizer_config.json."""
    found = {}
    named = config.get("model_specific_special_tokens")
    for name, token in {**config, **(named if isinstance(named, dict) else {})}.items():
        token = token.get("content") if isinstance(token, dict) else token
        if name.endswith("_token") and isinstance(token, str):
            found[name] = token
    return found


def _template(folder: Path, config: dict[str, Any]) -> str | None:
    path = folder / "chat_template.jinja"
    if path.is_file():
        with path.open("rb") as file:
            text = file.read(2**20 + 1)
        require(len(text) <= 2**20, f"{path} must have at most {2**20:,} bytes, it has more")
        return text.decode("utf-8")
    template = config.get("chat_template")
    if isinstance(template, list):  # several, by name
        template = {
            each.get("name"): each.get("template") for each in template if isinstance(each, dict)
        }
    template = template.get("default") if isinstance(template, dict) else template
    require(
        template is None or isinstance(template, str),
        f"chat_template in tokenizer_config.json must be text, got {type(template).__name__}",
    )
    return template


def _compile(template: str) -> Any:
    """A template as ``transformers`` reads it: its options, filters and functions."""
    with extra("text", "a chat template"):
        import jinja2
        from jinja2.ext import Extension
        from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Generation(Extension):
        """``{% generation %}`` marks what a model is trained on; here it is read as it stands."""

        tags = {"generation"}

        def parse(self, parser):
            next(parser.stream)
            return parser.parse_statements(("name:endgeneration",), drop_needle=True)

    def raise_exception(message):
        raise jinja2.TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(  # without the escapes of HTML
            x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
        )

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, "jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = tojson
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = lambda form: datetime.datetime.now().strftime(form)
    try:
        return environment.from_string(template)
    except jinja2.TemplateError as error:
        raise ValueError(f"chat_template must be a template of Jinja, it is not: {error}") from None
