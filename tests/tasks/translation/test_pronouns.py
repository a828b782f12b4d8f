"""The pronoun sentences read by rules written here: who, in what gender, and how twins differ."""

import random
import re

import pytest
from assertions import assert_refused
from hypothesis import given
from hypothesis import strategies as st

from attnbook.tasks import UNK, SequenceBatches
from attnbook.tasks.translation import phrases, pronouns

WHOLE = re.compile(r"(we|you) (\w+) the (\w+) (\w+) the (\w+) because (it is|they are) (\w+) \.")
OF_MACHINES = {"automatic", "reliable", "fast"}
OTHERS = set("quiet vast historic legible difficult honest comfortable washable loose".split())
MACHINES = {"car", "watch", "lamp", "machine", "train", "boat", "bus", "aeroplane"}
FEMININE = set("car watch lamp machine house school church island letter law dress shirt".split())


def singular(word):
    return next(noun for noun in phrases.NOUNS if word in noun[:2]).english


def differing(one, other):
    """The places at which two texts of one length differ."""
    return [k for k, (a, b) in enumerate(zip(one, other, strict=True)) if a != b]


def check(one):
    """One sentence, by the rules of this file."""
    source, target = one.pair.source, one.pair.target
    _, _, first, _, second, verb, adjective = WHOLE.fullmatch(" ".join(source)).groups()
    plural = verb == "they are"
    nouns = [singular(first), singular(second)]
    assert all((word == noun) != plural for word, noun in zip((first, second), nouns))
    assert (nouns[0] in FEMININE) != (nouns[1] in FEMININE)
    meant = source[one.antecedent]
    assert {meant, source[one.other]} == {first, second}
    assert source[one.pronoun] == verb.split()[0] and source[one.decides] == adjective
    fits = [(noun in MACHINES) for noun in nouns]
    assert adjective in OF_MACHINES | OTHERS and not all(fits)
    assert fits[[first, second].index(meant)] == (adjective in OF_MACHINES)
    said = ("elle" if singular(meant) in FEMININE else "il") + "s" * plural
    assert target[one.written] == said
    assert sum(word in ("il", "elle", "ils", "elles") for word in target) == 1
    assert target[one.written - 2 : one.written] == ("parce", "qu'")
    assert target[one.written + 1] == ("sont" if plural else "est")
    assert target[-2].endswith("s") == plural or target[-2] in ("large",)
    assert len(one.pair.alignment) == len(target) == len(one.pair.content)
    assert one.pair.alignment[one.written] == {one.pronoun}
    assert one.pair.alignment[-2] == {one.decides}
    french = {word: noun for noun in phrases.NOUNS for word in (noun.french, noun.french_plural)}
    for word, places in zip(target, one.pair.alignment):
        if word in french:
            (place,) = places
            assert singular(source[place]) == french[word].english


@given(st.integers(0, 10**6))
def test_the_pronoun_has_the_gender_of_the_noun_that_the_adjective_fits(seed):
    check(pronouns.draw(random.Random(seed)))


DESCRIBED = re.compile(r"the (\w+) (\w+) (behind|under|with|because)")


def check_described(one, count):
    """A sentence with described nouns, by the rules of this file."""
    source, target = one.pair.source, one.pair.target
    clauses = DESCRIBED.findall(" ".join(source))
    adjectives, nouns = [c[0] for c in clauses], [c[1] for c in clauses]
    assert len(set(adjectives)) == len({singular(noun) for noun in nouns}) == count
    assert [c[2] == "because" for c in clauses] == [False] * (count - 1) + [True]
    assert source[one.decides] == source[-2] and source[one.pronoun] in ("it", "they")
    meant = nouns[adjectives.index(source[-2])]
    assert source[one.antecedent] == meant and source[one.antecedent - 1] == source[-2]
    feminine = singular(meant) in FEMININE
    assert (singular(source[one.other]) in FEMININE) != feminine
    said = ("elle" if feminine else "il") + "s" * (source[one.pronoun] == "they")
    assert target[one.written] == said and one.pair.alignment[one.written] == {one.pronoun}
    french = [t for t, places in enumerate(one.pair.alignment) if places == {one.antecedent}]
    assert target[french[0] + 1] == target[-2]  # the adjective stands after its noun


@given(st.integers(0, 10**6), st.integers(2, 8))
def test_the_pronoun_has_the_gender_of_the_noun_whose_adjective_is_said_again(seed, count):
    check_described(pronouns.draw(random.Random(seed), count), count)


@pytest.mark.parametrize("described", [0, 5])
def test_twins_differ_in_the_adjective_alone_and_mean_one_noun_each(described):
    pairs = pronouns.minimal_pairs(200, seed=3, described=described)
    for first, second in pairs:
        for one in (first, second):
            check_described(one, described) if described else check(one)
        changed = differing(first.pair.source, second.pair.source)
        assert changed == [first.decides] == [second.decides]
        assert (first.antecedent, first.other) == (second.other, second.antecedent)
        assert first.antecedent < second.antecedent
        turned = differing(first.pair.target, second.pair.target)
        assert turned == [first.written, first.written + 2]
    sources = [one.pair.source for two in pairs for one in two]
    assert len(set(sources)) == 400
    again = pronouns.minimal_pairs(50, seed=3, described=described, without=set(sources[:60]))
    assert not {one.pair.source for two in again for one in two} & set(sources[:60])


def test_neither_place_nor_number_nor_adjective_gives_the_gender_away():
    drawn = [pronouns.draw(random.Random(seed)) for seed in range(4000)]
    elle = [one.pair.target[one.written].startswith("elle") for one in drawn]

    def share(keep):
        chosen = [e for e, one in zip(elle, drawn) if keep(one)]
        return sum(chosen) / len(chosen)

    assert abs(share(lambda one: True) - 0.5) < 0.03
    assert abs(share(lambda one: one.antecedent < one.other) - 0.5) < 0.04
    assert abs(share(lambda one: one.pair.source[one.pronoun] == "they") - 0.5) < 0.04
    for adjective in OF_MACHINES | OTHERS:
        assert 0.25 < share(lambda one: one.pair.source[one.decides] == adjective) < 0.75, adjective
    assert abs(sum(one.antecedent < one.other for one in drawn) / 4000 - 0.5) < 0.03


def test_no_place_gives_the_gender_of_a_described_noun_away():
    drawn = [pronouns.draw(random.Random(seed), 5) for seed in range(4000)]
    elle = [one.pair.target[one.written].startswith("elle") for one in drawn]
    first = [one.pair.source[one.antecedent - 1] == one.pair.source[3] for one in drawn]
    assert abs(sum(elle) / 4000 - 0.5) < 0.03 and abs(sum(first) / 4000 - 0.2) < 0.03
    assert abs(sum(e for e, f in zip(elle, first) if f) / sum(first) - 0.5) < 0.06


@pytest.mark.parametrize("described", [0, 5])
def test_a_task_has_different_pairs_and_knows_all_its_words(described):
    task = pronouns.pronoun_task(train=300, valid=50, test=100, seed=0, described=described)
    sources = [pair.source for part in (task.train, task.valid, task.test) for pair in part]
    assert [len(part) for part in (task.train, task.valid, task.test)] == [300, 50, 100]
    assert len(set(sources)) == 450
    batch = SequenceBatches(task.train, task.source_vocab, task.target_vocab, 32).batch(0)
    assert not (batch.source == UNK).any() and not (batch.target_out == UNK).any()
    again = pronouns.pronoun_task(train=400, valid=50, test=100, seed=0, described=described)
    assert task.test == again.test


def test_mistakes_are_named(monkeypatch):
    assert_refused("count", pronouns.minimal_pairs, -1, seed=0)
    assert_refused("described", pronouns.pronoun_task, train=1, described=9)
    always = pronouns._choose(random.Random(0), 0)
    adjectives = []
    monkeypatch.setattr(pronouns, "_choose", lambda generator, _: adjectives.append(0) or always)
    with pytest.raises(ValueError, match=r"only \d were found"):
        pronouns.minimal_pairs(50, seed=0)  # one frame, and no more than three adjectives of a kind
    assert len(adjectives) > 50
