"""Stories and questions: a second reading of each story, by other rules, gives the same answer."""

import contextlib
import random

import pytest
import torch
from assertions import refusals

from attnbook.tasks.text import questions


def draw(kind, count=300, seed=0, **options):
    generator = random.Random(seed)
    return [questions.draw(kind, generator, **options) for _ in range(count)]


def world(sentences):
    """Where everybody is and who holds what, found by going through the words from the front."""
    place, holder = {}, {}
    for row in sentences:
        if "takes" in row:
            holder[row[4]] = row[1]
        elif "gives" in row:
            holder[row[4]] = row[7]
        else:
            place[row[1]] = row[5] if row[4] == "the" else row[-1]
    return place, holder


def solve(story):
    place, holder = world(story.sentences)
    question = story.question
    if question[0] == "is":
        return "yes" if place[question[2]] == question[5] else "no"
    if question[0] == "how":
        return questions.COUNTS[sum(who == question[5] for who in holder.values())]
    if question[0] == "who":
        return holder[question[3]]
    return place[holder.get(question[3], question[3])]


@pytest.mark.parametrize("kind", questions.KINDS)
def test_the_answer_is_that_of_the_world_and_needs_the_supporting_sentences_alone(kind):
    for story in draw(kind):
        assert story.answer == solve(story)
        assert all(0 <= i < len(story.sentences) for i in story.supporting)
        rest = tuple(row for i, row in enumerate(story.sentences) if i in story.supporting)
        assert solve(story._replace(sentences=rest)) == story.answer
        if kind != "counting":
            assert len(story.supporting) == (2 if kind == "two facts" else 1)
        for left_out in rest:  # none of them is idle
            fewer = story._replace(sentences=tuple(row for row in rest if row is not left_out))
            with contextlib.suppress(KeyError):  # no answer at all
                assert solve(fewer) != story.answer


def test_two_facts_come_in_the_order_in_which_they_are_followed():
    for story in draw("two facts"):
        take, move = (story.sentences[i] for i in story.supporting)
        assert take[2] == "takes" and take[4] == story.question[3]
        assert move[1] == take[1] and move[-1] == story.answer


def test_stories_differ_and_answers_are_spread():
    stories = draw("two facts", 500)
    assert len({s.sentences for s in stories}) > 480
    assert {len(s.sentences) for s in stories} == {6, 7, 8, 9, 10}
    answers = [s.answer for s in stories]
    assert all(answers.count(place) > 40 for place in questions.PLACES)
    assert 0.4 < sum(s.answer == "yes" for s in draw("yes or no", 500)) / 500 < 0.6
    assert draw("one fact", 20) == draw("one fact", 20) != draw("one fact", 20, seed=1)


def test_every_word_is_in_the_vocabulary_and_batches_are_padded():
    vocab = questions.vocabulary()
    for kind in questions.KINDS:
        batch = questions.collate_stories(draw(kind, 20), vocab)
        assert batch.story.shape[0] == 20 and batch.story.shape[2] == batch.question.shape[1]
    stories = draw("one fact", 2, sentences=(3, 5))
    batch = questions.collate_stories(stories, vocab)
    for b, story in enumerate(stories):
        for i, row in enumerate(story.sentences):
            assert vocab.decode(batch.story[b, i].tolist()) == list(row)
        assert (batch.story[b, len(story.sentences) :] == 0).all()
        assert vocab.tokens[int(batch.answer[b])] == story.answer


def test_batches_show_each_story_once_an_epoch():
    stories, vocab = draw("giving", 10), questions.vocabulary()
    batches = questions.QuestionBatches(stories, vocab, 4, seed=1)
    assert len(batches) == 3
    rows = torch.cat([batches.batch(step).story for step in range(3)])
    all_rows = questions.collate_stories(stories, vocab).story
    assert sorted(map(str, rows.tolist())) == sorted(map(str, all_rows.tolist()))
    assert not torch.equal(batches.batch(0).story, batches.batch(3).story)


test_wrong_arguments_are_named = refusals(
    ("kind", lambda: draw("three facts")),
    ("sentences", lambda: draw("one fact", sentences=(2, 5))),
    ("stories", lambda: questions.collate_stories([], questions.vocabulary())),
)
