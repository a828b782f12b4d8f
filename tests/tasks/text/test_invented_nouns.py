"""Texts of invented nouns: the verbs tell the kind, and no question's noun has a label."""

import random
from collections import Counter

import pytest
import torch
from assertions import refusals

from attnbook import TransformerLM, decoder_parts, document_mask
from attnbook.tasks.text import invented_nouns, packing
from attnbook.tasks.text.invented_nouns import ADVERBS, NOUNS, VERBS, NounTexts
from attnbook.tasks.text.packing import NOT_COUNTED, pack_documents
from attnbook.training import language_loss


def test_documents_are_packed_by_hand():
    packed = pack_documents([[1, 2, 3], [1, 4], [1, 5, 6, 7]], 4)
    assert packed.target_in.tolist() == [[1, 2, 3, 1], [4, 1, 5, 6]]
    assert packed.target_out.tolist() == [[2, 3, NOT_COUNTED, 4], [NOT_COUNTED, 5, 6, 7]]
    assert packed.documents.tolist() == [[0, 0, 0, 1], [0, 1, 1, 1]]


def test_the_loss_of_packed_documents_is_that_of_each_alone():
    torch.manual_seed(0)
    model = TransformerLM(11, decoder_parts(8, 2, 16), num_layers=2).double()
    documents = [[1, 4, 5, 6], [1, 7, 8], [1, 9, 10, 4], [1]]  # the last one is dropped
    packed = pack_documents(documents, 11)
    total, count = language_loss(model, packed)
    expected = 0.0
    for document in documents[:3]:
        ids = torch.tensor([document])
        expected += language_loss(model, {"target_in": ids[:, :-1], "target_out": ids[:, 1:]})[0]
    assert count == 3 + 2 + 3
    torch.testing.assert_close(total, expected, rtol=0, atol=1e-10)
    assert torch.equal(
        document_mask(packed.documents)[0],
        torch.block_diag(*(torch.ones(n, n) for n in (4, 3, 4))) > 0,
    )


def test_verbs_tell_the_kind_and_nothing_else_does():
    language = invented_nouns.nouns()
    assert len(set(NOUNS)) == 200 and Counter(language.kind.values()) == {0: 100, 1: 100}
    generator, met = random.Random(0), set()
    for _ in range(4000):
        words = invented_nouns.document(language, generator)
        assert len(words) in (5, 10, 15, 20, 25)
        for k in range(0, len(words), 5):
            the, noun, verb, adverb, end = words[k : k + 5]
            assert (the, end) == ("the", ".") and adverb in ADVERBS
            assert verb in VERBS[language.kind[noun]]
            met.add((noun, verb))
    assert len(met) == 6 * len(NOUNS)
    other = invented_nouns.nouns(seed=1)
    changed = sum(other.kind[noun] != language.kind[noun] for noun in NOUNS)
    assert 70 < changed < 130


def test_no_noun_of_a_question_for_the_test_has_a_label():
    language = invented_nouns.nouns()
    groups = [set(language.train), set(language.validation), set(language.test)]
    assert [len(g) for g in groups] == [100, 50, 50] and set.union(*groups) == set(NOUNS)
    words = invented_nouns.vocabulary()
    for among, group in zip(language[:3], groups):
        found = invented_nouns.compare(language, among, 200, random.Random(0))
        assert found.label.sum() == 100
        for row, label in zip(found.tokens.tolist(), found.label.tolist()):
            the, first, joined, again, second, ask, mark = words.decode(row)
            assert [the, joined, again, ask, mark] == ["the", "and", "the", "same", "?"]
            assert {first, second} <= group and first != second
            assert label == (language.kind[first] == language.kind[second])


@pytest.mark.parametrize("count, length", [(1, 8), (3, 64)])
def test_batches_are_full_rows_of_documents(count, length):
    batch = NounTexts(invented_nouns.nouns(), count, length).batch(5)
    assert batch.target_in.shape == batch.target_out.shape == (count, length)
    begins = batch.target_in == 1
    assert torch.equal(begins[:, 1:], batch.documents.diff() > 0)
    kept = batch.target_out[:, :-1]
    assert torch.equal(kept == NOT_COUNTED, begins[:, 1:])
    assert torch.equal(kept[~begins[:, 1:]], batch.target_in[:, 1:][~begins[:, 1:]])


test_errors_name_the_argument = refusals(
    ("documents", lambda: packing.pack_documents([[1, 2]], 2)),
    ("length", lambda: packing.pack_documents([[1, 2]], 0)),
    ("length", lambda: NounTexts(invented_nouns.nouns(), 2, 0)),
    (
        "among",
        lambda: invented_nouns.compare(invented_nouns.nouns(), ("dax",), 2, random.Random(0)),
    ),
)
