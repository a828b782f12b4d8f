"""Hierarchical attention beside its equations, one word and one sentence at a time."""

import pytest
import torch
from assertions import assert_exact, refusals

from attnbook import HierarchicalAttention
from attnbook.models.documents.hierarchical import AttentionPooling

from .. import oracles
from ..properties import assert_every_parameter_learns, wrong_versions

# Rows: three sentences; an empty one in the middle; one sentence of one word, and padding.
DOCUMENTS = torch.tensor(
    [
        [[5, 3, 7, 2], [4, 6, 0, 0], [3, 2, 2, 0]],
        [[6, 2, 0, 0], [0, 0, 0, 0], [7, 5, 3, 4]],
        [[4, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]],
    ]
)
LENGTHS = torch.tensor([[4, 2, 3], [2, 0, 4], [1, 0, 0]])


def build(pooling="attention"):
    torch.manual_seed(2)
    sizes = {"d_embed": 4, "hidden_size": 3, "d_attention": 5}
    model = HierarchicalAttention(9, 2, pooling=pooling, **sizes).double().eval()
    with torch.no_grad():
        for part in (model.word_pooling, model.sentence_pooling):  # weights far from equal
            part.key.weight.mul_(3)
            if part.query is not None:
                part.query.mul_(30)
    return model


def pool(part, h):
    """Σ α h and α over a list of annotations."""
    keys = [torch.tanh(part.key.weight @ each + part.key.bias) for each in h]
    e = torch.stack([(k @ part.query) if part.query is not None else k.sum() * 0 for k in keys])
    alpha = torch.exp(e) / torch.exp(e).sum()
    return sum(a * each for a, each in zip(alpha, h)), alpha


def annotate(network, vectors):
    there, back = oracles.weights(network), oracles.weights(network, suffix="_reverse")
    forward, _ = oracles.read("gru", there, vectors, network.hidden_size)
    backward, _ = oracles.read("gru", back, vectors[::-1], network.hidden_size)
    return [torch.cat(pair) for pair in zip(forward, backward[::-1])]


def oracle(model, sentences):
    """Logits, word weights and sentence weights of one document: lists of ids, none empty."""
    words, vectors = [], []
    for sentence in sentences:
        annotated = annotate(model.word_encoder, list(model.embedding.weight[sentence]))
        vector, alpha = pool(model.word_pooling, annotated)
        vectors.append(vector)
        words.append(alpha)
    v, alpha = pool(model.sentence_pooling, annotate(model.sentence_encoder, vectors))
    return model.output.weight @ v + model.output.bias, words, alpha


def sentences(b):
    return [DOCUMENTS[b, i, :n].tolist() for i, n in enumerate(LENGTHS[b].tolist()) if n]


@pytest.mark.parametrize("pooling", ["attention", "mean"])
def test_logits_and_both_weights_equal_the_equations_row_by_row(pooling):
    model = build(pooling)
    out = model(DOCUMENTS, LENGTHS)
    for b in range(3):
        logits, words, alpha = oracle(model, sentences(b))
        assert_exact(out.logits[b], logits)
        full = (LENGTHS[b] > 0).nonzero()[:, 0].tolist()
        assert_exact(out.sentence_weights[b, full], alpha)
        for i, each in zip(full, words):
            assert_exact(out.word_weights[b, i, : len(each)], each)


def test_padded_words_padded_sentences_and_empty_sentences_get_weight_zero():
    out = build()(DOCUMENTS, LENGTHS)
    real = torch.arange(4) < LENGTHS[..., None]
    assert (out.word_weights[~real] == 0).all() and (out.word_weights[real] > 0).all()
    assert (out.sentence_weights[LENGTHS == 0] == 0).all()
    assert (out.sentence_weights[LENGTHS > 0] > 0).all()
    assert_exact(out.sentence_weights.sum(-1), torch.ones(3).double())
    assert_exact(out.word_weights.sum(-1), (LENGTHS > 0).double())


def test_neither_padding_nor_company_nor_empty_sentences_change_a_document():
    model = build()
    together = model(DOCUMENTS, LENGTHS).logits
    wide = torch.zeros(3, 5, 6, dtype=torch.long)
    wide[:, :3, :4] = DOCUMENTS
    lengths = torch.nn.functional.pad(LENGTHS, (0, 2))
    wide[torch.arange(6) >= lengths[..., None]] = 8  # rubbish in the padding
    assert_exact(model(wide, lengths).logits, together)
    for b in range(3):
        assert_exact(model(DOCUMENTS[b : b + 1], LENGTHS[b : b + 1]).logits, together[b : b + 1])
    without = model(DOCUMENTS[1:2, [0, 2]], LENGTHS[1:2, [0, 2]])  # the empty sentence taken out
    assert_exact(without.logits, together[1:2])


def test_padding_gets_no_gradient_and_every_real_word_some():
    model, seen = build(), []
    keep = lambda m, i, out: (out.retain_grad(), seen.append(out)) and None  # noqa: E731
    model.embedding.register_forward_hook(keep)
    model(DOCUMENTS, LENGTHS).logits[:, 0].sum().backward()
    (embedded,) = seen  # the filled sentences alone
    lengths = LENGTHS[LENGTHS > 0]
    real = torch.arange(4) < lengths[:, None]
    grad = embedded.grad.abs().sum(-1)
    assert (grad[~real] == 0).all() and (grad[real] > 0).all()
    assert (model.embedding.weight.grad[0] == 0).all()


@pytest.mark.parametrize("pooling", ["attention", "mean"])
def test_every_parameter_learns_but_the_keys_of_the_mean(pooling):
    model, but = build(pooling), ["pooling.key"] if pooling == "mean" else []
    assert_every_parameter_learns(model, model(DOCUMENTS, LENGTHS).logits.square().sum(), but)


def test_pooling_reads_a_set_and_an_empty_one_gives_zeros():
    torch.manual_seed(0)
    part, h = AttentionPooling(4, 3).double(), torch.randn(2, 5, 4).double()
    mask = torch.tensor([[True, True, False, True, True], [False] * 5])
    order = [3, 0, 4, 2, 1]
    (a, w), (b, v) = part(h, key_mask=mask), part(h[:, order], key_mask=mask[:, order])
    assert_exact(a, b)
    assert_exact(w[:, order], v)
    assert (a[1] == 0).all() and (w[1] == 0).all() and (a[0] != 0).all()


def _over_padding(part):
    pool = part.forward
    part.forward = lambda h, key_mask: pool(h, key_mask=torch.ones_like(key_mask))


def spoil_softmax_over_padded_words(model):
    _over_padding(model.word_pooling)


def spoil_softmax_over_padded_sentences(model):
    _over_padding(model.sentence_pooling)


def spoil_softmax_over_the_batch(model):
    def spoilt(h, key_mask):
        part = model.sentence_pooling
        e = (part.key(h).tanh() @ part.query).masked_fill(~key_mask, -1e9)
        alpha = e.softmax(0) * key_mask
        return (alpha[..., None] * h).sum(1), alpha

    model.sentence_pooling.forward = spoilt


def spoil_keys_instead_of_values(model):
    part = model.word_pooling

    def spoilt(h, key_mask):
        _, alpha = AttentionPooling.forward(part, h, key_mask=key_mask)
        return (alpha[..., None] * h.tanh()).sum(1), alpha

    part.forward = spoilt


def spoil_scores_without_tanh(model):
    class Linear(torch.nn.Linear):
        def forward(self, x):
            # undoes the tanh that follows
            return torch.atanh(super().forward(x).clamp(-0.999, 0.999))

    model.word_pooling.key.__class__ = Linear


def spoil_mean_of_words(model):
    model.word_pooling.query = None


def spoil_empty_sentences_are_read(model):
    check = model._check
    model._check = lambda texts, lengths: (check(texts, lengths), lengths.clamp_(min=1)) and None


def spoil_words_query_for_sentences(model):
    model.sentence_pooling.query = model.word_pooling.query


@pytest.mark.parametrize("spoil", wrong_versions(globals()))
def test_known_wrong_models_are_told_apart_by_the_oracle(spoil):
    model = build()
    expected = [oracle(model, sentences(b))[0] for b in range(3)]
    spoil(model)
    got = model(DOCUMENTS, LENGTHS.clone()).logits
    assert any(not torch.allclose(got[b], expected[b], atol=1e-5) for b in range(3))


POOL, ROWS = AttentionPooling(4, 3), torch.zeros(2, 5, 4)
test_bad_input_is_named = refusals(
    ("lengths must be whole", lambda: build()(DOCUMENTS, LENGTHS[:, :2])),
    ("lengths", lambda: build()(DOCUMENTS, LENGTHS > 0)),
    ("lengths", lambda: build()(DOCUMENTS, LENGTHS + 1)),
    ("every document must", lambda: build()(DOCUMENTS, LENGTHS * torch.tensor([[1], [0], [1]]))),
    ("documents", lambda: build()(DOCUMENTS + 2, LENGTHS)),
    ("pooling", lambda: HierarchicalAttention(9, 2, pooling="max")),
    ("value", lambda: POOL(torch.zeros(2, 5, 6), key_mask=torch.ones(2, 5) > 0)),
    ("key_mask", lambda: POOL(ROWS, key_mask=0)),
    ("key_mask must be broadcastable", lambda: POOL(ROWS, key_mask=torch.ones(2, 3) > 0)),
    ("num_classes", lambda: HierarchicalAttention(9, 0)),
)
