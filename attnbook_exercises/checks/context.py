"""The context of a check: seeded inputs, guarded calls, and comparisons that name differences."""

import hashlib
import re
from decimal import Decimal
from fractions import Fraction
from typing import Any, NoReturn

import numpy as np
import torch
from torch import Tensor

from ..answers.arguments import PLAIN_TENSORS, copied, is_named_tuple, spoiled
from ..answers.flop_counter import Calls
from ..answers.guarded import guarded, time_limit
from .verdict import Mistake

HARD_SCORES = ((1.0, 0.0), (1e3, 0.0), (1.0, -3e4))
"""(factor, shift) of scores that a softmax must take: ordinary ones, ones whose exponentials
overflow, and ones so low that a finite number in the place of minus infinity lies above them.
"""

FAR = {"long": 257, "wide": 65}
"""What lengths and widths are, at least, in the runs of a check that go beyond the small ones: an
answer that looks at the last 16 positions, counts in 8 bits or does so many steps of a loop is
right for small sizes alone.
"""

_WIDTH = re.compile(r"d|d_\w+|D|C|w|\w*width\w*|hidden\w*|filters|bits|half|size|pairs_of_columns")
_COUNT = re.compile(
    r"batch\w*|B|b|\w*heads\w*|h|H|g|blocks|layers|hops|beam\w*|ways|classes|levels|k|K|R"
)

_UNSIGNED = (torch.uint8, torch.uint16, torch.uint32, torch.uint64)
_WHOLE = (torch.int64, torch.int32, torch.int16, torch.int8, *_UNSIGNED)


def kind_of_size(name):
    """What a size is by its name: "long", a number of positions, "wide", of features, or "few", of
    rows of a batch, heads or layers.
    """
    if _COUNT.fullmatch(name):
        return "few"
    return "wide" if _WIDTH.fullmatch(name) else "long"


def array(tensor) -> np.ndarray:
    """The values of a tensor as a NumPy array for the oracles, floats as float64."""
    tensor = Tensor.detach(tensor)
    return (tensor.double() if tensor.is_floating_point() else tensor).numpy()


def a(value):
    """The class of a value with its article: "a list", "an int"."""
    name = type(value).__name__
    return f"{'an' if name[0] in 'AEIOaeio' or name == 'ndarray' else 'a'} {name}"


def shape_of(value):
    """The shape of a plain tensor; () for any other object, whose `shape` is not to be trusted."""
    return tuple(value.shape) if type(value) in PLAIN_TENSORS else ()


def softmax(scores, axis=-1):
    """The softmax of an array, for the oracles. A row of -inf alone gives zeros."""
    top = scores.max(axis=axis, keepdims=True)
    powers = np.exp(scores - np.where(np.isfinite(top), top, 0.0))
    total = powers.sum(axis=axis, keepdims=True)
    return np.divide(powers, total, out=np.zeros_like(powers), where=total > 0)


def overflows(scores):
    """Whether whole scores are so large that the exponential of one overflows in float32, and so
    small that their differences from the logarithm of the sum are not rough.
    """
    return 100 <= scores.max() and np.abs(scores).max() <= 400


class CheckContext:
    """One run of a check: draws its inputs, calls the answer, and ends it at the first mistake.

    All random numbers come from `seed`: those of the inputs directly, those that the answer draws
    through a hash. An answer that knew the inputs' seed could compute the right results.

    Args:
        seed: of the inputs.
        least: the one of `asked` that `sizes` gives its least value.
        seconds: after which a call of the answer is stopped; None for no limit.
        case: "double", in which the answer gets its floats in float64 and has to be right to their
            digits; "long" or "wide", for which, beyond that, `sizes` draws lengths or widths far
            above those of the other runs.

    Attributes:
        far: {name: size} of those drawn for a long or wide run.
        differentiated: positions of the arguments whose gradients were checked.
        asked: (number of the call of `sizes`, name, least value) of every size drawn so far.
    """

    def __init__(self, seed=0, least=None, seconds=None, case=""):
        self.seed = seed
        self.case = case
        self.generator = torch.Generator().manual_seed(seed)
        self.seconds = seconds
        self.asked = []
        self.far = {}
        self.differentiated = set()
        self._least = least
        self._calls = self._answered = 0
        self._double = False  # whether the last call got numbers in float64

    # Inputs

    def sizes(self, **ranges) -> Any:
        """One size for each name, in the order given; one int for a single name.

        A check runs once with every size above its least, and once more for each name with that
        size at its least and the others above: an answer that squeezes a batch of one, or has the
        number of heads written into it, is not right for long.

        In two more runs all lengths are 257 and more, and all widths 65 and more.

        Args:
            ranges: name=(least, most), both included; what is above the least lies in the upper
                half, where mistakes do not coincide. The least is 1, or a comment says what the
                statement excludes. A third number is what it is in a long or wide run, where the
                oracle takes no more in a second, or the statement excludes it.
        """
        call, self._calls = self._calls, self._calls + 1
        drawn = []
        for name, (least, most, *far) in ranges.items():
            self.asked.append((call, name, least))
            if (call, name, least) == self._least:
                drawn.append(least)
            elif kind_of_size(name) == self.case:
                drawn.append(far[0] if far else FAR[self.case] + self.integers(0, 3))
                self.far[name] = drawn[-1]
            else:  # three at least of what is counted
                low = max(least + max(1, (most - least) // 2), min(3, most))
                drawn.append(self.integers(low, most + 1))
        return drawn if len(drawn) > 1 else drawn[0]

    def against(self):
        """What sets this run apart from the first, as words before its message."""
        if self._least is not None:
            _, name, least = self._least
            return f"right for other sizes, but with {_size(name, least)}"
        if self.far:
            sizes = ", ".join(map(_size, self.far, self.far.values()))
            return f"right for small sizes, but with {sizes}"
        return "right for float32, but with float64, transposed tensors and shorter rows"

    def normal(self, *shape):
        """A tensor of standard normal numbers, float32; float64 and no numbers of float32 where
        the answer gets its floats so.
        """
        kind = torch.float64 if self.case else torch.float32
        return torch.randn(shape, generator=self.generator, dtype=kind)

    def integers(self, low, high, *shape) -> Any:
        """A tensor of integers in [low, high), int64; without a shape, one Python int."""
        drawn = torch.randint(low, high, shape or (1,), generator=self.generator)
        return drawn if shape else int(drawn)

    def lengths(self, batch, most, least=1) -> Tensor:
        """Lengths of the rows of a batch, (batch,) int64: `most`, `least`, and some in between; in
        float64 all below `most`.
        """
        if self.case == "double":
            most = max(least, most - 1)
        some = self.integers(least, most + 1, batch).tolist()
        drawn = [most, least, *some][:batch] if batch > 1 else some
        return torch.tensor([drawn[i] for i in self.order(batch)])

    def order(self, n):
        """A random permutation of 0 … n-1 as a list."""
        return torch.randperm(n, generator=self.generator).tolist()

    def weights(self, *shape):
        """A tensor of attention weights: positive, with sum 1 along the last dimension."""
        return torch.softmax(1.5 * self.normal(*shape), dim=-1)

    def draw(self, sample, accept, tries) -> Any:
        """The first of so many samples that `accept` takes; the last one if it takes none.

        Args:
            sample: draws the inputs of a check, without arguments.
            accept: whether a sample tells the known mistakes apart.
        """
        for _ in range(tries - 1):
            drawn = sample()
            if accept(drawn):
                return drawn
        return sample()

    # Calling the answer

    def call(self, function, *arguments, then=None, own=(), new="") -> Any:
        """Call `function` on copies of the arguments and return its result.

        Args:
            then: called with the result and the copies, gradients enabled, before the result is
                returned.
            own: positions of arguments that the function may change, as a state of its own.
            new: what messages call the result where the statement promises that it is no argument.

        Raises:
            StudentError: the function raises an error.
            Mistake: the function changes one of its arguments.
        """
        self._double = False
        if self.case:
            arguments = tuple(map(self._in_double, arguments))
        copies = tuple(copied(argument) for argument in arguments)
        with time_limit(self.seconds):
            result = guarded(
                function,
                copies,
                seed=self._answer_seed(),
                passing=(Mistake,),
                then=None if then is None else lambda result: then(result, copies),
            )
        if not arguments and type(result) in (bool, int, float, str):
            self._call_again(function, result)
        names = _argument_names(function, len(arguments))
        for position, (name, before, after) in enumerate(zip(names, arguments, copies)):
            change = None if position in own else spoiled(name, before, after)
            if change:
                self.fail(change)
        if new and any(result is copy for copy in copies):
            self.fail(f"{new} is the object that was given: return a new one")
        return result

    def without_loop(self, function, *arguments, over) -> None:
        """Fail where an answer that is right loops over what the arguments have 600 of.

        Args:
            over: What a loop would run over, in the message.
        """
        calls = Calls()

        def counted(*given):
            with calls:
                return function(*given)

        self.call(counted, *arguments)
        if calls.count > 400:  # the grader's own, which hand it the arguments, are some of them
            self.fail(
                f"the results are right, but PyTorch is called more than 400 times for 600 {over}: "
                f"no loop is asked for, so let one call do it for all of them"
            )

    def _answer_seed(self):
        """The seed of what the answer draws in its next call, another one each time."""
        self._answered += 1
        words = f"answer:{self.seed}:{self._answered}"
        return int.from_bytes(hashlib.sha256(words.encode()).digest()[:4], "little")

    def _in_double(self, value):
        """An argument with its tensors of float32 in float64, and columns first in memory, as a
        transposed one has them; others as they are.
        """
        if type(value) in PLAIN_TENSORS and value.dtype in (torch.float32, torch.float64):
            self._double, made = True, value.detach().double()
            made = made if made.dim() < 2 else made.mT.contiguous().mT
            return made.requires_grad_(value.requires_grad)
        if type(value) in (list, tuple):
            return type(value)(map(self._in_double, value))
        if type(value) is dict:
            return {key: self._in_double(entry) for key, entry in value.items()}
        return value

    def _call_again(self, function, first):
        """Fail where a function without arguments, an answer from paper, says something else."""
        for _ in range(4):
            with time_limit(self.seconds):
                again = guarded(function, (), seed=self._answer_seed())
            if type(again) is not type(first) or again != first == first:
                self.fail(
                    f"your function returns {first!r:.40} and then {again!r:.40}: settle on one"
                )

    # Validating the result

    def fail(self, message: str) -> NoReturn:
        """End the check with this sentence."""
        raise Mistake(message)

    def tensor(
        self, value: Any, name, shape, *, dtype=torch.float32, nan=None, mention=None
    ) -> Tensor:
        """Return a detached copy of `value`, a finite tensor of this shape and dtype, or fail.

        Args:
            name: what messages call the value.
            dtype: `torch.long` stands for whole numbers of any width.
            nan: the reason in the message about a value that is not finite.
            mention: a remark added to the message about a wrong shape.
        """
        if self._double and dtype == torch.float32:
            dtype = torch.float64
        if type(value) not in PLAIN_TENSORS:
            self._fail_type(value, name, "a torch.Tensor")
        # a clone has none of the attributes and hooks that an answer may have set
        value = self._dense(Tensor.clone(Tensor.detach(value)), name).cpu()
        if tuple(value.shape) != tuple(shape):
            tail = f" ({mention})" if mention else ""
            self.fail(f"{name}: the shape is {tuple(value.shape)}, expected {tuple(shape)}{tail}")
        if dtype == torch.long and value.dtype in _WHOLE:
            value = value.long()
        if value.dtype != dtype:
            self.fail(f"{name}: the dtype is {_dtype(value.dtype)}, expected {_dtype(dtype)}")
        if value.is_floating_point() and not torch.isfinite(value).all():
            bad = _first(~torch.isfinite(value))
            self.fail(
                f"{_entry(name, bad)} is {_number(value[bad])}"
                + (f": {nan}" if nan else ", a finite number was expected")
            )
        return value

    def floats(self, value: Any, name, shape, **options) -> Tensor:
        """As `tensor`, for float32 or float64; integers become float32."""
        if type(value) is Tensor and value.dtype in (torch.int32, torch.int64):
            value = value.double() if self._double else value.float()
        double = type(value) is Tensor and value.dtype == torch.float64
        return self.tensor(
            value, name, shape, dtype=torch.float64 if double else torch.float32, **options
        )

    def _fail_type(self, value, name, expected) -> NoReturn:
        if value is None:
            self.fail(f"{name}: None came back. Does your function return it?")
        self.fail(f"{name}: {a(value)} came back, expected {expected}")

    def _dense(self, value, name):
        """Return `value`, a dense tensor whose values can be read, or fail."""
        if value.layout != torch.strided or value.device.type == "meta":
            self.fail(
                f"{name}: expected an ordinary dense tensor, got layout {value.layout} on device "
                f"{value.device.type}"
            )
        return value

    def number(self, value: Any, name, *, nan=None) -> float:
        """Return a finite Python float from a number of Python or NumPy or a one-element tensor, or
        fail.

        Args:
            nan: the reason in the message about a number that is not finite.
        """
        if type(value) in PLAIN_TENSORS and Tensor.numel(value) == 1:
            value = Tensor.item(Tensor.detach(self._dense(value, name)))
        kind = value.dtype.kind if isinstance(value, (np.generic, np.ndarray)) else ""
        if kind and kind in "iuf" and value.size == 1 and value.dtype.itemsize <= 8:
            value = value.item()
        if type(value) in (Decimal, Fraction):
            value = float(value)
        if type(value) in (*PLAIN_TENSORS, np.ndarray):
            self.fail(f"{name}: the shape is {tuple(value.shape)}, expected one number")
        if type(value) not in (int, float):
            self._fail_type(value, name, "one number")
        try:
            value = float(value)
        except OverflowError:
            self.fail(
                f"{name} is a whole number of hundreds of digits, which no formula here gives"
            )
        if not np.isfinite(value):
            why = ", a finite number was expected" if nan is None else f": {nan}"
            self.fail(f"{name} is {_number(value)}{why}")
        return value

    def truth(self, value: Any, name) -> bool:
        """Return a Python bool from one of Python, NumPy or a one-element tensor, or fail."""
        if type(value) is Tensor and Tensor.numel(value) == 1 and value.dtype == torch.bool:
            value = Tensor.item(self._dense(value, name))
        if type(value) is np.bool_:
            value = bool(value)
        if type(value) is not bool:
            self._fail_type(value, name, "True or False")
        return value

    def choice(self, value: Any, name, options) -> str:
        """Return the one of `options` (strings) that `value` is, whatever its case, or fail."""
        shown = ", ".join(map(repr, options))
        if isinstance(value, str):  # np.str_, a member of an Enum of strings
            value = str.__str__(value)
        else:
            self._fail_type(value, name, f"one of {shown}")
        found = [option for option in options if option.lower() == value.strip().lower()]
        if not found:
            self.fail(f"{name} is {value[:40]!r}, expected one of {shown}")
        return found[0]

    def predicted(self, answer, *options: str) -> str:
        """What a check of a prediction returns: every one of `options` is taken, none is marked
        wrong, and the verdict sends the reader to the cell that shows what comes.
        """
        said = self.choice(self.call(answer), "your prediction", options)
        return f"you say {said!r}. Now run the next cell."

    def parts(self, value: Any, names, shapes=None) -> list:
        """Return the members of a tuple or list with one member per name, or fail.

        Args:
            shapes: of the members, to report members in reverse order.
        """
        expected = f"({', '.join(names)})"
        if is_named_tuple(value):
            value = tuple(tuple.__iter__(value))
        if type(value) not in (tuple, list) or len(value) != len(names):
            what = f"{len(value)} values" if type(value) in (tuple, list) else a(value)
            self.fail(f"your function returns {what}, expected the tuple {expected}")
        if shapes and [shape_of(part) for part in value] == [*reversed(shapes)] != [*shapes]:
            self.fail(f"your function returns ({', '.join(reversed(names))}): expected {expected}")
        return list(value)

    def ids(self, value: Any, name) -> list[int]:
        """Return a list of Python ints from a list of integers of Python or NumPy or a
        one-dimensional tensor or array of integers, or fail.
        """
        if type(value) is Tensor and value.dtype in _WHOLE and value.dim() == 1:
            value = Tensor.tolist(self._dense(value, name))
        if type(value) is np.ndarray and value.dtype.kind in "iu" and value.ndim == 1:
            value = value.tolist()
        if type(value) not in (list, tuple):
            self._fail_type(value, name, "a list of whole numbers")
        result = []
        for position, entry in enumerate(value):
            if type(entry) is Tensor and entry.dtype in _WHOLE and entry.numel() == 1:
                entry = Tensor.item(self._dense(entry, f"{name}: entry {position}"))
            if isinstance(entry, np.integer):
                entry = int(entry)
            if type(entry) is not int:
                self.fail(f"{name}: entry {position} is {a(entry)}, expected a whole number")
            if abs(entry) >= 2**63:
                self.fail(f"{name}: entry {position} is a whole number of more than 64 bits")
            result.append(entry)
        return result

    # Comparing

    def same(self, got, other, more=0.0):
        """Whether two results are equal up to rounding, and up to as much more; of tuples, whether
        each of their parts is.
        """
        if type(got) is tuple:
            return all(self.same(part, of_other, more) for part, of_other in zip(got, other))
        got, other = _numbers(got), _numbers(other)
        if object in (got.dtype, other.dtype) or got.dtype.kind == other.dtype.kind in "iu":
            return bool(np.array_equal(got, other))  # whole numbers, some beyond 64 bits
        return got.shape == other.shape and bool(
            np.allclose(got, other, rtol=1e-4, atol=2e-5 + more, equal_nan=True)
            if not self._double
            else np.allclose(got, other, rtol=1e-9, atol=1e-10 + 2**-29 * more, equal_nan=True)
        )

    def recognize(self, got, expected, wrong):
        """Fail with the message of the first known wrong result that `got` equals.

        A wrong result that is right for these inputs is no mistake.

        Args:
            wrong: {message: the result of this mistake}.
        """
        if self._least is not None or self.same(got, expected):
            return  # of the least size several mistakes are the same: what differs is said
        for message, other in wrong.items():
            if self.same(got, other):
                self.fail(message)

    def close_everywhere(self, cases):
        """Compare the results of several calls: a mistake has its name where it explains all of
        them, and what differs is said of the first that does.

        Args:
            cases: (name, got, expected, wrong) of each call, as for `close`; the same messages in
                every `wrong`.
        """
        _, got, expected, wrong = zip(*cases)
        messages = {message: tuple(one[message] for one in wrong) for message in wrong[0]}
        self.recognize(got, expected, messages)
        for name, got, expected, _ in cases:
            self.close(got, expected, name)

    def close(self, got, expected, name, wrong=None, *, size=0.0):
        """Fail unless `got` equals `expected` up to rounding, and name the largest difference.

        Args:
            wrong: {message: the result of this mistake}, as for `recognize`.
            size: Of numbers whose difference is wanted: a difference may be as rough as float32
                rounds them.
        """
        self.recognize(got, expected, {} if wrong is None else wrong)
        if self.same(got, expected, 2**-23 * size):
            return
        got, expected = _numbers(got), _numbers(expected)
        if got.shape != expected.shape:
            self.fail(f"{name}: the shape is {got.shape}, expected {expected.shape}")
        if self._double and np.allclose(got, expected, rtol=1e-4, atol=2e-5):
            self.fail(
                f"{name}: right to some digits only: is a part computed in float32, or is a small "
                f"number added?"
            )
        if expected.dtype == bool:  # True and False count as 1 and 0
            got, expected = got.astype(int), expected.astype(int)
        difference = np.abs(got - expected)
        worst = (
            np.unravel_index(int((difference - 1e-4 * np.abs(expected)).argmax()), difference.shape)
            if difference.ndim
            else ()
        )
        count = int((difference > 1e-4 * np.abs(expected) + 2e-5).sum())
        which = f" ({count} of {difference.size} values differ)" if difference.size > 1 else ""
        digits = 4
        while digits < 9 and _number(got[worst], digits) == _number(expected[worst], digits):
            digits += 1
        self.fail(
            f"{_entry(name, worst)} is {_number(got[worst], digits)}, expected "
            f"{_number(expected[worst], digits)}{which}"
        )


def _numbers(value):
    if isinstance(value, Tensor):
        return array(value)
    return np.asarray(value)


def _argument_names(function, count):
    code = getattr(function, "__code__", None)
    names = (
        list(code.co_varnames[: code.co_argcount])
        if code
        else getattr(function, "argument_names", [])
    )
    return [names[i] if i < len(names) else f"number {i + 1}" for i in range(count)]


def _first(condition):
    return tuple(int(i) for i in condition.nonzero()[0]) if condition.dim() else ()


def _at(index):
    return f"[{', '.join(str(int(i)) for i in index)}]" if len(index) else ""


def _size(name, size):
    return f"{name if name.startswith('d_') else name.replace('_', ' ')} = {size}"


def _entry(name, index):
    """The name of one entry: "effects[0]" for "the effects"."""
    before, the, noun = name.rpartition("the ")
    return f"{before}{noun}{_at(index)}" if the and len(index) else f"{name}{_at(index)}"


def _number(value, digits=4):
    value = float(value)
    if not np.isfinite(value):
        return "NaN" if np.isnan(value) else "inf" if value > 0 else "-inf"
    return str(int(value)) if value == int(value) and abs(value) < 1e6 else f"{value:.{digits}g}"


def _dtype(dtype):
    return str(dtype).removeprefix("torch.")
