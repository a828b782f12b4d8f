"""Winogender schemas: who of two people a pronoun means (Rudinger et al. 2018, MIT licence)."""

import csv
from typing import NamedTuple

from ...validate import check_choice, require
from .. import datasets
from ..translation.corpora import words

GENDERS = ("female", "male", "neutral")
_FORMS = {
    "$NOM_PRONOUN": ("she", "he", "they"),
    "$ACC_PRONOUN": ("her", "him", "them"),
    "$POSS_PRONOUN": ("her", "his", "their"),
}


class Schema(NamedTuple):
    """One sentence; positions count words from 0.

    Attributes:
        words: lower-case words and punctuation
        pronoun: position of the pronoun
        referent: position of the noun that it refers to
        other: position of the noun that it does not refer to
        occupation: names the pair: each occupation has two sentences, one for each of its two nouns
        occupation_meant: whether the referent is the occupation; else it is the other person
        gender: of the pronoun, one of :data:`GENDERS`
        possessive: whether the pronoun replaces "the NOUN's"
    """

    words: tuple[str, ...]
    pronoun: int
    referent: int
    other: int
    occupation: str
    occupation_meant: bool
    gender: str
    possessive: bool


def schemas(gender: str = "neutral") -> list[Schema]:
    """The 120 sentences with pronouns of one gender, two in a row for each of 60 occupations.

    The sentences of a pair hold the same two people; the rest decides who is meant. In most pairs
    it differs only after the pronoun, in some the people change places too.
    """
    check_choice("gender", gender, GENDERS)
    sentences = dict(_rows("all_sentences.tsv"))
    return [_read(row, sentences, gender) for row in _rows("templates.tsv")]


def _rows(file: str) -> list[list[str]]:
    """The rows of a table, without its head."""
    with datasets.fetch("winogender", file).open(encoding="utf-8", newline="") as stream:
        return list(csv.reader(stream, delimiter="\t", quoting=csv.QUOTE_NONE))[1:]


def _read(row: list[str], sentences: dict[str, str], gender: str) -> Schema:
    occupation, participant, answer, template = row
    sentence = words(sentences[f"{occupation}.{participant}.{answer}.{gender}.txt"])
    places = {}
    for mark in ("$OCCUPATION", "$PARTICIPANT", *_FORMS):
        before, there, _ = template.partition(mark)
        before = before.replace("$OCCUPATION", occupation).replace("$PARTICIPANT", participant)
        if there:
            places[mark] = len(words(before))
    (mark,) = places.keys() & _FORMS.keys()
    people = places["$OCCUPATION"], places["$PARTICIPANT"]
    actual = sentence[people[0]], sentence[people[1]], sentence[places[mark]]
    require(
        actual == (occupation, participant, _FORMS[mark][GENDERS.index(gender)]),
        f"winogender: the template {template!r} and the sentence {' '.join(sentence)!r} do not fit "
        "together",
    )
    meant = int(answer)
    where = places[mark], people[meant], people[1 - meant]
    return Schema(sentence, *where, occupation, meant == 0, gender, mark == "$POSS_PRONOUN")
