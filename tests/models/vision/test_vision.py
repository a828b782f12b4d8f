"""Transformers that see, beside PyTorch's layers and patches cut by hand; that they learn."""

import itertools
import math

import numpy as np
import pytest
import torch
from assertions import assert_exact, refusals
from torch import nn
from torch.nn import functional as F

from attnbook.models.transformer.parts import paper_parts
from attnbook.models.vision import (
    CaptionedDenoiser,
    Perceiver,
    VisionTransformer,
    fourier_features,
    patches_of,
)
from attnbook.models.vision.captioned_denoiser import draw_from_noise, flow_loss, with_noise
from attnbook.models.vision.vision_transformer import pre_norm_parts

from ..transformer.oracles_transformer import copy_weights, layer_pairs, randomised

D, H, FF = 8, 2, 12


def parts():
    return pre_norm_parts(D, H, FF, dropout=0.0)


def their_layers(kind, ours):
    """PyTorch's pre-norm layers with the weights of a stack of ours."""
    layers = []
    for layer in ours.layers:
        other = kind(D, H, FF, 0.0, F.gelu, batch_first=True, norm_first=True, dtype=torch.float64)
        copy_weights(layer_pairs(layer, other))
        layers.append(other.eval())
    return layers


def by_hand(picture, side):
    """The patches of one picture, (C, H, W), number by number."""
    colors, height, width = picture.shape
    places = itertools.product(range(0, height, side), range(0, width, side))
    inside = [*itertools.product(range(colors), range(side), range(side))]
    return np.array([[picture[c, top + i, left + j] for c, i, j in inside] for top, left in places])


def pictures(batch=2, colors=3, size=6, seed=0):
    g = torch.Generator().manual_seed(seed)
    return torch.randn(batch, colors, size, size, generator=g, dtype=torch.float64)


def test_patches_are_cut_in_reading_order():
    wide = torch.randn(2, 3, 4, 6)
    found = patches_of(wide, 2)
    for got, picture in zip(found, wide):
        np.testing.assert_array_equal(got, by_hand(picture.numpy(), 2))
    assert patches_of(wide[0], 2).shape == (6, 12)  # leading dimensions are free


def test_a_vision_transformer_is_the_formula():
    net = randomised(VisionTransformer(6, 2, 5, parts(), num_layers=2)).eval()
    x = pictures()
    rows = torch.stack([torch.from_numpy(by_hand(p.numpy(), 2)) for p in x])
    tokens = rows @ net.patch_projection.weight.T + net.patch_projection.bias
    z = torch.cat([net.class_token.expand(2, 1, D), tokens], 1) + net.positions.weight
    for layer in their_layers(nn.TransformerEncoderLayer, net.stack):
        z = layer(z)
    z = F.layer_norm(z, (D,), net.stack.norm.weight, net.stack.norm.bias)
    expected = z[:, 0] @ net.output.weight.T + net.output.bias
    assert_exact(net(x), expected)
    read = net.read(x, need_weights=True)
    assert_exact(read.x, z)
    assert [w.shape for w in read.weights] == [(2, H, 10, 10)] * 2
    # patches that change places change the answer: positions are known
    moved = x.roll(2, dims=-1)
    assert (net(moved) - net(x)).abs().max() > 1e-3


def test_the_waves_of_a_place():
    places = torch.tensor([[-1.0, 0.25]], dtype=torch.float64)
    found = fourier_features(places, 3, 8.0)[0].tolist()
    expected = []
    for p in (-1.0, 0.25):
        frequency = [1.0, 2.5, 4.0]
        expected += [p, *(math.sin(math.pi * f * p) for f in frequency)]
        expected += [math.cos(math.pi * f * p) for f in frequency]
    assert found == pytest.approx(expected, abs=1e-12)


def perceived(net, x, mask):
    """A Perceiver with one head in its readings, by PyTorch's attention layer and norms."""
    widths = {"kdim": x.shape[-1], "vdim": x.shape[-1]}
    other = nn.MultiheadAttention(D, 1, **widths, batch_first=True, dtype=torch.float64)
    ours = net.reading
    parts = ours.query_projection, ours.key_projection, ours.value_projection
    into = other.q_proj_weight, other.k_proj_weight, other.v_proj_weight
    pairs = [([part.weight], weight) for part, weight in zip(parts, into)]
    copy_weights([*pairs, ([part.bias for part in parts], other.in_proj_bias)])
    other.out_proj.load_state_dict(ours.output_projection.state_dict())

    def normed(z, norm):
        return F.layer_norm(z, z.shape[-1:], norm.weight, norm.bias)

    source = normed(x, net.input_norm)
    z = net.latents.expand(len(x), -1, -1)
    layers = their_layers(nn.TransformerEncoderLayer, net.stack)
    for _ in range(net.repeats):
        query = normed(z, net.around_reading.norm)
        z = z + other(query, source, source, key_padding_mask=~mask, need_weights=False)[0]
        first, second = net.feed_forward.hidden, net.feed_forward.output
        hidden = F.gelu(F.linear(normed(z, net.around_feed_forward.norm), first.weight, first.bias))
        z = z + F.linear(hidden, second.weight, second.bias)
        for layer in layers:
            z = layer(z)
        z = normed(z, net.stack.norm)
    return z.mean(1) @ net.output.weight.T + net.output.bias


def test_a_perceiver_is_the_formula():
    net = randomised(Perceiver(5, 3, 4, parts(), num_layers=1, repeats=2)).eval()
    x = torch.randn(2, 7, 5, dtype=torch.float64)
    mask = torch.arange(7) < torch.tensor([7, 4])[:, None]
    assert_exact(net(x, key_mask=mask), perceived(net, x, mask))
    # it reads a set: the order is nothing but what stands in the inputs
    assert_exact(net(x.flip(1), key_mask=mask.flip(1)), net(x, key_mask=mask))
    read = net.read(x, key_mask=mask, need_weights=True)
    assert [w.shape for w in read.weights] == [(2, 1, 3, 7)] * 2
    assert (read.weights[0][1, ..., 4:] == 0).all()


@pytest.mark.parametrize("conditioning", ["cross-attention", "one vector"])
def test_a_denoiser_is_the_formula(conditioning):
    options = {"num_layers": 2, "conditioning": conditioning, "mean": 0.4, "deviation": 0.6}
    net = randomised(CaptionedDenoiser(6, 2, 11, 4, parts(), **options)).eval()
    x, time = pictures(), torch.tensor([0.3, 0.9], dtype=torch.float64)
    words, lengths = torch.tensor([[3, 4, 5, 6], [7, 8, 0, 0]]), torch.tensor([4, 2])
    angle = 1000 * time[:, None] / 10_000 ** (torch.arange(0, D, 2) / D)
    waves = torch.stack([angle.sin(), angle.cos()], -1).flatten(1)
    told = F.silu(waves @ net.time[0].weight.T + net.time[0].bias)
    told = told @ net.time[2].weight.T + net.time[2].bias
    rows = torch.stack([torch.from_numpy(by_hand(p.numpy(), 2)) for p in x])
    z = rows @ net.patch_projection.weight.T + net.patch_projection.bias
    z = z + net.positions.weight + told[:, None]
    caption = math.sqrt(D) * net.words.weight[words] + net.word_positions.weight
    if conditioning == "cross-attention":
        padded = torch.arange(4) >= lengths[:, None]
        for layer in their_layers(nn.TransformerDecoderLayer, net.stack):
            z = layer(z, caption, memory_key_padding_mask=padded)
    else:
        read = []
        for c, n in zip(caption, lengths):
            c = c[None, :n]
            for layer in their_layers(nn.TransformerEncoderLayer, net.reader):
                c = layer(c)
            read.append(F.layer_norm(c[0], (D,), net.reader.norm.weight, net.reader.norm.bias))
        z = z + torch.stack([c.mean(0) for c in read])[:, None]
        for layer in their_layers(nn.TransformerEncoderLayer, net.stack):
            z = layer(z)
    z = F.layer_norm(z, (D,), net.stack.norm.weight, net.stack.norm.bias)
    out = z @ net.output.weight.T + net.output.bias
    velocity, weights = net(x, time, words, lengths, need_weights=True)
    assert (weights is None) == (conditioning == "one vector")
    for got, patches, noisy, t in zip(velocity, out, rows, time):
        square = t**2 + (1 - t) ** 2 * 0.6**2
        guess = (t - (1 - t) * 0.6**2) * (noisy - (1 - t) * 0.4) / square - 0.4
        expected = (guess + 0.6 * patches / square.sqrt()).detach()
        assert_exact(torch.from_numpy(by_hand(got.detach().numpy(), 2)), expected)


def test_an_untrained_correction_of_zero_gives_the_best_guess_without_a_picture():
    """Least squares of the velocity on x_t, over numbers with the mean and deviation."""
    g = torch.Generator().manual_seed(0)
    net = CaptionedDenoiser(4, 2, 5, 2, parts(), num_layers=1, mean=0.4, deviation=0.6).double()
    nn.init.zeros_(net.output.weight)
    nn.init.zeros_(net.output.bias)
    clean = 0.4 + 0.6 * torch.randn(4000, 3, 4, 4, generator=g, dtype=torch.float64)
    noise = torch.randn(clean.shape, generator=g, dtype=torch.float64)
    for t in (0.2, 0.7):
        mixed = (1 - t) * clean + t * noise
        told = torch.full((4000,), t, dtype=torch.float64), torch.ones(4000, 2, dtype=torch.long)
        known = torch.stack([mixed.flatten(), torch.ones(mixed.numel())], 1)
        best = known @ torch.linalg.lstsq(known, (noise - clean).flatten()[:, None]).solution
        with torch.no_grad():
            found = net(mixed, *told)[0].flatten()
        torch.testing.assert_close(found, best[:, 0], atol=0.05, rtol=0)


def test_steps_against_a_known_velocity_end_at_the_picture():
    """Straight paths: with the true velocity (x_t − x_0) / t any number of steps arrives at x_0."""
    target = pictures(batch=3)

    class Known(nn.Module):
        colors, size = 3, 6
        output = nn.Linear(1, 1, dtype=torch.float64)

        def forward(self, x, time, words, lengths=None):
            return (x - target) / time.view(-1, 1, 1, 1), None

    words = torch.ones(3, 2, dtype=torch.long)
    for steps in (1, 4):
        drawn = draw_from_noise(Known(), words, steps=steps, generator=torch.Generator())
        assert_exact(drawn, target)
    # and the loss of that velocity is zero
    loss, count = flow_loss(Known(), with_noise(target, words, torch.Generator().manual_seed(0)))
    assert loss < 1e-20 and count == 3


def test_a_caption_is_learned_through_cross_attention():
    """Two words say the colours of the two halves; told those of another caption, a twin cannot."""
    errors = []
    for shuffled in (False, True):
        torch.manual_seed(0)
        g = torch.Generator().manual_seed(0)
        small = paper_parts(16, 2, 32, dropout=0.0)
        net = CaptionedDenoiser(4, 2, 5, 2, small, colors=1, num_layers=1)
        optimizer = torch.optim.Adam(net.parameters(), 1e-2)
        losses = []
        for _ in range(100):
            words = torch.randint(1, 5, (32, 2), generator=g)
            halves = (words.float() - 2.5)[:, None, :, None].repeat_interleave(2, 2)
            told = words[torch.randperm(32, generator=g)] if shuffled else words
            loss, count = flow_loss(net, with_noise(halves.expand(32, 1, 4, 4), told, g))
            loss = loss / count
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        errors.append(sum(losses[-30:]) / 30)
    assert errors[0] < 0.5 * errors[1]


SEES = VisionTransformer(6, 2, 5, parts(), num_layers=1)
READS, ROWS = Perceiver(5, 3, 4, parts(), num_layers=1), torch.zeros(2, 7, 5)
DRAWS = CaptionedDenoiser(6, 2, 11, 4, parts(), num_layers=1)
test_errors_name_the_argument = refusals(
    ("pictures must be", lambda: patches_of(torch.zeros(3, 5, 4), 2)),
    ("side", lambda: VisionTransformer(6, 4, 5, parts())),
    ("pictures must be floats", lambda: SEES(torch.zeros(2, 1, 6, 6))),
    ("bands", lambda: fourier_features(torch.zeros(2, 1), 0, 4.0)),
    ("max_frequency", lambda: fourier_features(torch.zeros(2, 1), 2, 1.0)),
    ("num_latents", lambda: Perceiver(5, 0, 4, parts())),
    ("x", lambda: READS(torch.zeros(2, 7, 4))),
    ("conditioning", lambda: CaptionedDenoiser(6, 2, 11, 4, parts(), conditioning="prompt")),
    ("parts", lambda: CaptionedDenoiser(6, 2, 11, 4, {})),
    ("parts", lambda: VisionTransformer(6, 3, 5, {})),
    ("parts", lambda: Perceiver(5, 3, 4, {})),
    ("key_mask must be broadcastable", lambda: READS(ROWS, key_mask=torch.ones(2, 1, 7) > 0)),
    ("key_mask must be a boolean", lambda: READS(ROWS, key_mask=torch.ones(2, 7))),
    ("words", lambda: DRAWS(torch.zeros(2, 3, 6, 6), torch.zeros(2), torch.full((2, 4), 12))),
)
