"""Both networks: shapes, places of attention, the projection, classes, parts that are swapped."""

import itertools

import pytest
import torch
from assertions import assert_exact, assert_refused, refusals
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import parametrize

from attnbook.mechanisms import (
    ConditionalBatchNorm,
    PictureAttention,
    PooledPictureAttention,
    largest_singular_values,
)
from attnbook.models import (
    DCGAN_BLOCKS,
    RESIDUAL_BLOCKS,
    PictureDiscriminator,
    PictureGenerator,
    ResidualInstead,
    attention_scales,
    dcgan_pair,
    sagan_pair,
)
from attnbook.models.gan.blocks import ConvolutionDown, ConvolutionUp, ResidualDown, ResidualUp


def pair(make=sagan_pair, size=16, **options):
    torch.manual_seed(0)
    sizes = {"channels": 4, "d_noise": 6, "num_classes": 3}
    place = {"attention_at": 8} if make is sagan_pair else {}
    return make(size, **sizes | place | options)


LABELS = torch.tensor([0, 2, 1])


@pytest.mark.parametrize("size, at", [(8, 4), (16, 8), (32, 16), (64, 32), (128, 32)])
@pytest.mark.parametrize("classes", [None, 3])
def test_shapes_and_gradients_at_every_size(size, at, classes):
    sizes = {"channels": 2, "max_channels": 16, "colors": 1}
    both = pair(size=size, attention_at=at, num_classes=classes, **sizes)
    labels = None if classes is None else LABELS
    pictures = both.generator(torch.randn(3, 6), labels)
    scores = both.discriminator(pictures, labels)
    assert pictures.shape == (3, 1, size, size) and pictures.abs().max() < 1
    assert scores.shape == (3,)
    scores.sum().backward()
    missing = [name for net in both for name, p in net.named_parameters() if p.grad is None]
    assert missing == []


@pytest.mark.parametrize("make", [sagan_pair, dcgan_pair])
def test_a_side_is_reached_by_doubling_and_the_width_halves(make):
    both, sides = pair(make, 32, channels=8, max_channels=32), []
    for stage in (*both.generator.stages, *both.discriminator.stages):
        stage.register_forward_hook(lambda m, i, o: sides.append(tuple(o.shape[1:3])))
    both.discriminator(both.generator(torch.randn(2, 6), LABELS[:2]), LABELS[:2])
    assert sides[:4] == [(32, 4), (32, 8), (16, 16), (8, 32)]
    assert sides[4:] == [(8, 16), (16, 8), (32, 4)]


def test_attention_stands_where_it_was_asked_for_in_both():
    for at in (4, 8, 16):
        both = pair(size=32, attention_at=at)
        for net in both:
            seen = []
            for m in net.modules():
                if isinstance(m, PictureAttention):
                    m.register_forward_hook(lambda m, i, o: seen.append(o.shape[-1]))
            x = torch.randn(2, 6) if net is both.generator else torch.randn(2, 3, 32, 32)
            net(x, LABELS[:2])
            assert seen == [at]
    scales = attention_scales(nn.ModuleList(both))
    assert scales.keys() == {"0.stages.2.insert", "1.stages.0.insert"}
    assert not attention_scales(nn.ModuleList(pair(attention_at=None)))


def test_inserts_are_modules_that_are_passed_in_and_the_rest_stays():
    inserts = (PictureAttention, PooledPictureAttention, ResidualInstead)
    kinds = [{"attention_at": None}, *({"insert": insert} for insert in inserts)]
    names = [
        {name for name, _ in pair(**options).generator.named_parameters() if ".insert." not in name}
        for options in kinds
    ]
    assert all(each == names[0] for each in names)
    # γ is 0 at the start: a network with attention is the network without it, as long as its other
    # weights are the same.
    plain = pair(attention_at=None, spectral_norm=False).generator
    with_attention = pair(spectral_norm=False).generator
    with_attention.load_state_dict(plain.state_dict(), strict=False)
    noise = torch.randn(3, 6)
    torch.testing.assert_close(plain(noise, LABELS), with_attention(noise, LABELS))


@pytest.mark.parametrize("channels", [8, 32, 64, 128, 512])
def test_the_residual_block_has_the_parameters_of_attention(channels):
    count = lambda m: sum(p.numel() for p in m.parameters())  # noqa: E731
    attention, block = count(PictureAttention(channels)), count(ResidualInstead(channels))
    # one more hidden channel would be too many
    assert attention <= block < attention + 18 * channels
    x = torch.randn(1, channels, 4, 4)
    block = ResidualInstead(channels)
    hidden = F.conv2d(F.relu(x), block.first.weight, padding=1)
    added = F.conv2d(F.relu(hidden), block.second.weight, padding=1)
    torch.testing.assert_close(block(x) - x, added)
    scaled = ResidualInstead(channels, scaled=True)
    # it starts as the identity, like attention
    assert torch.equal(scaled(x), x) and count(scaled) == count(block) + 1
    scaled.load_state_dict(block.state_dict(), strict=False)
    torch.nn.init.constant_(scaled.gamma, -0.7)
    torch.testing.assert_close(scaled(x), x - 0.7 * added)


def test_the_discriminator_projects_the_features_on_the_vector_of_the_class():
    net = pair(spectral_norm=False).discriminator.double()
    pictures = torch.randn(3, 3, 16, 16).double()
    seen = []
    net.last_block.register_forward_hook(lambda m, i, o: seen.append(o))
    found = net(pictures, LABELS)
    h = seen[0].relu().sum((2, 3))  # a sum over positions behind an activation
    plain = h @ net.output.weight[0] + net.output.bias
    of_class = [row @ net.classes.weight[label] for row, label in zip(h, LABELS)]
    assert_exact(found, plain + torch.stack(of_class))
    assert (net(pictures, (LABELS + 1) % 3) - found).abs().min() > 1e-4  # the wrong class
    assert (found - plain).abs().min() > 1e-4  # no class


def test_the_generator_obeys_the_class_and_needs_it():
    net = pair(spectral_norm=False).generator.double()
    norms = [m for m in net.modules() if isinstance(m, ConditionalBatchNorm)]
    assert len(norms) == 2 * 2 + 1
    noise = torch.randn(1, 6).double().expand(3, -1)
    net.eval()
    first = net(noise, LABELS)
    assert_exact(first[0], first[1])  # all classes start alike
    with torch.no_grad():
        for norm in norms:
            norm.gain[2] *= 2.0
    again = net(noise, LABELS)
    assert_exact(again[[0, 2]], first[[0, 2]])
    assert (again[1] - first[1]).abs().max() > 1e-4
    assert_refused("labels", net, noise)


@pytest.mark.parametrize("halve", [True, False])
@pytest.mark.parametrize("activate", [True, False])
def test_residual_down_equals_its_formula(halve, activate):
    torch.manual_seed(0)
    block = ResidualDown(3, 5, halve=halve, activate=activate).double()
    x = torch.randn(2, 3, 6, 6).double()

    def down(t):
        return t.unflatten(2, (-1, 2)).unflatten(4, (-1, 2)).mean((3, 5)) if halve else t

    y = block.second(F.relu(block.first(F.relu(x) if activate else x)))
    assert_exact(block(x), down(y) + down(block.around(x)))


def test_residual_up_equals_its_formula():
    torch.manual_seed(0)
    norm = lambda c: ConditionalBatchNorm(c, 3)  # noqa: E731
    block, x = ResidualUp(5, 3, norm).double(), torch.randn(3, 5, 4, 4).double()
    with torch.no_grad():
        block.first_norm.gain.normal_(), block.second_norm.shift.normal_()
    up = lambda t: t.repeat_interleave(2, 2).repeat_interleave(2, 3)  # noqa: E731
    y = block.first(up(block.first_norm(x, LABELS).relu()))
    y = block.second(block.second_norm(y, LABELS).relu())
    assert_exact(block(x, LABELS), y + block.around(up(x)))


def test_the_blocks_of_dcgan():
    torch.manual_seed(0)
    norm = lambda c: ConditionalBatchNorm(c, 3)  # noqa: E731
    up = ConvolutionUp(5, 3, norm).double()
    down = ConvolutionDown(3, 5).double()
    last = ConvolutionDown(3, 5, nn.BatchNorm2d, halve=False).double()
    x = torch.randn(3, 5, 4, 4).double()
    assert_exact(up(x, LABELS), up.convolution(up.norm(x, LABELS).relu()))
    z = torch.randn(3, 3, 8, 8).double()
    kernel = down.convolution.weight, down.convolution.bias
    assert_exact(down(z), F.conv2d(torch.where(z > 0, z, 0.2 * z), *kernel, stride=2, padding=1))
    assert up(x, LABELS).shape == (3, 3, 8, 8)
    assert down(z).shape == (3, 5, 4, 4) and last(z).shape == (3, 5, 8, 8)


def test_spectral_norm_is_on_all_weights_of_the_networks_asked_for():
    kinds = nn.Conv2d | nn.ConvTranspose2d | nn.Linear | nn.Embedding
    inserts = (PictureAttention, PooledPictureAttention, ResidualInstead)
    for where, insert, blocks in itertools.product(
        (True, "discriminator", False), inserts, (DCGAN_BLOCKS, RESIDUAL_BLOCKS)
    ):
        both = pair(spectral_norm=where, insert=insert, blocks=blocks)
        for net, on in zip(both, (where is True, bool(where))):
            layers = [m for m in net.modules() if isinstance(m, kinds)]
            assert len(layers) >= 6
            assert all(parametrize.is_parametrized(m, "weight") == on for m in layers)
    both = pair()
    for _ in range(50):
        both.discriminator(both.generator(torch.randn(3, 6), LABELS), LABELS)
    for net in both:
        assert all(abs(value - 1) < 0.02 for value in largest_singular_values(net).values())


def test_dcgan_is_the_same_code_with_the_options_off():
    both = pair(dcgan_pair)
    assert [type(net) for net in both] == [PictureGenerator, PictureDiscriminator]
    kinds = {type(m) for net in both for m in net.modules()}
    assert kinds >= {ConvolutionUp, ConvolutionDown, nn.BatchNorm2d}
    assert not kinds & {ResidualUp, ResidualDown, PictureAttention}
    assert not any(parametrize.is_parametrized(m) for net in both for m in net.modules())
    assert attention_scales(pair(dcgan_pair, attention_at=8).generator)


def test_weights_start_with_glorot_and_gains_do_not():
    net = pair(spectral_norm=False, channels=32).generator
    weight = net.stages[1].block.second.weight
    bound = (6 / (9 * (weight.shape[0] + weight.shape[1]))) ** 0.5
    assert 0.98 * bound < weight.abs().max() <= bound and (net.last.bias == 0).all()
    assert attention_scales(net) == {"stages.1.insert": 0.0}
    norms = [m for m in net.modules() if isinstance(m, ConditionalBatchNorm)]
    assert all((norm.gain == 1).all() for norm in norms)


@pytest.mark.parametrize("last_side, reach", [(32, 8), (16, 18), (8, 38)])
def test_the_last_side_sets_how_far_a_position_of_the_discriminator_sees(last_side, reach):
    options = {"num_classes": None, "attention_at": None, "blocks": DCGAN_BLOCKS, "channels": 2}
    net = pair(size=64, last_side=last_side, **options).discriminator
    x = picture = torch.randn(1, 3, 64, 64, requires_grad=True)
    for stage in (*net.stages, net.last_block):
        x = stage(x)
    assert x.shape[-2:] == (last_side, last_side)
    x[..., last_side // 2, last_side // 2].abs().sum().backward()
    seen = picture.grad.abs().sum((0, 1)) > 0
    assert seen.any(0).sum() == seen.any(1).sum() == reach
    assert net(picture).shape == (1,)


GRAY = torch.randn(3, 1, 16, 16)
test_errors_say_what_came = refusals(
    ("last_side", lambda: pair(size=32, last_side=32)),
    ("size must be 4", lambda: pair(size=24)),
    ("size must be 8", lambda: PictureDiscriminator(4)),
    ("inserts", lambda: pair(attention_at=16)),
    ("inserts", lambda: pair(attention_at=7)),
    ("spectral_norm", lambda: pair(spectral_norm="generator")),
    ("num_classes", lambda: pair(num_classes=0)),
    ("spectral_norm", lambda: pair(spectral_norm=1)),
    ("noise", lambda: pair().generator(torch.randn(3, 5), LABELS)),
    ("noise", lambda: pair(num_classes=None).generator(torch.randn(2, 3, 6))),
    ("noise", lambda: pair().generator([0.0] * 6, LABELS)),
    ("labels", lambda: pair().generator(torch.randn(3, 6), LABELS + 1)),
    ("pictures must have the side", lambda: pair().discriminator(torch.randn(3, 3, 8, 8), LABELS)),
    ("pictures must have the shape", lambda: pair().discriminator(GRAY, LABELS)),
)
