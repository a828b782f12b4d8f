"""English sentences whose pronoun refers to one of two nouns, and their French, where the noun
decides between il and elle.

    we like the hat behind the school because it is washable .    nous aimons le chapeau derrière l'
    école parce qu' il est lavable . we like the hat behind the school because it is historic .
    nous aimons le chapeau derrière l' école parce qu' elle est historique .

The two nouns differ in gender and in kind and have the same number; the adjective fits one kind
only, so it alone says which noun is meant. The adjectives are those with one French form for both
genders: only the pronoun shows the gender. So *it* cannot be translated word by word, and the
antecedent of every pronoun is known.

The nouns are those of :mod:`attnbook.tasks.translation.phrases`. Which adjective goes with which
kind is a rule of the book's own."""

from __future__ import annotations

import random
from typing import NamedTuple

from ...validate import check_integer
from ..sequences.pairs import Pair, span
from ..sequences.task import Task, generated_task, make_task
from . import phrases

__all__ = [
    "KINDS",
    "PRONOUNS",
    "PronounSentence",
    "draw",
    "minimal_pairs",
    "pronoun_task",
    "source_tokens",
    "target_tokens",
]

KINDS = {
    "machine": (
        "car watch lamp machine train boat bus aeroplane",
        "automatic automatique;reliable fiable;fast rapide",
    ),
    "place": (
        "house school church island garden market hotel bridge",
        "quiet tranquille;vast vaste;historic historique",
    ),
    "text": (
        "letter law book newspaper plan exam",
        "legible lisible;difficult difficile;honest honnête",
    ),
    "garment": ("dress shirt hat coat", "comfortable confortable;washable lavable;loose large"),
}
"""Kind → its nouns, and the adjectives that fit it (English, French)."""

SUBJECTS = (("we", "nous", "ons"), ("you", "vous", "ez"))
VERBS = (("like", "aim"), ("see", "voy"), ("draw", "dessin"), ("choose", "choisiss"))
PLACES = (("behind", "derrière"), ("under", "sous"), ("with", "avec"))
PRONOUNS = {("m", False): "il", ("f", False): "elle", ("m", True): "ils", ("f", True): "elles"}
"""(gender, plural) → the French pronoun."""

_NOUNS = {noun.english: noun for noun in phrases.NOUNS}
_OF_KIND = {
    kind: tuple(_NOUNS[word] for word in nouns.split()) for kind, (nouns, _) in KINDS.items()
}
_FITS = {
    kind: tuple(tuple(entry.split()) for entry in adjectives.split(";"))
    for kind, (_, adjectives) in KINDS.items()
}
_BY_GENDER = {
    gender: [
        (kind, noun) for kind, nouns in _OF_KIND.items() for noun in nouns if noun.gender == gender
    ]
    for gender in "mf"
}


class PronounSentence(NamedTuple):
    """A sentence pair with its pronoun; all positions count tokens from 0.

    Attributes:
        pair: the English and French tokens, with their alignment: the French pronoun comes from the
            English one
        pronoun: position of it / they in the source
        antecedent: position of the noun that it refers to
        other: position of the other noun
        decides: position of the adjective, which says so
        written: position of the French pronoun in the target
    """

    pair: Pair
    pronoun: int
    antecedent: int
    other: int
    decides: int
    written: int


def draw(generator: random.Random) -> PronounSentence:
    """One random sentence."""
    return _make(*_choose(generator))


def _choose(generator: random.Random):
    (kind, noun), (other_kind, other) = (generator.choice(_BY_GENDER[gender]) for gender in "mf")
    while other_kind == kind:
        other_kind, other = generator.choice(_BY_GENDER["f"])
    nouns = [(kind, noun), (other_kind, other)]
    generator.shuffle(nouns)
    meant = generator.randrange(2)
    return (
        nouns,
        meant,
        generator.choice(_FITS[nouns[meant][0]]),
        generator.random() < 0.5,
        generator.choice(SUBJECTS),
        generator.choice(VERBS),
        generator.choice(PLACES),
    )


def _make(nouns, meant: int, adjective, plural: bool, subject, verb, place) -> PronounSentence:
    source, target = [subject[0], verb[0]], [subject[1], verb[1] + subject[2]]
    alignment = [span(0, 1), span(1, 2)]
    places = []
    for index, (_, noun) in enumerate(nouns):
        part = phrases.phrase("the *" if plural else "the", noun)
        at = len(source)
        places.append(at + 1)
        source += part.source
        target += part.target
        alignment += [frozenset(at + p for p in positions) for positions in part.alignment or ()]
        if index == 0:
            alignment.append(span(len(source), len(source) + 1))
            source.append(place[0])
            target.append(place[1])
    at, written = len(source), len(target) + 2
    source += ["because", "they" if plural else "it", "are" if plural else "is", adjective[0], "."]
    target += [
        "parce",
        "qu'",
        PRONOUNS[nouns[meant][1].gender, plural],
        "sont" if plural else "est",
        adjective[1] + "s" * plural,
        ".",
    ]
    alignment += [span(at + i, at + i + 1) for i in (0, 0, 1, 2, 3, 4)]
    content = tuple(word not in phrases.FUNCTION_WORDS | {"parce", "qu'", "."} for word in target)
    return PronounSentence(
        Pair(tuple(source), tuple(target), tuple(alignment), content),
        at + 1,
        places[meant],
        places[1 - meant],
        at + 3,
        written,
    )


def minimal_pairs(
    count: int, *, seed: int, without: frozenset | set = frozenset()
) -> list[tuple[PronounSentence, PronounSentence]]:
    """Pairs of sentences that differ in one English word, the adjective, and so in the noun that
    the pronoun refers to.

    The pronoun of the first refers to the first noun, that of the second to the second.

    Args:
        count: how many pairs; all sentences differ.
        without: sources, tuples of words, that no sentence may have, as those of the training.
    """
    generator, accepted, seen = random.Random(seed), [], set(without)
    for _ in range(100 * check_integer("count", count, 0) + 1000):
        if len(accepted) == count:
            return accepted
        nouns, _, _, plural, subject, verb, place = _choose(generator)
        two = tuple(
            _make(
                nouns, meant, generator.choice(_FITS[nouns[meant][0]]), plural, subject, verb, place
            )
            for meant in (0, 1)
        )
        if not any(one.pair.source in seen for one in two):
            seen.update(one.pair.source for one in two)
            accepted.append(two)
    raise ValueError(
        f"count asks for {count} pairs of new sentences, but only {len(accepted)} were found: ask "
        f"for fewer"
    )


@generated_task("pronouns", lambda: (source_tokens(), target_tokens()))
def drawer():
    """A function from a random generator to one pair."""
    return lambda generator: draw(generator).pair


def pronoun_task(*, train: int, valid: int = 500, test: int = 1000, seed: int = 0) -> Task:
    """A task of translation pairs that all differ."""
    return make_task("pronouns", train=train, valid=valid, test=test, seed=seed)


def source_tokens() -> tuple[str, ...]:
    """Every English word of the sentences, in code-point order."""
    words = {"the", "because", "it", "they", "is", "are", "."}
    words.update(one[0] for one in (*SUBJECTS, *VERBS, *PLACES))
    for kind in KINDS:
        words.update(
            word for noun in _OF_KIND[kind] for word in (noun.english, noun.english_plural)
        )
        words.update(english for english, _ in _FITS[kind])
    return tuple(sorted(words))


def target_tokens() -> tuple[str, ...]:
    """Every French word of the sentences, in code-point order."""
    words = {"le", "la", "l'", "les", "parce", "qu'", "est", "sont", ".", *PRONOUNS.values()}
    words.update(subject[1] for subject in SUBJECTS)
    words.update(place[1] for place in PLACES)
    words.update(verb[1] + subject[2] for verb in VERBS for subject in SUBJECTS)
    for kind in KINDS:
        words.update(word for noun in _OF_KIND[kind] for word in (noun.french, noun.french_plural))
        words.update(french + s for _, french in _FITS[kind] for s in ("", "s"))
    return tuple(sorted(words))
