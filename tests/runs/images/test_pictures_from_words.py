"""Pictures drawn from words: what was drawn is read half by half; the form of tiny runs."""

from torch import nn

from attnbook.tasks.images.labelled import to_floats
from attnbook.tasks.images.small_scenes import two_objects
from attnbook_runs.images import pictures_from_words as words


class Draws(nn.Module):
    """Knows the picture that it should draw: its velocity leads there from any noise."""

    def __init__(self, pictures):
        super().__init__()
        self.pictures, self.start = pictures, 0
        self.output = nn.Linear(1, 1)
        self.colors, self.size = pictures.shape[1:3]

    def forward(self, x, time, words, lengths=None):
        target = self.pictures[self.start : self.start + len(x)]
        if time[0] < 0.06:  # the last step of twenty
            self.start += len(x)
        return (x - target) / time.view(-1, 1, 1, 1), None


def test_what_is_drawn_is_read_half_by_half():
    told = two_objects(300, seed=5, part="test")
    pictures = to_floats(told.pictures)
    right = words.drawn_right(Draws(pictures), told)
    assert right == dict(pictures=1, objects=1, colours=1, shapes=1, swapped=0)
    swapped = words.drawn_right(Draws(pictures.roll(8, dims=2)), told)
    assert swapped["swapped"] == 1 and swapped["pictures"] == 0
    recoloured = words.drawn_right(Draws(pictures.roll(1, dims=1)), told)
    assert recoloured["colours"] < 0.5 < recoloured["shapes"]


def test_a_tiny_run_draws_and_its_weights_load_again(figures_of, tmp_path):
    for name in ("pictures-from-words", "pictures-from-one-vector"):
        figures = figures_of(name, steps=2, batch_size=4, drawings=6, d_model=16, num_layers=1)
        assert set(figures["train"]) == set(figures["test"]) and figures["loss"] > 0
    painter = words.make_painter(d_model=16, num_layers=1)
    assert (tmp_path / "pictures-from-words.seed0.safetensors").is_file()
    told = two_objects(4, seed=0)
    assert set(words.drawn_right(painter, told, steps=2)) == set(figures["train"])
