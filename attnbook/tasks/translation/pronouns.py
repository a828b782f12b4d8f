"""English sentences with a pronoun for one of two nouns; in French the noun decides il or elle.

    we like the hat behind the school because it is washable .    nous aimons le chapeau derrière l'
    école parce qu' il est lavable . we like the hat behind the school because it is historic .
    nous aimons le chapeau derrière l' école parce qu' elle est historique .

The two nouns differ in gender and in kind and have the same number; the adjective fits one kind
only, so it alone says which noun is meant. The adjectives are those with one French form for both
genders: only the pronoun shows the gender. So *it* cannot be translated word by word, and the
antecedent of every pronoun is known.

The nouns are those of :mod:`attnbook.tasks.translation.phrases`. Which adjective goes with which
kind is a rule of the book's own.

With few kinds a model may get by without choosing a noun: "a masculine machine and a feminine
place" is all that it has to know. Not so with ``described=5``: five nouns come with an adjective
each, drawn anew for every sentence, and the last adjective says one of them again. ::

    we see the rare hat behind the vast house with the sad letter under the red bus with the solid
    lamp because it is sad ."""

import random
from typing import NamedTuple

from ...validate import check_integer, check_seed
from ..sequences.pairs import Pair, shifted, span
from ..sequences.task import MAKERS, Task, generated_task
from . import phrases

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

_DESCRIBING = phrases.adjectives_of(
    ";".join(adjectives for _, adjectives in KINDS.values())
    + ";red rouge;yellow jaune;electric électrique;economic économique;"
    "political politique;military militaire;agricultural agricole;modern moderne;famous célèbre;"
    "strange étrange;useful utile;rare rare;fragile fragile;solid solide;simple simple;sad triste;"
    "dirty sale;magnificent magnifique;dark sombre;rigid rigide"
)
"""32 adjectives with one form for both genders."""

_NOUNS = {noun.english: noun for noun in phrases.NOUNS}
_FITS = {kind: phrases.adjectives_of(adjectives) for kind, (_, adjectives) in KINDS.items()}
_KIND_AND_NOUN = [
    (kind, _NOUNS[one]) for kind, (nouns, _) in KINDS.items() for one in nouns.split()
]
_BY_GENDER = {gender: [one for one in _KIND_AND_NOUN if one[1].gender == gender] for gender in "mf"}


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


class _Frame(NamedTuple):
    """A sentence but for the adjective at its end.

    Attributes:
        described: the adjective before each of the nouns, or none at all
        meant, other: the two nouns of a minimal pair, which differ in gender
        fitting: for each of the nouns, the adjectives that say that it is meant
    """

    nouns: tuple[phrases.Noun, ...]
    described: tuple[tuple[phrases.Adjective, ...], ...]
    meant: int
    other: int
    fitting: tuple[tuple[phrases.Adjective, ...], ...]
    plural: bool
    subject: tuple[str, str, str]
    verb: tuple[str, str]
    places: tuple[tuple[str, str], ...]


def draw(generator: random.Random, described: int = 0) -> PronounSentence:
    """One random sentence, of two nouns, or of ``described`` nouns with an adjective each."""
    return _draw(generator, check_described(described))[0]


def check_described(described: int) -> int:
    """0, or the number of nouns: 2 to 8."""
    return described if described == 0 else check_integer("described", described, 2, 8)


def _draw(generator, described):
    """A sentence and its frame."""
    choose = _choose_described if described else _choose
    frame, adjective = choose(generator, described)
    return _make(frame, frame.meant, frame.other, adjective), frame


def _choose(generator, _):
    (kind, noun), (other_kind, other) = (generator.choice(_BY_GENDER[gender]) for gender in "mf")
    while other_kind == kind:
        other_kind, other = generator.choice(_BY_GENDER["f"])
    nouns = [(kind, noun), (other_kind, other)]
    generator.shuffle(nouns)
    meant = generator.randrange(2)
    fitting = tuple(_FITS[kind] for kind, _ in nouns)
    adjective = generator.choice(fitting[meant])
    both = tuple(noun for _, noun in nouns)
    frame = _Frame(both, ((), ()), meant, 1 - meant, fitting, *_clause(generator, 1))
    return frame, adjective


def _choose_described(generator, count):
    genders = generator.choices("mf", k=count)
    while len(set(genders)) == 1:
        genders = generator.choices("mf", k=count)
    nouns = []
    for gender in genders:
        _, noun = generator.choice(_BY_GENDER[gender])
        while noun in nouns:
            _, noun = generator.choice(_BY_GENDER[gender])
        nouns.append(noun)
    meant = generator.randrange(count)
    other = generator.choice([k for k in range(count) if genders[k] != genders[meant]])
    adjectives = generator.sample(_DESCRIBING, count)
    described = tuple((one,) for one in adjectives)
    rest = _clause(generator, count - 1)
    return _Frame(tuple(nouns), described, meant, other, described, *rest), adjectives[meant]


def _clause(generator, joints):
    return (
        generator.random() < 0.5,
        generator.choice(SUBJECTS),
        generator.choice(VERBS),
        tuple(generator.choice(PLACES) for _ in range(joints)),
    )


def _make(frame: _Frame, meant: int, other: int, adjective) -> PronounSentence:
    subject, verb, plural = frame.subject, frame.verb, frame.plural
    source, target = [subject[0], verb[0]], [subject[1], verb[1] + subject[2]]
    alignment = [span(0, 1), span(1, 2)]
    heads = []
    for index, (noun, described) in enumerate(zip(frame.nouns, frame.described, strict=True)):
        if index:
            alignment.append(span(len(source), len(source) + 1))
            source.append(frame.places[index - 1][0])
            target.append(frame.places[index - 1][1])
        part = phrases.phrase("the *" if plural else "the", noun, after=described)
        at = len(source)
        heads.append(at + 1 + len(described))
        source += part.source
        target += part.target
        alignment += [shifted(positions, at) for positions in part.alignment or ()]
    at, written = len(source), len(target) + 2
    source += ["because", "they" if plural else "it", "are" if plural else "is"]
    source += [adjective.english, "."]
    pronoun = PRONOUNS[frame.nouns[meant].gender, plural]
    target += ["parce", "qu'", pronoun, "sont" if plural else "est"]
    target += [adjective.mp if plural else adjective.ms, "."]
    alignment += [span(at + i, at + i + 1) for i in (0, 0, 1, 2, 3, 4)]
    content = tuple(word not in phrases.FUNCTION_WORDS | {"parce", "qu'", "."} for word in target)
    pair = Pair(tuple(source), tuple(target), tuple(alignment), content)
    return PronounSentence(pair, at + 1, heads[meant], heads[other], at + 3, written)


def minimal_pairs(
    count: int, *, seed: int, described: int = 0, without: frozenset | set = frozenset()
) -> list[tuple[PronounSentence, PronounSentence]]:
    """Pairs of sentences that differ in one adjective, and so in the noun of the pronoun.

    The pronoun of the first refers to the noun that comes first.

    Args:
        count: how many pairs; all sentences differ.
        described: how many nouns come with an adjective of their own; 0: two nouns without.
        without: sources, tuples of words, that no sentence may have, as those of the training.
    """
    check_described(described)
    generator, accepted, seen = random.Random(check_seed(seed)), [], set(without)
    for _ in range(100 * check_integer("count", count, 0) + 1000):
        if len(accepted) == count:
            return accepted
        frame = _draw(generator, described)[1]
        two = tuple(
            _make(frame, meant, other, generator.choice(frame.fitting[meant]))
            for meant, other in sorted([(frame.meant, frame.other), (frame.other, frame.meant)])
        )
        if not any(one.pair.source in seen for one in two):
            seen.update(one.pair.source for one in two)
            accepted.append(two)
    raise ValueError(f"count asks for {count} new pairs, but only {len(accepted)} were found")


@generated_task("pronouns", lambda **options: (source_tokens(**options), target_tokens(**options)))
def drawer(*, described: int = 0):
    """A function from a random generator to one pair."""
    check_described(described)
    return lambda generator: draw(generator, described).pair


def pronoun_task(
    *, train: int, valid: int = 500, test: int = 1000, seed: int = 0, described: int = 0
) -> Task:
    """A task of translation pairs that all differ."""
    sizes = {"train": train, "valid": valid, "test": test, "seed": seed}
    return MAKERS["pronouns"](**sizes, described=described)


def source_tokens(described: int = 0) -> tuple[str, ...]:
    """Every English word of the sentences, in code-point order."""
    words = {"the", "because", "it", "they", "is", "are", "."}
    words.update(one[0] for one in (*SUBJECTS, *VERBS, *PLACES))
    words.update(word for _, noun in _KIND_AND_NOUN for word in noun[:2])
    words.update(one.english for one in _adjectives(described))
    return tuple(sorted(words))


def target_tokens(described: int = 0) -> tuple[str, ...]:
    """Every French word of the sentences, in code-point order."""
    words = {"le", "la", "l'", "les", "parce", "qu'", "est", "sont", ".", *PRONOUNS.values()}
    words.update(one[1] for one in (*SUBJECTS, *PLACES))
    words.update(verb[1] + subject[2] for verb in VERBS for subject in SUBJECTS)
    words.update(word for _, noun in _KIND_AND_NOUN for word in noun[3:])
    words.update(word for one in _adjectives(described) for word in (one.ms, one.mp))
    return tuple(sorted(words))


def _adjectives(described):
    return _DESCRIBING if described else sum(_FITS.values(), ())
