"""What check and grade do with answers of every kind."""

import re
import signal
import sys
import warnings

import numpy as np
import pytest
import torch

from attnbook.checks import NotPassed, check, exercises, find, grade, judge
from attnbook_exercises.checks import registry
from attnbook_exercises.checks.context import CheckContext, array
from attnbook_exercises.checks.registry import exercise
from attnbook_exercises.checks.verdict import Mistake

from .wrong_answers import WRONG
from .wrong_answers.collection import edits, wrong

ID = "00.weighted_sum"


def right(weights, values):
    return weights @ values


@pytest.fixture
def probe():
    """Register a check for one test: probe(function(answer, ctx)) -> id."""

    def add(function):
        exercise("99.probe", title="A probe", difficulty=1, minutes=1)(function)
        return "99.probe"

    yield add
    registry._EXERCISES.pop("99.probe", None)


def test_check_prints_one_line_and_returns_the_verdict(capsys):
    verdict = check(ID, right)
    assert verdict.passed and verdict
    assert capsys.readouterr().out == "✓ 00.weighted_sum: right.\n"
    assert not check(ID, lambda weights, values: weights)
    assert capsys.readouterr().out.startswith(
        "✗ 00.weighted_sum: the context: the shape is (3, 3), expected (3, 4)"
    )


def test_a_cell_that_ends_in_a_check_shows_it_once():
    from IPython.core.interactiveshell import InteractiveShell

    # An empty bundle: the kernel sends nothing, so that the printed line stands alone.
    assert InteractiveShell.instance().display_formatter.format(judge(ID, right)) == ({}, {})


def test_grade_is_silent_or_raises(capsys):
    assert grade(ID, right) is None
    with pytest.raises(NotPassed, match="None came back") as caught:
        grade(ID, lambda weights, values: None, seed=1)
    assert capsys.readouterr() == ("", "")
    assert caught.value._render_traceback_() == [str(caught.value.verdict)], (
        "the page shows the sentence, not the stack"
    )
    assert isinstance(caught.value, AssertionError)


def test_another_seed_draws_other_inputs():
    seen = {}
    for seed in (0, 0, 1):
        inputs = []
        judge(ID, lambda weights, values: inputs.append(values) or weights @ values, seed)
        seen.setdefault(seed, []).append(inputs[0])
    assert torch.equal(*seen[0])
    assert not torch.equal(seen[0][0], seen[1][0])


class Cheat(CheckContext):
    """The public check, run on the numbers asked for so far: what it expects is the next answer."""

    def __init__(self, seed, given):
        super().__init__(seed)
        self.given = iter(given)

    def call(self, function, *arguments, then=None):
        return next(self.given, None)

    def number(self, value, name):
        return 0.0 if value is None else value

    def recognize(self, got, expected, wrong):
        raise StopIteration(expected)

    close = recognize


def test_the_seed_of_a_check_cannot_be_learnt_from_its_calls():
    seen = []

    def answer(a, b):
        seen.append(torch.initial_seed())
        try:
            find("00.rank_agreement").function(answer, Cheat(seen[0], []))
        except StopIteration as expected:
            return float(expected.args[0])

    assert not judge("00.rank_agreement", answer, 20_261_122)
    assert seen and 20_261_122 not in seen


def test_an_unknown_id_names_the_nearest():
    with pytest.raises(
        ValueError, match=r"no exercise '00.weigted_sum'; did you mean '00.weighted_sum'"
    ):
        check("00.weigted_sum", right)
    with pytest.raises(ValueError, match=r"known: 00\."):
        check("zzz", right)


def test_something_that_is_no_function():
    assert "got a Tensor, expected your function" in judge(ID, torch.ones(2)).message


def test_an_error_is_told_with_its_line():
    def crashes(weights, values):
        kept = weights
        return kept[99]

    verdict = judge(ID, crashes)
    assert verdict.status == "stopped"
    line = crashes.__code__.co_firstlineno + 2
    said = (
        "your code stopped with IndexError: index 99 is out of bounds for dimension 0 with size 3"
    )
    assert verdict.message == f"{said}; line {line}: return kept[99]"


def test_wrong_arguments_point_at_the_stub():
    assert (
        "Does your function take the arguments of the stub?"
        in judge(ID, lambda weights: weights).message
    )


def test_not_implemented_with_a_message_is_an_error():
    def refuses(weights, values):
        raise NotImplementedError("no such kernel")

    assert judge(ID, refuses).status == "stopped"


def test_leaving_and_interrupting():
    def leaves(weights, values):
        sys.exit(0)

    def interrupted(weights, values):
        raise KeyboardInterrupt

    assert "SystemExit" in judge(ID, leaves).message
    with pytest.raises(KeyboardInterrupt):  # that is how a time limit arrives
        judge(ID, interrupted)


def test_warnings_and_errors_go_to_standard_output(capsys):
    def talks(weights, values):
        warnings.warn("hm", stacklevel=1)
        print("hello", file=sys.stderr)
        return weights @ values

    grade(ID, talks)
    assert capsys.readouterr().err == "", "nbgrader takes no marks for what stands there"


def test_the_reader_s_random_numbers_stay_as_they_were():
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    judge(ID, lambda weights, values: weights @ values + 0 * torch.rand(1))
    assert torch.equal(torch.rand(3), expected)


class Yes:
    """Equal to everything, and whatever you ask of it."""

    shape, dtype = (3, 4), torch.float32

    def __eq__(self, other):
        return True

    def __getattr__(self, name):
        return self

    def __call__(self, *inputs):
        return self


class Agreeing(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, inputs=(), options=None):
        return True


def hooked(weights, values):
    """A plain tensor of wrong numbers whose methods have been replaced."""
    result = torch.zeros(*weights.shape[:-1], values.shape[-1])
    for name in ("detach", "clone", "cpu", "double", "numpy"):
        setattr(result, name, lambda *_, **__: weights @ values)
    return result


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda w, v: Yes(), "a Yes came back"),
        (lambda w, v: (w @ v).as_subclass(Agreeing), "an Agreeing came back"),
        (hooked, "expected"),
        (lambda w, v: (w @ v).to_sparse(), "dense tensor"),
        (lambda w, v: (w @ v).to("meta"), "device meta"),
        (lambda w, v: (w @ v).tolist(), "a list came back, expected a torch.Tensor"),
        (lambda w, v: (w @ v).half(), "the dtype is float16, expected float32"),
        (lambda w, v: (w @ v).abs() / 0, "is inf"),
        (lambda w, v: (w @ v) * torch.nan, "context[0, 0] is NaN, a finite number was expected"),
        (lambda w, v: (w @ v) + 0.5, "differ)"),
        (lambda w, v: (w @ v)[:1], "the shape is (1, 4), expected (3, 4)"),
    ],
)
def test_a_result_is_judged_by_its_numbers(function, words):
    verdict = judge(ID, function)
    assert verdict.status == "mistake"
    assert words in verdict.message


def test_a_parameter_and_a_result_with_a_gradient_are_fine(probe):
    def run(answer, ctx):
        ctx.tensor(ctx.call(answer, ctx.normal(2)), "x", (2,))

    id = probe(run)
    assert judge(id, lambda x: torch.nn.Parameter(2 * x))
    assert judge(id, lambda x: (2 * x.requires_grad_(False)).requires_grad_())


def test_changed_arguments_are_seen(probe):
    arguments = (
        torch.zeros(2),
        [[1, 2], [3]],
        {1, 2},
        torch.zeros(2),
        {"x": torch.zeros(2), "y": [float("nan"), "words"]},
    )

    def run(answer, ctx):
        ctx.call(answer, *arguments)

    id = probe(run)
    for change, words in (
        (lambda a, b, c, d, e: a.add_(1), "argument a in place"),
        (lambda a, b, c, d, e: b[1].append(4), "argument b in place"),
        (lambda a, b, c, d, e: b.append([]), "argument b in place: it has 3 entries"),
        (lambda a, b, c, d, e: c.add(3), "argument c in place"),
        (lambda a, b, c, d, e: d.requires_grad_(), "argument d in place: it asks for gradients"),
        (lambda a, b, c, d, e: a.resize_(1), "argument a in place"),
        (lambda a, b, c, d, e: b[0].reverse(), "argument b in place"),
        (
            lambda a, b, c, d, e: b[0].__setitem__(0, torch.tensor(1)),
            "argument b in place: there is another kind of value",
        ),
        (lambda a, b, c, d, e: b.__setitem__(0, 7), "argument b in place: it has 0 entries"),
        (lambda a, b, c, d, e: e["x"].add_(1), "argument e in place"),
        (lambda a, b, c, d, e: e.pop("y"), "argument e in place: it has other keys"),
        (lambda a, b, c, d, e: e["y"].__setitem__(1, "others"), "argument e in place"),
    ):
        verdict = judge(id, change)
        assert words in verdict.message, verdict
    assert judge(id, lambda *_: None)
    assert arguments[1] == [[1, 2], [3]] and arguments[2] == {1, 2}, "the check works on copies"


@pytest.mark.parametrize(
    "look",
    [
        lambda ctx, meta: ctx.tensor(meta(1), "the result", (1,)),
        lambda ctx, meta: ctx.number(meta(()), "the result"),
        lambda ctx, meta: ctx.number(torch.zeros(1).to_sparse(), "the result"),
        lambda ctx, meta: ctx.truth(meta((), dtype=torch.bool), "the result"),
        lambda ctx, meta: ctx.ids(meta(3, dtype=torch.long), "the result"),
        lambda ctx, meta: ctx.ids([meta((), dtype=torch.long)], "the result"),
    ],
    ids=["tensor", "number", "sparse", "truth", "ids", "entry"],
)
def test_a_tensor_without_numbers_is_refused_in_words(look):
    with pytest.raises(Mistake, match="the result.*expected an ordinary dense tensor, got layout"):
        look(
            CheckContext(),
            lambda shape, dtype=torch.float32: torch.zeros(shape, dtype=dtype, device="meta"),
        )


def test_an_argument_sent_elsewhere_in_place_is_seen():
    def elsewhere(x):
        x.data = x.data.double()
        return x

    with pytest.raises(Mistake, match="changes its argument x in place"):
        CheckContext().call(elsewhere, torch.zeros(2))


def test_a_choice_and_what_is_said_of_a_right_answer(probe):
    def chosen(answer, ctx):
        return ctx.predicted(answer, "all", "half", "few")

    id = probe(chosen)
    assert judge(id, lambda: " Half ").message == "you say 'half'. Now run the next cell."
    for other, words in {"some": "expected one of 'all', 'half', 'few'", 3: "an int"}.items():
        verdict = judge(id, lambda other=other: other)
        assert not verdict and words in verdict.message


def test_numbers_truths_ids_and_tuples():
    ctx = CheckContext()
    assert (
        ctx.number(torch.tensor(2.0), "x")
        == ctx.number(np.float64(2), "x")
        == ctx.number(np.uint8(2), "x")
        == ctx.number(np.array([2.0], np.float16), "x")
        == ctx.number(torch.tensor(2, dtype=torch.uint16), "x")
        == ctx.number(2, "x")
        == 2.0
    )
    assert ctx.truth(torch.tensor(True), "x") is True
    assert (
        ctx.ids(torch.tensor([1, 2]), "x")
        == ctx.ids((1, torch.tensor(2)), "x")
        == ctx.ids([np.int64(1), np.int32(2)], "x")
        == ctx.ids(np.array([1, 2]), "x")
        == ctx.ids(torch.tensor([1, 2], dtype=torch.int32), "x")
        == ctx.tensor(torch.tensor([1, 2], dtype=torch.uint8), "x", (2,), dtype=torch.long).tolist()
        == [1, 2]
    )
    for ask, value, words in (
        (ctx.number, True, "a bool came back"),
        (ctx.number, float("nan"), "is NaN"),
        (ctx.number, torch.ones(2), r"the shape is \(2,\), expected one number"),
        (ctx.truth, 1, "an int came back"),
        (ctx.ids, [1.0], "entry 0 is a float"),
        (ctx.ids, None, "None came back"),
        (ctx.ids, torch.ones(2), "a Tensor came back"),
        (ctx.ids, np.ones(2), "an ndarray came back"),
        (
            lambda *given: ctx.tensor(*given, (2,), dtype=torch.long),
            torch.ones(2),
            "float32, expected int64",
        ),
    ):
        with pytest.raises(Mistake, match=words):
            ask(value, "x")
    with pytest.raises(Mistake, match="returns 3 values, expected the tuple"):
        ctx.parts((1, 2, 3), ("a", "b"))


def test_a_recognized_slip_that_is_also_right_is_right():
    ctx = CheckContext()
    ctx.close(torch.ones(2), np.ones(2), "x", {"never said": np.ones(2)})
    with pytest.raises(Mistake, match="twice too large"):
        ctx.close(torch.full((2,), 2.0), np.ones(2), "x", {"twice too large": np.full(2, 2.0)})
    with pytest.raises(Mistake, match=r"x\[1\] is 3, expected 1 \(1 of 2 values differ\)"):
        ctx.close(torch.tensor([1.0, 3.0]), np.ones(2), "x")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"id": "99.probe"}, "id must be unique, got '99.probe' twice"),
        ({"id": "9.other"}, "id must be the chapter and a name"),
        ({"id": "99.Other-one"}, "id must be the chapter and a name"),
        ({"title": "a title"}, "exercise '99.other': title must be one line"),
        ({"title": "A title."}, "title must be"),
        ({"title": "A\ntitle"}, "title must be"),
        ({"difficulty": 5}, "exercise '99.other': difficulty must be an integer from 1 to 4"),
        ({"minutes": 0}, "minutes must be"),
    ],
)
def test_an_entry_of_another_form_is_refused(probe, change, words):
    probe(lambda answer, ctx: None)
    entry = {"id": "99.other", "title": "A title", "difficulty": 1, "minutes": 1} | change
    with pytest.raises(ValueError, match=re.escape(words)):
        exercise(entry.pop("id"), **entry)
    assert "99.other" not in exercises()


def test_a_check_lies_in_the_package_of_its_chapter():
    def run(answer, ctx):
        pass

    run.__module__ = "attnbook_exercises.checks.ch00_attention.soft_lookup"
    with pytest.raises(ValueError, match="id must begin with the chapter of .*soft_lookup"):
        exercise("01.other", title="A title", difficulty=1, minutes=1)(run)


def test_a_wrong_answer_lies_beside_those_of_its_section():
    taken = next(answer for answers in WRONG.values() for answer in answers if answer.code is None)

    def renamed():
        pass

    before = list(WRONG[ID])
    renamed.__module__, renamed.__name__ = taken.function.__module__, taken.name
    (own,) = [id for id, answers in WRONG.items() if taken in answers]
    for id, words in (
        (own, "unique"),
        ("01.greedy", "ch01_seq2seq/decoding.py"),
        ("01.gredy", "01.greedy"),
    ):
        with pytest.raises(ValueError, match=words):
            wrong(id, "words")(renamed)
    assert WRONG[ID] == before


def test_an_edit_replaces_code_of_the_solution_and_nothing_else(monkeypatch):
    monkeypatch.setitem(WRONG, ID, [])
    edit = edits(ID)
    edit("transposed", "weights @", "weights.mT @")
    edit("transposed", "weights @…", "weights.mT @ values")
    one, other = WRONG[ID]
    assert one.code == other.code
    assert one.name == "weights @ → weights.mT @" and "    return weights.mT @ values\n" in one.code
    x = torch.arange(9.0).view(3, 3)
    assert torch.equal(one.function(x, x), x.mT @ x)
    for code, words in (
        (("weights @", "weights.mT @"), "unique"),
        (("def ", "class "), "no 'def '"),  # outside of the solution's markers
        (("weights", "", "weights", "values"), "no 'weights'"),
    ):
        with pytest.raises(ValueError, match=words):
            edit("words", *code)
    assert WRONG[ID] == [one, other]


def test_keys_are_names_that_nbgrader_takes():
    keys = [task.key for task in exercises().values()]
    assert len(set(keys)) == len(keys)
    assert all(key.replace("-", "").isalnum() for key in keys)


def test_every_size_is_tried_at_its_least(probe):
    seen = []

    def sizes(answer, ctx):
        n, heads = ctx.sizes(n=(1, 6), heads=(1, 3))
        ways = ctx.sizes(ways=(2, 4))
        seen.append((n, heads, ways))
        got = ctx.call(answer, ctx.normal(n, heads))
        ctx.close(ctx.tensor(got, "the sum", (n,)), array(got), "the sum")

    id = probe(sizes)
    assert judge(id, lambda x: x.sum(-1))
    first, n_least, heads_least, ways_least, _, long = seen
    assert first > (1, 1, 2) and all(size > least for size, least in zip(first, (1, 1, 2)))
    assert n_least[0] == 1 and heads_least[1] == 1 and ways_least[2] == 2
    assert min(n_least[1:]) > 1 and ways_least[0] > 1
    assert long[0] > 200 and max(long[1:]) < 5
    said = judge(id, lambda x: x.sum(-1).squeeze())
    assert said.message.startswith(
        "right for other sizes, but with n = 1: the sum: the shape is ()"
    )
    assert judge(id, lambda x: 1 / 0).message.startswith("your code stopped with ZeroDivisionError")


CARELESS = {
    "of at most 200 entries": (lambda x: x[:200].sum(0), "right for small sizes, but with n = 25"),
    "of at most 64 columns": (
        lambda x: torch.cat([x[:, :64].sum(0), torch.zeros(max(0, x.shape[1] - 64)).to(x)]),
        "right for small sizes, but with d = 6",
    ),
    "in float32": (
        lambda x: x.float().sum(0),
        "and shorter rows: the sum: the dtype is float32, expected float64",
    ),
    "by float32": (
        lambda x: x.float().sum(0).to(x.dtype),
        "and shorter rows: the sum: right to some digits only",
    ),
    "of numbers in float32": (
        lambda x: x.float().to(x.dtype).sum(0),
        "and shorter rows: the sum: right to some digits only",
    ),
    "with a seed of its own": (
        lambda x: (torch.manual_seed(0), x.sum(0))[1],
        "a call of torch.manual_seed, which changes what the whole notebook draws",
    ),
}


@pytest.mark.parametrize("name", CARELESS)
def test_careless_sums_are_refused(name, probe):
    def sums(answer, ctx):
        x = ctx.normal(*ctx.sizes(n=(1, 6), d=(1, 4)))
        got = ctx.floats(ctx.call(answer, x), "the sum", x.shape[1:])
        ctx.close(got, array(x).sum(0), "the sum")

    id, (careless, words) = probe(sums), CARELESS[name]
    assert judge(id, lambda x: x.sum(0))
    assert words in judge(id, careless).message


def test_the_least_of_what_is_counted_is_three(probe):
    seen = []
    id = probe(lambda answer, ctx: seen.append(ctx.sizes(heads=(1, 4), n=(1, 2), far=(2, 5, 9))))
    judge(id, lambda x: x)
    assert min(heads for heads, _, _ in seen[:1]) >= 3 and seen[0][1] == 2
    assert seen[-1][2] == 9, "what the oracle or the statement allows"


def test_what_is_promised_to_be_new_is_new(probe):
    id = probe(lambda answer, ctx: ctx.call(answer, [1, 2], new="the list"))
    assert judge(id, list)
    assert (
        judge(id, lambda x: x).message == "the list is the object that was given: return a new one"
    )


def test_each_call_draws_other_numbers(probe):
    drawn = []
    id = probe(lambda answer, ctx: [ctx.call(answer, torch.ones(1)) for _ in range(4)])
    judge(id, lambda x: drawn.append(torch.rand(()).item()))
    assert len(set(drawn[:4])) == 4 and drawn[:4] == drawn[4:]


def test_a_mistake_that_other_numbers_show_is_not_laid_on_a_size(probe):
    def sums(answer, ctx):
        x = ctx.normal(ctx.sizes(n=(1, 6)), ctx.sizes(width=(1, 3)))
        got = ctx.tensor(ctx.call(answer, x), "the sum", x.shape[:1])
        ctx.close(got, array(x).sum(-1), "the sum")

    id = probe(sums)
    said = [judge(id, lambda x: x.sum(-1) * (1 if x[0, 0] > 0 else 2), seed) for seed in range(20)]
    refused = [verdict.message for verdict in said if not verdict]
    assert len(refused) > 12 and not any("right for other sizes" in words for words in refused)


def test_lengths_have_both_ends():
    for seed in range(5):
        lengths = CheckContext(seed).lengths(4, 6, 2)
        assert (int(lengths.min()), int(lengths.max())) == (2, 6)
    assert CheckContext().lengths(1, 1).tolist() == [1]


def test_an_answer_without_an_end_is_stopped_with_its_line(probe):
    def counts(x):
        while True:
            try:
                x = x + 1
            except Exception:
                pass

    id = probe(lambda answer, ctx: ctx.call(answer, ctx.normal(1)))
    said = judge(id, counts, seconds=0.2)
    assert said.status == "stopped"
    assert "TimeoutError: still running after 0.2 seconds; line " in said.message
    assert judge(id, lambda x: x, seconds=0.2), "the alarm is off again"
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
