import pytest
import torch
from assertions import assert_exact, assert_refused
from simulated_cuda import simulated_cuda
from small_models import TRANSLATORS, WORDS
from watching import saved_bytes

from attnbook import Bahdanau, Seq2Seq
from attnbook.models.pointer.network import PointerNetwork
from attnbook.models.rnn.common import UNITS, make_recurrent, reverse_padded
from attnbook.models.rnn.lstm_language_model import LSTMLanguageModel
from attnbook.models.rnn.luong import Luong
from attnbook.models.snail.agents import LSTMAgent

from .. import oracles
from ..properties import (
    assert_every_parameter_learns,
    assert_reads_what_it_may_and_no_more,
    assert_steps_are_the_whole,
    wrong_versions,
)

SOURCE = torch.tensor([[5, 3, 7, 4, 6, 2], [4, 6, 2, 0, 0, 0], [3, 0, 0, 0, 0, 0]])
LENGTHS = torch.tensor([6, 3, 1])
TARGET = torch.tensor([[1, 4, 5, 3], [1, 3, 0, 0], [1, 5, 4, 0]])

KINDS = {
    "start state": dict(kind=Seq2Seq),
    "context at every step": dict(kind=Seq2Seq, context_every_step=True),
    "reversed source": dict(kind=Seq2Seq, reverse_source=True),
    "bahdanau": dict(kind=Bahdanau),
}


def build(kind=Seq2Seq, unit="gru", **options):
    torch.manual_seed(0)
    return kind(8, 7, d_embed=4, hidden_size=5, unit=unit, **options).double().eval()


@pytest.fixture(
    params=[(name, unit) for name in KINDS for unit in UNITS], ids=lambda p: f"{p[0]}-{p[1]}"
)
def model(request):
    name, unit = request.param
    built = build(unit=unit, **KINDS[name])
    built.unit = unit
    return built


def oracle(model, b):
    source, target = SOURCE[b, : LENGTHS[b]].tolist(), TARGET[b].tolist()
    if isinstance(model, Bahdanau):
        return oracles.bahdanau(model, model.unit, source, target)
    return oracles.seq2seq(model, model.unit, source, target), None


def test_logits_and_weights_equal_the_equations_row_by_row(model):
    asked = {"need_weights": True} if isinstance(model, Bahdanau) else {}
    out = model(SOURCE, LENGTHS, TARGET, **asked)
    for b in range(3):  # so padding changes nothing and a batch of one equals a row
        logits, weights = oracle(model, b)
        assert_exact(out.logits[b], logits)
        if weights is not None:
            assert_exact(out.weights[b, :, : LENGTHS[b]], weights)
            assert (out.weights[b, :, LENGTHS[b] :] == 0).all()


def test_step_by_step_equals_teacher_forcing(model):
    attends = isinstance(model, Bahdanau)
    assert_steps_are_the_whole(model, SOURCE, LENGTHS, TARGET, weights=attends)


def test_every_parameter_learns_from_what_may_be_read(model):
    assert_every_parameter_learns(model, model(SOURCE, LENGTHS, TARGET).logits.square().sum())
    assert_reads_what_it_may_and_no_more(model, SOURCE, LENGTHS, TARGET)


def test_training_without_stored_weights_gives_the_same_logits_and_gradients():
    grads = []
    for need_weights in (True, False):
        model = build(Bahdanau)
        out = model(SOURCE, LENGTHS, TARGET, need_weights=need_weights)
        assert (out.weights is None) != need_weights
        total = out.logits.square().sum()
        grads.append(torch.autograd.grad(total, model.parameters(), allow_unused=True))
    assert_exact(*grads)


@pytest.mark.parametrize("need_weights", [True, False])
def test_training_stores_no_hidden_layer_of_the_alignment_model(need_weights):
    model = build(Bahdanau, d_attention=64)
    sizes = saved_bytes(lambda: model(SOURCE, LENGTHS, TARGET, need_weights=need_weights))
    hidden = 8 * 3 * 6 * 64  # of one step; the keys, projected once, have this size too
    assert list(sizes.values()).count(hidden) <= 1


def test_shuffling_the_annotations_with_the_mask_leaves_the_decoder_unchanged():
    model = build(Bahdanau)
    memory = model.encode(SOURCE, LENGTHS)
    order = torch.tensor([4, 2, 0, 5, 1, 3])
    moved = {name: getattr(memory, name)[:, order] for name in ("annotations", "projected")}
    shuffled = memory._replace(**moved, mask=memory.mask[..., order])
    state = model.start(memory)
    a, b = (model.step(TARGET[:, 0], state, read, need_weights=True) for read in (memory, shuffled))
    assert_exact(a.logits, b.logits)
    assert_exact(a.weights[:, order], b.weights)


def test_the_keys_are_projected_once_a_source_however_many_steps_follow():
    model, calls = build(Bahdanau), []
    model.score.key_projection.register_forward_hook(lambda *_: calls.append(1))
    model(SOURCE, LENGTHS, TARGET)
    assert len(calls) == 1


def test_other_scores_train():
    for score in ("general", "reduced_rank"):
        model = build(Bahdanau, score=score)
        out = model(SOURCE, LENGTHS, TARGET)
        out.logits.sum().backward()
        assert out.logits.shape == (3, 4, 7)
        assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in model.parameters())


def test_two_layers_equal_pytorch_on_an_unpadded_row():
    model = build(Seq2Seq, num_layers=2)
    _, last = model.encoder(model.source_embedding(SOURCE[:1]))
    out, _ = model.decoder(model.target_embedding(TARGET[:1]), last)
    assert_exact(model(SOURCE, LENGTHS, TARGET).logits[:1], model.output(out))


def test_reverse_padded():
    turned = [[2, 6, 4, 7, 3, 5], [2, 6, 4, 0, 0, 0], [3, 0, 0, 0, 0, 0]]
    assert reverse_padded(SOURCE, LENGTHS).tolist() == turned


PLAIN = {"tanh": torch.nn.RNN, "gru": torch.nn.GRU, "lstm": torch.nn.LSTM}


@pytest.mark.parametrize("unit, plain", PLAIN.items())
def test_gradients_in_evaluation_are_those_without_dropout(unit, plain):
    """The network runs as in training there, which a GPU needs: nothing of it may be seen."""
    torch.manual_seed(0)
    network = make_recurrent(unit, 4, 5, num_layers=2, dropout=0.7).double().eval()
    without = plain(4, 5, num_layers=2, batch_first=True).double()
    without.load_state_dict(network.state_dict())
    inputs = torch.randn(3, 6, 4, dtype=torch.float64, requires_grad=True)
    results = []
    for run in (network, without):
        out, _ = run(inputs)
        results.append([out, *torch.autograd.grad(out.square().sum(), [inputs, *run.parameters()])])
    torch.testing.assert_close(*results, rtol=0, atol=0)
    assert not network.training and network.dropout == 0.7
    with pytest.raises(RuntimeError):
        network(inputs[..., :3])
    assert not network.training and network.dropout == 0.7
    assert not torch.equal(network.train()(inputs)[0], results[0][0])  # dropout in training


VECTORS = SOURCE[..., None].expand(3, 6, 2).double()
POINTED = torch.tensor([[2, 6], [1, 6], [0, 6]])
GRADIENTS_ON_A_GPU = {
    "seq2seq": (lambda: build(Seq2Seq, num_layers=2, dropout=0.5), (SOURCE, LENGTHS, TARGET)),
    "bahdanau": (lambda: build(Bahdanau), (SOURCE, LENGTHS, TARGET)),
    "luong": (lambda: build(Luong, num_layers=2, dropout=0.5), (SOURCE, LENGTHS, TARGET)),
    "language model": (lambda: LSTMLanguageModel(8, d_embed=4, hidden_size=5), (SOURCE, LENGTHS)),
    "pointer network": (lambda: PointerNetwork(2, 5, ends=True), (VECTORS, LENGTHS, POINTED)),
    "agent": (lambda: LSTMAgent(2, 3, 5), (VECTORS,)),
}


@pytest.mark.parametrize("make, inputs", GRADIENTS_ON_A_GPU.values(), ids=GRADIENTS_ON_A_GPU)
def test_a_model_in_evaluation_has_its_gradients_on_a_gpu(make, inputs):
    torch.manual_seed(0)
    model = make().double().eval()

    def gradients():
        place = next(model.parameters()).device
        logits = model(*(part.to(place) for part in inputs)).logits
        logits = logits.masked_fill(logits.isinf(), 0.0)
        slopes = torch.autograd.grad(logits.square().sum(), model.parameters(), allow_unused=True)
        return [None if slope is None else slope.cpu() for slope in slopes]

    expected = gradients()
    with simulated_cuda():
        model.to("cuda")
        assert_exact(gradients(), expected)


def spoil_attention_that_ignores_the_encoder(model):
    # as an old PyTorch tutorial: weights from the query alone
    model.score.compare = lambda q, p: q[..., :1].expand(*q.shape[:-1], p.shape[-2]).contiguous()


def spoil_last_annotation_for_start(model):
    size = model.cell.hidden_size
    model.start = lambda memory: (model.bridge(memory.annotations[:, -1, size:]).tanh(),)


def spoil_no_mask(model):
    encode = model.encode
    model.encode = lambda s, n: (lambda m: m._replace(mask=torch.ones_like(m.mask)))(encode(s, n))


def spoil_padding_runs_through_the_encoder(model):
    model.encode = lambda s, n: type(model).encode(model, s, torch.full_like(n, s.shape[1]))


def spoil_attend_with_zero_query(model):
    compare = model.score.compare
    model.score.compare = lambda q, p: compare(torch.zeros_like(q), p)


def spoil_mean_of_annotations(model):
    model.score.compare = lambda q, p: torch.zeros(*q.shape[:-1], p.shape[-2], dtype=q.dtype)


@pytest.mark.parametrize("spoil", wrong_versions(globals()))
def test_known_wrong_models_are_told_apart_by_the_oracle(spoil):
    model = build(Bahdanau)
    model.unit = "gru"
    # attention that has learnt something: away from the flat weights of the start
    with torch.no_grad():
        model.score.vector.weight.mul_(5)
    expected = [oracle(model, b)[0] for b in range(3)]
    spoil(model)
    got = model(SOURCE, LENGTHS, TARGET, need_weights=True).logits
    assert any(not torch.allclose(got[b], expected[b], atol=1e-4) for b in range(3))


BAD = [
    (lambda m: m(SOURCE, torch.tensor([6, 0, 1]), TARGET), "lengths"),
    (lambda m: m(SOURCE, torch.tensor([7, 3, 1]), TARGET), "lengths"),
    (lambda m: m(SOURCE + 5, LENGTHS, TARGET), "source"),
    (lambda m: m(SOURCE, LENGTHS, TARGET[:2]), "target_in must have"),
    (lambda m: m(SOURCE, LENGTHS, TARGET + 4), "target_in"),
]


@pytest.mark.parametrize("kind", [Seq2Seq, Bahdanau])
@pytest.mark.parametrize(("call", "words"), BAD)
def test_bad_input_is_named(kind, call, words):
    assert_refused(words, call, build(kind))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (dict(unit="GRU"), "unit"),
        (dict(hidden_size=0), "hidden_size"),
        (dict(d_embed=0), "d_embed"),
        (dict(source_size=0), "source_size"),
        (dict(target_size=0), "target_size"),
    ],
)
def test_bad_options_are_named(options, words):
    for kind in (Seq2Seq, Bahdanau):
        assert_refused(words, kind, **{"source_size": 8, "target_size": 7, **options})
    assert_refused("d_attention", Bahdanau, 8, 7, d_attention=0)


@pytest.mark.parametrize("name", TRANSLATORS)
def test_a_step_with_another_number_of_rows_is_refused(name):
    model = TRANSLATORS[name]()
    memory = model.encode(torch.randint(4, WORDS, (3, 5)), torch.tensor([5, 4, 3]))
    for rows in (1, 2):
        token = torch.ones(rows, dtype=torch.long)
        with pytest.raises(ValueError, match="token must have 3 rows as memory has"):
            model.step(token, model.start(memory), memory)
