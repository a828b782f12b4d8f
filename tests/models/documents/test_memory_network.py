"""The memory network beside its equations, one sentence and one word at a time."""

import random

import numpy as np
import pytest
import torch
from assertions import assert_exact, refusals
from torch.nn import functional as F

from attnbook import MemoryNetwork, ScaledDotScore
from attnbook.models.documents import memory_network as module
from attnbook.models.documents.memory_network import position_encoding
from attnbook.tasks.text import questions
from attnbook.training import fit

from ..properties import assert_every_parameter_learns, wrong_versions

# Rows: three sentences; two and padding; an empty sentence in the middle.
STORY = torch.tensor(
    [
        [[5, 3, 7, 2], [4, 6, 0, 0], [3, 2, 2, 0]],
        [[6, 2, 3, 0], [7, 5, 3, 4], [0, 0, 0, 0]],
        [[4, 8, 0, 0], [0, 0, 0, 0], [2, 0, 0, 0]],
    ]
)
QUESTION = torch.tensor([[4, 3, 0], [6, 2, 8], [5, 0, 0]])


def build(hops=3, **options):
    torch.manual_seed(4)
    sizes = {"d_embed": 5, "hops": hops, "max_memories": 4, "init_std": 0.7}
    return MemoryNetwork(9, **sizes, **options).double().eval()


def encoding(count, d):
    """l_kj of a sentence of ``count`` words, as the paper writes it: j and k from 1."""
    j, k = np.arange(1, count + 1)[:, None], np.arange(1, d + 1)
    return (1 - j / count) - (k / d) * (1 - 2 * j / count)


def oracle(model, story, question):
    """Logits and the weights of each hop; story and question are lists of ids without padding."""
    E = [e.weight.detach().numpy() for e in model.embeddings]
    T = [t.detach().numpy() for t in model.times]
    d, K = E[0].shape[1], len(E) - 1

    def vector(words, matrix):
        scale = encoding(len(words), d) if model.encoding == "position" else 1.0
        return (scale * matrix[words]).sum(0)

    A, C, B, W = E[:K], E[1:], E[0], E[K]
    u, hops = vector(question, B), []
    for k in range(K):
        n = len(story)
        m = [vector(x, A[k]) + T[k][n - 1 - i] for i, x in enumerate(story)]
        c = [vector(x, C[k]) + T[k + 1][n - 1 - i] for i, x in enumerate(story)]
        e = np.array([u @ each for each in m])
        p = np.exp(e) / np.exp(e).sum()
        u = u + sum(w * each for w, each in zip(p, c))
        hops.append(p)
    return W @ u, np.stack(hops)


def plain(b):
    story = [[w for w in row if w] for row in STORY[b].tolist()]
    return [row for row in story if row], [w for w in QUESTION[b].tolist() if w]


@pytest.mark.parametrize("options", [{}, {"hops": 1}, {"encoding": "bag"}], ids=str)
def test_logits_and_weights_equal_the_equations_row_by_row(options):
    model = build(**options)
    out = model(STORY, QUESTION)
    for b in range(3):
        logits, weights = oracle(model, *plain(b))
        np.testing.assert_allclose(out.logits[b].detach().numpy(), logits, atol=1e-10)
        real = (STORY[b] != 0).any(-1)
        np.testing.assert_allclose(out.weights[b][:, real].detach().numpy(), weights, atol=1e-10)
        assert (out.weights[b][:, ~real] == 0).all()


@pytest.mark.parametrize("encoding", ["position", "bag"])
def test_neither_padding_nor_company_changes_an_answer(encoding):
    model = build(encoding=encoding)
    with torch.no_grad():
        model.embeddings[-1].weight[0] = 1.5  # as after a step of training: this matrix is W, too
    together = model(STORY, QUESTION).logits
    wide, question = torch.zeros(3, 4, 6, dtype=torch.long), torch.zeros(3, 5, dtype=torch.long)
    wide[:, :3, :4], question[:, :3] = STORY, QUESTION
    assert_exact(model(wide, question).logits, together)
    for b in range(3):
        assert_exact(model(STORY[b : b + 1], QUESTION[b : b + 1]).logits, together[b : b + 1])


def test_neighbours_share_their_matrices():
    model = build()
    assert len(model.embeddings) == len(model.times) == 4  # K + 1, not 2 K
    used = []
    for n, e in enumerate(model.embeddings):
        e.register_forward_hook(lambda m, i, o, n=n: used.append(n))
    model(STORY, QUESTION)
    assert used == [0, 0, 1, 2, 3]  # B and A¹; C¹ = A², C² = A³, C³ = Wᵀ, each computed once


def test_position_encoding_of_the_paper():
    lengths = torch.tensor([[4, 1], [0, 3]])
    got = position_encoding(lengths, 5, 6)
    assert got.shape == (2, 2, 5, 6)
    for at in np.ndindex(2, 2):
        count = int(lengths[at])
        if count:
            np.testing.assert_allclose(got[at][:count], encoding(count, 6), atol=1e-6)
        assert (got[at][count:] == 0).all()


def test_every_parameter_learns_and_padding_does_not():
    model = build()
    assert_every_parameter_learns(model, model(STORY, QUESTION).logits[:, 1:].square().sum())
    assert all((e.weight.grad[0] == 0).all() and (e.weight[0] == 0).all() for e in model.embeddings)


def spoil_forgets_u(model, monkeypatch):
    attend = module.attend

    def spoilt(score, query, key, value, key_mask):
        result = attend(score, query, key, value, key_mask=key_mask)
        return result._replace(context=result.context - query)  # u + o becomes o

    monkeypatch.setattr(module, "attend", spoilt)


def spoil_ties_output_to_the_question(model, monkeypatch):
    model.embeddings.append(model.embeddings[0])  # W from B; hops still reads the first K + 1


def spoil_same_memory_for_keys_and_values(model, monkeypatch):
    attend = module.attend
    monkeypatch.setattr(module, "attend", lambda s, q, k, v, **m: attend(s, q, k, k, **m))


def spoil_position_from_zero(model, monkeypatch):
    def spoilt(lengths, words, width, dtype):
        first = torch.ones_like(position_encoding(lengths, 1, width, dtype))
        rest = position_encoding(lengths, words, width, dtype)[..., :-1, :]
        return torch.cat([first, rest], -2)

    monkeypatch.setattr(module, "position_encoding", spoilt)


def spoil_position_by_the_padded_length(model, monkeypatch):
    def spoilt(lengths, words, *rest):
        return position_encoding(torch.full_like(lengths, words), words, *rest)

    monkeypatch.setattr(module, "position_encoding", spoilt)


def spoil_position_with_rows_and_columns_swapped(model, monkeypatch):
    def spoilt(lengths, words, width, dtype):
        return position_encoding(lengths, words, width, dtype).flip(-1)

    monkeypatch.setattr(module, "position_encoding", spoilt)


def spoil_time_from_the_first(model, monkeypatch):
    model.times = torch.nn.ParameterList([torch.nn.Parameter(t[[2, 1, 0, 3]]) for t in model.times])


def spoil_time_counts_padding(model, monkeypatch):
    model.times = torch.nn.ParameterList([torch.nn.Parameter(t.roll(1, 0)) for t in model.times])


def spoil_no_mask(model, monkeypatch):
    attend = module.attend
    monkeypatch.setattr(module, "attend", lambda s, q, k, v, **m: attend(s, q, k, v))


def spoil_softmax_over_the_batch(model, monkeypatch):
    def spoilt(score, query, key, value, key_mask):
        p = score(query, key).masked_fill(~key_mask[:, None], -1e9).softmax(0)
        return module.Answered(p @ value, p)

    monkeypatch.setattr(module, "attend", spoilt)


def spoil_scaled(model, monkeypatch):
    model.score = ScaledDotScore()


@pytest.mark.parametrize("spoil", wrong_versions(globals()))
def test_known_wrong_models_are_told_apart_by_the_oracle(spoil, monkeypatch):
    model = build()
    expected = [oracle(model, *plain(b))[0] for b in range(3)]
    spoil(model, monkeypatch)
    logits = model(STORY, QUESTION).logits.detach().numpy()
    assert any(not np.allclose(logits[b], expected[b], atol=1e-4) for b in range(3))


def test_two_hops_find_two_facts_that_one_hop_cannot_join():
    vocab, generator = questions.vocabulary(), random.Random(0)
    noticed, held = (
        [questions.draw("two facts", generator, (4, 7)) for _ in range(n)] for n in (4000, 400)
    )
    batch, right = questions.collate_stories(held, vocab), {}

    def loss(m, b):
        logits = m(b.story, b.question).logits
        return F.cross_entropy(logits, b.answer, reduction="sum"), len(b.answer)

    options = {"steps": 350, "learning_rate": 5e-3, "schedule": "cosine", "device": "cpu"}
    for hops in (1, 2):
        torch.manual_seed(0)
        model = MemoryNetwork(len(vocab), d_embed=32, hops=hops, max_memories=7, init_std=0.4)
        batches = questions.QuestionBatches(noticed, vocab, 64)
        fit(model, batches, loss, progress=False, **options)
        with torch.no_grad():
            out = model(batch.story, batch.question)
        right[hops] = float((out.logits.argmax(-1) == batch.answer).float().mean())
    assert right[1] < 0.65 and right[2] > 0.85
    supporting = torch.tensor([s.supporting[:2] for s in held])
    assert ((out.weights.argmax(-1) == supporting).float().mean(0) > 0.8).all()


test_bad_input_is_named = refusals(
    ("story", lambda: build()(STORY[0], QUESTION)),
    ("question", lambda: build()(STORY, QUESTION.float())),
    ("question must have", lambda: build()(STORY, QUESTION[:2])),
    ("story", lambda: build()(STORY + 1, QUESTION)),
    ("story has 6", lambda: build()(STORY.repeat(1, 2, 1), QUESTION)),
    ("hops", lambda: MemoryNetwork(9, hops=0)),
    ("encoding", lambda: MemoryNetwork(9, encoding="words")),
)
