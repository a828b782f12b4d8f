import numpy as np
from assertions import refusals
from matplotlib.colors import to_rgba

from attnbook.figures import plane

POINTS = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0], [0.4, 0.6]])
ORANGE, GREY = to_rgba(plane.COLORS[1]), to_rgba("#999999")


def lines(ax):
    return {to_rgba(line.get_color()): line.get_xydata().tolist() for line in ax.lines}


def test_the_walk_is_closed_over_the_true_one_and_starts_at_its_ring():
    ax = plane.plane_walk(POINTS, [0, 1, 2, 3], truth=[0, 2, 3], title="a title").axes[0]
    drawn = lines(ax)
    assert drawn[ORANGE] == [[0, 0], [1, 0], [1, 1], [0, 1], [0, 0]]
    assert drawn[to_rgba("#c9c9c9")] == [[0, 0], [1, 1], [0, 1], [0, 0]]
    assert [t.get_text() for t in ax.texts] == list("01234") and ax.get_title() == "a title"
    dots, ring = ax.collections
    assert np.allclose(dots.get_offsets(), POINTS) and ring.get_offsets().tolist() == [[0, 0]]
    (arrow,) = ax.patches
    path = arrow.get_path().vertices[:6]
    # on the first step, along the lower edge
    assert abs(path[:, 1]).max() < 0.1 and 0.3 < path[:, 0].min() < path[:, 0].max() < 0.7


def test_points_alone_without_numbers():
    ax = plane.plane_walk(POINTS, numbers=False).axes[0]
    assert not ax.lines and not ax.patches and not ax.texts and len(ax.collections) == 1


def test_triangles_are_true_wrong_or_missing():
    drawn, truth = [(0, 1, 4), (4, 3, 2), (4, 1, 0), (0, 2, 3)], [(0, 1, 4), (2, 3, 4), (0, 3, 4)]
    ax = plane.triangulation(POINTS, drawn, truth=truth).axes[0]
    filled = [p.get_xy()[:3].tolist() for p in ax.patches if not p.get_hatch()]
    hatched = [p.get_xy()[:3].tolist() for p in ax.patches if p.get_hatch()]
    assert filled == POINTS[[[0, 1, 4], [2, 3, 4]]].tolist()
    assert hatched == POINTS[[[0, 2, 3]]].tolist()
    assert lines(ax)[GREY] == POINTS[[0, 3, 4, 0]].tolist()
    assert all(not p.get_hatch() for p in plane.triangulation(POINTS, [(0, 1, 4)]).axes[0].patches)


def test_a_plane_a_step_with_sizes_by_weight():
    weights = np.zeros((4, 6))
    weights[0, :4], weights[1, 1:4] = (0.7, 0.1, 0.1, 0.1), (0.9, 0.05, 0.05)
    weights[2, 2:4], weights[3, 4:] = (0.2, 0.8), (0.25, 0.75)
    fig = plane.pointer_steps(POINTS, [0, 1, 3], weights, columns=3)
    shown = [ax for ax in fig.axes if ax.axison]
    titles = "; ".join(ax.get_title() for ax in shown)
    assert titles == "1: to 0, 0.70; 2: to 1, 0.90; 3: to 3, 0.80; 4: END, 0.75"
    assert len(fig.axes) == 6 and [len(ax.texts) for ax in shown] == [5, 0, 0, 0]
    for k, ax in enumerate(shown):
        assert np.allclose(ax.collections[0].get_sizes(), 14 + 150 * weights[k, :5])
    assert lines(shown[2])[GREY] == POINTS[[0, 1]].tolist()
    assert lines(shown[3])[GREY] == POINTS[[0, 1, 3, 0]].tolist()
    assert [len(ax.patches) for ax in shown] == [0, 1, 1, 0]
    assert len(plane.pointer_steps(POINTS, [0, 1], weights[:2, :5]).axes) == 2


def test_a_tour_lies_on_the_ring_where_it_goes_as_the_shortest_and_cuts_across_elsewhere():
    (ax,) = plane.tour_ring([0, 1, 2, 5, 4, 3], title="six").axes
    assert ax.get_title() == "six"
    grey, *steps = [np.stack(line.get_data(), 1) for line in ax.lines]
    assert np.allclose(np.hypot(*grey.T), 1) and len(steps) == 6
    # clockwise, from the top
    corner = np.array([[np.sin(2 * np.pi * k / 6), np.cos(2 * np.pi * k / 6)] for k in range(6)])
    assert np.allclose(ax.collections[0].get_offsets(), corner)
    for (a, b), way in zip(((0, 1), (1, 2), (2, 5), (5, 4), (4, 3), (3, 0)), steps):
        ends = {tuple(end.round(6)) for end in (way[0], way[-1])}
        assert ends == {tuple(corner[a].round(6)), tuple(corner[b].round(6))}
        assert np.allclose(np.hypot(*way.T), 1), "on the ring, a chord with its ends"
        assert (len(way) > 2) == ((a - b) % 6 in (1, 5)), "along the ring or across it"
    backwards = [line.get_xydata() for line in plane.tour_ring([2, 1, 0, 3]).axes[0].lines]
    assert all(len(way) > 2 and np.allclose(np.hypot(*way.T), 1) for way in backwards)


test_mistakes_are_named = refusals(
    ("places", lambda: plane.tour_ring([0, 1])),
    ("places", lambda: plane.tour_ring([0, 2, 2])),
    ("points", lambda: plane.plane_walk(POINTS[:, :1])),
    ("walk", lambda: plane.plane_walk(POINTS, [0.9, 1])),
    ("walk", lambda: plane.plane_walk(POINTS, [0, 5])),
    ("truth", lambda: plane.plane_walk(POINTS, truth=[-1])),
    ("triangles", lambda: plane.triangulation(POINTS, [(0, 1)])),
    ("weights", lambda: plane.pointer_steps(POINTS, [0, 1], np.zeros((3, 5)))),
    ("weights", lambda: plane.pointer_steps(POINTS, [0, 1], np.zeros((2, 4)))),
)
