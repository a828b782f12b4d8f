import torch
from assertions import assert_refused
from task_data import seeded

from attnbook.tasks import BOS, EOS
from attnbook.tasks.text.reports import (
    FIELDS,
    QUALITIES,
    SENTENCE,
    THINGS,
    ReportBatches,
    draw,
    facts_right,
    lead,
    oracle_extract,
    tokens,
    vocabulary,
)

WORDS = vocabulary()


def some(sentences=9, batch=200, seed=0, **options):
    return draw(sentences, batch, seeded(seed), **options)


def sentences_of(row):
    words = WORDS.decode(row.tolist())
    return [words[k : k + SENTENCE] for k in range(0, len(words), SENTENCE)]


def test_the_summary_is_what_a_reader_finds_in_the_report():
    for source, target, places in zip(*some()):
        rows = sentences_of(source)
        today = {s[2]: s[4] for s in rows if s[0] == "today" and s[2] in FIELDS}
        assert sum(s[0] == "today" and s[2] in FIELDS for s in rows) == 4 == len(today)  # each once
        told = [word for field in FIELDS for word in (field, today[field])]
        assert WORDS.decode(target.tolist()) == told
        assert [rows[k][2] for k in places] == list(FIELDS)
        assert all(rows[k][0] == "today" for k in places)


def test_every_sentence_is_one_of_the_grammar():
    kinds = set()
    for source in some().source:
        for day, the, subject, be, value, stop in sentences_of(source):
            assert day in ("today", "yesterday") and (the, be, stop) == ("the", "is", ".")
            assert subject in FIELDS or subject in THINGS
            assert value in FIELDS.get(subject, QUALITIES)
            kinds.add((day, subject in FIELDS))
    assert kinds == {("today", True), ("yesterday", True), ("today", False), ("yesterday", False)}
    assert all(word in WORDS for word in tokens()) and len(set(tokens())) == len(tokens())


def test_facts_stand_anywhere_and_all_values_come_up():
    reports = some(6, 3000)
    counts = torch.stack([torch.bincount(column, minlength=6) for column in reports.places.T])
    assert (counts > 400).all() and (counts < 600).all()
    for k, values in enumerate(FIELDS.values()):
        assert set(WORDS.decode(reports.target[:, 2 * k + 1].tolist())) == set(values)
    subjects = some(8, 3000).source.unflatten(1, (-1, SENTENCE))[..., 2]
    told = torch.isin(subjects, torch.tensor(WORDS.encode(FIELDS))).sum(1)
    assert told.min() == 4 and abs(told.float().mean() - 6) < 0.1  # of the filler, half


def test_a_batch_is_that_of_a_sequence_to_sequence_task():
    batches = ReportBatches(5, 7, seed=3)
    assert torch.equal(batches.batch(2).source, batches.reports(2).source)
    source, lengths, target_in, target_out, target_lengths = batches.batch(0)
    assert source.shape == (7, 30)
    assert (lengths == 30).all()
    assert target_in.shape == target_out.shape == (7, 9) and (target_in[:, 0] == BOS).all()
    assert (target_out[:, -1] == EOS).all()
    assert torch.equal(target_in[:, 1:], target_out[:, :-1])


def test_scores_and_baselines():
    reports = some(30, 300)
    right = reports.target.tolist()
    assert facts_right(right, reports) == [1.0] * 300
    one_wrong = [row[:1] + [row[3]] + row[2:] for row in right]
    assert facts_right(one_wrong, reports) == [0.75] * 300
    assert facts_right([row[:4] for row in right], reports) == [0.5] * 300
    assert facts_right([[]] * 300, reports) == [0.0] * 300
    names_wrong = [[5, *row[1:]] for row in right]
    assert facts_right(names_wrong, reports) == [0.75] * 300
    for extract, least, most in ((lead(reports), 0.0, 0.3), (oracle_extract(reports), 1.0, 1.0)):
        share = sum(set(target) <= set(rows) for rows, target in zip(extract, right)) / 300
        assert least <= share <= most and all(len(rows) == 24 for rows in extract)


def test_wrong_arguments_are_named():
    assert_refused("sentences", draw, 3, 1, torch.Generator())
    assert_refused("batch", draw, 4, 0, torch.Generator())
    assert_refused("sentences", ReportBatches, 2, 4)
    assert_refused("step", lambda: ReportBatches(4, 4).reports(-1))
