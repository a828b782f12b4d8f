"""What decoding and models have in common: results of a model, and ids with a meaning."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from torch import Tensor

from ..validate import check_ids, check_integer, check_lengths, describe, require

__all__ = ["Decoded", "Step", "TokenIds", "token_ids_of"]


class Decoded(NamedTuple):
    """A target read with teacher forcing: ``logits (batch, m, vocabulary)``, and the weights of the
    attention, ``(batch, m, n)`` or as the model says, or None.
    """

    logits: Tensor
    weights: Any


class Step(NamedTuple):
    """One decoder step: ``logits (batch, vocabulary)``, the next ``state``, and ``weights (batch,
    n)`` where ``need_weights`` asked for them and the model has any, else None.
    """

    logits: Tensor
    state: Any
    weights: Tensor | None


@dataclass(frozen=True, init=False)
class TokenIds:
    """The ids that are not words, as a model was trained with them.

    A model keeps its own in ``model.token_ids``: they come from its constructor, or from the files
    of a published model, and decoding asks for them there. Nothing is assumed of a model that says
    nothing: every id is a word, and no text ends before its length is reached.

    Attributes:
        start: what a decoder reads after its source, before it has written anything (BOS of an
            encoder-decoder model, the separator of a language model that reads source and target as
            one text); None for a model that goes on from the last token of the source.
        end: the ids that end a text, one or several. They belong to no result.
        padding: what fills the rows of a batch up, None where nothing does. Which positions are
            padding is said by lengths, not by this id, which may also be that of a word.
        forbidden: the ids that are never written.
        begin: what stands before the first token of a text, where a tokenizer puts something there.
    """

    start: int | None
    end: tuple[int, ...]
    padding: int | None
    forbidden: tuple[int, ...]
    begin: int | None

    def __init__(
        self,
        *,
        start: int | None = None,
        end: int | Iterable[int] | None = None,
        padding: int | None = None,
        forbidden: int | Iterable[int] | None = None,
        begin: int | None = None,
    ) -> None:
        for name, value in (("start", start), ("padding", padding), ("begin", begin)):
            value = None if value is None else int(check_integer(name, value, 0))
            object.__setattr__(self, name, value)
        for name, ids in (("end", end), ("forbidden", forbidden)):
            object.__setattr__(self, name, as_ids(name, ids))

    def within(self, vocabulary_size: int) -> TokenIds:
        """The same, or a ``ValueError`` if an id is outside a vocabulary of that size."""
        for name in ("start", "padding", "begin", "end", "forbidden"):
            value = getattr(self, name)
            ids = value if isinstance(value, tuple) else (() if value is None else (value,))
            require(
                all(i < vocabulary_size for i in ids),
                f"{name} of token_ids must be below {vocabulary_size}, the size of the "
                f"vocabulary, got {value}",
            )
        return self


def as_ids(name: str, ids: int | Iterable[int] | None) -> tuple[int, ...]:
    """One id, several or None as a tuple without repetitions, or a ``ValueError``."""
    if ids is None:
        return ()
    if isinstance(ids, Tensor):
        several = ids.flatten().tolist()
    else:
        several = list(ids) if isinstance(ids, Iterable) and not isinstance(ids, str) else [ids]
    return tuple(dict.fromkeys(int(check_integer(name, i, 0)) for i in several))


def check_token_ids(token_ids: object, vocabulary_size: int) -> TokenIds:
    """What a constructor was given, as :class:`TokenIds` that fit its vocabulary; None for none."""
    return TokenIds() if token_ids is None else _checked(token_ids).within(vocabulary_size)


def token_ids_of(model: Any, token_ids: TokenIds | None = None) -> TokenIds:
    """The ids given; else those of the model; else none."""
    if token_ids is None:
        token_ids = getattr(model, "token_ids", None)
    return TokenIds() if token_ids is None else _checked(token_ids)


def _checked(token_ids: object) -> TokenIds:
    if not isinstance(token_ids, TokenIds):
        raise ValueError(
            "token_ids must be TokenIds, such as vocabulary.token_ids, got "
            f"{type(token_ids).__name__}"
        )
    return token_ids


def check_source(source: Tensor, lengths: Tensor, vocabulary_size: int) -> None:
    """Raise ``ValueError`` unless these are sources ``(batch, n)``, none of them empty."""
    check_ids("source", source, vocabulary_size)
    check_lengths(lengths, source.shape[0], "source", 1, source.shape[1])


def check_target(target_in: Tensor, batch: int, vocabulary_size: int) -> None:
    """Raise ``ValueError`` unless ``target_in`` is ``(batch, m)`` of token ids."""
    check_ids("target_in", target_in, vocabulary_size)
    require(
        target_in.shape[0] == batch,
        f"target_in must have {batch} rows as source has, got {target_in.shape[0]}",
    )


def check_token(token: Tensor, rows: int) -> None:
    """Raise ``ValueError`` unless ``token (batch,)`` is one for each row of what was read."""
    if token.shape != (rows,):
        raise ValueError(f"token must have {rows} rows as memory has, got {describe(token)}")


def check_text(tokens: Tensor, lengths: Tensor | None, vocabulary_size: int) -> None:
    """Raise ``ValueError`` unless ``tokens (batch, n)`` are ids and lengths lie in 1 … n."""
    check_ids("tokens", tokens, vocabulary_size)
    if lengths is not None:
        check_lengths(lengths, len(tokens), "tokens", 1, tokens.shape[1])
