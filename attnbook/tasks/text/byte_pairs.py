"""Byte-pair encoding of any text, trained here: bytes, then the most frequent neighbours.

For words of a language in pieces, by the package `tokenizers`, see
:mod:`attnbook.tasks.text.subwords`.
"""

from __future__ import annotations

import heapq
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable

from ...validate import check_integer, require
from ..sequences.vocabulary import SPECIAL

Pair = tuple[int, int]

# GPT-2 numbers first the bytes that Latin-1 prints, then the others: that decides ties.
_PRINTED = [*range(33, 127), *range(161, 173), *range(174, 256)]
_BYTES = [*_PRINTED, *(byte for byte in range(256) if byte not in _PRINTED)]
_FIRST = len(SPECIAL)  # the id of the first byte
_ID_OF_BYTE = {byte: _FIRST + k for k, byte in enumerate(_BYTES)}

_WHITE = frozenset(map(chr, [*range(9, 14), 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B)])) | set(
    "\u2028\u2029\u202f\u205f\u3000"
)


class _Kinds(dict):
    """From a code point to one letter for what it is in GPT-2's pattern, which names a few."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        kind = {"L": "A", "N": "1"}.get(unicodedata.category(character)[0], ".")
        kind = "\n" if character in _WHITE else kind
        self[code] = character if character in " 'strevmld" else kind
        return self[code]


_KINDS = _Kinds()
_WORD = re.compile(r"'(?:[stmd]|re|ve|ll)| ?[Astrevmld]+| ?1+| ?['.]+|\s+(?!\S)|\s+")


def split_words(text: str) -> list[str]:
    """Cut a text into words, each with the space before it: merges do not cross their borders.

    A word is a run of letters, of digits, or of other marks, with one space before it if there is
    one; English endings such as ``'s`` and ``'ll`` are words; other white space is a word of its
    own. The words joined are the text.

    Source: Radford et al. 2019, section 2.2, and the pattern in the code of GPT-2.
    """
    kinds = text.translate(_KINDS)  # as long as the text
    return [text[match.start() : match.end()] for match in _WORD.finditer(kinds)]


class BytePairs:
    """A byte-pair encoding: 256 bytes, and one piece more for each merge, as they were learned.

    Ids: PAD, BOS, EOS and UNK as everywhere in the book, then the bytes in the order of GPT-2, then
    the merges, so that ``260 + k`` is what merge k made. No text is unknown.

    Args:
        merges: pairs of ids ``(left, right)``, each a byte or an earlier merge.

    Attributes:
        merges: as given.
        pieces: the bytes of each id; none for the special ones.

    Source: Sennrich et al. 2016, section 3.2; on bytes: Radford et al. 2019, section 2.2.
    """

    def __init__(self, merges: Iterable[Pair]) -> None:
        self.merges = tuple((int(left), int(right)) for left, right in merges)
        pieces = [b""] * _FIRST + [bytes([byte]) for byte in _BYTES]
        for pair in self.merges:
            require(
                _FIRST <= min(pair) and max(pair) < len(pieces),
                f"merges must be pairs of ids from {_FIRST} to those made before, got {pair} where "
                f"there are {len(pieces)} pieces",
            )
            pieces.append(pieces[pair[0]] + pieces[pair[1]])
        self.pieces = tuple(pieces)
        self._made = {pair: len(_BYTES) + _FIRST + k for k, pair in enumerate(self.merges)}
        different = len(self._made) == len(self.merges)
        require(different, "merges must be different, got one of them twice")
        self._words: dict[str, list[int]] = {}

    @classmethod
    def train(cls, text: str, merges: int) -> BytePairs:
        """Learn ``merges`` merges from a text, fewer where no pair is left.

        Each merge makes one piece of the pair of neighbours, within a word, that is most frequent
        in the text; among equals of the pair with the smallest ids.
        """
        check_integer("merges", merges, 0)
        counts = Counter(split_words(text))
        words = [(_bytes_of(word), count) for word, count in counts.items()]
        pairs: Counter[Pair] = Counter()
        places: defaultdict[Pair, set[int]] = defaultdict(set)  # the words that have a pair
        for place, (ids, count) in enumerate(words):
            for pair in zip(ids, ids[1:]):
                pairs[pair] += count
                places[pair].add(place)
        # the most frequent first; counts that are out of date are put right when they come up
        queue = [(-count, pair) for pair, count in pairs.items()]
        heapq.heapify(queue)
        learned: list[Pair] = []
        while queue and len(learned) < merges:
            count, best = heapq.heappop(queue)
            if -count != pairs[best]:
                if pairs[best] > 0:
                    heapq.heappush(queue, (-pairs[best], best))
                continue
            new = _FIRST + len(_BYTES) + len(learned)
            learned.append(best)
            changed = set()
            for place in places.pop(best):
                ids, count = words[place]
                merged = _merge(ids, best, new)
                for pair in zip(ids, ids[1:]):
                    pairs[pair] -= count
                for pair in zip(merged, merged[1:]):
                    pairs[pair] += count
                    places[pair].add(place)
                    if new in pair:
                        changed.add(pair)
                words[place] = (merged, count)
            for pair in changed:
                heapq.heappush(queue, (-pairs[pair], pair))
        return cls(learned)

    def __len__(self) -> int:
        """The number of ids, special ones included: the size of a model's vocabulary."""
        return len(self.pieces)

    def encode(self, text: str) -> list[int]:
        """The ids of a text: in each word, the merges in the order in which they were learned."""
        words = split_words(text)
        for word in words:
            if word not in self._words:
                self._words[word] = self._encode_word(word)
        return [i for word in words for i in self._words[word]]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ids, without special ones; bytes that make no character are ``\\ufffd``."""
        ids = [int(i) for i in ids]
        low, high = min(ids, default=0), max(ids, default=0)
        within = 0 <= low <= high < len(self)
        require(within, f"ids must be from 0 to {len(self) - 1}, got {low} to {high}")
        return b"".join(self.pieces[i] for i in ids).decode("utf-8", errors="replace")

    def _encode_word(self, word: str) -> list[int]:
        ids = _bytes_of(word)
        while len(ids) > 1:
            new, pair = min((self._made.get(pair, len(self)), pair) for pair in zip(ids, ids[1:]))
            if new == len(self):
                break
            ids = _merge(ids, pair, new)
        return ids


def _bytes_of(word: str) -> list[int]:
    try:
        return [_ID_OF_BYTE[byte] for byte in word.encode("utf-8")]
    except UnicodeEncodeError as error:
        raise ValueError(
            f"text must be of characters, got half a surrogate pair, {word[error.start]!r}"
        ) from None


def _merge(ids: list[int], pair: Pair, new: int) -> list[int]:
    """Put ``new`` for each ``pair``, from left to right."""
    merged, k = [], 0
    while k < len(ids):
        if k + 1 < len(ids) and (ids[k], ids[k + 1]) == pair:
            merged.append(new)
            k += 2
        else:
            merged.append(ids[k])
            k += 1
    return merged
