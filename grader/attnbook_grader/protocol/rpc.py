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

import torch

from attnbook_exercises.answers.arguments import copied, overwrite, spoiled
from attnbook_exercises.answers.flop_counter import KINDS, counters
from attnbook_exercises.answers.guarded import StudentError

from .channel import Channel, Ended, OutOfTime, TooLarge
from .serialization import ProtocolError, decode, encode, pack, tensors_in, unpack

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

    `argument_names` are those of its signature.
    """

    def __init__(self, peer, number, names):
        self.peer, self.number, self.argument_names = peer, number, names

    def __call__(self, *arguments, **keywords):
        if torch._C._are_functorch_transforms_active():
            raise RuntimeError(
                "this function is called in another process, and torch.func and vmap do not "
                "reach there: "
                "use torch.autograd.grad, or backward, or torch.autograd.functional.jacobian"
            )
        return self.peer.call(self.number, arguments, keywords)


class Peer:
    """One end of the protocol.

    channel: the pipes
    serve: `serve(function, arguments, keywords, seed)` runs a call that the other side asks for
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

    def call(self, number: int, arguments, keywords):
        """Call function `number` of the other side.

        Raises what it raises: StudentError, or a built-in exception.
        """
        self._calls += 1
        id, given = self._calls, (tuple(arguments), dict(keywords))
        inputs = _requiring_grad(given) if torch.is_grad_enabled() else []
        # of the check's own functions nothing is counted
        asked = [] if self._watch else list(counters)
        head = {
            "do": "call",
            "id": id,
            "function": number,
            "seed": torch.initial_seed(),
            "count": [one.kind for one in asked],
        }
        reply = self.request(head, given)
        if type(reply) is not tuple or len(reply) != 2 or type(reply[1]) is not dict:
            raise ConnectionLost("garbled", "the answer to a call is no result")
        result, more = reply
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
            overwrite(given, more["after"])
        for place, value in more.get("spoiled", {}).items():
            if place in self._returned:
                overwrite(self._returned[place], value)
        if more.get("same") in range(len(arguments)):
            return arguments[more["same"]]
        outputs = _requiring_grad(result)
        if inputs and outputs:
            result = _with(
                result,
                iter(
                    _Link.apply(
                        self, id, len(inputs), *inputs, *(tensor.detach() for tensor in outputs)
                    )
                ),
            )
        if self._watch:
            self._received[id] = result, copied(result)
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
                return decode(head.get("value"), tensors, self._stand_in)
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
        given = decode(head.get("value"), tensors, self._stand_in)
        if (
            type(given) is not tuple
            or len(given) != 2
            or type(given[0]) is not tuple
            or type(given[1]) is not dict
        ):
            raise ProtocolError("a call without arguments")
        inputs = _requiring_grad(
            given
        )  # now: the function may swap what it was given for something else
        return self._run(
            head,
            self._functions[number],
            given,
            inputs,
            decode(head.get("value"), tensors, self._stand_in),
        )

    def _run(self, head, function, given, inputs, before):
        """Call our function for the other side; returns the result and what else there is to
        tell about the call.
        """
        seed, self._received = head.get("seed"), {}
        with contextlib.ExitStack() as stack:
            counts = [
                stack.enter_context(KINDS[kind]())
                for kind in head.get("count", ())
                if kind in KINDS
            ]
            result = self._serve(function, *given, seed if type(seed) is int else 0)
        outputs = _requiring_grad(result)
        if outputs:
            self._graphs[head.get("id")] = inputs, outputs
        if not self._watch:  # the check's own function: it may look later at what it has returned
            self._returned[head.get("id")] = result
            return result, {}
        more: dict[str, object] = {"counts": [one.count for one in counts]}
        if spoiled("", before, given):
            more["after"] = given
        changed = {id: now for id, (now, then) in self._received.items() if spoiled("", then, now)}
        if changed:
            more["spoiled"] = changed
        same = [
            place
            for place, one in enumerate(given[0])
            if one is result and isinstance(one, (list, dict, set, torch.Tensor))
        ]
        if same:
            more["same"] = same[0]
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
            head = {**head, "value": encode(value, keep, self._hand_over)}
        self.channel.may_send(sum(tensor.nbytes for tensor in tensors))
        self.channel.send(pack(head, tensors))

    def _hand_over(self, function):
        self._functions.append(function)
        return len(self._functions) - 1

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


def _requiring_grad(value):
    """The tensors in a value that ask for gradients, in the order in which both sides see them."""
    return [tensor for tensor in tensors_in(value) if tensor.requires_grad]


def _with(value, tensors):
    """The value with the tensors that ask for gradients replaced, in order."""
    if isinstance(value, torch.Tensor):
        return next(tensors) if tensors_in(value) and value.requires_grad else value
    if type(value) in (list, tuple):
        return type(value)(_with(entry, tensors) for entry in value)
    return (
        {key: _with(entry, tensors) for key, entry in value.items()}
        if type(value) is dict
        else value
    )


def _text(error):
    try:
        return str(error)[:2000]
    except Exception:
        return type(error).__name__
