"""Far parts: what is drawn is what is said, read from the pixels alone; chance is not agreement."""

import pytest
import torch
from assertions import refusals
from hypothesis import given
from hypothesis import strategies as st
from task_data import seeded

from attnbook.tasks.images import far_parts as task


@given(st.integers(0, 2**31), st.booleans())
def test_the_reader_reads_what_was_drawn(seed, agree):
    parts = task.far_parts(20, seed=seed, agree=agree)
    assert parts.data.pictures.shape == (20, 3, 32, 32)
    assert torch.equal(task.read_colours(parts.data.pictures), parts.colours)
    if agree:
        assert torch.equal(parts.colours[:, 0], parts.colours[:, 1])
        assert task.agreement(parts.data.pictures).agree == 1


def test_figures_lie_where_they_should_and_nothing_coloured_between_them():
    data = task.far_parts(500, seed=1).data
    strength = (data.pictures.amax(1).int() - data.pictures.amin(1)).amax((0, 1))  # per column
    # 18 grey columns between, one at each edge
    assert (strength[7:25] == 0).all() and (strength[[0, 31]] == 0).all()
    assert (strength[1:7] > 150).all() and (strength[25:31] > 150).all()


def test_shapes_are_of_their_form_and_the_same_on_both_sides():
    shapes = torch.arange(4)
    drawn = task.draw(shapes, torch.zeros(4, 2, dtype=torch.long), torch.tensor([[3, 15]] * 4))
    for left, top in ((1, 3), (25, 15)):
        figure = drawn[:, 0, top : top + 12, left : left + 6].double()
        cover = (figure - task.GROUND) / (task.COLOURS[0][0] - task.GROUND)
        area = cover.mean((1, 2))
        exact = torch.tensor([1, torch.pi / 4, 0.5, 0.55], dtype=torch.float64)
        torch.testing.assert_close(area, exact, atol=0.03, rtol=0)
        assert cover[2, 11].mean() > 0.8 > 0.2 > cover[2, 0].mean()  # the wedge stands on its base
        drawn[:, :, top : top + 12, left : left + 6] = task.GROUND
    assert (drawn == task.GROUND).all()


def test_class_colour_and_heights_are_independent_and_even():
    parts = task.far_parts(8000, seed=0)
    counts = torch.bincount(8 * parts.data.labels + parts.colours[:, 0], minlength=32)
    assert (counts / 8000 - 1 / 32).abs().max() < 0.008
    apart = task.far_parts(8000, seed=0, agree=False)
    assert abs(task.agreement(apart.data.pictures).agree - 1 / 8) < 0.015
    tops = parts.data.pictures.float().amax(1)[..., 1:7].amax(-1).argmax(-1)
    assert len(tops.unique()) > 20
    assert not torch.equal(parts.data.pictures[:10], task.far_parts(10, seed=1).data.pictures)
    again = task.far_parts(50, seed=3)
    assert torch.equal(again.data.pictures, task.far_parts(50, seed=3).data.pictures)


def test_agreement_counts_found_chance_and_colours():
    shapes, tops = torch.zeros(8, dtype=torch.long), torch.full((8, 2), 9)
    colours = torch.tensor([[0, 0], [0, 0], [0, 1], [1, 0], [1, 1], [2, 2], [2, 3], [3, 3]])
    pictures = task.draw(shapes, colours, tops)
    pictures[0, :, :, 16:] = task.GROUND  # the right figure of the first picture is gone
    got = task.agreement(pictures)
    rest = colours[1:]
    assert (got.agree, got.found) == (4 / 8, 7 / 8)
    left, right = (torch.bincount(side, minlength=8) / 7 for side in rest.unbind(1))
    assert got.chance == pytest.approx(float(left @ right))
    assert got.colours == pytest.approx(float(torch.special.entr(left).sum().exp()))
    one = task.agreement(task.draw(shapes, torch.full((8, 2), 5), tops))
    # a generator of one colour is seen through
    assert (one.agree, one.chance, one.colours) == (1, 1, 1)
    assert task.agreement(torch.full((3, 3, 32, 32), 90, dtype=torch.uint8)) == (0, 0, 0, 0)


def test_the_reader_is_not_misled():
    """By noise it is at chance; a figure that is paler, blurred or off in hue is still read."""
    noise = torch.randint(256, (4000, 3, 32, 32), generator=seeded(), dtype=torch.uint8)
    assert abs(task.agreement(noise).agree - 1 / 8) < 0.03
    parts = task.far_parts(300, seed=5)
    pictures = parts.data.pictures
    blurred = torch.nn.functional.avg_pool2d(pictures.float(), 3, 1, 1, count_include_pad=False)
    paler = 128 + (pictures.float() - 128) * 0.5
    for changed in (blurred, paler):
        read = task.read_colours(changed.round().to(torch.uint8))
        assert (read == parts.colours).float().mean() > 0.99
    swapped = torch.cat([pictures[..., :16], pictures.roll(1, 0)[..., 16:]], -1)
    expected = (parts.colours[:, 0] == parts.colours[:, 1].roll(1)).double().mean()
    assert task.agreement(swapped).agree == pytest.approx(float(expected))


NONE = torch.zeros(1, dtype=torch.long)
LOW, HIGH = torch.tensor([[-1, 7]]), torch.tensor([[0, 21]])

test_errors_name_the_argument = refusals(
    ("count", lambda: task.far_parts(0, seed=0)),
    ("colours and tops", lambda: task.draw(NONE, NONE, HIGH)),
    ("tops", lambda: task.draw(NONE, NONE.expand(1, 2), HIGH)),
    ("shapes", lambda: task.draw(NONE - 1, NONE.expand(1, 2), NONE.expand(1, 2))),
    ("colours", lambda: task.draw(NONE, LOW, NONE.expand(1, 2))),
    ("pictures", lambda: task.read_colours(torch.zeros(2, 3, 8, 8))),
    ("pictures must hold", lambda: task.agreement(torch.zeros(0, 3, 32, 32, dtype=torch.uint8))),
)
