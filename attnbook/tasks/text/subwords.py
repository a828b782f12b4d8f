"""Byte-pair encoding: words in pieces, so that none is unknown (Sennrich, Haddow, Birch 2016).

Needs the package `tokenizers`: ``pip install "attnbook[translate]"``.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from ...extras import extra
from ...files import write_atomically
from ...validate import check_integer, require
from ..sequences.pairs import Pair
from ..sequences.vocabulary import SPECIAL, Vocabulary

SPACE = "▁"  # stands for the space before a word, as in SentencePiece


def _tokenizers():
    with extra("translate", "byte-pair encoding"):
        import tokenizers
    return tokenizers


class Subwords:
    """A trained byte-pair encoding of one or two languages.

    Args:
        vocab: a Vocabulary of its pieces (PAD=0, BOS=1, EOS=2, UNK=3), to give to `SequenceBatches`
    """

    def __init__(self, tokenizer):
        self._tokenizer = tokenizer
        ids = tokenizer.get_vocab()
        tokens = sorted(ids, key=ids.get)
        first = tokens[: len(SPECIAL)]
        fits = tuple(first) == SPECIAL and sorted(ids.values()) == list(range(len(ids)))
        require(fits, f"tokenizer must number {SPECIAL} from 0, got {first}")
        self.vocab = Vocabulary(tokens[len(SPECIAL) :], unknown="unk")

    @classmethod
    def train(cls, sentences: Iterable[str], size: int = 8000) -> Subwords:
        """Learn at most `size` pieces, special tokens and single characters included."""
        library = _tokenizers()
        size = check_integer("size", size, len(SPECIAL) + 1)
        sentences = list(sentences)
        require(any(sentences), "sentences must hold some text, got none")
        tokenizer = library.Tokenizer(library.models.BPE(unk_token=SPECIAL[3]))
        tokenizer.normalizer = library.normalizers.NFC()
        spaces = library.pre_tokenizers.Metaspace(replacement=SPACE, prepend_scheme="always")
        marks = library.pre_tokenizers.Punctuation("isolated")
        tokenizer.pre_tokenizer = library.pre_tokenizers.Sequence([spaces, marks])
        trainer = library.trainers.BpeTrainer(
            vocab_size=size, special_tokens=list(SPECIAL), show_progress=False
        )
        tokenizer.train_from_iterator(sentences, trainer)
        least = tokenizer.get_vocab_size()  # every character is a piece, whatever was asked for
        require(
            least <= size,
            f"size must be at least {least}, the number of different characters and special "
            f"tokens, got {size}",
        )
        return cls(tokenizer)

    def __len__(self) -> int:
        return len(self.vocab)

    def split(self, text: str) -> tuple[str, ...]:
        """The pieces of a sentence."""
        return tuple(self._tokenizer.encode(text).tokens)

    def split_words(self, words: Sequence[str]) -> tuple[tuple[str, ...], tuple[int, ...]]:
        """The pieces of a sentence given as words, and for each piece the number of its word.

        The words are joined as people write them (no space after "l'" or before a comma) before
        they are split, so that the pieces are those of running text. A piece that spans two words
        belongs to the one it has most characters of, the first on a tie."""
        if isinstance(words, str):
            raise ValueError(f"words must be a sequence of words, got the string {words[:40]!r}")
        text, spans = join_words(words)
        encoding = self._tokenizer.encode(text)
        owners = [_owner(start, stop, spans) for start, stop in encoding.offsets]
        return tuple(encoding.tokens), tuple(owners)

    def join(self, pieces: Iterable[str]) -> str:
        """The sentence that pieces make."""
        return "".join(pieces).replace(SPACE, " ").strip()

    def encode(self, text: str) -> list[int]:
        """The ids of the pieces of a sentence."""
        return self.vocab.encode(self.split(text))

    def decode(self, ids: Iterable[int]) -> str:
        """The sentence of `ids` up to the first EOS."""
        return self.join(self.vocab.decode(ids))

    def save(self, path: str | os.PathLike) -> Path:
        """Write as JSON, in the format of the package tokenizers."""
        return write_atomically(path, self._tokenizer.to_str(pretty=True).encode("utf-8"))

    @classmethod
    def load(cls, path: str | os.PathLike) -> Subwords:
        """Read what `save` wrote."""
        library = _tokenizers()
        text = Path(path).read_text(encoding="utf-8")
        try:
            tokenizer = library.Tokenizer.from_str(text)
        except Exception as error:  # the package raises bare Exception
            raise ValueError(
                f"path must name saved subwords, got {os.fspath(path)}: {error}"
            ) from None
        return cls(tokenizer)


def to_pairs(
    sentences: Iterable[tuple[str, str]],
    source: Subwords,
    target: Subwords,
    max_pieces: int | None = None,
) -> list[Pair]:
    """Sentence pairs as pairs of pieces, without those of an empty or a longer side."""
    most = math.inf if max_pieces is None else max_pieces
    pairs = (Pair(source.split(ours), target.split(theirs)) for ours, theirs in sentences)
    return [p for p in pairs if p.source and p.target and max(map(len, p[:2])) <= most]


_NO_SPACE_BEFORE = frozenset([".", ",", ";", ":", "!", "?", ")", "]", "}", "…", "%", "n't"])
_NO_SPACE_AFTER = frozenset(["(", "[", "{"])
_CLITICS = ("'s", "'t", "'re", "'ve", "'ll", "'d", "'m", "'n")


def join_words(words: Sequence[str]) -> tuple[str, list[tuple[int, int]]]:
    """Words as running text, and where each of them stands in it."""
    text, spans, glue = "", [], True
    for word in words:
        lower = word.lower()
        if not (glue or lower in _NO_SPACE_BEFORE or lower in _CLITICS):
            text += " "
        spans.append((len(text), len(text) + len(word)))
        text += word
        elided = len(word) > 1 and word[-1] in "'’" and word[0].isalpha()
        glue = elided or word in _NO_SPACE_AFTER
    return text, spans


def _owner(start: int, stop: int, spans: list[tuple[int, int]]) -> int:
    """The word that most characters of start..stop belong to."""
    shares = [min(stop, b) - max(start, a) for a, b in spans]
    return max(range(len(spans)), key=lambda i: (shares[i], -i))
