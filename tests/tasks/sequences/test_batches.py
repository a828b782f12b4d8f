import pytest
import torch
from assertions import assert_refused
from hypothesis import given
from hypothesis import strategies as st

from attnbook.modules import counted_targets
from attnbook.tasks import (
    BOS,
    EOS,
    PAD,
    Batch,
    Pair,
    SequenceBatches,
    Vocabulary,
    collate,
    make_task,
)

LETTERS = Vocabulary(list("abcdefghij"))


def pairs_of(*sizes):
    return [Pair(tuple(("abcdefghij" * n)[:n]), tuple("j" * (n % 4))) for n in sizes]


def test_collate_by_hand():
    batch = collate([Pair(("a", "b", "c"), ("d",)), Pair(("e",), ("f", "g"))], LETTERS, LETTERS)
    assert batch.source.tolist() == [[4, 5, 6], [8, PAD, PAD]]
    assert batch.lengths.tolist() == [3, 1]
    assert batch.target_in.tolist() == [[BOS, 7, PAD], [BOS, 9, 10]]
    assert batch.target_out.tolist() == [[7, EOS, PAD], [9, 10, EOS]]
    assert {t.dtype for t in batch} == {torch.int64}
    assert batch._fields == ("source", "lengths", "target_in", "target_out", "target_lengths")
    assert batch.target_lengths.tolist() == [2, 3]


@given(
    st.lists(
        st.tuples(st.text("abcj", min_size=1, max_size=7), st.text("abcj", max_size=7)),
        min_size=1,
        max_size=6,
    )
)
def test_collate_turns_back(texts):
    pairs = [Pair(tuple(s), tuple(t)) for s, t in texts]
    batch = collate(pairs, LETTERS, LETTERS)
    assert batch.source.shape == (len(pairs), max(len(s) for s, _ in texts))
    shape = len(pairs), max(len(t) for _, t in texts) + 1
    assert batch.target_in.shape == batch.target_out.shape == shape
    for row, pair in enumerate(pairs):
        assert LETTERS.decode(batch.source[row]) == list(pair.source)
        assert LETTERS.decode(batch.target_in[row]) == list(pair.target)
        assert LETTERS.decode(batch.target_out[row]) == list(pair.target)
        assert int((batch.source[row] != PAD).sum()) == batch.lengths[row] == len(pair.source)
        assert batch.target_in[row, 0] == BOS and EOS not in batch.target_in[row]
        assert batch.target_out[row, len(pair.target)] == EOS
        assert torch.equal(batch.target_in[row, 1:] != PAD, batch.target_out[row, 1:] != PAD)


def test_empty_and_unknown_are_named():
    assert_refused("pairs", collate, [], LETTERS, LETTERS)
    with pytest.raises(ValueError, match=r"pairs\[1\] must have a source"):
        collate([Pair(("a",), ()), Pair((), ("a",))], LETTERS, LETTERS)
    with pytest.raises(ValueError, match="'z'"):
        collate([Pair(("a",), ("z",))], LETTERS, LETTERS)
    with pytest.raises(ValueError, match="'z'"):
        SequenceBatches([Pair(("z",), ("a",))], LETTERS, LETTERS, 2)
    assert_refused("pairs", SequenceBatches, [], LETTERS, LETTERS, 2)


@given(st.integers(1, 300), st.integers(1, 40), st.booleans(), st.integers(0, 5))
def test_an_epoch_shows_every_pair_once(count, batch_size, bucket, seed):
    pairs = pairs_of(*[1 + i % 9 for i in range(count)])
    batches = SequenceBatches(pairs, LETTERS, LETTERS, batch_size, seed, bucket)
    assert len(batches) == -(-count // batch_size)
    for epoch in range(2):
        shown = [batches.indices(epoch * len(batches) + i) for i in range(len(batches))]
        assert sorted(index for batch in shown for index in batch) == list(range(count))
        assert sorted(map(len, shown), reverse=True)[:-1] == [batch_size] * (len(batches) - 1)


def test_buckets_save_padding_and_still_mix():
    task = make_task("copy", train=4000, valid=0, test=0, seed=1, length=(1, 40))

    def padding(bucket):
        batches = SequenceBatches(task.train, task.source_vocab, task.target_vocab, 32, 0, bucket)
        shown = [batches.batch(step) for step in range(len(batches))]
        ids = torch.cat([b.source.flatten() for b in shown])
        return float((ids == PAD).double().mean()), shown

    plain, _ = padding(False)
    bucketed, shown = padding(True)
    assert plain > 0.4 and bucketed < 0.05
    lengths = [int(b.lengths.max()) for b in shown]
    # short and long follow one another
    assert sum(a > b for a, b in zip(lengths, lengths[1:])) > len(lengths) / 4


def test_a_target_may_hold_any_id_where_its_length_is_given():
    """In ids of one's own 0 may be a word; the batch does not look for it."""
    batch = Batch(*(torch.ones(2, 3).long() for _ in range(3)), torch.tensor([[0, 1, 0]] * 2))
    assert batch.target_lengths is None and counted_targets(batch).all()
    shorter = batch._replace(target_lengths=torch.tensor([1, 3]))
    assert counted_targets(shorter).tolist() == [[True, False, False], [True] * 3]
