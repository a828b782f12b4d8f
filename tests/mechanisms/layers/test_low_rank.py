"""Adapters of low rank against NumPy and `peft`, merged, taken out, and wrong versions."""

import copy

import numpy as np
import pytest
import torch
from assertions import assert_exact, refusals
from torch import nn
from torch.nn import functional as F

from attnbook import (
    LoRALinear,
    MultiHeadAttention,
    TransformerLM,
    add_lora,
    decoder_parts,
    lora_layers,
    merge_lora,
    unmerge_lora,
)
from attnbook.training import language_loss

IN, OUT, RANK, ALPHA = 6, 5, 2, 3.0


def adapted(kind=LoRALinear, **options):
    """A layer whose two factors are both drawn, in float64."""
    torch.manual_seed(0)
    made = kind(nn.Linear(IN, OUT), RANK, alpha=ALPHA, **options).double()
    with torch.no_grad():
        made.up.normal_(), made.down.normal_()
    return made


def model(**options):
    torch.manual_seed(0)
    parts = decoder_parts(16, 4, 24, num_kv_heads=2)
    return TransformerLM(11, parts, num_layers=2, **options).double()


def moved(net, rank=2, **options):
    """A model with adapters that are no longer at their start."""
    add_lora(net, rank, **options)
    with torch.no_grad():
        for part in lora_layers(net).values():
            part.up.normal_(std=0.3)
    return net


TOKENS = torch.arange(24).reshape(2, 12) * 5 % 11


def test_it_is_the_formula():
    made, x = adapted(), torch.randn(3, 4, IN, dtype=torch.float64)
    weight, bias, down, up, rows = (
        t.detach().numpy() for t in (made.layer.weight, made.layer.bias, made.down, made.up, x)
    )
    expected = np.empty((3, 4, OUT))
    for place in np.ndindex(3, 4):
        change = up @ (down @ rows[place])
        expected[place] = weight @ rows[place] + bias + ALPHA / RANK * change
    assert_exact(made(x), torch.from_numpy(expected))
    assert_exact(F.linear(x, made.weight, made.bias), made(x))
    torch.autograd.gradcheck(made, x[:1, :1].requires_grad_())


class BothZero(LoRALinear):
    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        nn.init.zeros_(self.down)


class DividesByNothing(LoRALinear):
    def forward(self, x):
        return self.layer(x) + self.alpha * F.linear(F.linear(x, self.down), self.up)


class ScaledTwice(LoRALinear):
    def forward(self, x):
        return self.layer(x) + (self.alpha / self.rank) ** 2 * F.linear(
            F.linear(x, self.down), self.up
        )


class MergedTwice(LoRALinear):
    def forward(self, x):
        return self.layer(x) + self.alpha / self.rank * F.linear(F.linear(x, self.down), self.up)


class TrainsTheBase(LoRALinear):
    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.layer.requires_grad_()


def keeps_its_promises(kind):
    """Starts as the layer, learns in both factors and nowhere else, merges to the same."""
    torch.manual_seed(0)
    layer, x = nn.Linear(IN, OUT).double(), torch.randn(4, IN, dtype=torch.float64)
    made, before = kind(copy.deepcopy(layer), RANK, alpha=ALPHA).double(), layer.weight.clone()
    same_at_first = torch.allclose(made(x), layer(x), atol=1e-10)
    optimizer = torch.optim.SGD([p for p in made.parameters() if p.requires_grad], lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        made(x).square().sum().backward()
        optimizer.step()
    learns = bool((made.up != 0).any()) and not torch.allclose(made(x), layer(x))
    frozen = torch.equal(made.layer.weight, before)
    made.eval()
    unmerged = made(x)
    scale = ALPHA / RANK
    right = layer(x) + scale * (x @ made.down.T @ made.up.T)
    made.merge()
    merged = made(x)
    made.merge()  # a second time changes nothing
    twice = made(x)
    made.unmerge()
    return (
        same_at_first
        and learns
        and frozen
        and torch.allclose(unmerged, right, atol=1e-10)
        and torch.allclose(merged, right, atol=1e-10)
        and torch.equal(twice, merged)
        and torch.equal(made.layer.weight, before)
    )


@pytest.mark.parametrize(
    "wrong", [BothZero, DividesByNothing, ScaledTwice, MergedTwice, TrainsTheBase]
)
def test_wrong_versions_are_rejected(wrong):
    assert keeps_its_promises(LoRALinear)
    assert not keeps_its_promises(wrong)


def test_dropout_thins_what_goes_into_the_first_factor():
    made, x = adapted(dropout=0.5), torch.ones(2000, IN, dtype=torch.float64)
    torch.manual_seed(0)
    found = made(x) - made.layer(x)
    kept = found / (ALPHA / RANK) @ torch.linalg.pinv(made.up.T)  # (2000, r): A of a thinned row
    columns = kept.std(0)
    expected = made.down.square().sum(1).sqrt()  # each input is 0 or 2
    torch.testing.assert_close(columns, expected, rtol=0.1, atol=0.0)
    made.eval()
    assert_exact(made(x[:3]), adapted()(x[:3]))


def test_merged_logits_are_the_same_and_the_weights_come_back_bit_by_bit():
    net = moved(model(), alpha=5.0).eval()
    before = {n: p.clone() for n, p in net.named_parameters()}
    logits = net(TOKENS).logits
    merge_lora(net)
    assert all(part.is_merged for part in lora_layers(net).values())
    assert_exact(net(TOKENS).logits, logits)
    merge_lora(net)
    assert_exact(net(TOKENS).logits, logits)
    unmerge_lora(net)
    assert all(torch.equal(p, before[n]) for n, p in net.named_parameters())
    merge_lora(net, remove=True)
    assert_exact(net(TOKENS).logits, logits)
    assert set(net.state_dict()) == set(model().state_dict())


def test_training_moves_the_adapters_and_no_other_weight():
    net = model()
    before = {n: p.clone() for n, p in net.named_parameters()}
    layers = add_lora(net, 2)
    assert set(layers) == {n for n, p in net.named_modules() if isinstance(p, LoRALinear)}
    assert not any("output" == name or "embedding" in name for name in layers)  # tied
    batch = {"target_in": TOKENS[:, :-1], "target_out": TOKENS[:, 1:]}
    optimizer = torch.optim.Adam([p for p in net.parameters() if p.requires_grad], lr=0.01)
    first = None
    for _ in range(5):
        total, count = language_loss(net, batch)
        first = total.item() if first is None else first
        optimizer.zero_grad()
        (total / count).backward()
        optimizer.step()
    assert total.item() < first
    for name, parameter in net.named_parameters():
        if name.endswith((".up", ".down")):
            assert parameter.requires_grad and parameter.grad is not None
        else:
            assert torch.equal(parameter, before[name.replace(".layer.", ".")])


def test_ends_of_names_choose_the_layers():
    net = model()
    names = set(add_lora(net, 1, layers=["query_projection", "1.attention.value_projection"]))
    assert len(names) == 3 and all(
        n.endswith(("query_projection", "value_projection")) for n in names
    )


def test_a_merged_model_has_nothing_to_train_and_is_not_taken_for_another():
    net, fresh = moved(model()), moved(model())
    trained = {n for n, p in net.named_parameters() if p.requires_grad}
    merge_lora(net)
    assert not net(TOKENS).logits.requires_grad
    assert not any(p.requires_grad for p in net.parameters())
    with pytest.raises(RuntimeError, match="unmerged_weight"):
        fresh.load_state_dict(net.state_dict())
    unmerge_lora(net)
    assert {n for n, p in net.named_parameters() if p.requires_grad} == trained
    fresh.load_state_dict(net.state_dict())


def test_peft_makes_the_same_of_the_same_factors():
    peft = pytest.importorskip("peft")
    torch.manual_seed(0)
    ours = nn.Sequential(nn.Linear(IN, 7), nn.Tanh(), nn.Linear(7, OUT)).double()
    theirs = peft.inject_adapter_in_model(
        peft.LoraConfig(r=RANK, lora_alpha=ALPHA, target_modules=["0", "2"]), copy.deepcopy(ours)
    )
    layers = add_lora(ours, RANK, alpha=ALPHA)
    x = torch.randn(4, IN, dtype=torch.float64)
    assert_exact(ours(x), theirs(x))
    for name, layer in layers.items():
        with torch.no_grad():
            layer.up.normal_()
        twin = theirs.get_submodule(name)
        twin.lora_A["default"].weight.data = layer.down.data.clone()
        twin.lora_B["default"].weight.data = layer.up.data.clone()
    assert_exact(ours(x), theirs(x))
    twins = [theirs.get_submodule(name) for name in layers]
    gradients = [
        torch.autograd.grad(net(x).square().sum(), leaves)
        for net, leaves in (
            (ours, [p for part in layers.values() for p in (part.down, part.up)]),
            (theirs, [p.weight for t in twins for p in (t.lora_A["default"], t.lora_B["default"])]),
        )
    ]
    for mine, their in zip(*gradients):
        assert_exact(mine, their)


test_errors_name_the_argument = refusals(
    ("layer", lambda: LoRALinear(nn.Identity(), 2)),
    ("rank", lambda: LoRALinear(nn.Linear(3, 2), 3)),
    ("rank", lambda: LoRALinear(nn.Linear(3, 2), 0)),
    ("alpha", lambda: LoRALinear(nn.Linear(3, 2), 1, alpha=0)),
    ("dropout", lambda: LoRALinear(nn.Linear(3, 2), 1, dropout=1)),
    ("model", lambda: add_lora(nn.Tanh(), 1)),
    ("model", lambda: add_lora(nn.Linear(2, 2), 1)),
    ("model", lambda: add_lora(moved(model()), 1)),
    ("layers", lambda: add_lora(model(), 1, layers=["query"])),
)


def test_a_refused_model_is_left_as_it_was():
    net = MultiHeadAttention(8, 2)
    with pytest.raises(ValueError, match="^layers"):
        add_lora(net, 1, layers=["query_projection", "nothing"])
    with pytest.raises(ValueError, match="^rank"):
        add_lora(net, 9)
    assert not lora_layers(net) and all(p.requires_grad for p in net.parameters())
