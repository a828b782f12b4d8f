"""Names of people, as they are shown and as they are compared."""

from __future__ import annotations

import difflib
import re
import unicodedata

__all__ = ["cleaned", "first_of", "key", "near", "shown"]

# Controls, marks of direction, and bytes of a file name that are no UTF-8.
_ODD = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)
# Letters and marks that show nothing; the others are of the category Cf.
_INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
_ACCENTED = ("LATIN", "GREEK", "CYRILLIC")
"""The scripts in which a mark is an accent; in others it may be a vowel."""


def shown(name: str) -> str:
    """The name of a student or file without what a terminal, a page or a data base could not
    take as it is; that is written out, as \\xeb.
    """

    def written(one):
        if 0xDC80 <= (code := ord(one[0])) <= 0xDCFF:
            return f"\\x{code - 0xDC00:02x}"
        return one[0].encode("unicode_escape").decode()

    return _ODD.sub(written, unicodedata.normalize("NFC", name))


def cleaned(name: str) -> str:
    """The name in one line of composed characters, without those that `shown` would write out."""
    return _ODD.sub("", " ".join(unicodedata.normalize("NFC", name).split()))


def key(name: str) -> str:
    """The same for two ways to write one name: without capitals, spaces and signs, invisible
    characters, and the accents of Latin, Greek and Cyrillic letters.
    """
    plain = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())
    made, accents = [], True
    for one in unicodedata.normalize("NFD", _INVISIBLE.sub("", plain)):
        if unicodedata.category(one).startswith("M"):
            if not accents:
                made.append(one)
        elif one.isalnum():
            made.append(one)
            accents = unicodedata.name(one, "").startswith(_ACCENTED)
    return "".join(made)


def near(name: str, others) -> list[str]:
    """Those of the other names that this one may be a slip for: a hint for a person."""
    bare = {other: _bare(other) for other in others}
    found = difflib.get_close_matches(_bare(name), [*bare.values()], n=3, cutoff=0.8)
    return [other for other, one in bare.items() if one in found]


def _bare(name):
    """The key without any mark and number, its parts in the order of the alphabet."""
    parts = sorted(key(part) for part in re.split(r"[\s_,.()-]+", name))
    return "".join(one for one in "".join(parts) if one.isalpha())


def first_of(names) -> str:
    """The names in a sentence: the first five, and how many there are beside them."""
    names = [*names]
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if names[5:] else "")
