"""The grammar's sentences parsed again by rules written here, and real text cut into sentences."""

import random
import re

from assertions import assert_refused
from hypothesis import given
from hypothesis import strategies as st

from attnbook.tasks import BOS, EOS, PAD, UNK, SequenceBatches
from attnbook.tasks.text import sentences as language

SINGULAR = {"sleeps", "sings", "waits", "smiles", "sees", "likes", "knows", "hears"}
PLURAL = {verb.removesuffix("s") for verb in SINGULAR}
NAMES = {"anna", "bert", "clara", "david", "emma", "felix", "greta", "hugo"}
WHOLE = re.compile(
    r"the (\w+)((?: (?:near|behind|beside) the \w+| that the \w+ \w+| that \w+ the \w+)*) (\w+) \."
)


def is_plural(noun):
    return noun.endswith("s")  # no singular of the lexicon ends so


@given(st.integers(0, 10**6), st.integers(0, 4))
def test_every_verb_agrees_with_the_noun_that_the_alignment_names(seed, insertions):
    pair = language.agreement(random.Random(seed), insertions)
    subject, inside, verb = WHOLE.fullmatch(" ".join(pair.source)).groups()
    assert len(re.findall(r"near|behind|beside|that", inside)) == insertions
    assert (verb in PLURAL) == is_plural(subject) and verb in SINGULAR | PLURAL
    verbs = [t for t, word in enumerate(pair.source) if word in SINGULAR | PLURAL]
    assert verbs == [t for t, source in enumerate(pair.alignment) if source]
    assert pair.alignment[verbs[-1]] == {1}
    for t in verbs:
        (noun,) = pair.alignment[t]
        assert noun < t and (pair.source[t] in PLURAL) == is_plural(pair.source[noun])
        before = pair.source[t - 1]
        if t != verbs[-1]:  # the noun beside it, or the subject after "that"
            assert noun == (1 if before == "that" else t - 1)


@given(st.integers(0, 10**6), st.integers(0, 4))
def test_the_name_that_comes_back_is_the_first_of_several(seed, insertions):
    pair = language.name(random.Random(seed), insertions)
    first, inside, last = re.fullmatch(
        r"(\w+)((?: (?:near|behind|beside) \w+| that \w+ \w+)*) says : i am (\w+) \.",
        " ".join(pair.source),
    ).groups()
    others = [w for w in inside.split() if w in NAMES]
    assert first == last and len({first, *others}) == 1 + insertions == 1 + len(others)
    decided = {t: set(source) for t, source in enumerate(pair.alignment) if source}
    assert decided == {len(pair.source) - 2: {0}}
    assert not PLURAL & set(pair.source)


def test_the_number_of_the_last_noun_says_nothing_about_the_verb():
    generator = random.Random(0)
    drawn = [language.agreement(generator, 2).source for _ in range(4000)]
    agree = total = 0
    for words in drawn:
        nouns = [w for w in words[2:-2] if w.removesuffix("s") in language.NOUNS]
        total, agree = total + 1, agree + (is_plural(nouns[-1]) == (words[-2] in PLURAL))
    assert abs(agree / total - 0.5) < 0.03


def test_a_task_has_different_sentences_both_kinds_and_one_vocabulary():
    task = language.language_task(train=300, valid=50, test=100, seed=0)
    sentences = [pair.source for part in (task.train, task.valid, task.test) for pair in part]
    assert [len(part) for part in (task.train, task.valid, task.test)] == [300, 50, 100]
    assert len(set(sentences)) == 450
    assert 0.4 < sum("says" in words for words in sentences) / 450 < 0.6
    assert task.source_vocab == task.target_vocab
    assert {w for words in sentences for w in words} <= set(task.source_vocab.tokens)
    assert task.test == language.language_task(train=400, valid=50, test=100, seed=0).test
    assert task.test != language.language_task(train=300, valid=50, test=100, seed=1).test
    batch = SequenceBatches(task.train, task.source_vocab, task.target_vocab, 8).batch(0)
    real = batch.target_out != PAD
    assert (batch.target_in[:, 0] == BOS).all() and ((batch.target_out == EOS).sum(1) == 1).all()
    assert (batch.target_in[:, 1:][real[:, 1:]] == batch.target_out[:, :-1][real[:, 1:]]).all()


def test_kinds_and_sizes_can_be_chosen_and_mistakes_are_named():
    names = language.generate(20, seed=0, kinds=("name",), insertions=4)
    assert all("says" in pair.source for pair in names)
    short = language.generate(20, seed=0, kinds=("agreement",), insertions=0)
    assert all(len(pair.source) == 4 for pair in short)
    assert_refused("kinds must be some of", language.drawer, kinds=("owner",))
    assert_refused("kinds", language.drawer, kinds=())
    assert_refused("insertions must not exceed 7", language.drawer, insertions=8)
    assert_refused("insertions must be", language.drawer, insertions=(2, 1))


TEXT = """
 = A heading =

 The <unk> is here . It is not far , it is near .
 One paragraph without a stop
 The is here . The is not far .
 The house is here . The house is not here .
"""


def test_wikitext_is_cut_into_sentences_with_a_vocabulary_of_the_training_part(mirror):
    for file, text in (("valid.txt", TEXT), ("test.txt", TEXT.replace("far", "unheard"))):
        mirror("wikitext-2", file, text.encode())
    task = language.wikitext(max_words=8, min_count=2)
    # without the heading, and without the sentence of nine words
    short = [tuple(s.split()) for s in TEXT.replace(" .", " .\n").splitlines()[3:] if s.strip()]
    short.remove(tuple("It is not far , it is near .".split()))
    assert [p.source for p in task.valid] == short[:1]
    assert [p.source for p in task.train] == short[1:]
    assert len(task.test) == len(short) == 6 and task.attribution == "by the makers of wikitext-2"
    assert {"is", "."} <= set(task.source_vocab.tokens) and "stop" not in task.source_vocab
    assert task.source_vocab.encode(["<unk>", "unheard", "heading"]) == [UNK] * 3
