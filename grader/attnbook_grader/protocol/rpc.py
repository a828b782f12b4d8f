"""Calls between two processes, in both directions, gradients included.

Each side may call functions that the other has handed to it. A call carries its arguments as data
and comes back with the result as data. Where tensors ask for gradients, the two graphs are linked:
the backward pass on one side asks the other for

    grad_inputs = Jᵀ grad_outputs

of the call, J its Jacobian, so that a check may differentiate through a function that runs
somewhere else."""

from __future__ import annotations

import builtins
import contextlib
from typing import Any

import torch

import attnbook_exercises.answers.arguments as values
from attnbook_exercises.answers.flop_counter import KINDS, counters
from attnbook_exercises.answers.guarded import StudentError

from .channel import Channel, Ended, OutOfTime, TooLarge
from .serialization import Handle, ProtocolError, decode, encode, pack, tensors_in, unpack

__all__ = ["ConnectionLost", "Peer", "RemoteFunction"]


class ConnectionLost(BaseException):
    """The other process cannot be asked any more. Not an Exception: no check and no student's
    `except` may swallow it.

    kind: "ended", "time", "garbled", "memory" (there was too little on this side)
    """

    def __init__(self, kind: str, message: str):
        super().__init__(message)
        self.kind = kind


class RemoteFunction:
    """A function of the other process, to be called like one of our own.

    argument_names: those of its signature
    made_by: the call that returned it, and the tensors that this call's graph begins with
    """

    made_by: tuple = (None, ())

    def __init__(self, peer, number, names):
        self.peer, self.number, self.argument_names = peer, number, names

    def __call__(self, *arguments, **keywords):
        values.refuse_transforms()
        return self.peer.call(self.number, arguments, keywords, _kept_there(self))


RemoteFunction.__name__ = "function"  # a check says what came back as it does in the notebook


class Peer:
    """One end of the protocol.

    channel: the pipes
    serve: `serve(function, arguments, keywords, seed=…)` runs a call that the other side asks for
    answer: {name of a request: function(head) -> value}, what else the other side may ask for
    passing: exceptions of our own functions which end the outermost call on this side, whatever the
    other side makes of them
    watch: whether calls that are served report what they change in their arguments: for the side
    of the student's code
    """

    def __init__(self, channel: Channel, serve, answer=None, *, passing=(), watch=False):
        self.channel = channel
        self._serve, self._answer, self._passing, self._watch = serve, answer or {}, passing, watch
        self._functions, self._graphs, self._calls, self._pending = [], {}, 0, None
        self._received, self._returned = {}, {}

    def call(self, number: int, arguments, keywords, more=()):
        """Call function `number` of the other side.

        more: what the function holds of that side, besides its arguments

        Raises what it raises: StudentError, or a built-in exception.
        """
        self._calls += 1
        id, given = self._calls, (tuple(arguments), dict(keywords))
        flows, kept = torch.is_grad_enabled(), [*_kept_there(given), *more]
        inputs = _requiring_grad(given, kept) if flows else []
        # what the other side kept of earlier calls: its graph goes on to their arguments
        earlier = dict(one.made_by for one in kept if flows)
        earlier.pop(None, None)
        inputs += [tensor for tensors in earlier.values() for tensor in tensors]
        # of the check's own functions nothing is counted
        asked = [] if self._watch else list(counters)
        head = {"do": "call", "id": id, "function": number, "seed": torch.initial_seed()}
        head |= {"count": [one.kind for one in asked], "through": list(earlier)}
        reply = self.request(head, given)
        if type(reply) is not tuple or len(reply) != 2 or type(reply[1]) is not dict:
            raise ConnectionLost("garbled", "the answer to a call is no result")
        result, more = reply
        same, spoiled = more.get("same", {}), more.get("spoiled", {})
        counts = more.get("counts", [])
        if (
            type(counts) is not list
            or len(counts) != len(asked)
            or any(type(count) is not int or count < 0 for count in counts)
        ):
            raise ConnectionLost("garbled", "the answer to a call does not say what it costs")
        for one, count in zip(asked, counts):
            one.add(count)
        if "after" in more:
            values.overwrite(given, more["after"])
        if not type(same) is type(spoiled) is dict or any(
            type(place) is not int or not 0 <= place < len(arguments) for place in same.values()
        ):
            raise ConnectionLost("garbled", "the answer to a call is an argument it never got")
        for place, value in spoiled.items():
            if place in self._returned:
                values.overwrite(self._returned[place], value)
        outputs = _requiring_grad(result)
        if inputs and outputs:
            bare = [tensor.detach() for tensor in outputs]
            result = _with(result, iter(_Link.apply(self, id, len(inputs), *inputs, *bare)))
        for one in _kept_there(result) if inputs else ():
            one.made_by = id, inputs
        if None in same:
            result = arguments[same[None]]
        elif same and type(result) in (list, tuple):
            result = type(result)(
                arguments[same[at]] if at in same else one for at, one in enumerate(result)
            )
        if self._watch:
            self._received[id] = result, values.copied(result)
        return result

    def request(self, head: dict, value=None):
        """Ask the other side and return its answer; serve what it asks meanwhile."""
        try:
            self._send(head, value)
            while True:
                head, tensors = unpack(self.channel.receive())
                what = head.get("do")
                if what in ("value", "stopped", "raised"):
                    break
                self._serve_one(head, tensors)
            pending, self._pending = self._pending, None
            if pending is not None:
                raise pending
            if what == "value":
                return self._decode(head, tensors)
        except Ended:
            raise ConnectionLost("ended", "the process ended") from None
        except OutOfTime:
            raise ConnectionLost("time", "the process did not answer in time") from None
        except (ProtocolError, TooLarge) as error:
            raise ConnectionLost("garbled", str(error)) from None
        except MemoryError:
            raise ConnectionLost("memory", "no memory is left on this side") from None
        message = str(head.get("message"))[:2000]
        if what == "stopped":
            raise StudentError(message, unwritten=head.get("unwritten") is True)
        kind = getattr(builtins, str(head.get("type")), None)
        raise (kind if isinstance(kind, type) and issubclass(kind, Exception) else RuntimeError)(
            message
        )

    def serve_for_ever(self) -> None:
        """Answer requests until the other side closes the pipe (Ended)."""
        while True:
            self._serve_one(*unpack(self.channel.receive()))

    def forget(self) -> None:
        """Drop what was kept of the calls so far."""
        self._graphs.clear()
        self._returned.clear()

    # -- the side that is asked

    def _serve_one(self, head, tensors):
        try:
            reply = self._do(head, tensors)
        except StudentError as error:
            return self._send(
                {"do": "stopped", "message": str(error), "unwritten": error.unwritten}
            )
        except self._passing as error:
            self._pending = self._pending or error
            return self._send({"do": "stopped", "message": "the check has seen enough"})
        except (ProtocolError, Ended, OutOfTime):
            raise
        except Exception as error:
            return self._send(
                {"do": "raised", "type": type(error).__name__, "message": _text(error)}
            )
        try:
            self._send({"do": "value"}, reply)
        except (RecursionError, RuntimeError, TypeError, ValueError) as error:
            # TooLarge among them
            self._send(
                {"do": "stopped", "message": f"a result that cannot be handed over: {_text(error)}"}
            )

    def _do(self, head, tensors):
        what = head.get("do")
        if what == "gradients":
            return self._gradients(head.get("id"), decode(head.get("value"), tensors, None))
        if what != "call":
            if what not in self._answer:
                raise ProtocolError(f"no request: {str(what)[:40]}")
            return self._answer[what](head)
        number = head.get("function")
        if type(number) is not int or not 0 <= number < len(self._functions):
            raise ProtocolError("a call of a function that was never handed over")
        given = self._decode(head, tensors)
        if (
            type(given) is not tuple
            or len(given) != 2
            or type(given[0]) is not tuple
            or type(given[1]) is not dict
        ):
            raise ProtocolError("a call without arguments")
        # now: the function may swap what it was given for something else
        inputs = _requiring_grad(given, self._functions if self._watch else ())
        if self._watch:
            inputs += [one for id in head.get("through", ()) for one in self._graphs[id][0]]
        return self._run(head, self._functions[number], given, inputs, self._decode(head, tensors))

    def _run(self, head, function, given, inputs, before):
        """Call our function for the other side; returns the result and what else there is to
        tell about the call.
        """
        seed, self._received = head.get("seed"), {}
        with contextlib.ExitStack() as stack:
            kinds = [kind for kind in head.get("count", ()) if kind in KINDS]
            counts = [stack.enter_context(KINDS[kind]()) for kind in kinds]
            result = self._serve(function, *given, seed=seed if type(seed) is int else 0)
        outputs = _requiring_grad(result)
        if inputs or outputs:
            self._graphs[head.get("id")] = inputs, outputs
        if not self._watch:  # the check's own function: it may look later at what it has returned
            self._returned[head.get("id")] = result
            return result, {}
        more: dict[str, object] = {"counts": [one.count for one in counts]}
        if values.spoiled("", before, given):
            more["after"] = given
        changed = {
            id: now for id, (now, then) in self._received.items() if values.spoiled("", then, now)
        }
        if changed:
            more["spoiled"] = changed
        parts = {None: result} | (dict(enumerate(result)) if type(result) in (list, tuple) else {})
        same = {
            part: place
            for part, value in parts.items()
            for place, one in enumerate(given[0])
            if one is value and isinstance(one, (list, dict, set, torch.Tensor))
        }
        if same:
            more["same"] = same
        return result, more

    def _gradients(self, id, grads):
        if id not in self._graphs or type(grads) is not list:
            raise ProtocolError("a backward pass without its call")
        inputs, outputs = self._graphs[id]
        pairs = [(output, grad) for output, grad in zip(outputs, grads) if grad is not None]
        if not pairs or not inputs:
            return [None] * len(inputs)
        outputs, grads = zip(*pairs)
        with torch.enable_grad():
            root = _Root.apply(grads, *outputs)
        return list(torch.autograd.grad(root, inputs, allow_unused=True, retain_graph=True))

    # -- both

    def _send(self, head, value=None):
        tensors = []

        def keep(tensor):
            tensors.append(tensor)
            return len(tensors) - 1

        if head["do"] in ("value", "call", "gradients"):
            more = (self._hand_over, None) if self._watch else (None, self._returned_to)
            head = {**head, "value": encode(value, keep, self._hand_over, *more)}
        self.channel.may_send(sum(tensor.nbytes for tensor in tensors))
        self.channel.send(pack(head, tensors))

    def _hand_over(self, function):
        self._functions.append(function)
        return len(self._functions) - 1

    def _returned_to(self, value):
        """The number of what the other side has handed over, to give it back; None for others."""
        value = value.function if type(value) is values.Given else value
        return value.number if isinstance(value, (Handle, RemoteFunction)) else None

    def _decode(self, head, tensors):
        own = self._functions if self._watch else None
        return decode(head.get("value"), tensors, self._stand_in, own)

    def _stand_in(self, number, names):
        return RemoteFunction(self, number, names)


class _Root(torch.autograd.Function):
    """A scalar whose gradient with respect to `outputs` is `grads`.

    For torch.autograd.grad(outputs, inputs, grads) PyTorch imports SymPy, half a second in every
    sandbox; for a scalar it does not.
    """

    @staticmethod
    def forward(ctx, grads, *outputs):
        ctx.grads = grads
        return torch.zeros((), dtype=torch.float32)

    @staticmethod
    def backward(ctx, grad):
        return None, *ctx.grads


class _Link(torch.autograd.Function):
    """The results of a call on the other side, as functions of the arguments on this side."""

    @staticmethod
    def forward(ctx, peer, id, count, *tensors):
        ctx.peer, ctx.id, ctx.count, ctx.outputs = peer, id, count, len(tensors) - count
        ctx.set_materialize_grads(False)
        return tuple(tensor.clone() for tensor in tensors[count:])

    @staticmethod
    def backward(ctx, *grads):
        gradients = ctx.peer.request(
            {"do": "gradients", "id": ctx.id},
            [None if grad is None else grad.contiguous() for grad in grads],
        )
        if type(gradients) is not list or len(gradients) != ctx.count:
            raise ConnectionLost("garbled", "the answer to a backward pass is none")
        return None, None, None, *gradients, *[None] * ctx.outputs


def _requiring_grad(value, but=()):
    """The tensors in a value that ask for gradients, in the order in which both sides see them,
    without those of the objects in `but`.
    """
    found = tensors_in(value, frozenset(map(id, but)))
    return [tensor for tensor in found if tensor.requires_grad]


def _kept_there(value) -> list[Any]:
    """What the other side keeps, wherever it stands in a value."""
    kept = isinstance(value, RemoteFunction) or getattr(value, "number", None) is not None
    inner = value.values() if isinstance(value, dict) else ()
    inner = value if isinstance(value, (list, tuple)) else inner
    return [value] * kept + [one for entry in inner for one in _kept_there(entry)]


def _with(value, tensors) -> Any:
    """The value with the tensors that ask for gradients replaced, in order."""
    if isinstance(value, torch.Tensor):
        return next(tensors) if tensors_in(value) and value.requires_grad else value
    if isinstance(value, (list, tuple)):
        made: Any = type(value)(_with(entry, tensors) for entry in value)
    elif isinstance(value, dict):
        made = type(value)({key: _with(entry, tensors) for key, entry in value.items()})
    else:
        return value
    if isinstance(value, Handle):
        made.number = value.number
    return made


def _text(error):
    try:
        return str(error)[:2000]
    except Exception:
        return type(error).__name__
