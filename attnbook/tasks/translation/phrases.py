"""English noun phrases to French, joined by "and" to any length, with the true alignment.

In French most adjectives follow the noun, in the reverse of their English order; a few short ones
stay before it; determiners and adjectives take the gender and number of the noun:

    two small European electric cars and the old tree
    deux petites voitures électriques européennes et le vieil arbre

So the alignment has blocks that run backwards, words that become several (potato → pomme de terre),
several that become one (railway station → gare), and forms that depend on a word further on (the →
le, la, l', les). The lexicon is the book's own: 50 nouns and 39 adjectives, all invented pairings
of everyday words."""

import random
from functools import lru_cache
from typing import NamedTuple

from ...validate import check_choice, check_range, require
from ..sequences.pairs import NOTHING, Pair, shifted, span
from ..sequences.task import generated_task

_VOWELS = "aeiouyéèêâîôû"


class Noun(NamedTuple):
    """English singular and plural, French gender, singular and plural, some of several words."""

    english: str
    english_plural: str
    gender: str
    french: str
    french_plural: str


class Adjective(NamedTuple):
    """English, the four French forms, and that of the masculine before a vowel."""

    english: str
    ms: str
    fs: str
    mp: str
    fp: str
    prevocalic: str


def _nouns() -> tuple[Noun, ...]:
    regular = """house maison f;car voiture f;bridge pont m;table table f;chair chaise f;
    book livre m;train train m;garden jardin m;tree arbre m;school école f;
    lamp lampe f;hat chapeau m x;coat manteau m x;boat bateau m x;dress robe f es;
    shirt chemise f;door porte f;window fenêtre f;dog chien m;cat chat m;
    cup tasse f;glass verre m es;letter lettre f;machine machine f;market marché m;
    zone zone f;plan plan m;law loi f;flower fleur f;box boîte f es;
    watch montre f es;church église f es;bus bus m es -;bird oiseau m x;
    road route f;island île f;friend ami m;hotel hôtel m;animal animal m al;
    newspaper journal m al;horse cheval m al;apple pomme f;bag sac m;
    river rivière f;potato pomme/de/terre f es;bedroom chambre/à/coucher f;
    railway/station gare f;washing/machine machine/à/laver f;exam examen m;
    aeroplane avion m"""
    nouns = []
    for entry in regular.split(";"):
        english, french, gender, *marks = entry.split()
        plural = english + ("es" if "es" in marks else "s")
        head, *rest = french.split("/")
        if "al" in marks:
            heads = head.removesuffix("l") + "ux"
        else:
            heads = head + ("x" if "x" in marks else "" if "-" in marks else "s")
        english, plural, french = (each.replace("/", " ") for each in (english, plural, french))
        nouns.append(Noun(english, plural, gender, french, " ".join([heads, *rest])))
    return tuple(nouns)


def _adjective(entry: str) -> Adjective:
    english, ms, *rest = entry.split()
    fs = rest[0] if rest else (ms if ms.endswith("e") else ms + "e")
    if len(rest) > 1:
        mp = rest[1]
    elif ms.endswith("al"):
        mp = ms[:-1] + "ux"
    elif ms.endswith(("s", "x")):
        mp = ms
    else:
        mp = ms + "s"
    return Adjective(english, ms, fs, mp, fs + "s", rest[2] if len(rest) > 2 else ms)


def adjectives_of(entries: str) -> tuple[Adjective, ...]:
    """Adjectives from "English masculine feminine plural prevocalic", regular forms left out."""
    return tuple(_adjective(entry) for entry in entries.split(";"))


NOUNS = _nouns()
# Before the noun in French, first in English.
BEFORE = adjectives_of(
    "small petit;big grand;pretty joli;bad mauvais mauvaise;old vieux vieille vieux vieil;"
    "new nouveau nouvelle nouveaux nouvel;beautiful beau belle beaux bel;good bon bonne"
)
# After the noun in French. English puts colour before origin before kind; French turns that around.
COLOURS = adjectives_of(
    "red rouge;green vert;blue bleu;black noir;white blanc blanche;yellow jaune;grey gris;"
    "brown brun;violet violet violette"
)
ORIGINS = adjectives_of(
    "European européen européenne;American américain;French français;German allemand;"
    "Italian italien italienne;Spanish espagnol;Japanese japonais;Chinese chinois;African africain;"
    "Russian russe"
)
KINDS = adjectives_of(
    "electric électrique;economic économique;industrial industriel industrielle;"
    "political politique;medical médical;national national;commercial commercial;"
    "military militaire;agricultural agricole;modern moderne;"
    "traditional traditionnel traditionnelle;royal royal"
)
QUANTITIES: dict[str, str] = dict(
    zip(
        "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
        "sixteen twenty".split(),
        "un deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze seize "
        "vingt".split(),
    )
)
DETERMINERS = ("the", "the *", *QUANTITIES)
FUNCTION_WORDS = frozenset("le la les l' et de à".split())


def _starts_with_vowel(word: str) -> bool:
    """Whether the word before it elides; the h of the lexicon's only h-word, hôtel, is mute."""
    return word[0] in _VOWELS or word.startswith("h")


def _form(adjective: Adjective, feminine: bool, plural: bool) -> str:
    if plural:
        return adjective.fp if feminine else adjective.mp
    return adjective.fs if feminine else adjective.ms


def phrase(
    determiner: str, noun: Noun, before: Adjective | None = None, after: tuple[Adjective, ...] = ()
) -> Pair:
    """One noun phrase.

    Args:
        determiner: "the", "the" + plural as ``"the *"``, or a key of `QUANTITIES`
        before: an adjective of `BEFORE`
        after: adjectives in their English order; French puts them after the noun in the reverse
            order
    """
    check_choice("determiner", determiner, DETERMINERS)
    return _build(determiner, noun, before, tuple(after))


@lru_cache(maxsize=65536)
def _build(
    determiner: str, noun: Noun, before: Adjective | None, after: tuple[Adjective, ...]
) -> Pair:
    plural = determiner not in ("the", "one")
    feminine = noun.gender == "f"
    nouns = (noun.english_plural if plural else noun.english).split()
    adjectives = ([before] if before else []) + list(after)
    source = [determiner.removesuffix(" *"), *(a.english for a in adjectives), *nouns]

    head = len(source) - len(nouns)
    target: list[str] = []
    alignment: list[frozenset[int]] = []
    french = (noun.french_plural if plural else noun.french).split()
    if before:
        linked = not feminine and not plural and _starts_with_vowel(french[0])
        target.append(before.prevocalic if linked else _form(before, feminine, plural))
        alignment.append(span(1, 2))
    target += french
    alignment += _noun_alignment(nouns, french, head)
    for index in range(len(after) - 1, -1, -1):
        target.append(_form(after[index], feminine, plural))
        position = 1 + bool(before) + index
        alignment.append(span(position, position + 1))
    # The determiner comes last in the making: it needs the sound of the word that follows it.
    target.insert(0, _determiner(determiner, feminine, target[0]))
    alignment.insert(0, span(0, 1))
    content = tuple(word not in FUNCTION_WORDS for word in target)
    return Pair(tuple(source), tuple(target), tuple(alignment), content)


def _noun_alignment(english: list[str], french: list[str], head: int) -> list[frozenset[int]]:
    everything = span(head, head + len(english))
    # washing machine → machine à laver: word for word, turned around
    if len(english) == 2 and len(french) == 3:
        return [span(head + 1, head + 2), NOTHING, span(head, head + 1)]
    return [NOTHING if word in FUNCTION_WORDS else everything for word in french]


def _determiner(determiner: str, feminine: bool, following: str) -> str:
    if determiner == "the *":
        return "les"
    if determiner == "the":
        return "l'" if _starts_with_vowel(following) else "la" if feminine else "le"
    if determiner == "one" and feminine:
        return "une"
    return QUANTITIES[determiner]


def join(phrases: list[Pair]) -> Pair:
    """Phrases joined by "and" and "et"."""
    require(bool(phrases), "phrases must hold at least one phrase, got none")
    source: list[str] = []
    target: list[str] = []
    alignment: list[frozenset[int]] = []
    content: list[bool] = []
    for part in phrases:
        if source:
            target.append("et")
            alignment.append(span(len(source), len(source) + 1))
            content.append(False)
            source.append("and")
        at = len(source)
        source += part.source
        target += part.target
        alignment += [shifted(positions, at) for positions in part.alignment or ()]
        content += part.content or ()
    return Pair(tuple(source), tuple(target), tuple(alignment), tuple(content))


def source_tokens() -> tuple[str, ...]:
    """Every English word of the lexicon, in code-point order."""
    words = {"the", "and", *QUANTITIES}
    for noun in NOUNS:
        words.update(noun.english.split(), noun.english_plural.split())
    words.update(a.english for a in BEFORE + COLOURS + ORIGINS + KINDS)
    return tuple(sorted(words))


def target_tokens() -> tuple[str, ...]:
    """Every French form of the lexicon, in code-point order."""
    words = {"une", *QUANTITIES.values(), *FUNCTION_WORDS}
    for noun in NOUNS:
        words.update(noun.french.split(), noun.french_plural.split())
    for adjective in BEFORE + COLOURS + ORIGINS + KINDS:
        words.update(adjective[1:])
    return tuple(sorted(words))


@generated_task("phrases", lambda **options: (source_tokens(), target_tokens()))
def drawer(*, phrases: tuple[int, int] | int = (1, 3), adjectives: tuple[int, int] | int = (0, 3)):
    """Random English noun phrases with their French.

    Args:
        phrases: (fewest, most) phrases joined by "and", both included; or one number
        adjectives: (fewest, most) adjectives of each noun, at most 4
    """
    fewest, most = check_range("phrases", phrases)
    none, all_ = check_range("adjectives", adjectives, 0)
    limit, layers = "4 (one before the noun, three after)", (COLOURS, ORIGINS, KINDS)
    require(all_ <= 4, f"adjectives must not exceed {limit}, got {adjectives!r}")

    def one(generator: random.Random) -> Pair:
        wanted = generator.randint(none, all_)
        # Which of the four layers (before, colour, origin, kind) speak; English keeps their order.
        chosen = sorted(generator.sample(range(4), wanted))
        before = generator.choice(BEFORE) if 0 in chosen else None
        after = tuple(generator.choice(layers[layer - 1]) for layer in chosen if layer)
        return phrase(generator.choice(DETERMINERS), generator.choice(NOUNS), before, after)

    def draw(generator: random.Random) -> Pair:
        return join([one(generator) for _ in range(generator.randint(fewest, most))])

    return draw
