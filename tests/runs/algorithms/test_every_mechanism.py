import pytest
import torch

from attnbook.tasks.algorithms.multi_query_recall import FIRST, draw
from attnbook_runs import load_experiments
from attnbook_runs.algorithms.every_mechanism import (
    ALPHABET,
    CONTENDERS,
    SIZE,
    WIDTH,
    Settings,
    every_mechanism,
    kept,
    question,
    recalled,
)

FIXED = {
    "fixed-vector": WIDTH,
    "ntm": 64 * WIDTH + 2 * 64 + WIDTH + 4 * WIDTH,  # memory, two heads' weights, read, h and c
    "linear": 2 * 4 * 8 * 8,
    "delta": 2 * 4 * 8 * 8,
}
A_TOKEN = {
    "bahdanau": 2 * WIDTH + WIDTH,  # annotations, and what the score makes of them
    "local": 2 * WIDTH,
    "pointer": 2 * WIDTH,
    "transformer": WIDTH + 2 * 2 * WIDTH,  # the encoder's output, keys and values of two blocks
    "snail": 2 * WIDTH,
    "transformer-noting": WIDTH + 2 * 2 * WIDTH,
}


def some(pairs, count=3, seed=0):
    return question(draw(pairs, count, torch.Generator().manual_seed(seed), **ALPHABET))


def look_up(source, asked):
    """The value behind each key."""
    place = (source[:, ::2, None] == asked[:, None]).long().argmax(1)
    return source[:, 1::2].gather(1, place)


def test_the_answer_is_the_value_behind_the_key():
    source, asked, answer = some(5)
    assert torch.equal(look_up(source, asked), answer)
    assert bool((asked < FIRST + ALPHABET["keys"]).all())
    assert bool((answer >= FIRST + ALPHABET["keys"]).all())

    def known(model, source, asked):
        return torch.nn.functional.one_hot(look_up(source, asked), SIZE).float()

    nothing = torch.nn.Linear(1, 1)
    assert recalled(nothing, known, 16, 20) == 1.0
    assert recalled(nothing, lambda *given: known(*given).roll(1, 1), 16, 20) < 0.2


@pytest.mark.parametrize("name", CONTENDERS)
def test_an_answer_hears_its_own_question_and_no_later_one(name):
    torch.manual_seed(0)
    model = CONTENDERS[name].make().eval()
    source, asked, _ = some(3)
    logits = CONTENDERS[name].answers(model, source, asked)
    assert logits.shape == (3, 3, SIZE)
    other = asked.clone()
    other[:, 1] = asked[:, 0]
    changed = CONTENDERS[name].answers(model, source, other)
    torch.testing.assert_close(changed[:, 0], logits[:, 0])
    assert bool(((changed[:, 1] - logits[:, 1]).abs().amax(-1) > 1e-6).all())


@pytest.mark.parametrize("name", CONTENDERS)
def test_what_is_kept_of_a_list_grows_with_it_or_does_not(name):
    model = CONTENDERS[name].make().eval()
    few, many = kept(model, 3), kept(model, 19)
    if name in FIXED:
        assert few == many and few >= FIXED[name]
    else:
        assert many - few == 2 * 16 * A_TOKEN[name]


def test_a_recorded_run_has_a_row_for_each_number_of_pairs(figures_of):
    assert {f"every-mechanism-{name}" for name in CONTENDERS} <= set(load_experiments())
    figures = figures_of("every-mechanism-pointer", steps=20, tested=(2, 5), test=4, batch_size=2)
    assert [row["pairs"] for row in figures["rows"]] == [2, 5] and len(figures["course"]) == 20
    assert all(0 <= row["recalled"] <= 1 for row in figures["rows"])


def test_the_time_of_an_update_is_told_for_all(figures_of):
    figures = figures_of("every-mechanism-time", updates=1, pairs=2, batch_size=2)
    assert set(figures["milliseconds"]) == set(CONTENDERS)
    assert all(value > 0 for value in figures["milliseconds"].values())


def test_a_state_with_a_note_learns_to_recall():
    settings = Settings("linear", 1e-2, pairs=(3,), tested=(3,), steps=150, test=50)
    (row,) = every_mechanism(settings)["rows"]
    assert row["recalled"] > 0.7
