"""What texts taught carries over to new nouns, and is the whole of it."""

import random

import pytest

from attnbook.tasks.text import invented_nouns

SMALL = dict(steps=150, labels=(256,), updates=150)


def said_of_anything(language, generator: random.Random) -> list[str]:
    noun, verbs = generator.choice(invented_nouns.NOUNS), sum(invented_nouns.VERBS, ())
    return ["the", noun, generator.choice(verbs), generator.choice(invented_nouns.ADVERBS), "."]


def test_pretraining_answers_about_nouns_without_labels(figures_of):
    found = figures_of("fine-tuning", rates=(1e-3, 3e-3), ranks=(1,), **SMALL)
    assert 1.7 < found["text_loss"] < 1.9
    [scratch], [frozen], [whole], [lora] = found["by_labels"].values()
    assert scratch["labelled"] > 0.95 and abs(scratch["test"] - 0.5) < 0.06
    assert max(whole["test"], lora["test"]) > 0.9 and whole["labelled"] > 0.95
    assert frozen["test"] < 0.75
    assert frozen["trained"] == 130 < lora["trained"] < whole["trained"] == scratch["trained"]
    assert frozen["text_loss"] == found["text_loss"]
    for row in (scratch, frozen, whole, lora):
        rates = {rate: value for rate, value, _ in row["by_rate"]}
        assert rates[row["rate"]] == row["validation"] == max(rates.values())
    [[rank, adapted]] = found["by_rank"]
    assert rank == 1 and adapted["trained"] < lora["trained"]


@pytest.mark.slow
def test_without_verbs_that_tell_the_kind_there_is_nothing_to_carry(figures_of, monkeypatch):
    monkeypatch.setattr(invented_nouns, "document", said_of_anything)
    found = figures_of("fine-tuning", rates=(1e-3,), ranks=(), **SMALL)
    assert abs(found["by_labels"]["whole"][0]["test"] - 0.5) < 0.08


def test_masked_pretraining_has_its_own_loss(figures_of):
    few = {**SMALL, "steps": 5, "updates": 3, "rates": (1e-3,), "ranks": ()}
    found = figures_of("fine-tuning-masked", **few)
    assert found["by_labels"]["frozen"][0]["text_loss"] == found["text_loss"] > 2
    with pytest.raises(ValueError, match="^objective"):
        figures_of("fine-tuning", objective="both", **few)
