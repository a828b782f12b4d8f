"""French noun phrases: agreement and order held against tables and rules written here."""

import re

from assertions import refusals
from hypothesis import given
from hypothesis import strategies as st

from attnbook.tasks.sequences.pairs import take
from attnbook.tasks.translation import phrases

NOUN = {noun.english: noun for noun in phrases.NOUNS}
LAYERS = (phrases.COLOURS, phrases.ORIGINS, phrases.KINDS)
ADJECTIVE = {a.english: a for layer in (phrases.BEFORE, *LAYERS) for a in layer}


def generate(count, *, seed, **options):
    return take(phrases.drawer(**options), count, seed)


def make(text):
    """An English phrase such as "two small red cars" built by the library."""
    determiner, *rest = text.split()
    for size in (2, 1):
        name = " ".join(rest[-size:])
        noun = next((n for n in phrases.NOUNS if name in (n.english, n.english_plural)), None)
        if noun:
            break
    adjectives = [ADJECTIVE[word] for word in rest[:-size]]
    before = adjectives.pop(0) if adjectives and adjectives[0] in phrases.BEFORE else None
    plural = determiner == "the" and name == noun.english_plural
    return phrases.phrase("the *" if plural else determiner, noun, before, tuple(adjectives))


KNOWN = """three small red houses: trois petites maisons rouges
the old tree: le vieil arbre
the tree: l' arbre
the school: l' école
the hotel: l' hôtel
the new hotel: le nouvel hôtel
the beautiful bird: le bel oiseau
one white door: une porte blanche
two royal horses: deux chevaux royaux
nine French newspapers: neuf journaux français
two traditional dresses: deux robes traditionnelles
two big European economic zones: deux grandes zones économiques européennes
the black American electric train: le train électrique américain noir
one good potato: une bonne pomme de terre
seven yellow potatoes: sept pommes de terre jaunes
two blue bedrooms: deux chambres à coucher bleues
the new railway station: la nouvelle gare
two German washing machines: deux machines à laver allemandes"""


def test_known_phrases():
    for line in KNOWN.splitlines():
        pair = make(line.partition(": ")[0])
        assert f"{' '.join(pair.source)}: {' '.join(pair.target)}" == line


CHOICE = st.tuples(
    st.sampled_from(["the", "the *", *phrases.QUANTITIES]),
    st.sampled_from(phrases.NOUNS),
    st.none() | st.sampled_from(phrases.BEFORE),
    st.tuples(*[st.none() | st.sampled_from(layer) for layer in LAYERS]).map(
        lambda t: tuple(a for a in t if a)
    ),
)


def agrees(form, adjective, feminine, plural):
    """French agreement by suffix rules; the few irregular words are listed."""
    irregular = {
        "petit": {}, "beau": dict(mp="beaux", fs="belle", fp="belles"),
        "nouveau": dict(mp="nouveaux", fs="nouvelle", fp="nouvelles"),
        "vieux": dict(mp="vieux", fs="vieille", fp="vieilles"),
        "blanc": dict(fs="blanche", fp="blanches"), "bon": dict(fs="bonne", fp="bonnes"),
        "violet": dict(fs="violette", fp="violettes"),
    }.get(adjective.ms, {})  # fmt: skip
    key = ("f" if feminine else "m") + ("p" if plural else "s")
    if key in irregular:
        return form == irregular[key]
    base = adjective.ms
    if feminine:
        if base.endswith(("en", "el")):
            base = base + base[-1] + "e"
        elif not base.endswith("e"):
            base += "e"
    if plural:
        base = (
            re.sub("al$", "aux", base) if base.endswith("al") else re.sub("([^sx])$", r"\1s", base)
        )
    return form == base


@given(CHOICE)
def test_agreement_order_and_alignment(choice):
    determiner, noun, before, after = choice
    pair = phrases.phrase(determiner, noun, before, after)
    feminine, plural = noun.gender == "f", determiner not in ("the", "one")
    french = (noun.french_plural if plural else noun.french).split()
    english = (noun.english_plural if plural else noun.english).split()
    adjectives = ([before] if before else []) + list(after)
    assert pair.source == (determiner.split()[0], *[a.english for a in adjectives], *english)

    first, *rest = pair.target
    if before:
        form = rest.pop(0)
        vowel = re.match("[aeiouyéèêîhœ]", french[0])
        if vowel and not feminine and not plural and before.prevocalic != before.ms:
            assert form == {"vieux": "vieil", "nouveau": "nouvel", "beau": "bel"}[before.ms]
        else:
            assert agrees(form, before, feminine, plural)
    assert rest[: len(french)] == french
    tail = rest[len(french) :]
    assert all(agrees(form, a, feminine, plural) for form, a in zip(tail, after[::-1], strict=True))

    elides = re.match("[aeiouyéèêîhœ]", pair.target[1])
    singular = "l'" if elides else "la" if feminine else "le"
    expected = {"the": singular, "the *": "les", "one": "une" if feminine else "un"}
    assert first == expected.get(determiner, phrases.QUANTITIES.get(determiner))

    # Alignment: each French adjective comes from the English word it translates.
    positions = {a.english: 1 + i for i, a in enumerate(adjectives)}
    assert pair.alignment[0] == {0}
    if before:
        assert pair.alignment[1] == {positions[before.english]}
    for a, sources in zip(after[::-1], pair.alignment[len(pair.target) - len(after) :]):
        assert sources == {positions[a.english]}
    heads = set(range(1 + len(adjectives), len(pair.source)))
    middle = pair.alignment[1 + bool(before) : 1 + bool(before) + len(french)]
    assert set().union(*middle) == heads
    assert set().union(*pair.alignment) == set(range(len(pair.source)))
    little = {"le", "la", "les", "l'", "et", "de", "à"}
    assert pair.content == tuple(word not in little for word in pair.target)
    assert all(sources for sources, content in zip(pair.alignment, pair.content) if content)


def test_nouns_that_are_several_words_on_one_side():
    def pieces(text):
        pair = make(text)
        said = [" ".join(pair.source[i] for i in sorted(s)) for s in pair.alignment]
        return [f"{word} < {words}" for word, words in zip(pair.target, said)]

    assert pieces("two potatoes")[1:] == ["pommes < potatoes", "de < ", "terre < potatoes"]
    assert pieces("the railway station")[1:] == ["gare < railway station"]
    assert pieces("the washing machine")[1:] == ["machine < machine", "à < ", "laver < washing"]
    assert make("two potatoes").content == (True, True, False, True)


def test_plurals_of_the_lexicon():
    plurals = {n.english: (n.english_plural, n.french_plural) for n in phrases.NOUNS}
    irregular = {
        "hat": ("hats", "chapeaux"), "coat": ("coats", "manteaux"), "boat": ("boats", "bateaux"),
        "bird": ("birds", "oiseaux"), "animal": ("animals", "animaux"),
        "newspaper": ("newspapers", "journaux"), "horse": ("horses", "chevaux"),
        "bus": ("buses", "bus"), "potato": ("potatoes", "pommes de terre"),
        "bedroom": ("bedrooms", "chambres à coucher"), "dress": ("dresses", "robes"),
        "glass": ("glasses", "verres"), "box": ("boxes", "boîtes"),
        "watch": ("watches", "montres"), "church": ("churches", "églises"),
        "washing machine": ("washing machines", "machines à laver"),
        "railway station": ("railway stations", "gares"),
    }  # fmt: skip
    for noun in phrases.NOUNS:
        regular = noun.english + "s", noun.french + "s"
        assert plurals[noun.english] == irregular.get(noun.english, regular)
    assert set(irregular) <= set(plurals)
    assert len(plurals) == len(phrases.NOUNS)


def test_joined_phrases_keep_their_alignment():
    pair = phrases.join([make("two red cars"), make("the old tree"), make("one potato")])
    assert " ".join(pair.source) == "two red cars and the old tree and one potato"
    assert " ".join(pair.target) == "deux voitures rouges et le vieil arbre et une pomme de terre"
    assert [sorted(s) for s in pair.alignment] == [
        [0], [2], [1], [3], [4], [5], [6], [7], [8], [9], [], [9],
    ]  # fmt: skip
    assert pair.content == (True,) * 3 + (False, False, True, True, False, True, True, False, True)


def test_as_many_phrases_are_joined_as_asked():
    pairs = generate(300, seed=7, phrases=(2, 5))
    assert {p.source.count("and") for p in pairs} == {1, 2, 3, 4}
    assert all(p.target.count("et") == p.source.count("and") for p in pairs)
    plain = generate(100, seed=0, phrases=1, adjectives=0)
    assert all(not set(p.source) & set(ADJECTIVE) for p in plain)


def test_every_word_of_the_vocabulary_is_used():
    pairs = generate(20000, seed=0, phrases=2)
    assert {w for p in pairs for w in p.source} == set(phrases.source_tokens())
    assert {w for p in pairs for w in p.target} == set(phrases.target_tokens())


def test_the_same_phrases_on_every_platform():
    assert [" ".join(p.target) for p in generate(3, seed=0)] == GOLDEN


GOLDEN = [
    "dix beaux hôtels chinois blancs et trois examens blancs",
    "une rivière royale verte",
    "quatorze nouvelles fleurs africaines noires et onze petites chambres à coucher américaines",
]


test_wrong_arguments_are_named = refusals(
    ("determiner", lambda: phrases.phrase("some", phrases.NOUNS[0])),
    ("phrases", lambda: phrases.join([])),
    ("phrases", lambda: generate(1, seed=0, phrases=0)),
    ("adjectives", lambda: generate(1, seed=0, adjectives=5)),
)
