"""Texts that a language model goes on with, one token after the other."""

from collections.abc import Callable, Iterable, Sequence
from numbers import Integral
from typing import Any

import torch
from torch import Tensor

from ..modules import full_precision, temporary_mode
from ..validate import check_ids, check_integer, check_number, describe, require
from .sampling import draw, penalise, token_distribution
from .search import check_inputs, check_logits, is_end, read_prompts, without_forbidden
from .step import TokenIds, as_ids, token_ids_of

__all__ = ["generate", "sample"]


def generate(
    model,
    prompts: Sequence[Sequence[int]] | Tensor,
    *,
    max_new_tokens: int,
    mask: Tensor | None = None,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float = 1.0,
    min_p: float = 0.0,
    repetition_penalty: float = 1.0,
    end: int | Iterable[int] | None = None,
    stop: Sequence[Sequence[int]] = (),
    stream: Callable[[int, int], Any] | None = None,
    generator: torch.Generator | None = None,
) -> list[list[int]]:
    """Go on with texts: draw token after token from the model, until an end, one of the sequences
    that stop a text, or ``max_new_tokens``.

    >>> generate(model, [[5, 17, 3], [8]], max_new_tokens=20, temperature=0.8, top_p=0.9)

    Args:
        model: with ``begin``, ``encode``, ``start`` and ``step``, such as
            :class:`~attnbook.models.transformer.language_model.TransformerLM`, also a loaded one.
        prompts: for each text the ids it begins with, at least one, of any lengths; or a tensor
            ``(B, n)`` of ids, padded at either side, with a ``mask``.
        max_new_tokens: the largest number of tokens drawn for a text, its end among them.
        mask: ``(B, n)``, True or 1 where ``prompts`` has a token; all are tokens when not given.
        temperature, top_k, top_p, min_p: of
            :func:`~attnbook.decoding.sampling.token_distribution`; temperature 0: the likeliest.
        repetition_penalty: θ of :func:`~attnbook.decoding.sampling.penalise`, for the tokens of a
            prompt and those drawn; 1 for none.
        end: the id or the ids that end a text; those of ``model.token_ids`` when not given, ``()``
            for none. An id that is given is never forbidden.
        stop: sequences of ids; a text ends where one of them is complete, all of it drawn.
        stream: called with ``(row, id)`` for each token of the result, as soon as it is certain to
            be in it: what may be the beginning of a sequence in ``stop`` waits.
        generator: on the CPU; the global one when not given. A text depends on those before it.

    Returns:
        For each prompt the new ids, without the end and without the sequence that stopped it.

    Raises:
        ValueError: for a prompt without a token, ids outside the vocabulary, a mask with gaps,
            options out of range and NaN from the model, naming the argument.

    Source of the repetition penalty: Keskar et al. 2019, section 4.1; of the filters, see there.
    """
    check_integer("max_new_tokens", max_new_tokens)
    ids = token_ids_of(model)
    if end is not None:
        ends = as_ids("end", end)
        ids = TokenIds(end=ends, forbidden=tuple(i for i in ids.forbidden if i not in ends))
    size = getattr(model, "vocabulary_size", None)
    require(
        end is None or size is None or all(i < size for i in ids.end),
        f"end must be below {size}, the size of the vocabulary, got {end}",
    )
    require(
        stream is None or callable(stream),
        f"stream must be a function of a row and an id, got {stream!r}",
    )
    padded, lengths = _as_tensor(prompts, mask, size)
    padded, lengths = check_inputs(model, padded, lengths, max_new_tokens, "prompts")
    require(
        generator is None or isinstance(generator, torch.Generator),
        f"generator must be a torch.Generator, got {generator!r}",
    )
    places = getattr(getattr(model, "positions", None), "max_length", None)
    longest = int(lengths.max()) + max_new_tokens - 1  # the last token is not read
    require(
        places is None or longest <= places,
        f"max_new_tokens must leave a text within the {places} positions of the model, at most "
        f"{(places or 0) - int(lengths.max()) + 1} after a prompt of {int(lengths.max())}, got "
        f"{max_new_tokens}",
    )
    check_number("repetition_penalty", repetition_penalty, above=0)
    texts = [_Text(row, _sequences(stop), stream) for row in range(len(padded))]
    seen: Tensor | None = None
    options = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "min_p": min_p}
    with torch.no_grad(), temporary_mode(model, False):
        token, state = read_prompts(model, padded, lengths)
        for _ in range(max_new_tokens):
            step = model.step(token, state, None)
            logits = full_precision(step.logits).cpu()
            check_logits(model, logits.isnan().any())
            if repetition_penalty != 1:
                if seen is None:
                    seen = _prompt_tokens(padded, lengths, logits.shape[-1])
                logits = penalise(logits, seen, repetition_penalty)
            choice = draw(token_distribution(without_forbidden(logits, ids), **options), generator)
            if seen is not None:
                seen.scatter_(1, choice[:, None], True)
            for text, drawn, ended in zip(texts, choice.tolist(), is_end(choice, ids).tolist()):
                text.add(drawn, ended)
            if all(text.complete for text in texts):
                break
            token, state = choice.to(padded.device), step.state
    for text in texts:
        text.finish()
    return [text.ids for text in texts]


def sample(
    model,
    prompts: Tensor,
    lengths: Tensor,
    max_length: int,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float = 1.0,
    min_p: float = 0.0,
    generator: torch.Generator | None = None,
) -> list[list[int]]:
    """:func:`generate`, called like greedy: ``(B, n)`` ids, ``lengths (B,)``, most new tokens."""
    prompts, lengths = check_inputs(model, prompts, lengths, max_length, "prompts")
    position = torch.arange(prompts.shape[1], device=prompts.device)
    given = {"max_new_tokens": max_length, "mask": position < lengths[:, None]}
    options = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "min_p": min_p}
    return generate(model, prompts, generator=generator, **given, **options)


class _Text:
    """What one prompt has become so far."""

    def __init__(self, row: int, stop: list[list[int]], stream: Callable | None) -> None:
        self.row, self.stop, self.stream = row, stop, stream
        self.ids: list[int] = []
        self.complete, self.told = False, 0

    def add(self, token: int, ended: bool) -> None:
        if self.complete:
            return
        if ended:
            return self.finish()
        self.ids.append(token)
        for sequence in self.stop:
            if self.ids[-len(sequence) :] == sequence:
                del self.ids[-len(sequence) :]
                return self.finish()
        self.tell(len(self.ids) - self.begun())

    def begun(self) -> int:
        """How many of the last ids may be the beginning of a sequence that stops the text."""
        return max(
            (
                length
                for sequence in self.stop
                for length in range(1, len(sequence))
                if self.ids[-length:] == sequence[:length]
            ),
            default=0,
        )

    def tell(self, certain: int) -> None:
        while self.stream is not None and self.told < certain:
            self.stream(self.row, self.ids[self.told])
            self.told += 1

    def finish(self) -> None:
        self.complete = True
        self.tell(len(self.ids))


def _sequences(stop: Sequence[Sequence[int]]) -> list[list[int]]:
    listed = isinstance(stop, Sequence) and not isinstance(stop, str)
    rows: list[Any] = [
        getattr(row, "tolist", lambda row=row: row)() for row in (stop if listed else [None])
    ]
    require(
        all(isinstance(row, (list, tuple)) and len(row) > 0 for row in rows),
        f"stop must be a list of lists of ids, none of them empty, got {stop!r}",
    )
    return [[int(check_integer("stop", i, 0)) for i in row] for row in rows]


def _prompt_tokens(padded: Tensor, lengths: Tensor, size: int) -> Tensor:
    """Which tokens each prompt holds, ``(B, V)`` on the CPU."""
    padded, lengths = padded.cpu(), lengths.cpu()
    real = torch.arange(padded.shape[1], device="cpu") < lengths[:, None]
    counts = torch.zeros(len(padded), size, dtype=torch.long, device="cpu")
    return counts.scatter_add_(1, padded.long(), real.long()) > 0


def _as_tensor(prompts: Any, mask: Tensor | None, size: int | None) -> tuple[Tensor, Tensor]:
    """Ids ``(B, n)`` with their padding at the end, and lengths ``(B,)``."""
    if isinstance(prompts, Tensor):
        require(
            prompts.dim() == 2 and prompts.dtype in (torch.int32, torch.int64),
            "prompts must be lists of ids, one for each prompt, or token ids (batch, length) of "
            f"int32 or int64, got {describe(prompts)}",
        )
        if mask is None:
            lengths = torch.full((len(prompts),), prompts.shape[1], device=prompts.device)
        else:
            prompts, lengths = _without_padding(prompts, mask)
    else:
        require(mask is None, "mask must come with prompts that are a tensor, got a list of lists")
        prompts, lengths = _from_lists(prompts)
    if size is not None and prompts.numel():
        check_ids("prompts", prompts, size)
    return prompts, lengths


def _from_lists(prompts: Any) -> tuple[Tensor, Tensor]:
    told = "prompts must be lists of ids, one for each prompt"
    if not isinstance(prompts, Iterable) or isinstance(prompts, (str, dict)):
        raise ValueError(f"{told}, got {type(prompts).__name__}")
    rows: list[Any] = list(prompts)
    require(len(rows) > 0, f"{told}, got none")
    require(
        not isinstance(rows[0], Integral),
        f"{told}, got one list of ids: put it in brackets, [[{rows[0]}, …]]",
    )
    texts = []
    for index, row in enumerate(rows):
        require(
            isinstance(row, Iterable) and not isinstance(row, (str, dict)),
            f"prompts[{index}] must be a list of ids, got {row!r}: encode text first",
        )
        ids = list(getattr(row, "tolist", lambda row=row: row)())
        require(len(ids) > 0, f"prompts[{index}] must have at least one id, got none")
        texts.append([int(check_integer(f"prompts[{index}]", i, 0)) for i in ids])
    longest = max(map(len, texts))
    padded = torch.tensor([t + [0] * (longest - len(t)) for t in texts], device="cpu")
    return padded, torch.tensor([len(t) for t in texts], device="cpu")


def _without_padding(prompts: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """The tokens of each row moved to its beginning."""
    require(
        isinstance(mask, Tensor)
        and mask.shape == prompts.shape
        and not mask.is_floating_point()
        and bool(((mask == 0) | (mask == 1)).all()),
        f"mask must be True or 1 at tokens and False or 0 at padding, of shape "
        f"{tuple(prompts.shape)} as prompts, got {describe(mask)}",
    )
    mask = mask.bool().to(prompts.device)
    lengths = mask.sum(1)
    empty = (lengths == 0).nonzero()[:, 0].tolist()
    require(not empty, f"mask must leave each prompt a token, got none in rows {empty}")
    starts = (mask[:, 1:] & ~mask[:, :-1]).sum(1) + mask[:, 0]
    gaps = (starts > 1).nonzero()[:, 0].tolist()
    require(not gaps, f"mask must be without gaps inside a prompt, got one in rows {gaps}")
    first = mask.int().argmax(1, keepdim=True)
    position = torch.arange(prompts.shape[1], device=prompts.device)
    moved = prompts.gather(1, (position + first).clamp(max=prompts.shape[1] - 1))
    return moved.masked_fill(position >= lengths[:, None], 0), lengths
