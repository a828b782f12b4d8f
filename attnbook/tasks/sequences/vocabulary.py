"""Tokens to numbers and back."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from ...decoding.step import TokenIds
from ...files import write_atomically
from ...validate import check_choice, require

PAD, BOS, EOS, UNK = 0, 1, 2, 3
SPECIAL = ("<pad>", "<bos>", "<eos>", "<unk>")
TOKEN_IDS = TokenIds(start=BOS, end=(EOS,), padding=PAD, forbidden=(PAD, BOS), begin=BOS)
"""The ids of every vocabulary that are no words, for the ``token_ids`` of a model: a target starts
with BOS and ends with EOS, and neither PAD nor BOS is ever written."""


class Vocabulary:
    """A fixed list of tokens; its first four ids are always PAD=0, BOS=1, EOS=2, UNK=3.

    Attributes:
        token_ids: those four as the ``token_ids`` of a model.

    Args:
        tokens: the ordinary tokens, in the order of their ids 4, 5, …
        unknown: what `encode` does with a token it does not hold: "error" or "unk" (map to UNK)
    """

    token_ids = TOKEN_IDS

    def __init__(self, tokens: Iterable[str], unknown: str = "error"):
        self._ordinary = tuple(tokens)
        self.tokens = SPECIAL + self._ordinary
        self.unknown = check_choice("unknown", unknown, ("error", "unk"))
        self._ids = {token: index for index, token in enumerate(self.tokens)}
        repeated = [token for token, times in Counter(self.tokens).items() if times > 1][:5]
        others = f"one another and from {SPECIAL}"
        require(not repeated, f"tokens must differ from {others}, got repeated {repeated}")

    @classmethod
    def from_sequences(
        cls, sequences: Iterable[Sequence[str]], *, min_count: int = 1, unknown: str = "error"
    ) -> Vocabulary:
        """Every token seen `min_count` times or more, by frequency, then in code-point order."""
        require(not isinstance(sequences, str), "sequences must be of tokens, got one string")
        counts = Counter(token for sequence in sequences for token in sequence)
        kept = (t for t in counts if counts[t] >= min_count and t not in SPECIAL)
        return cls(sorted(kept, key=lambda token: (-counts[token], token)), unknown)

    def __len__(self) -> int:
        return len(self.tokens)

    def __contains__(self, token: object) -> bool:
        return token in self._ids

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple:
        return self.tokens, self.unknown

    def __repr__(self) -> str:
        return f"Vocabulary({len(self)} tokens, unknown={self.unknown!r})"

    def encode(self, tokens: Iterable[str]) -> list[int]:
        """The id of each token; a ValueError lists unknown ones, unless they go to UNK."""
        if isinstance(tokens, str):
            raise ValueError(f"tokens must be a sequence, got the string {tokens[:40]!r}: split it")
        tokens = list(tokens)
        if self.unknown == "unk":
            return [self._ids.get(token, UNK) for token in tokens]
        try:
            return [self._ids[token] for token in tokens]
        except KeyError:
            missing = list(dict.fromkeys(token for token in tokens if token not in self._ids))
            more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
            raise ValueError(
                f"tokens holds {', '.join(map(repr, missing[:5]))}{more}, unknown to this "
                f'vocabulary of {len(self)}; one with unknown="unk" reads them as <unk>'
            ) from None

    def decode(self, ids: Iterable[int]) -> list[str]:
        """The tokens of `ids` up to the first EOS, without PAD and BOS."""
        tokens = []
        for index in ids:
            index = int(index)
            require(0 <= index < len(self), f"ids must lie in 0..{len(self) - 1}, got {index}")
            if index == EOS:
                break
            if index not in (PAD, BOS):
                tokens.append(self.tokens[index])
        return tokens

    def save(self, path: str | os.PathLike) -> Path:
        """Write the vocabulary as JSON."""
        stored = {"unknown": self.unknown, "tokens": self._ordinary}
        text = json.dumps(stored, ensure_ascii=False, indent=0)
        return write_atomically(path, text.encode("utf-8"))

    @classmethod
    def load(cls, path: str | os.PathLike) -> Vocabulary:
        """Read a vocabulary that `save` wrote."""
        try:
            stored = json.loads(Path(path).read_text(encoding="utf-8"))
            return cls(stored["tokens"], stored["unknown"])
        except (json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError) as error:
            raise ValueError(
                f"path must name a saved vocabulary, got {os.fspath(path)}: {error}"
            ) from None
