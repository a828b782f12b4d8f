"""Winogender's sentences: positions read from small files, and the rules that all keep."""

import pytest
from assertions import assert_refused
from task_data import real

from attnbook.tasks import datasets
from attnbook.tasks.text import winogender

TEMPLATES = """occupation(0)\tother-participant(1)\tanswer\tsentence
technician\tcustomer\t1\tThe $OCCUPATION told the $PARTICIPANT that $NOM_PRONOUN could pay with cash.
technician\tcustomer\t0\tThe $OCCUPATION told the $PARTICIPANT that $NOM_PRONOUN had completed the repair.
accountant\ttaxpayer\t1\tThe $PARTICIPANT met with the $OCCUPATION to get help filing $POSS_PRONOUN taxes.
accountant\ttaxpayer\t0\tThe $PARTICIPANT met with the $OCCUPATION to find out if $NOM_PRONOUN could help.
"""  # noqa: E501
FORMS = {"$NOM_PRONOUN": ("she", "he", "they"), "$POSS_PRONOUN": ("her", "his", "their")}


@pytest.fixture()
def small(tmp_path, monkeypatch):
    rows = [line.split("\t") for line in TEMPLATES.splitlines()[1:]]
    lines = ["sentid\tsentence"]
    for occupation, participant, answer, text in rows:
        for k, gender in enumerate(("female", "male", "neutral")):
            said = {"$OCCUPATION": occupation, "$PARTICIPANT": participant}
            sentence = text
            for mark, word in (said | {mark: forms[k] for mark, forms in FORMS.items()}).items():
                sentence = sentence.replace(mark, word)
            lines.append(f"{occupation}.{participant}.{answer}.{gender}.txt\t{sentence}")
    (tmp_path / "templates.tsv").write_text(TEMPLATES, encoding="utf-8")
    (tmp_path / "all_sentences.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    monkeypatch.setattr(datasets, "fetch", lambda name, file: tmp_path / file)
    return tmp_path


def test_positions_of_the_pronoun_and_of_both_people(small):
    pays, *_ = found = winogender.schemas("male")
    assert " ".join(pays.words) == "the technician told the customer that he could pay with cash ."
    named = [
        (one.words[one.pronoun], one.words[one.referent], one.words[one.other]) for one in found
    ]
    assert named[:3] == [
        ("he", "customer", "technician"),
        ("he", "technician", "customer"),
        ("his", "taxpayer", "accountant"),
    ]
    assert [one.occupation_meant for one in found] == [False, True, False, True]
    assert [one.possessive for one in found] == [False, False, True, False]
    assert winogender.schemas()[0].words[6] == "they"
    assert winogender.schemas("female")[2].words[10] == "her"


def test_files_that_do_not_fit_and_other_genders_are_named(small):
    assert_refused("gender", winogender.schemas, "male ")
    path = small / "all_sentences.tsv"
    text = path.read_text(encoding="utf-8").replace("that he could", "that Ann, he could")
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match="do not fit together"):
        winogender.schemas("male")


@real
@pytest.mark.parametrize("gender", winogender.GENDERS)
def test_the_whole_set(gender):
    found = winogender.schemas(gender)
    assert len(found) == 120 and len({one.occupation for one in found}) == 60
    for a, b in zip(found[::2], found[1::2]):
        assert a.occupation == b.occupation and a.occupation_meant != b.occupation_meant
        assert {a.words[a.referent], a.words[a.other]} == {b.words[b.referent], b.words[b.other]}
        assert a.words[a.referent] == b.words[b.other]
