"""Rotary frequencies for texts longer than those of the training: interpolation, the NTK-aware
base, fixed and dynamic, YaRN, LongRoPE, and those of Llama 3.

A model that was trained at length L and rotated by ``p · ω_k`` meets angles beyond L that it never
saw. Each class here makes other frequencies ω_k of the old ones, for a length of s·L, and says by
what queries and keys are multiplied. Names of fields are those of ``rope_scaling``.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from ...kernels.precision import finest_dtype
from ...validate import check_choice, check_integer, check_number, require
from .absolute import frequencies

__all__ = ["DynamicNTK", "Interpolation", "Llama3", "LongRoPE", "NTK", "RotaryScaling", "YaRN"]


class RotaryScaling:
    """What changes the frequencies: a base class, which changes nothing."""

    def frequencies(self, d_head: int, base: float) -> Tensor:
        """ω_k in radians a position, float64 ``(d_head / 2,)``."""
        return frequencies(d_head, base)

    @property
    def limit(self) -> int | None:
        """Up to this length :meth:`frequencies` hold, then :meth:`frequencies_at`; None: always."""
        return None

    def frequencies_at(self, d_head: int, base: float, length: Tensor) -> Tensor:
        """ω_k ``(…, d_head / 2)`` by ``length (…)``; :meth:`frequencies` up to the limit."""
        return self.frequencies(d_head, base).to(length.device, finest_dtype(length.device))

    @property
    def magnitude(self) -> float:
        """What the rotated vectors are multiplied by; scores by its square."""
        return 1.0


@dataclass(frozen=True)
class Interpolation(RotaryScaling):
    """Position interpolation: ``ω_k / s``, so that s·L positions share the angles of L.

    Every pair turns s times slower, the fastest too: neighbours come closer than in the training.

    Attributes:
        factor: s, at least 1.

    Source: Chen et al. 2023, equation 4.
    """

    factor: float

    def __post_init__(self) -> None:
        check_number("factor", self.factor, least=1)

    def frequencies(self, d_head: int, base: float) -> Tensor:
        return frequencies(d_head, base) / self.factor


@dataclass(frozen=True)
class NTK(RotaryScaling):
    """The NTK-aware base: ``base' = base · s^(d/(d − 2))``.

    The fastest pair stays as it was, the slowest turns s times slower as under
    :class:`Interpolation`, those between in proportion.

    Attributes:
        factor: s, at least 1.

    Source: Peng et al. 2023, section 3.1, after a note by "bloc97" (2023).
    """

    factor: float

    def __post_init__(self) -> None:
        check_number("factor", self.factor, least=1)

    def frequencies(self, d_head: int, base: float) -> Tensor:
        require(d_head > 2, f"d_head must be above 2 for the NTK-aware base, got {d_head}")
        return frequencies(d_head, base * self.factor ** (d_head / (d_head - 2)))


@dataclass(frozen=True)
class DynamicNTK(RotaryScaling):
    """The NTK-aware base that grows with the text: :class:`NTK` with ``s = f · n/L − (f − 1)`` for
    a text of n > L positions; one of up to L is turned as it was in the training.

    n counts the positions up to the last that a call turns. A text that is read step by step so
    keeps keys in its cache that were turned for a shorter text, and its logits beyond L are not
    those of the whole text read at once. (``transformers`` does the same.)

    Attributes:
        factor: f, at least 1.
        original_max_position_embeddings: L, the length of the training.

    Source: Peng et al. 2023, section 3.3, after a note by "emozilla" (2023).
    """

    factor: float
    original_max_position_embeddings: int

    def __post_init__(self) -> None:
        check_number("factor", self.factor, least=1)
        check_integer("original_max_position_embeddings", self.original_max_position_embeddings)

    @property
    def limit(self) -> int:
        return self.original_max_position_embeddings

    def frequencies_at(self, d_head: int, base: float, length: Tensor) -> Tensor:
        require(d_head > 2, f"d_head must be above 2 for the NTK-aware base, got {d_head}")
        finest = finest_dtype(length.device)
        n = length.to(finest).clamp(min=self.limit)
        stretch = (self.factor * n / self.limit - (self.factor - 1)) ** (d_head / (d_head - 2))
        k = torch.arange(d_head // 2, dtype=finest, device=length.device)
        return (base * stretch).unsqueeze(-1) ** (-2 * k / d_head)


@dataclass(frozen=True)
class LongRoPE(RotaryScaling):
    """LongRoPE: a factor of its own for each pair, found by search, one set for texts of up to L
    positions and one for longer ones.

    ``ω_k / short_k`` for a text of up to L positions, ``ω_k / long_k`` for a longer one; and
    queries and keys are multiplied by ``√(1 + ln s / ln L)``, whatever the length. The length is
    counted as in :class:`DynamicNTK`, and a text that is read step by step changes its set on the
    way, as there. (What generates with Phi-3 in ``transformers`` reads the text so far once more
    when it passes L.)

    Attributes:
        short_factor, long_factor: numbers above 0, ``d_head / 2`` of each.
        original_max_position_embeddings: L, the length of the training.
        factor: s, how much longer the longest text is than L.
        attention_factor: instead of √(1 + ln s / ln L).

    Source: Ding et al. 2024, section 3; the factor, as in the code of Phi-3.
    """

    short_factor: tuple[float, ...]
    long_factor: tuple[float, ...]
    original_max_position_embeddings: int
    factor: float = 1.0
    attention_factor: float | None = None

    def __post_init__(self) -> None:
        for name in ("short_factor", "long_factor"):
            factors = getattr(self, name)
            require(
                isinstance(factors, list | tuple),
                f"{name} must be numbers, one for each pair, got {type(factors).__name__}",
            )
            for factor in factors:
                check_number(name, factor, above=0)
            object.__setattr__(self, name, tuple(factors))
        check_integer("original_max_position_embeddings", self.original_max_position_embeddings, 2)
        check_number("factor", self.factor, above=0)
        if self.attention_factor is not None:
            check_number("attention_factor", self.attention_factor, above=0)

    def _scaled(self, name: str, d_head: int, base: float) -> Tensor:
        factors = getattr(self, name)
        require(
            len(factors) == d_head // 2,
            f"{name} must be {d_head // 2} numbers, one for each pair, got {len(factors)}",
        )
        divisor = torch.tensor(factors, dtype=torch.float64, device="cpu")
        return frequencies(d_head, base) / divisor

    def frequencies(self, d_head: int, base: float) -> Tensor:
        self._scaled("long_factor", d_head, base)  # refused now, and not in a long text
        return self._scaled("short_factor", d_head, base)

    @property
    def limit(self) -> int:
        return self.original_max_position_embeddings

    def frequencies_at(self, d_head: int, base: float, length: Tensor) -> Tensor:
        short, long = (
            self._scaled(name, d_head, base).to(length.device, finest_dtype(length.device))
            for name in ("short_factor", "long_factor")
        )
        return torch.where(length.unsqueeze(-1) > self.limit, long, short)

    @property
    def magnitude(self) -> float:
        if self.attention_factor is not None:
            return self.attention_factor
        if self.factor <= 1:
            return 1.0
        return math.sqrt(1 + math.log(self.factor) / math.log(self.limit))


@dataclass(frozen=True)
class YaRN(RotaryScaling):
    """YaRN: what turns often within L stays, what turns less than once is interpolated, a ramp
    between; and scores are made sharper.

    ``ω'_k = (1 − γ_k) ω_k / s + γ_k ω_k`` with γ_k = 1 up to the pair that makes ``beta_fast``
    turns in L positions, 0 from the one that makes ``beta_slow``, a straight line in k between
    them; and queries and keys are multiplied by ``0.1 ln s + 1``.

    The paper writes the ramp as a straight line in the number of turns (its equation 18); its
    authors' code, after which the published models were trained, and ``transformers`` draw it in
    k, between whole numbers. So does this, unless ``truncate`` is False.

    Attributes:
        factor: s, at least 1.
        original_max_position_embeddings: L, the length of the training.
        beta_fast, beta_slow: turns within L, 32 and 1 in the paper.
        attention_factor: instead of 0.1 ln s + 1.
        mscale, mscale_all_dim: where both are given, the factor is ``(0.1 mscale ln s + 1) /
            (0.1 mscale_all_dim ln s + 1)``, as in DeepSeek-V2.
        truncate: whether the ramp begins and ends at whole numbers k; gpt-oss does without.

    Source: Peng et al. 2023, section 3.2 and 3.3; the factor, its equation 22.
    """

    factor: float
    original_max_position_embeddings: int
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    attention_factor: float | None = None
    mscale: float | None = None
    mscale_all_dim: float | None = None
    truncate: bool = True

    def __post_init__(self) -> None:
        check_number("factor", self.factor, least=1)
        check_integer("original_max_position_embeddings", self.original_max_position_embeddings)
        check_number("beta_slow", self.beta_slow, above=0)
        check_number("beta_fast", self.beta_fast, above=self.beta_slow)
        if self.attention_factor is not None:
            check_number("attention_factor", self.attention_factor, above=0)
        for name in ("mscale", "mscale_all_dim"):
            if getattr(self, name) is not None:
                check_number(name, getattr(self, name), least=0)
        check_choice("truncate", self.truncate, (True, False))

    def frequencies(self, d_head: int, base: float) -> Tensor:
        def pair_of(turns: float) -> float:
            """The k, a real number, of the pair that makes so many turns in L positions."""
            length = self.original_max_position_embeddings
            return d_head * math.log(length / (turns * 2 * math.pi)) / (2 * math.log(base))

        first, last = pair_of(self.beta_fast), pair_of(self.beta_slow)
        if self.truncate:
            first, last = math.floor(first), math.ceil(last)
        first, last = max(first, 0), min(last, d_head - 1)
        k = torch.arange(d_head // 2, dtype=torch.float64, device="cpu")
        slowed = ((k - first) / max(last - first, 1e-3)).clamp(0, 1)  # 1 − γ
        old = frequencies(d_head, base)
        return slowed * old / self.factor + (1 - slowed) * old

    @property
    def magnitude(self) -> float:
        if self.attention_factor is not None:
            return self.attention_factor
        more = 0.1 * math.log(self.factor)
        if self.mscale and self.mscale_all_dim:
            return (self.mscale * more + 1.0) / (self.mscale_all_dim * more + 1.0)
        return more + 1.0


@dataclass(frozen=True)
class Llama3(RotaryScaling):
    """The frequencies of Llama 3.1: slow pairs are interpolated, fast ones stay, a ramp between.

    With r_k = L ω_k / 2π, the turns that pair k makes in L positions:
    ``ω'_k = (1 − γ_k) ω_k / s + γ_k ω_k``, ``γ_k = (r_k − low) / (high − low)``, kept within 0 … 1.

    Attributes:
        factor: s, at least 1; 8 in Llama 3.1.
        low_freq_factor, high_freq_factor: turns, 1 and 4 in Llama 3.1.
        original_max_position_embeddings: L; 8,192 in Llama 3.1.

    Source: the configuration files and code of Llama 3.1 (Grattafiori et al. 2024).
    """

    factor: float
    low_freq_factor: float
    high_freq_factor: float
    original_max_position_embeddings: int

    def __post_init__(self) -> None:
        check_number("factor", self.factor, least=1)
        check_number("low_freq_factor", self.low_freq_factor, above=0)
        check_number("high_freq_factor", self.high_freq_factor, above=self.low_freq_factor)
        check_integer("original_max_position_embeddings", self.original_max_position_embeddings)

    def frequencies(self, d_head: int, base: float) -> Tensor:
        old = frequencies(d_head, base)
        turns = self.original_max_position_embeddings * old / (2 * math.pi)  # r
        low, high = self.low_freq_factor, self.high_freq_factor
        kept = ((turns - low) / (high - low)).clamp(0, 1)  # γ
        return (1 - kept) * old / self.factor + kept * old
