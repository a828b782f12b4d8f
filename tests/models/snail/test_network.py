"""SNAIL and the networks for few examples: nothing later, no query's label, no other query."""

from itertools import product

import pytest
import torch
from assertions import assert_exact, assert_refused, refusals
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from attnbook.models.snail.few_shot import FewShotSNAIL, PictureEmbedding, Prototypes, few_shot_loss
from attnbook.models.snail.network import (
    ATTENTION_ONLY,
    PAPER_PARTS,
    SNAIL,
    TC_ONLY,
    AttentionPart,
    TCPart,
)

from ..properties import assert_every_parameter_learns

SMALL = (AttentionPart(4, 3), TCPart(5), AttentionPart(6, 4), TCPart(5), AttentionPart(4, 4))
KINDS = {
    "full": SMALL,
    "no attention": (TCPart(5), TCPart(5)),
    "no TC": (AttentionPart(4, 3), AttentionPart(4, 4)),
}


def snail(parts=SMALL, length=6, seed=0):
    torch.manual_seed(seed)
    model = SNAIL(4, 3, length, parts).double()
    with torch.no_grad():
        for p in model.parameters():
            p.normal_()
    return model


def x_of(n, seed=1):
    g = torch.Generator().manual_seed(seed)
    return torch.randn(2, n, 4, generator=g, dtype=torch.float64)


@settings(max_examples=20, deadline=None)
@given(n=st.integers(2, 9), kind=st.sampled_from(sorted(KINDS)), seed=st.integers(0, 9))
def test_no_output_depends_on_a_later_input_and_each_on_its_own(n, kind, seed):
    model, x = snail(KINDS[kind], n, seed), x_of(n, seed=seed)
    slopes = torch.autograd.functional.jacobian(lambda x: model(x).output.sum((0, 2)), x)
    slope = slopes.abs().amax((1, 3))  # (outputs, inputs)
    assert slope.triu(1).max() == 0 and slope.diagonal().min() > 0 and slope[-1].min() > 0
    j = seed % n
    changed = x.clone()
    changed[:, j] += 1.0
    assert torch.equal(model(changed).output[:, :j], model(x).output[:, :j])


@settings(max_examples=20, deadline=None)
@given(
    cuts=st.lists(st.integers(1, 4), min_size=1, max_size=5), kind=st.sampled_from(sorted(KINDS))
)
def test_step_by_step_with_its_past_is_the_whole(cuts, kind):
    model, x = snail(KINDS[kind], max(2, sum(cuts))), x_of(sum(cuts))
    full, past, outputs = model(x, need_weights=True), None, []
    for piece in x.split(cuts, dim=1):
        result = model(piece, past, need_weights=True)
        past = result.past
        outputs.append(result.output)
    assert_exact(torch.cat(outputs, 1), full.output)
    assert_exact(result.weights, [w if w is None else w[:, -cuts[-1] :] for w in full.weights])


def test_branches_share_a_past_and_do_not_know_of_each_other():
    model, x, ends = snail(), x_of(5), x_of(3, seed=2)
    past = model(x).past
    result = model(ends.unsqueeze(2), SNAIL.branch(past, 3)).output[:, :, 0]
    for k in range(3):
        assert_exact(result[:, k], model(torch.cat([x, ends[:, k : k + 1]], 1)).output[:, -1])


def test_the_parts_of_the_paper_and_their_widths():
    model = SNAIL(69, 5, 6)
    widths = [part.d_out for part in model.parts]
    assert widths == [69 + 32, 101 + 3 * 128, 485 + 128, 613 + 3 * 128, 997 + 256]
    assert model.output.in_features == widths[-1]
    assert [len(part.blocks) for part in model.parts[1::2]] == [3, 3]
    assert [part.query_projection.out_features for part in model.parts[::2]] == [64, 256, 512]
    assert len(TC_ONLY) == 2 and len(ATTENTION_ONLY) == 3
    assert {*TC_ONLY, *ATTENTION_ONLY} == {*PAPER_PARTS}
    assert snail((TCPart(5, first=2),)).parts[0].blocks[0].convolution.dilation == 2


@pytest.mark.parametrize("parts", KINDS.values(), ids=KINDS)
def test_every_parameter_of_the_ablations_learns(parts):
    model = snail(parts)
    assert_every_parameter_learns(model, model(x_of(6)).output.square().sum())


# Few examples


class Flat(torch.nn.Module):
    """An embedding that is quick to follow: a linear map of the pixels."""

    d_output = 4

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(9, 4)

    def forward(self, pictures):
        return self.linear(pictures.to(self.linear.weight.dtype).flatten(-2))


def episode(ways=3, shots=2, queries=4, batch=2):
    g, n = torch.Generator().manual_seed(0), ways * shots
    order = torch.rand(batch, n, generator=g).argsort(1)
    labels = torch.arange(ways).repeat(batch, shots).gather(1, order)
    support, query = (
        torch.rand(batch, k, 3, 3, generator=g, dtype=torch.float64) for k in (n, queries)
    )
    return support, labels, query, torch.randint(ways, (batch, queries), generator=g)


def few_shot():
    torch.manual_seed(4)
    return FewShotSNAIL(Flat(), 3, 2, SMALL).double()


MODELS = [few_shot, lambda: Prototypes(Flat(), 3).double()]


def one_by_one(model, support, labels, query, of_query=None):
    """Each query as a sequence of its own; ``of_query`` (batch, Q) are labels in place of zeros."""
    answers = []
    for q in range(query.shape[1]):
        seen = model.embedding(torch.cat([support, query[:, q : q + 1]], 1))
        last = labels[:, :1] if of_query is None else of_query[:, q : q + 1]
        known = F.one_hot(torch.cat([labels, last], 1), model.ways).double()
        known[:, -1] *= of_query is not None
        answers.append(model.snail(torch.cat([seen, known], -1)).output[:, -1])
    return torch.stack(answers, 1)


def test_queries_that_share_their_support_answer_as_if_alone():
    model, (support, labels, query, _) = few_shot(), episode()
    result = model(support, labels, query, need_weights=True)
    assert_exact(result.logits, one_by_one(model, support, labels, query))
    assert result.weights[1] is result.weights[3] is None
    for w in result.weights[::2]:
        assert_exact(w.sum(-1), torch.ones(2, 4).double())
    assert all(w is None for w in model(support, labels, query).weights)


def test_a_leak_of_the_query_s_label_would_be_seen():
    model, (support, labels, query, answers) = few_shot(), episode()
    right = model(support, labels, query).logits
    assert (one_by_one(model, support, labels, query, of_query=answers) - right).abs().max() > 1e-4
    # a batch in which the query's label stands behind the others
    leaking = torch.cat([labels, answers[:, :1]], 1)
    assert_refused("labels", model, support, leaking, query)


@pytest.mark.parametrize("make", MODELS)
def test_the_caller_s_tensors_stay_as_they_are(make, monkeypatch):
    def untouched():
        batch = episode()
        before = [t.clone() for t in batch]
        few_shot_loss(make(), batch)
        return all(map(torch.equal, batch, before))

    assert untouched()

    # what published code does: a label is wiped where it stands, in the batch
    def zeroing(labels, ways, one_hot=F.one_hot):
        labels[:, -1] = 0
        return one_hot(labels, ways)

    monkeypatch.setattr(F, "one_hot", zeroing)
    assert not untouched()


def test_a_query_knows_of_no_other_query_and_of_all_examples():
    model, (support, labels, query, _) = few_shot(), episode()
    query.requires_grad_(), support.requires_grad_()
    total = model(support, labels, query).logits[:, 1].sum()
    by_query, by_support = torch.autograd.grad(total, (query, support))
    other = [0, 2, 3]
    assert by_query[:, other].abs().max() == 0 and by_query[:, 1].abs().amax((1, 2)).min() > 0
    assert by_support.abs().amax((2, 3)).min() > 0


@pytest.mark.parametrize("make", MODELS)
def test_the_labels_matter(make):
    model, (support, labels, query, _) = make(), episode()
    right, turned = (model(support, given, query).logits for given in (labels, (labels + 1) % 3))
    assert (turned - right).abs().max() > 1e-4


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.int32])
@pytest.mark.parametrize("make", MODELS)
def test_labels_of_any_whole_type_are_labels(make, dtype):
    model, (support, labels, query, _) = make(), episode()
    found, right = (model(support, t, query).logits for t in (labels.to(dtype), labels))
    assert torch.equal(found, right)


def test_prototypes_are_means_and_distances():
    torch.manual_seed(0)
    model, (support, labels, query, _) = Prototypes(Flat(), 3).double(), episode()
    result = model(support, labels, query).logits
    seen, requested = model.embedding(support), model.embedding(query)
    for b, q, c in product(range(2), range(4), range(3)):
        mean = seen[b, labels[b] == c].mean(0)
        assert_exact(result[b, q, c], -((requested[b, q] - mean) ** 2).sum())
    order = [3, 1, 2, 0, 5, 4]  # of the examples: it does not matter
    assert_exact(model(support[:, order], labels[:, order], query).logits, result)


def test_the_loss_is_the_cross_entropy_of_the_queries():
    model, batch = few_shot(), episode()
    total, count = few_shot_loss(model, batch)
    logits = model(*batch[:3]).logits
    expected = -logits.log_softmax(-1).gather(-1, batch[3][..., None]).sum()
    assert_exact(total, expected)
    assert int(count) == 8


def test_the_embedding_is_convolution_norm_relu_pool():
    torch.manual_seed(0)
    model = PictureEmbedding(size=9, filters=4, d_output=5, stages=3).double()
    pictures = torch.rand(6, 9, 9, dtype=torch.float64)
    with torch.no_grad():
        for norm in model.stages[1::4]:
            norm.weight.normal_(), norm.bias.normal_()  # with negative factors too
    for mode in (True, False):
        model.train(mode)
        x = pictures[:, None]
        for k in range(0, 12, 4):
            conv, norm = model.stages[k], model.stages[k + 1]
            x = F.conv2d(x, conv.weight, padding=1)
            mean, var = norm.running_mean.clone(), norm.running_var.clone()
            if mode:
                var, mean = torch.var_mean(x, (0, 2, 3), unbiased=False)
            parts = (mean, var, norm.weight, norm.bias)
            mean, var, weight, bias = (t[:, None, None] for t in parts)
            x = (x - mean) / (var + norm.eps).sqrt() * weight + bias
            x = F.max_pool2d(x.relu(), 2)
        assert_exact(model(pictures), x.flatten(1) @ model.output.weight.T + model.output.bias)


def test_the_embedding_takes_bytes_and_any_leading_dimensions_and_keeps_pictures_apart():
    torch.manual_seed(0)
    model = PictureEmbedding(size=28, filters=8, d_output=6).eval()
    pictures = torch.randint(256, (2, 3, 28, 28), dtype=torch.uint8)
    result = model(pictures)
    assert result.shape == (2, 3, 6)
    torch.testing.assert_close(result, model(pictures / 255))
    torch.testing.assert_close(result[1, 2], model(pictures[1, 2]), atol=1e-5, rtol=1e-4)


SEEN, LABELS, ASKED, _ = episode()
test_bad_input_is_named = refusals(
    ("parts must name", lambda: SNAIL(4, 3, 6, ())),
    ("parts must be", lambda: SNAIL(4, 3, 6, ("tc",))),
    ("length", lambda: SNAIL(4, 3, 0)),
    ("x", lambda: snail()(x_of(3)[..., :2])),
    ("past", lambda: snail()(x_of(3), ())),
    ("size", lambda: PictureEmbedding(size=8)),
    ("pictures must be", lambda: PictureEmbedding()(torch.zeros(2, 27, 28))),
    ("labels", lambda: few_shot()(*episode(ways=4)[:3])),
    ("labels", lambda: few_shot()(SEEN, LABELS.double(), ASKED)),
    ("support", lambda: few_shot()(SEEN[0], LABELS, ASKED)),
    ("support", lambda: few_shot()(SEEN.tolist(), LABELS, ASKED)),
    ("support", lambda: few_shot()(SEEN[:, :0], LABELS[:, :0], ASKED)),
    ("labels must hold", lambda: Prototypes(Flat(), 4).double()(SEEN, LABELS, ASKED)),
    ("pictures must be uint8", lambda: PictureEmbedding()(torch.zeros(2, 28, 28).bool())),
    ("ways", lambda: Prototypes(Flat(), 0)),
)
