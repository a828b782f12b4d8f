"""Speculative decoding: a small model proposes, a large one checks, and its distribution stays."""

from typing import NamedTuple

import torch
from torch import Tensor

from ..modules import full_precision, temporary_mode
from ..validate import check_integer, check_number, require
from .sampling import draw, token_distribution
from .search import check_inputs, check_logits, read_prompts, without_forbidden
from .step import TokenIds, token_ids_of

__all__ = ["Speculated", "expected_tokens", "keep_or_replace", "speculative_sample"]


class Speculated(NamedTuple):
    """A text and what it took.

    Attributes:
        tokens: ids, without the end.
        calls: of the large model, besides the one that reads the prompt.
        proposed: tokens of the draft that were checked.
        accepted: those of them that were kept.
    """

    tokens: list[int]
    calls: int
    proposed: int
    accepted: int


def keep_or_replace(
    target: Tensor, draft: Tensor, proposed: Tensor, generator: torch.Generator | None = None
) -> tuple[int, int]:
    """How many proposed tokens stay, and the token that follows them.

    Token i, drawn from q_i, stays with probability ``min(1, p_i(x_i) / q_i(x_i))``. The first that
    does not is replaced by one from ``max(0, p_i − q_i)``, divided by its sum; if all stay, one
    more is drawn from the last p. So each token has the distribution p, whatever q is.

    Args:
        target: p, ``(γ + 1, V)``: what the large model gives after 0, 1, …, γ of the tokens.
        draft: q, ``(γ, V)``: what each of them was drawn from.
        proposed: x, ``(γ,)``.
        generator: on the CPU; the global one when not given.

    Source: Leviathan et al. 2023, section 2.3, algorithm 1; Chen et al. 2023, algorithm 2.
    """
    chance = torch.rand(len(proposed), generator=generator, dtype=target.dtype, device="cpu")
    p, q = (rows.gather(1, proposed[:, None])[:, 0] for rows in (target[:-1], draft))
    kept = int((chance * q < p).cumprod(0).sum())  # up to the first that does not stay
    following = target[kept]
    if kept < len(proposed):
        residual = (following - draft[kept]).clamp(min=0)
        if residual.sum() > 0:  # else p and q differ by rounding alone
            following = residual / residual.sum()
    return kept, int(draw(following[None], generator))


def expected_tokens(acceptance: float, num_draft: int) -> float:
    """Tokens for each call of the large model where every proposed token stays with one
    probability α: ``(1 − α^(γ + 1)) / (1 − α)``.

    Args:
        acceptance: α; for one pair of distributions it is ``Σ_v min(p(v), q(v))``.
        num_draft: γ.

    Source: Leviathan et al. 2023, equation 1.
    """
    check_number("acceptance", acceptance, least=0, most=1)
    return float(sum(acceptance**k for k in range(check_integer("num_draft", num_draft, 0) + 1)))


def speculative_sample(
    model,
    draft,
    prompt: Tensor,
    max_length: int,
    *,
    num_draft: int = 4,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float = 1.0,
    min_p: float = 0.0,
    generator: torch.Generator | None = None,
    token_ids: TokenIds | None = None,
) -> Speculated:
    """Continue a text as :func:`~attnbook.decoding.generation.sample` does with the large model, in
    fewer calls of it.

    The draft draws γ tokens one by one; the large model reads them at once, which costs it little
    more than one token, and :func:`keep_or_replace` decides. What a model has read of tokens that
    did not stay is taken out of its cache. One text at a time: those of a batch would keep
    different numbers of tokens. Where positions depend on how long the text is (dynamic NTK,
    LongRoPE), tokens that are read together are turned as the last of them, and near that length
    the texts may differ from those of ``sample``.

    Args:
        model: the large one, with ``begin``, ``encode``, ``start``, ``read``, which reads several
            tokens, and ``cut``, which takes the last ones back, such as
            :class:`~attnbook.models.transformer.language_model.TransformerLM`.
        draft: the small one, with ``begin``, ``encode``, ``start`` and ``step``, over the same
            vocabulary; its states are kept, so any will do.
        prompt: ``(n,)`` token ids, at least one.
        max_length: the largest number of tokens, including the end.
        num_draft: γ, how many tokens the draft proposes; fewer at the end.
        temperature, top_k, top_p, min_p: of
            :func:`~attnbook.decoding.sampling.token_distribution`, for both models.
        generator: on the CPU; the global one when not given.
        token_ids: what ends a text and never stands in it; ``model.token_ids`` when not given.

    Source: Leviathan et al. 2023; Chen et al. 2023.
    """
    require(
        isinstance(prompt, Tensor) and prompt.dim() == 1 and len(prompt) > 0,
        "prompt must be token ids (n,), at least one: a batch goes text by text",
    )
    check_integer("num_draft", num_draft)
    sizes = [getattr(each, "vocabulary_size", None) for each in (model, draft)]
    require(
        None in sizes or sizes[0] == sizes[1],
        f"draft must have the vocabulary of model, {sizes[0]} tokens, got {sizes[1]}",
    )
    ids = token_ids_of(model, token_ids)
    prompts, lengths = check_inputs(
        model, prompt[None], torch.tensor([len(prompt)], device=prompt.device), max_length, "prompt"
    )
    options = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "min_p": min_p}

    def distribution(of, logits: Tensor) -> Tensor:
        logits = full_precision(logits).cpu()
        check_logits(of, logits.isnan().any())
        return token_distribution(without_forbidden(logits, ids), **options)

    tokens: list[int] = []
    calls = checked = accepted = 0
    with torch.no_grad(), temporary_mode(model, False), temporary_mode(draft, False):
        token, state = read_prompts(model, prompts, lengths)
        _, draft_state = read_prompts(draft, prompts, lengths)
        while len(tokens) < max_length:
            states, guesses, ahead = [draft_state], [], [token]
            for _ in range(min(num_draft, max_length - len(tokens) - 1)):
                step = draft.step(ahead[-1], states[-1], None)
                guesses.append(distribution(draft, step.logits))
                ahead.append(draw(guesses[-1], generator).to(token.device))
                states.append(step.state)
            read = model.read(torch.stack(ahead, dim=1), state)
            if calls == 0:  # and not only when a guess is refused first
                try:
                    model.cut(read.state, 1)
                except ValueError as error:
                    raise ValueError(f"model must be able to take tokens back: {error}") from None
            target = distribution(model, read.logits[0])
            proposed = torch.cat(ahead[1:]).cpu() if guesses else token.new_empty(0).cpu()
            q = torch.cat(guesses).to(target.dtype) if guesses else target[:0]
            require(
                target.shape[1] == q.shape[1],
                f"draft must have the vocabulary of model, {target.shape[1]} tokens, got "
                f"{q.shape[1]}",
            )
            kept, following = keep_or_replace(target, q, proposed, generator)
            calls, checked, accepted = calls + 1, checked + len(proposed), accepted + kept
            new = [*proposed[:kept].tolist(), following]
            if (end := next((i for i, t in enumerate(new) if t in ids.end), None)) is not None:
                tokens += new[:end]
                break
            tokens += new
            # both have read the text up to the token before the last
            state = model.cut(read.state, len(proposed) - kept)
            if kept == len(proposed):  # the draft has not read its last one
                states.append(draft.step(ahead[-1], states[-1], None).state)
            draft_state, token = states[kept + 1], token.new_tensor([following])
    return Speculated(tokens, calls, checked, accepted)
