"""Real sentences in two languages: Multi30k, Tatoeba, and the ALIBI gold word alignments."""

import gzip
import random
import re
import unicodedata
import zipfile
from functools import partial
from typing import NamedTuple

from ...validate import check_choice, check_seed, require
from .. import datasets
from ..sequences.pairs import Pair
from ..sequences.task import Task, corpus_task
from ..sequences.vocabulary import Vocabulary

MULTI30K_SPLITS = {
    "train": "train",
    "valid": "val",
    "test2016": "test_2016_flickr",
    "test2017": "test_2017_flickr",
    "mscoco2017": "test_2017_mscoco",
    "test2018": "test_2018_flickr",
}
MULTI30K_LANGUAGES = ("en", "de", "fr", "cs")
ALIBI_TEXTS = (
    ("ChatBotte", "MasterCat"),
    ("LAuberge", "TheInn"),
    ("LaBarbeBleue", "BlueBeard"),
    ("LaDerniereClasse", "TheLastLesson"),
    ("LaVision", "TheVision"),
)
MOST_WORDS = 10
"""Of the sentences of the task "tatoeba"."""


class Sentences(NamedTuple):
    """A sentence and its translation, as plain text."""

    source: str
    target: str


class AlignedSentences(NamedTuple):
    """A sentence pair with gold links (source word, target word), counted from 0: those that
    annotators are sure of, and all possible ones (S ⊆ P, as in Och and Ney 2003).
    """

    source: tuple[str, ...]
    target: tuple[str, ...]
    sure: frozenset[tuple[int, int]]
    possible: frozenset[tuple[int, int]]


def multi30k(source: str = "en", target: str = "de", split: str = "train") -> list[Sentences]:
    """Image captions, translated (Elliott et al. 2016): 29,000 for training, 1,014 for validation.

    Args:
        source, target: two of "en", "de", "fr", "cs" (no Czech in the tests of 2017)
        split: "train", "valid", "test2016" (1,000), "test2017" (1,000), "mscoco2017" (461),
            "test2018" (1,071)
    """
    for name, language in (("source", source), ("target", target)):
        check_choice(name, language, MULTI30K_LANGUAGES)
    require(source != target, f"source and target must differ, got {source!r} twice")
    check_choice("split", split, MULTI30K_SPLITS)
    there = "cs" not in (source, target) or "2017" not in split
    require(there, f"split {split!r} has no Czech; use one of train, valid, test2016, test2018")
    sides = [_lines(f"{MULTI30K_SPLITS[split]}.{language}.gz") for language in (source, target)]
    n, m = map(len, sides)
    require(n == m, f"multi30k {split}: {n} lines of {source} but {m} of {target}")
    return [Sentences(*pair) for pair in zip(*sides)]


def _check_sides(source: str, target: str) -> None:
    require(
        {source, target} == {"en", "fr"},
        f'source and target must be "en" and "fr" in either order, got {source!r}, {target!r}',
    )


def _lines(file: str) -> list[str]:
    with gzip.open(datasets.fetch("multi30k", file)) as stream:
        text = stream.read().decode("utf-8")
    # Only "\n" ends a line here: some captions hold other characters that str.splitlines would
    # break at.
    return [normalize(line) for line in text.removesuffix("\n").split("\n")]


def tatoeba(source: str = "en", target: str = "fr") -> list[Sentences]:
    """Everyday sentences from Tatoeba by length: 142,787 pairs, often several translations of one.

    Licence CC BY 2.0; show `attnbook.tasks.datasets.attribution("tatoeba-fra-eng")` beside them.
    """
    _check_sides(source, target)
    with zipfile.ZipFile(datasets.fetch("tatoeba-fra-eng", "fra-eng.zip")) as archive:
        text = archive.read("fra.txt").decode("utf-8")
    pairs = [map(normalize, line.split("\t")) for line in text.split("\n") if line]
    return [Sentences(*(pair if source == "en" else reversed([*pair]))) for pair in pairs]


def alibi(source: str = "en", target: str = "fr") -> list[AlignedSentences]:
    """522 sentence pairs of five French tales with gold word alignments (Xu and Yvon 2016).

    The files link French to English; with source="en" the links are turned around.
    """
    _check_sides(source, target)
    pairs = []
    for french, english in ALIBI_TEXTS:
        folder = f"ali/{french}_{english}"
        sides = [_numbered(f"{folder}/{name}_sents.txt") for name in (french, english)]
        links = _numbered(f"{folder}/ali_w2w_{french}_{english}.txt")
        require(
            sides[0].keys() == sides[1].keys() == links.keys(),
            f"alibi-alignments/{folder}: the sentences and the links are not of the same numbers",
        )
        turned = source == "en"
        pairs += [_aligned(sides[0][n], sides[1][n], row, turned) for n, row in links.items()]
    return pairs


def _numbered(file: str) -> dict[int, list[str]]:
    text = datasets.fetch("alibi-alignments", file).read_text(encoding="utf-8")
    lines = (line.partition("\t") for line in text.split("\n") if line.strip())
    return {int(number): rest.split() for number, _, rest in lines}


def _aligned(
    french: list[str], english: list[str], links: list[str], turned: bool
) -> AlignedSentences:
    sure, possible = set(), set()
    for link in links:
        match = re.fullmatch(r"(\d+)([-p])(\d+)", link)
        if not match:
            raise ValueError(f'a link must be "3-4" (sure) or "3p4" (possible), got {link!r}')
        (i, j), n, m = (int(match[1]), int(match[3])), len(french), len(english)
        require(i < n and j < m, f"link {link} points outside {n} French and {m} English words")
        pair = (j, i) if turned else (i, j)
        possible.add(pair)
        if match[2] == "-":
            sure.add(pair)
    sides = (english, french) if turned else (french, english)
    return AlignedSentences(tuple(sides[0]), tuple(sides[1]), frozenset(sure), frozenset(possible))


_WORD = re.compile(r"\w+(?:[’'](?=\w))?|[^\w\s]")
_ENGLISH_WORD = re.compile(r"\w+(?:[’']\w+)*|[^\w\s]")


def normalize(text: str) -> str:
    """One form of each character (NFC), plain spaces (no narrow ones), plain apostrophes."""
    return " ".join(unicodedata.normalize("NFC", text).replace("’", "'").split())


def words(text: str, language: str = "en") -> tuple[str, ...]:
    """Lower-case words and punctuation marks.

    English "don't" stays one word; French splits an elided word: "j'ai" gives "j'", "ai".
    """
    pattern = _WORD if language == "fr" else _ENGLISH_WORD
    return tuple(pattern.findall(normalize(text).lower()))


@corpus_task("tatoeba")
def tatoeba_task(*, train: int, valid: int, test: int, seed: int) -> Task:
    """A small split of Tatoeba by words, for `make_task("tatoeba", …)`.

    No side of a pair has more than :data:`MOST_WORDS`, punctuation included; words that the
    training pairs hold but once become <unk>. The split goes by English sentence, compared without
    case and punctuation; training pairs with a source or target that valid or test hold are dropped
    too, so no translation leaks. Valid and test hold each sentence once.
    """
    groups: dict[str, list[Pair]] = {}
    for english, french in tatoeba():
        # reject long pairs before the slower tokenization
        if max(english.count(" "), french.count(" ")) >= MOST_WORDS:
            continue
        pair = Pair(words(english), words(french, "fr"))
        if 0 < len(pair.source) <= MOST_WORDS and 0 < len(pair.target) <= MOST_WORDS:
            groups.setdefault(_key(pair.source), []).append(pair)
    keys = sorted(groups)
    random.Random(check_seed(seed)).shuffle(keys)

    sizes = {"test": test, "valid": valid, "train": train}
    kept: dict[str, list[Pair]] = {name: [] for name in sizes}
    held: set[str] = set()  # the sentences of valid and test, on either side
    rest: list[str] = []
    for key in keys:
        pair = groups[key][0]
        sides = {_key(pair.source), _key(pair.target)}
        name = next((name for name in ("test", "valid") if len(kept[name]) < sizes[name]), None)
        if name is None or sides & held:
            rest.append(key)
        else:
            held |= sides
            kept[name].append(pair)
    seen: set[Pair] = set()
    for pair in (pair for key in rest for pair in groups[key]):
        if len(kept["train"]) == train:
            break
        if pair not in seen and not {_key(pair.source), _key(pair.target)} & held:
            seen.add(pair)
            kept["train"].append(pair)
    for name, size in sizes.items():
        there = len(kept[name])
        require(
            there >= size,
            f"{name} asks for {size} pairs, but of up to {MOST_WORDS} words there are {there}",
        )
    known = partial(Vocabulary.from_sequences, min_count=2, unknown="unk")
    ours, theirs = map(known, zip(*(pair[:2] for pair in kept["train"])))
    credit = datasets.attribution("tatoeba-fra-eng")
    return Task("tatoeba", **kept, source_vocab=ours, target_vocab=theirs, attribution=credit)


def _key(tokens: tuple[str, ...]) -> str:
    """What must not be in two splits: the words without punctuation."""
    return " ".join(token for token in tokens if token[0].isalnum()) or " ".join(tokens)
