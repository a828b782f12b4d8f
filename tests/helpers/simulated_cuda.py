"""A CUDA device that is not there: what fails for a reader with a GPU fails in a test without one.

    with simulated_cuda() as device:
        x = torch.ones(3, device="cuda")
        x + torch.ones(3)           # RuntimeError: Expected all tensors to be on the same device
        x.sum().item()
    device.synchronizations         # Counter({"/…/test_it.py:4": 1})

A tensor of the device (:class:`CudaTensor`) says that it is on ``cuda:0`` and holds its numbers in a CPU tensor. Every operation
is checked by the rules of CUDA and then computed on the CPU, so right code gives the numbers of the CPU, and its random draws.

Simulated:
    - ``device="cuda"`` wherever PyTorch takes a device, ``.to``, ``.cuda``, modules, ``torch.cuda.is_available`` and its like;
    - operations on tensors of two devices, refused; allowed are copies, numbers (tensors without dimensions) of the CPU in an
      element-wise operation, and indices of the CPU into a CUDA tensor;
    - ``.numpy()`` and ``numpy.asarray`` of a CUDA tensor, refused;
    - generators: a draw on CUDA takes a generator of CUDA, a draw on the CPU one of the CPU;
    - recurrent networks as cuDNN runs them: backward in training mode only, lengths on the CPU, states contiguous (none of these
      with ``torch.backends.cudnn.enabled`` False, but for the lengths);
    - synchronizations: the lines at which the host waits for the device, that is values that Python reads, copies to the CPU,
      and results whose shape depends on values (boolean indices, nonzero, unique, …).

Not simulated: kernels of the GPU with their rounding, speed, memory and limits of shape; streams and asynchronous errors;
autocast and gradient scaling on CUDA; a second GPU; TF32 and lower precision; ``torch.compile``, which returns its function as it
is. ``torch.save`` writes CPU tensors. The device "meta" cannot be used inside the block.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._mode_utils import no_dispatch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

__all__ = ["CudaTensor", "SimulatedCuda", "simulated_cuda"]

aten = torch.ops.aten
CUDA, CPU = torch.device("cuda", 0), torch.device("cpu")
# What PyTorch's C++ takes a CudaTensor for: a device that every build has, and autograd too, and whose kernels are never called.
UNDERNEATH = torch.device("meta")
TWO_DEVICES = "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu! (when checking {})"
NO_NUMPY = "can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first."
MAKERS = {torch.tensor, torch.as_tensor, torch.asarray}
INDEXING = {"index", "index_put", "index_put_", "_index_put_impl_"}
READ_BY_THE_HOST = {"_local_scalar_dense", "equal",  # and those whose results have a shape that depends on values:
                    "nonzero", "masked_select", "_unique2", "unique_dim", "unique_consecutive", "repeat_interleave", "bincount"}


class SimulatedCuda:
    """What happened on the device inside the block.

    synchronizations: how often the host waited, by "file:line" of the first caller outside PyTorch.
    """

    def __init__(self) -> None:
        self.synchronizations: Counter[str] = Counter()

    def synchronize(self) -> None:
        """Count that the host waits for the device, at the line of the caller's code."""
        frame, ours = sys._getframe(1), (str(Path(torch.__file__).parent), __file__)
        while frame.f_back is not None and frame.f_code.co_filename.startswith(ours):
            frame = frame.f_back
        self.synchronizations[f"{frame.f_code.co_filename}:{frame.f_lineno}"] += 1


_device = SimulatedCuda()  # of the block that runs


class CudaTensor(torch.Tensor):
    """A tensor that says that it is on cuda:0; its numbers are in ``inner``, a tensor of the CPU."""

    inner: torch.Tensor

    @staticmethod
    def __new__(cls, inner: torch.Tensor) -> CudaTensor:
        made = torch.Tensor._make_wrapper_subclass(cls, inner.size(), strides=inner.stride(), storage_offset=inner.storage_offset(),
                                                   dtype=inner.dtype, device=UNDERNEATH)
        made.inner = inner
        return made

    device = property(lambda self: CUDA)
    is_cuda = property(lambda self: True)
    is_cpu = property(lambda self: False)
    is_meta = property(lambda self: False)

    @property
    def data(self):
        return self.detach()

    @data.setter
    def data(self, other):
        if not isinstance(other, CudaTensor) or other.shape != self.shape:
            raise NotImplementedError("other data of another shape or device on the simulated device")
        self.inner = other.inner

    def numpy(self, *, force=False):
        if force:
            return self.detach().cpu().numpy()
        raise TypeError(NO_NUMPY)

    def __array__(self, *args, **options):
        raise TypeError(NO_NUMPY)

    def tolist(self):
        return self.detach().cpu().tolist()

    def data_ptr(self):
        return self.inner.data_ptr()

    def __repr__(self, **options):
        return f"{self.inner!r} on cuda:0"

    def __format__(self, how):
        return format(self.item(), how) if self.dim() == 0 else super().__format__(how)

    def __deepcopy__(self, memo):
        if id(self) not in memo:
            copied = self.detach().clone()
            if isinstance(self, torch.nn.Parameter):
                copied = torch.nn.Parameter(copied, self.requires_grad)
            memo[id(self)] = copied.requires_grad_(self.requires_grad)
        return memo[id(self)]

    def __reduce_ex__(self, protocol):
        return self.inner.detach().__reduce_ex__(protocol)

    # These two let Module.to keep its parameters the same objects, as it does for a real device.
    def __tensor_flatten__(self):
        return ["inner"], None

    @staticmethod
    def __tensor_unflatten__(parts, context, size, stride):
        return CudaTensor(parts["inner"])

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        return _compute(function, args, kwargs or {})


def _compute(function, args, kwargs):
    """One operation of PyTorch's core: checked, computed on the CPU, and its results on the device that they belong to."""
    tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
    on_cuda = [tensor for tensor in tensors if isinstance(tensor, CudaTensor)]
    wanted = kwargs.get("device")
    if not on_cuda and wanted != UNDERNEATH:
        return function(*args, **kwargs)
    name = function._schema.name.removeprefix("aten::")
    if name == "set_":
        raise NotImplementedError(f"{function} on the simulated device")
    cuda = _check_devices(function, name, args, tensors, on_cuda) if wanted is None else wanted == UNDERNEATH
    _count_synchronizations(name, args, on_cuda, cuda)
    if wanted is not None:
        kwargs = {**kwargs, "device": CPU}
    wrapped = {id(tensor.inner): tensor for tensor in on_cuda}
    out = function(*tree_map(_inner, args), **tree_map(_inner, kwargs))
    if torch.Tag.inplace_view in function.tags:  # such as transpose_: the shape that PyTorch sees changes, too
        with no_dispatch():
            function(*args, **kwargs)

    def wrap(value):
        if id(value) in wrapped:  # in place, or into `out`: the tensor that came
            return wrapped[id(value)]
        return CudaTensor(value) if cuda and isinstance(value, torch.Tensor) else value

    if name == "_pack_padded_sequence":  # the sizes of the steps stay on the CPU
        return wrap(out[0]), out[1]
    return tree_map(wrap, out)


def _inner(value):
    return value.inner if isinstance(value, CudaTensor) else value


def _check_devices(function, name, args, tensors, on_cuda) -> bool:
    """Whether the result is on CUDA. Raises RuntimeError for tensors of two devices where CUDA does not take them."""
    if name == "copy_":
        return isinstance(args[0], CudaTensor)
    if name == "_pack_padded_sequence" and isinstance(args[1], CudaTensor):
        raise RuntimeError("'lengths' argument should be a 1D CPU int64 tensor, but got 1D cuda:0 Long tensor")
    if len(on_cuda) == len(tensors) or name.startswith("_pack_padded_sequence"):
        return True
    if name in INDEXING:
        if not isinstance(args[0], CudaTensor):
            raise RuntimeError("indices should be either on cpu or on the same device as the indexed tensor (cpu)")
        if name == "index" or isinstance(args[2], CudaTensor) or args[2].dim() == 0:
            return True
    elif torch.Tag.pointwise in function.tags or name.startswith(("masked_fill", "fill", "__", "result_type")):
        written = args[:1] if function._schema.is_mutable else []
        if all(isinstance(tensor, CudaTensor) or (tensor.dim() == 0 and not any(tensor is w for w in written)) for tensor in tensors):
            return True
    raise RuntimeError(TWO_DEVICES.format(function))


def _count_synchronizations(name, args, on_cuda, cuda) -> None:
    copied = name in ("_to_copy", "copy_") and on_cuda and not cuda
    # A mask as an index is looked at for its True ones, unless one number is written to all of them.
    masked = name in INDEXING and any(isinstance(index, CudaTensor) and index.dtype == torch.bool for index in args[1]) \
        and (name == "index" or args[2].numel() > 1)
    if copied or masked or name in READ_BY_THE_HOST and on_cuda:
        _device.synchronize()


class _Operations(TorchDispatchMode):
    """Operations without a CudaTensor, too: those that make one."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        return _compute(function, args, kwargs or {})


class _Calls(TorchFunctionMode):
    """Calls from Python, before autograd: names of devices, generators, pinned memory."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = getattr(function, "__name__", "")
        if name in ("__get__", "__set__", "device") or "autocast" in name:
            return function(*args, **kwargs)
        if name == "pin_memory":
            if isinstance(args[0], CudaTensor):
                raise RuntimeError("cannot pin 'torch.cuda.FloatTensor' only dense CPU tensors can be pinned")
            return args[0]
        if name == "cuda":
            return args[0].to(UNDERNEATH)
        _check_generator(name, args, kwargs)
        if name == "new_tensor":
            kwargs = {"dtype": args[0].dtype, "device": args[0].device, **kwargs}
            function, args = torch.tensor, args[1:]
        if function in MAKERS and _is_cuda(kwargs.get("device")):  # from Python's numbers: made here, then copied
            grad = kwargs.pop("requires_grad", False)
            return function(*args, **{**kwargs, "device": CPU}).to(UNDERNEATH).requires_grad_(grad)
        return function(*map(_underneath, args), **{key: _underneath(value) for key, value in kwargs.items()})


def _is_cuda(value) -> bool:
    if isinstance(value, str) and re.fullmatch(r"cuda(:\d+)?", value):
        value = torch.device(value)
    if not isinstance(value, torch.device) or value.type != "cuda":
        return False
    if value.index:
        raise RuntimeError("CUDA error: invalid device ordinal")
    return True


def _underneath(value):
    return UNDERNEATH if _is_cuda(value) else value


def _check_generator(name, args, kwargs) -> None:
    generator = kwargs.get("generator")
    if generator is None:
        return
    given = [argument for argument in args if isinstance(argument, torch.Tensor)]
    cuda = _is_cuda(kwargs["device"]) if kwargs.get("device") is not None else bool(given) and isinstance(given[0], CudaTensor)
    wanted, got = "cuda" if cuda else "cpu", generator.device.type
    if wanted != got:
        raise RuntimeError(f"Expected a '{wanted}' device type for generator but found '{got}' (in {name})")


def _generator_class(original):
    class Kind(type(original)):
        def __instancecheck__(cls, instance):
            return isinstance(instance, original)

    class Generator(original, metaclass=Kind):
        """A generator that may be one of CUDA; its numbers are those of the CPU."""

        def __new__(cls, device="cpu"):
            made = original.__new__(cls)
            made.place = CUDA if _is_cuda(device) else torch.device(device)
            return made

        device = property(lambda self: self.place)

    return Generator


class _InTraining(torch.autograd.Function):
    """The identity; its backward is cuDNN's refusal to go back through a network that ran in evaluation mode."""

    @staticmethod
    def forward(context, tensor):
        return tensor.view_as(tensor)

    @staticmethod
    def backward(context, gradient):
        raise RuntimeError("cudnn RNN backward can only be called in training mode")


class _RecurrentKernels:
    """torch._VF as torch.nn.modules.rnn sees it, with cuDNN's demands on whole recurrent networks."""

    def __init__(self, original) -> None:
        self.original = original

    def __getattr__(self, name):
        kernel = getattr(self.original, name)
        return self._checked(kernel, name) if name in ("rnn_tanh", "rnn_relu", "gru", "lstm") else kernel

    @staticmethod
    def _checked(kernel, name):
        def run(*args):
            # Padded: (input, states, weights, bias, layers, dropout, training, …); packed: batch sizes stand behind the input.
            packed = isinstance(args[3], list | tuple)
            states, weights = args[1 + packed], args[2 + packed]
            states = [states] if isinstance(states, torch.Tensor) else [*states]
            cuda = [isinstance(tensor, CudaTensor) for tensor in (args[0], *states, *weights)]
            if any(cuda) and not all(cuda):
                raise RuntimeError(f"Input, hidden state and weights of {name} are not on the same device, found cuda:0 and cpu")
            out = kernel(*args)
            if not all(cuda) or not torch.backends.cudnn.enabled:
                return out
            if not all(state.is_contiguous() for state in states):
                raise RuntimeError("rnn: hx is not contiguous")
            return out if args[6 + packed] else tree_map(_InTraining.apply, out)

        return run


TRUE_OF_CUDA = {
    "is_available": True, "is_initialized": True, "device_count": 1, "current_device": 0, "get_device_name": "simulated CUDA device",
    "get_device_capability": (8, 0), "is_bf16_supported": True, "is_current_stream_capturing": False, "memory_allocated": 0,
    "max_memory_allocated": 0, "memory_reserved": 0, "max_memory_reserved": 0, "get_rng_state_all": [],
}
NOTHING_TO_DO = ("init", "_lazy_init", "set_device", "synchronize", "empty_cache", "reset_peak_memory_stats", "manual_seed",
                 "manual_seed_all", "set_rng_state", "set_rng_state_all")


@contextmanager
def simulated_cuda() -> Iterator[SimulatedCuda]:
    """Inside the block PyTorch has one CUDA device. Yields what is recorded of it."""
    global _device
    before, _device = _device, SimulatedCuda()
    with ExitStack() as stack:
        def put(owner, name, value):
            stack.enter_context(mock.patch.object(owner, name, value))

        for name, value in TRUE_OF_CUDA.items():
            put(torch.cuda, name, lambda *args, value=value, **options: value)
        for name in NOTHING_TO_DO:
            put(torch.cuda, name, lambda *args, **options: None)
        put(torch.accelerator, "is_available", lambda: True)
        put(torch.accelerator, "current_accelerator", lambda *args, **options: torch.device("cuda"))
        put(torch.accelerator, "current_stream", lambda *args: SimpleNamespace(is_capturing=lambda: False))
        put(torch.nn.modules.rnn, "_VF", _RecurrentKernels(torch._VF))
        put(torch.nn.RNNBase, "flatten_parameters", lambda self: None)
        put(torch, "Generator", _generator_class(torch.Generator))
        put(torch, "compile", lambda model=None, **options: model if model is not None else (lambda function: function))
        stack.enter_context(_Operations())
        stack.enter_context(_Calls())
        try:
            yield _device
        finally:
            _device = before
