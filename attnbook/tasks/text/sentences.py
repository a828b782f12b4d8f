"""Sentences of a small grammar with long-distance agreement, and real text cut into sentences.

Two kinds of sentences. In the first a verb takes the number of a noun far before it, with other
nouns between:

    the dogs near the house that the farmer likes sleep .

In the second a name comes back, across other names:

    anna that bert likes near clara says : i am anna .

A sentence is a :class:`Pair` whose source and target are the same words. ``alignment[t]`` holds the
position of the word that decides word t (of a verb, its number), and is empty where none does:
distances, and which words attention needs, are known.
"""

import random

from ...validate import check_range, require
from .. import datasets
from ..sequences.pairs import NOTHING, Pair, span, take
from ..sequences.task import Task, split_pairs
from ..sequences.vocabulary import Vocabulary

KINDS = ("agreement", "name")
NOUNS = tuple("boy girl dog cat horse farmer doctor king sailor house tree boat".split())
ANIMATE = NOUNS[:9]
INTRANSITIVE = (("sleeps", "sleep"), ("sings", "sing"), ("waits", "wait"), ("smiles", "smile"))
TRANSITIVE = (("sees", "see"), ("likes", "like"), ("knows", "know"), ("hears", "hear"))
PLACES = ("near", "behind", "beside")
NAMES = ("anna", "bert", "clara", "david", "emma", "felix", "greta", "hugo")


def tokens() -> tuple[str, ...]:
    """Every word of the grammar, in code-point order."""
    words = {"the", "that", "says", ":", "i", "am", ".", *PLACES, *NAMES}
    words.update(NOUNS, (noun + "s" for noun in NOUNS), *INTRANSITIVE, *TRANSITIVE)
    return tuple(sorted(words))


def agreement(generator: random.Random, insertions: tuple[int, int] | int = (0, 3)) -> Pair:
    """A sentence whose last verb agrees with its first noun across insertions (fewest, most).

    An insertion is ``PLACE the NOUN``, ``that the NOUN VERB``, where VERB agrees with the NOUN
    beside it, or ``that VERB the NOUN``, where it agrees with the first noun."""
    plural = generator.random() < 0.5
    words, decided = ["the", _noun(generator, ANIMATE, plural)], {}

    def noun(animate: bool) -> tuple[list[str], bool]:
        other = generator.random() < 0.5
        return ["the", _noun(generator, ANIMATE if animate else NOUNS, other)], other

    _insert(generator, words, decided, insertions, 1, plural, noun)
    decided[len(words)] = 1
    return _pair([*words, generator.choice(INTRANSITIVE)[plural], "."], decided)


def name(generator: random.Random, insertions: tuple[int, int] | int = (0, 3)) -> Pair:
    """A sentence that begins and ends with a name, with insertions (fewest, most) between.

    The insertions are those of :func:`agreement` with other names in the place of the nouns, so the
    name to come back is not the last that was read."""
    first, *others = generator.sample(NAMES, len(NAMES))
    words = [first]
    _insert(generator, words, {}, insertions, 0, False, lambda animate: ([others.pop()], False))
    words += ["says", ":", "i", "am", first, "."]
    return _pair(words, {len(words) - 2: 0})  # the verbs hang on nothing: a name is always singular


def _insert(generator, words, decided, insertions, head, plural, noun) -> None:
    """Lengthen ``words`` by phrases; ``noun(animate)`` gives those of a noun and its number."""
    fewest, most = check_range("insertions", insertions, 0)
    limit = len(NAMES) - 1
    require(most <= limit, f"insertions must not exceed {limit}, got {insertions!r}")
    for _ in range(generator.randint(fewest, most)):
        kind = generator.randrange(3)
        phrase, other = noun(kind == 1)
        if kind == 0:
            words += [generator.choice(PLACES), *phrase]
        elif kind == 1:
            words += ["that", *phrase, generator.choice(TRANSITIVE)[other]]
            decided[len(words) - 1] = len(words) - 2
        else:
            words += ["that", generator.choice(TRANSITIVE)[plural], *phrase]
            decided[len(words) - 1 - len(phrase)] = head


def _noun(generator: random.Random, nouns: tuple[str, ...], plural: bool) -> str:
    return generator.choice(nouns) + ("s" if plural else "")


def _pair(words: list[str], decided: dict[int, int]) -> Pair:
    places = (decided.get(t) for t in range(len(words)))
    alignment = tuple(NOTHING if at is None else span(at, at + 1) for at in places)
    return Pair(tuple(words), tuple(words), alignment, tuple(map(bool, alignment)))


def drawer(*, kinds: tuple[str, ...] = KINDS, insertions: tuple[int, int] | int = (0, 3)):
    """A function from a random generator to one sentence, of each kind equally often."""
    known = bool(kinds) and set(kinds) <= set(KINDS)
    require(known, f"kinds must be some of {KINDS}, got {kinds!r}")
    makers = [{"agreement": agreement, "name": name}[kind] for kind in kinds]
    makers[0](random.Random(0), insertions)  # names a wrong option at once
    return lambda generator: generator.choice(makers)(generator, insertions)


def generate(count: int, *, seed: int, **options) -> list[Pair]:
    """Random sentences; options as in :func:`drawer`."""
    return take(drawer(**options), count, seed)


def language_task(
    *, train: int, valid: int = 500, test: int = 1000, seed: int = 0, **options
) -> Task:
    """A task of sentences that all differ; options as in :func:`drawer`.

    Source and target vocabulary are one.
    """
    vocabulary, draw = Vocabulary(tokens()), drawer(**options)
    return split_pairs("language", draw, vocabulary, vocabulary, train, valid, test, seed)


def wikitext(*, max_words: int = 50, min_count: int = 3) -> Task:
    """Sentences of WikiText-2 (Merity et al. 2016, CC BY-SA) by words: of its "valid.txt", of which
    every twentieth goes to validation, and for the test of its "test.txt".

    A paragraph is cut after each full stop; headings and sentences longer than ``max_words`` are
    left out. Words that the training sentences hold fewer than ``min_count`` times become <unk>, as
    do those that are <unk> in the corpus.
    """
    texts = _sentences("valid.txt", max_words)
    held_out, training = texts[::20], [s for k, s in enumerate(texts) if k % 20]
    vocabulary = Vocabulary.from_sequences(training, min_count=min_count, unknown="unk")
    parts = training, held_out, _sentences("test.txt", max_words)
    train, valid, test = ([Pair(words, words) for words in part] for part in parts)
    credit = datasets.attribution("wikitext-2")
    return Task("wikitext-2", train, valid, test, vocabulary, vocabulary, credit)


def _sentences(file: str, max_words: int) -> list[tuple[str, ...]]:
    sentences = []
    for line in datasets.fetch("wikitext-2", file).read_text(encoding="utf-8").split("\n"):
        if line.strip().startswith("="):  # a heading
            continue
        words = line.split()
        ends = [k for k, word in enumerate(words, start=1) if word == "."]
        sentences += [tuple(words[a:b]) for a, b in zip([0, *ends], [*ends, len(words)])]
    return [sentence for sentence in sentences if 2 <= len(sentence) <= max_words]
