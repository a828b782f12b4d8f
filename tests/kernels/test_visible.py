"""What a query may not see has no influence on it, in value or gradient, even if it is NaN."""

import copy
import math
from itertools import product

import catalogue
import numpy as np
import pytest
import torch
from assertions import assert_exact

from attnbook import (
    SCORES,
    LatentAttention,
    MultiHeadAttention,
    Perceiver,
    RotaryPositions,
    attend,
    attend_window,
    causal_mask,
    make_score,
    paper_parts,
)
from attnbook.kernels import visible
from attnbook.mechanisms.attention import masks, partial_context
from attnbook.mechanisms.layers.convolution import DynamicConvolution, LightweightConvolution

B, M, N, D = 2, 5, 6, 8


def drawn(*shape):
    return torch.randn(*shape, dtype=torch.float64)


def gradients(total, leaves):
    return torch.autograd.grad(total, leaves, allow_unused=True, materialize_grads=True)


def seen_by(kind, is_causal):
    """The masks of a kind as arguments, and what all of them let be seen, ``(B, M, N)``: query 4
    sees nothing, query 0 everything that the rule lets it see.
    """
    full, given = torch.ones(B, M, N, dtype=torch.bool), {"is_causal": is_causal}
    if kind == "mask":
        full = torch.rand(B, M, N) < 0.6
        full[:, 0], full[:, 4] = True, False
        given["mask"] = full
    if kind == "key_mask":
        given["key_mask"] = torch.tensor([[1, 1, 1, 1, 0, 1], [0, 0, 1, 1, 1, 1]]).bool()
        full = full & given["key_mask"][:, None]
    return given, full & causal_mask(M, N) if is_causal else full


@pytest.fixture(params=[True, False], ids=["looks", "cannot look"])
def looks(request, monkeypatch):
    """Where values may be read, and where they may not, as on a GPU or under a compiler."""
    if not request.param:
        for module in (visible, masks):
            monkeypatch.setattr(module, "is_readable", lambda tensor: False)
    return request.param


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("kind", ["mask", "key_mask", "everything"])
@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("name", SCORES)
def test_who_sees_a_bad_number_gets_nan_and_nobody_else_learns_of_it(
    name, need_weights, kind, is_causal, looks
):
    """In value and gradient: the others have what they have with zeros in its place."""
    torch.manual_seed(0)
    given, full = seen_by(kind, is_causal)
    for where, bad in product(range(3), (math.nan, math.inf, -math.inf, 1e307)):
        score = make_score(name, D, D, max_length=N).double()
        three = [drawn(B, M, D), drawn(B, N, D), drawn(B, N, D)]
        three[where][:, 4, 1] = bad
        clean = [t.clone() for t in three]
        clean[where][:, 4] = 0.0
        leaves = [t.requires_grad_() for t in three] + [*score.parameters()]
        right = [t.requires_grad_() for t in clean] + [*score.parameters()]
        found = attend(score, *three, **given, need_weights=need_weights)
        expected = attend(score, *clean, mask=full, need_weights=need_weights)
        met = full[:, :, 4] if where else full.any(-1) & (torch.arange(M) == 4)
        assert found.context[met].isnan().all()
        assert not (where == 0 and kind == "mask") or (found.context[:, 4] == 0).all()
        assert_exact(found.context[~met], expected.context[~met])
        if need_weights:
            assert_exact(found.weights[~met], expected.weights[~met])
            assert (found.weights[~full] == 0).all() and found.weights[met].isnan().any(-1).all()
        # whatever comes back to the rows that are NaN, and they are NaN in a loss
        ways = torch.randn_like(found.context).masked_fill(met[..., None], math.nan)
        mine = gradients((found.context * ways).sum(), leaves)
        none = torch.zeros_like(ways).where(met[..., None], ways)
        theirs = gradients((expected.context * none).sum(), right)
        theirs[where][:, 4] = 0.0
        assert_exact(mine, theirs)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_large_numbers_that_are_seen_and_do_not_overflow_stay(dtype, looks):
    key = torch.eye(3, 4, dtype=dtype)[None] * 1e10
    value = torch.tensor([1e30, 2.0, -1e30], dtype=dtype)[None, :, None]
    found = attend(make_score("dot", 4, 4), key, key, value)
    assert torch.equal(found.context, value) and torch.equal(
        found.weights[0], torch.eye(3).to(dtype)
    )


@pytest.mark.parametrize("sigma", [None, 1.0])
@pytest.mark.parametrize("where", [1, 2])
def test_the_same_in_windows(where, sigma):
    torch.manual_seed(0)
    score = make_score("general", D, D).double()
    mask = torch.ones(B, M, N, dtype=torch.bool)
    mask[:, :, 5], mask[:, :3, 3] = False, False
    position = torch.tensor([0.0, 1.4, 2.3, 3.0, 5.2], dtype=torch.float64).expand(B, M)
    three = [drawn(B, M, D), drawn(B, N, D), drawn(B, N, D)]
    clean = [t.clone() for t in three]
    for place in (3, 5):
        three[where][:, place], clean[where][:, place] = math.nan, 0.0
    leaves = [t.requires_grad_() for t in three] + [*score.parameters()]
    right = [t.requires_grad_() for t in clean] + [*score.parameters()]
    found, expected = (
        attend_window(score, ls[0], ls[1], position, 1, ls[2], mask=mask, sigma=sigma).context
        for ls in (leaves, right)
    )
    assert_exact(found[:, :3], expected[:, :3])
    mine = gradients(found[:, :3].sum(), leaves[:3])
    assert_exact(mine, gradients(expected[:, :3].sum(), right[:3]))


PADDED = [
    name
    for name in catalogue.MAKE
    if name.endswith("Attention")
    and "mask" in catalogue.make(name).options
    or name in ("BatchNorm", "PointerNetwork", "FixedDictionary", "FeedForwardAttention")
]


def real_rows(outputs, real):
    """The floating point outputs, those of padding set to zero."""
    tensors = [t for t in torch.utils._pytree.tree_leaves(outputs) if isinstance(t, torch.Tensor)]
    for t in tensors:
        if t.dim() > 2 and t.shape[-2] == real.shape[1]:
            t = t.where(real.view(len(real), *(1,) * (t.dim() - 3), -1, 1), 0.0)
        yield t.masked_fill(t.isinf(), 0.0)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("looks", [True, False])
@pytest.mark.parametrize("name", PADDED)
def test_padding_leaves_no_trace_in_any_module(name, looks, bad, monkeypatch):
    if not looks:  # as on a GPU or under a compiler
        monkeypatch.setattr(visible, "is_readable", lambda tensor: False)
    results = []
    real = torch.ones(catalogue.B, catalogue.N, dtype=torch.bool)
    real[1, -2:] = False
    for filling in (0.0, bad):
        entry = catalogue.make(name)
        module = entry.module.double()
        x = entry.inputs[0].double().where(real[..., None], filling).requires_grad_()
        outputs = [*real_rows(module(x, *entry.inputs[1:], **entry.options), real)]
        total = sum((t * (1 + i)).square().sum() for i, t in enumerate(outputs))
        results.append((outputs, gradients(total, [x, *module.parameters()])))
    assert_exact(*results)


CAUSAL = """MultiHeadAttention LatentAttention RelativeMultiHeadAttention LocalAttention
MemoryCompressedAttention LinearAttention Mamba2Mixer""".split()


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("cached", [False, True])
@pytest.mark.parametrize("name", CAUSAL)
def test_a_bad_word_reaches_no_earlier_one_in_any_kind_of_heads(name, cached, bad, looks):
    """Nor one that a mask keeps from it; later ones are NaN, in a text read at once or in two
    parts; a word that sees nothing gets zeros, whatever it is itself.
    """
    n, results = catalogue.N, []
    mask = causal_mask(n).clone()
    if "Linear" not in name and "Mamba" not in name:  # these take of a mask which words there are
        mask[3], mask[4, 3] = False, False
    for filling in (0.0, bad):
        entry = catalogue.make(name)
        module = entry.module.double()
        x = entry.inputs[0].double()
        x[:, 3] = filling
        x.requires_grad_()
        if cached:
            first = module.read(x[:, :4], mask=mask[:4, :4])
            second = module.read(x[:, 4:], mask=mask[4:], cache=first.cache, position=4)
            context = torch.cat([first.context, second.context], dim=1)
        else:
            context = module.read(x, mask=mask).context
        ways = torch.ones_like(context)
        ways[:, 3:] = 0.0
        slopes = gradients((context * ways)[:, :3].sum(), [x, *module.parameters()])
        results.append((context, slopes))
    (right, clean), (found, slopes) = results
    assert_exact(found[:, :3], right[:, :3])
    assert_exact(slopes, clean)
    if mask[3].any():
        assert found[:, 3:].isnan().all()
    else:
        assert (found[:, 3] == 0).all()
        assert_exact(found[:, 4], right[:, 4])
    mask[4, 3] = mask[3, 3] = True
    layer = catalogue.make(name).module.double()
    if name != "MemoryCompressedAttention":  # which has no stretch with the last word in it
        assert layer.read(x.detach(), mask=mask).context[:, 4].isnan().all()


def test_a_source_is_looked_at_once_until_it_changes():
    key = torch.randn(3, 4, requires_grad=True) * 1
    assert visible.is_finite(key) and key._finite_version == key._version
    key[0, 0] = math.nan
    assert not visible.is_finite(key)
    with torch.inference_mode():
        assert visible.is_finite(torch.randn(3, 4))
    array = np.ones((3, 4))
    shared = torch.from_numpy(array)  # whose version the array does not move
    assert visible.is_finite(shared)
    array[0, 0] = math.nan
    assert not visible.is_finite(shared)


@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_padding_leaves_no_trace_in_a_stack(number, monkeypatch):
    """Nor where values cannot be looked at, nor under a mask of each head."""
    mask = torch.tensor([[True, True, True, False], [True] * 4])
    x = torch.randn(2, 4, 8)
    bad = x.clone()
    bad[0, 3] = number
    layers = {
        "encoder": paper_parts(8, 2, 8).make_encoder(2).eval(),
        "convolution": LightweightConvolution(8, 2, 3),
        "dynamic": DynamicConvolution(8, 2, 3),
        "perceiver": Perceiver(8, 2, 2, paper_parts(8, 2, 8), num_layers=1).eval(),
    }
    for look in (True, False):
        monkeypatch.setattr(visible, "is_readable", lambda _: look)
        for name, layer in layers.items():
            given = {"key_mask": mask} if name == "perceiver" else {"mask": mask[:, None]}
            got, right = layer(bad, **given), layer(x, **given)
            got, right = (got[0], right[0]) if isinstance(got, tuple) else (got, right)
            if name != "perceiver":
                got, right = got[mask], right[mask]
            torch.testing.assert_close(got, right, msg=f"{name}, look {look}")
        heads = mask[:, None, None].expand(2, 3, 4, 4)  # three heads, two rows
        made = MultiHeadAttention(12, 3, d_query=8, d_key=8)
        got, right = (made(t, mask=heads).context for t in (bad, x))
        torch.testing.assert_close(got[mask], right[mask])


READERS = {
    **{
        name: lambda name=name: MultiHeadAttention(16, 4, score=make_score(name, 4, 4))
        for name in ("scaled_dot", "additive", "general")
    },
    "grouped": lambda: MultiHeadAttention(16, 4, num_kv_heads=2),
    "latent": lambda: LatentAttention(16, 4, d_latent=8, d_head=4, rotary=RotaryPositions(4)),
    "light": lambda: LightweightConvolution(16, 4, 3),
    "dynamic": lambda: DynamicConvolution(16, 4, 3),
}


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize(
    "dtype, autocast, bad",
    [
        (torch.float64, None, math.nan),
        (torch.float16, None, 6e4),
        (torch.bfloat16, None, 3e38),
        (torch.float32, torch.float16, 1e6),
        (torch.float32, torch.bfloat16, 3e38),
    ],
)
def test_what_overflows_in_half_precision_is_hidden_too(name, dtype, autocast, bad, looks):
    """A number that is finite itself, but not after a product; in value and all gradients."""
    hidden = torch.tensor([[True] * 4 + [False, True]] * 2)

    def read(number):
        torch.manual_seed(0)
        layer, x = READERS[name]().to(dtype), torch.randn(2, 6, 16).to(dtype)
        x[:, 4] = number
        x.requires_grad_()
        with torch.autocast("cpu", autocast, enabled=autocast is not None):
            context = layer(x, key_mask=hidden).context[hidden]
        (context.float() ** 2).sum().backward()
        return [context, x.grad[hidden], *(p.grad for p in layer.parameters())]

    tolerance = {"rtol": 0.05, "atol": 0.05} if dtype != torch.float64 else {}
    for got, right in zip(read(bad), read(0.0)):
        torch.testing.assert_close(got.float(), right.float(), **tolerance)


@pytest.mark.parametrize("name", READERS)
def test_half_precision_reads_long_rows_that_do_not_overflow(name):
    torch.manual_seed(0)
    layer, x = READERS[name]().half(), torch.randn(2, 6, 16).half() * 200
    right = copy.deepcopy(layer).double()(x.double(), key_mask=torch.ones(2, 6) > 0).context
    got = layer(x, key_mask=torch.ones(2, 6, dtype=torch.bool)).context
    torch.testing.assert_close(got.double(), right, rtol=0.05, atol=2.0)


def test_a_hidden_value_has_no_part_in_a_partial_context(looks):
    mask = torch.tensor([[True, True, False], [True, True, True], [False] * 3])
    scores, value = drawn(3, 3).requires_grad_(), drawn(3, 4)
    right = partial_context(scores, value, mask=mask)
    value[2, 1] = math.nan
    found = partial_context(scores, value, mask=mask)
    assert_exact(found.summed[[0, 2]], right.summed[[0, 2]])
    assert found.summed[1].isnan().all()
    assert gradients(found.summed[0].sum(), [scores])[0].isfinite().all()


@pytest.mark.parametrize("name", ["MultiHeadAttention", "LatentAttention"])
def test_what_an_attention_reads_is_looked_at_once_and_not_remembered(name, monkeypatch):
    looks, finite = [], math.isfinite
    monkeypatch.setattr(visible.math, "isfinite", lambda x: looks.append(x) or finite(x))
    module = catalogue.make(name).module
    numbers = np.ones((B, 1, module.d_model), np.float32)
    x = torch.from_numpy(numbers)
    with torch.no_grad():
        cache = module.read(x).cache
        assert len(looks) == 1
        numbers[0] = np.nan  # PyTorch does not know
        context, cache, _ = module.read(x, cache=cache, position=1)
    assert cache.nonfinite.tolist() == [[False, True], [False, False]]
    assert context[0].isnan().all() and context[1].isfinite().all()


@pytest.mark.parametrize("reach, first", [(3, 0), (3, 2), (1, 1), (2, 9), (visible.ALL_BEFORE, 0)])
@pytest.mark.parametrize("m", [2, 6, 9])
def test_rows_that_see_something_are_those_of_the_matrix(m, reach, first):
    torch.manual_seed(m)
    n = 9
    there, positions = torch.rand(20, 1, n) < 0.3, torch.rand(20, n) < 0.4
    seen = visible.Visible(there, reach, first)
    matrix = seen.matrix(m, n, there.device)
    assert torch.equal(visible.Visible(there, reach, first).rows(m, n), matrix.any(-1))
    assert torch.equal(seen.rows(m, n, positions), (matrix & positions[:, None]).any(-1))
