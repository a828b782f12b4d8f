"""What heads look at and what is left without them, by loops and with weights set to zero."""

import copy
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from attnbook.tasks.translation import pronouns
from attnbook_runs.translation.pronoun_heads import (
    KINDS,
    MASKED_EDGES,
    PronounQueries,
    attentions,
    follows,
    head_weights,
    make_model,
    masked_edge,
    measure,
    pair_share,
    pronoun_queries,
    right_genders,
    without_head,
)


@pytest.fixture(scope="module")
def task():
    return pronouns.pronoun_task(train=50, valid=0, test=0, seed=0)


@pytest.fixture(scope="module")
def queries(task):
    return pronoun_queries(task, [one for two in pronouns.minimal_pairs(6, seed=1) for one in two])


@pytest.fixture()
def model(task):
    torch.manual_seed(0)
    made = make_model(task, d_model=16, num_heads=2).eval()
    for kind in KINDS:
        for attention in attentions(made)[kind]:
            torch.nn.init.normal_(attention.output_projection.bias)
    return made


def test_positions_name_the_nouns_on_both_sides(task, queries):
    pairs = [one for two in pronouns.minimal_pairs(6, seed=1) for one in two]
    for b, one in enumerate(pairs):
        source, target_in = one.pair.source, ["<bos>", *one.pair.target]
        genders = "fm" if one.pair.target[queries.step[b]] in ("elle", "elles") else "mf"
        for which, expected in zip((queries.antecedent, queries.other), genders):
            english, french = source[which["encoder"][b]], target_in[which["decoder"][b]]
            noun = next(
                n for n in pronouns._NOUNS.values() if english in (n.english, n.english_plural)
            )
            assert french in (noun.french, noun.french_plural)
            assert noun.gender == expected
            assert which["cross"][b] == which["encoder"][b]
        assert source[queries.query["encoder"][b]] in ("it", "they")
        assert source[queries.adjective[b]] == source[-2]
        assert task.target_vocab.decode([queries.right[b]]) == [one.pair.target[one.written]]
        assert task.target_vocab.decode([queries.right[b]]) != task.target_vocab.decode(
            [queries.wrong[b]]
        )


def test_follows_counts_as_loops_do():
    generator = np.random.default_rng(0)
    w = generator.dirichlet(np.full(5, 0.4), size=(8, 3, 4))
    w[:, 1] = 0.2  # a head that ties
    query, antecedent = generator.integers(0, 4, 8), generator.integers(0, 5, 8)
    other = (antecedent + generator.integers(1, 5, 8)) % 5
    figures = follows(
        torch.from_numpy(w), *(torch.from_numpy(v) for v in (query, antecedent, other))
    )
    for h in range(3):
        more = [w[b, h, query[b], antecedent[b]] > w[b, h, query[b], other[b]] for b in range(8)]
        assert figures["more"][h] == pytest.approx(np.mean(more))
        assert figures["pairs"][h] == pytest.approx(
            np.mean([more[b] and more[b + 1] for b in range(0, 8, 2)])
        )
        for key, noun in (("largest", antecedent), ("other", other)):
            assert figures[key][h] == pytest.approx(
                np.mean([w[b, h, query[b]].argmax() == noun[b] for b in range(8)])
            )
    assert pair_share(torch.tensor([True, True, True, False, False, False])) == pytest.approx(1 / 3)


@pytest.mark.parametrize("kind", KINDS)
def test_a_head_that_is_left_out_is_a_block_of_zeros_in_its_matrix(model, queries, kind):
    before = model(*queries.batch[:3]).logits
    by_hand = copy.deepcopy(model)
    # head 1 of layer 1 has the inputs 8 … 15
    attentions(by_hand)[kind][1].output_projection.weight.data[:, 8:] = 0.0
    with without_head(attentions(model)[kind][1], 1):
        inside = model(*queries.batch[:3]).logits
    assert torch.allclose(inside, by_hand(*queries.batch[:3]).logits, atol=1e-5)
    assert not torch.allclose(inside, before, atol=1e-3)
    assert torch.equal(model(*queries.batch[:3]).logits, before)


@pytest.mark.parametrize("kind", KINDS)
def test_a_hidden_edge_has_no_weight_and_the_others_have(model, queries, kind):
    rows, columns = queries.query[kind], queries.antecedent[kind]
    at = torch.arange(len(rows))
    before = head_weights(model, queries)._asdict()[kind]
    with masked_edge(model, kind, rows, columns):
        inside = head_weights(model, queries)._asdict()[kind]
    for layer in range(2):
        zero = torch.zeros_like(inside[layer], dtype=torch.bool)
        zero[at, :, rows, columns] = True
        assert (inside[layer][zero] == 0).all() and (before[layer][zero] > 0).all()
        assert torch.equal(inside[layer][~zero] > 0, before[layer][~zero] > 0)
    with masked_edge(model, kind, torch.full_like(rows, -1), columns):
        inside = head_weights(model, queries)._asdict()[kind]
    for b in range(len(rows)):
        column = inside[0][b, :, :, columns[b]]
        keeps = torch.arange(column.shape[1]) == columns[b]
        assert (column[:, ~keeps] == 0).all()
        if kind == "encoder":
            assert (column[:, keeps] > 0).all()
    assert torch.equal(head_weights(model, queries)._asdict()[kind][0], before[0])


class Oracle(torch.nn.Module):
    """Outputs the right target, or one in which every pronoun has the other gender."""

    def __init__(self, queries: PronounQueries, size: int, turned: bool):
        super().__init__()
        self.wanted, self.size = queries.batch.target_out.clone(), size
        if turned:
            self.wanted[torch.arange(len(queries.right)), queries.step] = queries.wrong

    def forward(self, source, lengths, target_in):
        return SimpleNamespace(logits=torch.nn.functional.one_hot(self.wanted, self.size).float())


def test_a_turned_pronoun_is_wrong_and_nothing_else(task, queries):
    for turned in (False, True):
        right, accuracy = right_genders(Oracle(queries, len(task.target_vocab), turned), queries)
        assert right.tolist() == [not turned] * 12 and accuracy == 1.0


def test_every_measure_is_there_and_the_run_can_be_made_again(model, queries, figures_of):
    measured = measure(model, queries)
    assert set(measured["hidden"]) == set(MASKED_EDGES)
    assert set(measured["heads"]) == {*KINDS, "adjective"}
    assert all(
        np.shape(measured["heads"][kind][key]) == (2, 2)
        for kind in KINDS
        for key in ("largest", "other", "more", "pairs", "right_without", "told_without")
    )
    # The query of "it" in the first layer knows the word and its place, the same in both twins:
    # blind to the adjective.
    assert measured["heads"]["encoder"]["pairs"][0] == [0.0, 0.0]
    assert measured["heads"]["encoder"]["more"][0] == [0.5, 0.5]
    assert max(measured["heads"]["adjective"]["pairs"][0]) > 0  # that of the adjective is not
    figures = figures_of(
        "pronoun-heads", train=60, test_pairs=4, steps=2, d_model=8, num_heads=2, num_layers=1
    )
    assert figures["curve"][-1][0] == 2
    assert set(figures["trained"]) == set(measured) == set(figures["untrained"])
