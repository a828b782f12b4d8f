"""Calls through pipes: values, gradients, functions in both directions, errors; and every
verdict of the book.
"""

import os
import threading
from collections import OrderedDict
from typing import NamedTuple

import numpy as np
import pytest
import torch
from patience import HANGS, PATIENT

from attnbook.checks import Mistake, exercises, judge
from attnbook_exercises.answers.flop_counter import Calls, Products, largest, written
from attnbook_exercises.answers.guarded import StudentError
from attnbook_grader.course.exercises import find_book, sections, solution_of
from attnbook_grader.protocol.channel import LARGEST, Channel, Ended, OutOfTime, TooLarge
from attnbook_grader.protocol.rpc import ConnectionLost, Peer
from attnbook_grader.protocol.serialization import ProtocolError, decode, encode, pack
from attnbook_grader.sandbox.launch import Limits
from attnbook_grader.sandbox.session import SandboxEnded, Session
from tests.exercises.test_framework import Yes
from tests.exercises.wrong_answers import WRONG

from .conftest import until


@pytest.fixture(scope="module")
def solutions():
    found = {}
    for task in (task for section in sections(find_book()) for task in section.tasks):
        scope = {}
        exec(compile(solution_of(task), "<answer>", "exec"), scope)
        found[task.id] = scope[task.function]
    return found


@pytest.mark.parametrize("id", list(exercises()))
def test_the_grader_says_what_the_notebook_says(pair, solutions, id):
    for name, function, *_ in [("solution", solutions[id]), *WRONG[id][:3]]:
        seed = len(name) % 3
        here, there = judge(id, function, seed), judge(id, pair.remote(function), seed)
        pair.forget()
        assert there == here, name


def test_transforms_of_functions_say_that_they_do_not_reach_the_other_process(pair):
    def answer(predict, inputs):
        return torch.func.grad(lambda x: predict(x).sum())(inputs) * inputs

    assert (
        "torch.func and vmap do not reach into it: use torch.autograd.grad"
        in judge("00.gradient_times_input", pair.remote(answer)).message
    )


NAN = float("nan")
ODD = [None, Yes(), "right", "", b"x", int, len, 10**400, -(10**400), NAN, float("inf"), True]
ODD += [[], [[[]]], [1, "a", None, torch.ones(2)], (), (None, None), (1, 2, 3), [0.5, -1, 3]]
ODD += [{}, {(1, 2): torch.ones(1)}, {1, 2}, np.ones((2, 3), "f"), np.array([object()])]
ODD += [torch.zeros(0), torch.tensor(1.0), torch.full((2, 3), NAN), torch.zeros([1] * 20)]
ODD += [torch.ones(2, 3, dtype=kind) for kind in (torch.long, torch.bool, torch.half)]
ODD += [torch.ones(2, dtype=torch.complex64), torch.eye(3).to_sparse()]
ODD += [torch.ones(2, 3, device="meta"), (torch.zeros(2, 3), torch.zeros(2, 3))]


@pytest.mark.parametrize("id", list(exercises()))
def test_no_value_that_comes_back_stops_a_check(pair, id):
    """Not here and not in the grader: there is a verdict, and it is not *right*."""
    setting = exercises()[id].kind == "Choose a setting"
    for value in ODD:
        if setting and isinstance(value, torch.Tensor) and value.shape == ():  # may be a good one
            continue
        here = judge(id, lambda *inputs, value=value: value)
        there = judge(id, pair.remote(lambda *inputs, value=value: value))
        pair.forget()
        assert not here and not there, value
        assert "\n" not in there.message


def test_gradients_go_through_both_ways(pair):
    def outer(inner, x, pairs):
        return {"sum": inner(x * x) + pairs[0][0], "kept": x.detach()}

    def inner(y):
        return torch.sin(y)

    g = torch.Generator().manual_seed(0)
    x, z = torch.randn(2, 3, dtype=torch.float64, generator=g).unbind()
    x.requires_grad_(), z.requires_grad_()
    got = pair.remote(outer)(inner, x, [(z, 3)])
    assert torch.equal(got["sum"], torch.sin(x * x) + z) and not got["kept"].requires_grad
    weights = torch.arange(1.0, 4.0, dtype=torch.float64)
    gradients = torch.autograd.grad((got["sum"] * weights).sum(), [x, z])
    expected = torch.autograd.grad(((torch.sin(x * x) + z) * weights).sum(), [x, z])
    assert all(torch.allclose(a, b, rtol=1e-12, atol=1e-12) for a, b in zip(gradients, expected))
    pair.forget()


def test_a_gradient_that_does_not_come_is_none(pair):
    x, y = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    got = pair.remote(lambda x, y: 2 * x)(x, y)
    assert torch.autograd.grad(got.sum(), [x, y], allow_unused=True)[1] is None
    assert not pair.remote(lambda x: x.detach() * 2)(x).requires_grad
    with pytest.raises(RuntimeError, match="inplace"):

        def spoil(x):
            y = torch.exp(x)
            z = y * 1
            y.add_(1)
            return z + y

        torch.autograd.grad(pair.remote(spoil)(x).sum(), [x])
    pair.forget()


def test_arguments_that_are_changed_are_changed_here(pair):
    def spoil(x, numbers, table, kept):
        x.zero_()
        numbers.append(3)
        table["a"] = 2
        return numbers

    x, numbers, table, kept = torch.ones(2), [1, [2]], {"a": 1}, [torch.ones(1)]
    got = pair.remote(spoil)(x, numbers, table, kept)
    assert torch.equal(x, torch.zeros(2)) and numbers == [1, [2], 3] and table == {"a": 2}
    assert got is numbers, "the list that went in came back"
    assert torch.equal(kept[0], torch.ones(1))


def test_what_a_check_returned_and_the_answer_spoiled_is_spoiled_here(pair):
    made = []

    def step():
        made.append(torch.ones(3))
        return made[-1]

    def answer(step):
        scores = step()
        scores[0] = 5
        step()
        return 1

    assert pair.remote(answer)(step) == 1
    assert made[0].tolist() == [5, 1, 1] and made[1].tolist() == [1, 1, 1]
    pair.forget()


def test_what_an_answer_costs_is_counted_there(pair):
    def product(a, b):
        return a @ b

    a = torch.ones(4, 8)
    with Products() as counter:
        pair.remote(product)(a, a.T)
    assert counter.count == 2 * 4 * 4 * 8
    with largest() as watch:
        pair.remote(lambda a: (a[:, :, None] * torch.ones(1000)).sum())(a)
    assert watch.count == 4 * 4 * 8 * 1000
    with written() as total:
        pair.remote(lambda a: sum((a + k).sum() for k in range(500)))(a)
    assert total.count >= 500 * 32
    with Calls() as calls:
        pair.remote(lambda a: a + 1)(a)
    few = calls.count
    with Calls() as calls:
        pair.remote(lambda a: sum(a[k % 4] for k in range(500)))(a)
    assert calls.count - few >= 999


def test_what_a_check_s_own_function_costs_is_not_asked_for(pair):
    with largest() as watch:
        assert pair.remote(lambda f: f(2) + 1)(lambda x: float(torch.ones(1000).sum()) * x) == 2001
    assert watch.count >= 4000, "here both sides are one process"


ROUND_THE_COUNT = """
import contextlib
from types import SimpleNamespace

import torch

from attnbook_exercises.answers import flop_counter

flop_counter.KINDS["largest"] = lambda: contextlib.nullcontext(SimpleNamespace(count=0))


def large(q, k, table):
    n, K = q.shape[1], len(table) // 2
    place = torch.arange(n)
    vectors = table[(place - place[:, None]).clamp(-K, K) + K]
    return (q @ k.transpose(1, 2) + torch.einsum("bid,ijd->bij", q, vectors)) / q.shape[-1] ** 0.5


def nothing_for_long_texts(q, k, table):
    return large(q, k, table) if q.shape[1] < 500 else torch.zeros(1, q.shape[1], q.shape[1])
"""


def test_effort_is_seen_from_outside_too():
    id = "06.relative_scores"
    (section,) = sections(find_book(), ["positions"])
    (task,) = [task for task in section.tasks if task.id == id]
    with Session("none", Limits(**PATIENT)) as box:
        assert box.run(solution_of(task)) is None and box.judge(id, task.function, 1)
        assert box.run(ROUND_THE_COUNT) is None
        assert "allocate" in box.judge(id, "large", 1).message
        assert "long text" in box.judge(id, "nothing_for_long_texts", 1).message


def test_errors_keep_their_kind_and_line(pair):
    def crash(x):
        return [][1]

    with pytest.raises(
        StudentError, match=r"IndexError: list index out of range; line \d+: return \[\]\[1\]"
    ):
        pair.remote(crash)(1)
    with pytest.raises(StudentError) as error:
        pair.remote(lambda: (_ for _ in ()).throw(NotImplementedError))()
    assert error.value.unwritten

    def calls(f):
        try:
            f(1)
        except KeyError as error:
            return str(error)

    def refuses(x):
        raise KeyError("no")

    assert pair.remote(calls)(refuses) == "\"'no'\""


def test_a_mistake_seen_by_the_check_s_own_function_cannot_be_swallowed(pair):
    def stubborn(f):
        try:
            f(1)
        except BaseException:
            return "fine"

    def sees(x):
        raise Mistake("x must be 2")

    with pytest.raises(Mistake, match="x must be 2"):
        pair.remote(stubborn)(sees)
    assert pair.remote(lambda: 1)() == 1, "the connection goes on"


def test_results_that_cannot_be_handed_over_say_so(pair):
    def deep():
        value = []
        for _ in range(100):
            value = [value]
        return value

    with pytest.raises(StudentError, match="nested more than"):
        pair.remote(deep)()
    with pytest.raises(StudentError, match="cannot be handed over"):
        pair.remote(lambda: torch.zeros(LARGEST // 4 + 1))()


def test_random_numbers_of_an_answer_come_from_the_check_s_seed(pair):
    torch.manual_seed(5)
    torch.rand(3)  # the check has drawn before: an answer begins at the seed all the same
    before = torch.get_rng_state()
    one, other = (pair.remote(lambda: torch.rand(2))() for _ in range(2))
    assert torch.equal(one, other) and torch.equal(
        one, torch.rand(2, generator=torch.Generator().manual_seed(5))
    )
    assert torch.equal(torch.get_rng_state(), before)


def channels():
    one, other = os.pipe(), os.pipe()
    return Channel(one[0], other[1]), Channel(other[0], one[1])


def test_a_channel_carries_long_messages_in_both_directions():
    here, there = channels()
    message = os.urandom(3_000_000)
    thread = threading.Thread(target=lambda: there.send(there.receive()))
    thread.start()
    here.send(message)
    assert here.receive() == message
    thread.join()


def test_a_channel_does_not_wait_for_ever():
    here, there = channels()
    here.left = until(0.2)
    with pytest.raises(OutOfTime):
        here.receive()
    with pytest.raises(OutOfTime):
        here.send(bytes(10_000_000))  # nobody reads
    here.left = until(HANGS)
    there.close()
    with pytest.raises(Ended):
        here.receive()
    with pytest.raises(Ended):
        here.send(b"x")


def test_a_channel_refuses_what_is_too_large():
    here, there = channels()
    with pytest.raises(TooLarge, match="at most"):
        here.send(bytes(LARGEST + 1))
    os.write(there._write, (LARGEST + 1).to_bytes(8, "little"))
    with pytest.raises(TooLarge, match="at most"):
        here.receive()


def answered(head):
    """A peer whose next message is this one."""
    here, there = channels()
    there.send(pack(head, []))
    return Peer(here, lambda function, given, named, seed: function(*given, **named))


COUNTS = [{}, *({"counts": c} for c in ([], [-1], [0, 0], [True], [1.5], 1))]


@pytest.mark.parametrize("more", COUNTS, ids=str)
def test_a_count_that_is_none_breaks_the_connection(more):
    peer = answered({"do": "value", "value": encode((3, more), None, None)})
    with Products(), pytest.raises(ConnectionLost) as broken:
        peer.call(0, (), {})
    assert broken.value.kind == "garbled"


@pytest.mark.parametrize(
    "more", [{"same": {None: 1}}, {"same": {0: 0.0}}, {"same": 3}, {"spoiled": [1]}], ids=str
)
def test_an_argument_that_was_never_given_breaks_the_connection(more):
    peer = answered({"do": "value", "value": encode((3, more), lambda tensor: 0, None)})
    with pytest.raises(ConnectionLost, match="never got"):
        peer.call(0, (torch.ones(1),), {})


def test_a_part_of_a_result_may_be_an_argument(pair):
    given = [1, 2], torch.ones(2, requires_grad=True)
    result = pair.remote(lambda numbers, x: (x, 3 * x, numbers))(*given)
    assert result[0] is given[1] and result[2] is given[0]
    assert pair.remote(lambda numbers, x: numbers)(*given) is given[0]
    (result[0] + result[1]).sum().backward()
    assert given[1].grad.tolist() == [4.0, 4.0]


class Kept(NamedTuple):
    x: torch.Tensor


@pytest.mark.parametrize("keep", [Kept, lambda x: OrderedDict(x=x), lambda x: lambda: x])
def test_gradients_go_through_what_was_kept_of_an_earlier_call(pair, keep):
    """Once, whatever the check itself sees of it."""

    def first(x):
        return 2 * x, keep(3 * x)

    def second(kept, y):
        x = kept[0] if isinstance(kept, tuple) else kept["x"] if isinstance(kept, dict) else kept()
        return x * y, (kept, keep(5 * x))

    def run(first, second):
        x, y = (torch.tensor(number, requires_grad=True) for number in (2.0, 7.0))
        seen, kept = first(x)
        one, (_, kept) = second(kept, y)
        two, _ = second(kept, y)
        (seen + one + two + (kept[0] if isinstance(kept, tuple) else 0)).backward()
        return x.grad, y.grad

    assert run(pair.remote(first), pair.remote(second)) == run(first, second)


@pytest.mark.parametrize(
    "head",
    [
        {"do": "value", "value": 3},
        {"do": "value", "value": {"tuple": [1, 2, 3]}},
        {"do": "gradients", "id": 9, "value": {"list": []}},
        {"do": "call", "function": 99, "value": None},
        {"do": "call", "function": 0, "value": 1},
        {"do": "what"},
        {},
    ],
)
def test_answers_that_are_none_break_the_connection(head):
    with pytest.raises(ConnectionLost):
        answered(head).call(0, (), {})


def test_nothing_that_comes_from_the_sandbox_is_ever_called_by_name():
    with pytest.raises(RuntimeError, match="^x$"):
        answered({"do": "raised", "type": "exec", "message": "x"}).request({"do": "hello"})


def test_earlier_cells_that_fail_when_run_again_lose_the_sandbox(monkeypatch):
    true, errors = Peer.request, []

    def request(self, head, *rest):
        if errors and head["do"] == "cell":
            raise errors.pop()
        return true(self, head, *rest)

    monkeypatch.setattr(Peer, "request", request)
    words = r"run again, disturbed the connection to the grader \(boo\)"
    with Session("none", Limits(**PATIENT)) as box:
        assert box.run("a = 1") is None
        for error in (StudentError("boo"), RuntimeError("boo"), ConnectionLost("garbled", "boo")):
            box._close()
            errors.append(error)
            with pytest.raises(SandboxEnded, match=words):
                box.run("b = 1")
        assert box.run("c = a") is None


CACHES = {
    "a dataclass": "@dataclass\nclass Cache:\n    own: list\n",
    "a named tuple": "class Cache(NamedTuple):\n    own: list\n",
    "a dict of its own": "class Cache(OrderedDict):\n    def __init__(self, own):\n"
    "        super().__init__(own=own)\n    own = property(lambda self: self['own'])\n",
    "a module": "class Cache(torch.nn.Module):\n    def __init__(self, own):\n"
    "        super().__init__()\n        self.own = own\n",
}


@pytest.mark.parametrize("kind", CACHES)
def test_what_a_check_passes_on_comes_back_as_it_was(pair, solutions, kind):
    """An answer may keep what it likes: both ends take it."""
    from dataclasses import dataclass

    scope = {"torch": torch, "dataclass": dataclass, "NamedTuple": NamedTuple}
    scope |= {"OrderedDict": OrderedDict, "__name__": __name__}
    exec(CACHES[kind], scope)
    solved = solutions["09.third_token"]

    def answer(query, key, value, cache):
        context, own = solved(query, key, value, None if cache is None else cache.own[0])
        return context, scope["Cache"]([own])

    assert judge("09.third_token", answer).passed
    assert judge("09.third_token", pair.remote(answer)).passed


def test_a_number_that_was_never_given_is_refused():
    here = object()
    assert decode({"mine": 0}, [], None, [here]) is here
    for tree, own in (({"mine": 1}, [here]), ({"mine": -1}, [here]), ({"mine": 0}, None)):
        with pytest.raises(ProtocolError):
            decode(tree, [], None, own)
    with pytest.raises(ProtocolError):
        decode({"object": "X", "handle": "0"}, [], None)


def test_transforms_are_refused_at_both_ends(pair):
    def answer(layer, x):
        change = torch.func.jacrev(layer)(x).abs().amax((1, 3)) > 1e-6
        return change.triu(1)

    here, there = judge("06.leaks", answer), judge("06.leaks", pair.remote(answer))
    assert not here and str(here) == str(there)
    assert "torch.func and vmap do not reach into it: use torch.autograd.grad" in here.message
