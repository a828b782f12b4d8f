"""A CUDA device that is not there: what fails for a reader with a GPU fails in a test without one.

    with simulated_cuda() as device:
        x = torch.ones(3, device="cuda")
        x + torch.ones(3)           # RuntimeError: Expected all tensors to be on the same device
        x.sum().item()
    device.synchronizations         # Counter({"/…/test_it.py:4": 1})

A tensor of the device (:class:`CudaTensor`) says that it is on ``cuda:0`` and holds its numbers in
a CPU tensor. Every operation is checked by the rules of CUDA and then computed on the CPU, so right
code gives the numbers of the CPU, and its random draws.

Simulated:
    - ``device="cuda"`` wherever PyTorch takes a device, ``.to``, ``.cuda``, modules,
      ``torch.cuda.is_available`` and its like;
    - operations on tensors of two devices, refused; allowed are copies, numbers (tensors without
      dimensions) of the CPU in element-wise operations, and indices of the CPU into a CUDA tensor;
    - ``.numpy()`` and ``numpy.asarray`` of a CUDA tensor, refused;
    - generators: a draw on CUDA takes one of CUDA, a draw on the CPU one of the CPU;
    - recurrent networks by cuDNN: backward in training mode only, contiguous states (neither with
      ``torch.backends.cudnn.enabled`` False); lengths of packed sequences on the CPU;
    - autocast: products of numbers rounded to its dtype, the delicate functions in float32, and the
      scaler of gradients;
    - synchronizations: the lines at which the host waits for the device, that is values that Python
      reads, copies to the CPU, and results whose shape depends on values (boolean indices, nonzero,
      unique, …).

Not simulated: kernels of the GPU with their rounding, speed, memory and limits of shape; streams
and asynchronous errors; a second GPU; TF32; ``torch.compile``, which returns its function as it is.
``torch.save`` writes tensors of the CPU.
The device "meta" cannot be used inside the block.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from unittest import mock

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map

from . import tensor
from .tensor import CPU, CUDA, UNDERNEATH, CudaOperations, CudaTensor, SimulatedCuda

__all__ = ["CudaTensor", "SimulatedCuda", "simulated_cuda"]

MAKERS = {torch.tensor, torch.as_tensor, torch.asarray}


class _Calls(TorchFunctionMode):
    """Calls from Python, before autograd: names of devices, generators, pinned memory."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = getattr(function, "__name__", "")
        if name in ("__get__", "__set__", "device") or "autocast" in name:
            return function(*args, **kwargs)
        if name == "pin_memory":
            if isinstance(args[0], CudaTensor):
                raise RuntimeError(
                    "cannot pin 'torch.cuda.FloatTensor' only dense CPU tensors can be pinned"
                )
            return args[0]
        if name == "cuda":
            return args[0].to(UNDERNEATH)
        _check_generator(name, args, kwargs)
        if name == "new_tensor":
            kwargs = {"dtype": args[0].dtype, "device": args[0].device, **kwargs}
            function, args = torch.tensor, args[1:]
        if function in MAKERS and _is_cuda(kwargs.get("device")):  # made here, then copied
            grad = kwargs.pop("requires_grad", False)
            return function(*args, **{**kwargs, "device": CPU}).to(UNDERNEATH).requires_grad_(grad)
        kwargs = {key: _underneath(value) for key, value in kwargs.items()}
        return _autocast(function, name, tuple(map(_underneath, args)), kwargs)


LOWERED = set(
    "linear matmul __matmul__ __rmatmul__ mm mv bmm addmm addbmm baddbmm einsum conv1d conv2d "
    "conv_transpose1d conv_transpose2d scaled_dot_product_attention lstm gru rnn_tanh rnn_relu "
    "lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell".split()
)
IN_FLOAT32 = set(
    "__pow__ __rpow__ __rtruediv__ binary_cross_entropy_with_logits cosine_similarity "
    "cross_entropy cumprod cumsum exp expm1 group_norm kl_div layer_norm log log1p log_softmax "
    "mse_loss nll_loss norm normalize pow prod reciprocal rms_norm rsqrt softmax softplus "
    "sum".split()
)
OF_ONE_DTYPE = set("addcdiv addcmul cat stack dot index_put scatter_add tensordot".split())


def _autocast(function, name, args, kwargs):
    """The function as autocast on CUDA calls it: products of rounded numbers, rounded; what is
    delicate in float32; and one dtype, the widest, where PyTorch asks for one.
    """
    floating = [
        leaf
        for leaf in tree_leaves((args, kwargs))
        if isinstance(leaf, CudaTensor) and leaf.is_floating_point() and leaf.dtype != torch.float64
    ]
    if not floating or not torch.is_autocast_enabled("cuda"):
        return function(*args, **kwargs)
    low = torch.get_autocast_dtype("cuda")

    def cast(value, *dtypes):
        if not isinstance(value, CudaTensor) or value.dtype not in (torch.float32, low):
            return value
        for dtype in dtypes:
            value = value.to(dtype)
        return value

    if name in LOWERED:
        args, kwargs = tree_map(lambda value: cast(value, low, torch.float32), (args, kwargs))
        return tree_map(lambda value: cast(value, low), function(*args, **kwargs))
    if name in IN_FLOAT32 or name in OF_ONE_DTYPE and len({t.dtype for t in floating}) > 1:
        args, kwargs = tree_map(lambda value: cast(value, torch.float32), (args, kwargs))
    return function(*args, **kwargs)


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
    tensors = [argument for argument in args if isinstance(argument, torch.Tensor)]
    cuda = isinstance(tensors[0], CudaTensor) if tensors else _is_cuda(kwargs.get("device"))
    wanted, got = "cuda" if cuda else "cpu", generator.device.type
    if wanted != got:
        message = f"Expected a '{wanted}' device type for generator but found '{got}' (in {name})"
        raise RuntimeError(message)


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


class _NoWayBack(torch.autograd.Function):
    """The identity; its backward is cuDNN's refusal after a run in evaluation mode."""

    @staticmethod
    def forward(context, tensor):
        return tensor.view_as(tensor)

    @staticmethod
    def backward(context, gradient):
        raise RuntimeError("cudnn RNN backward can only be called in training mode")


class _RecurrentKernels:
    """torch._VF as torch.nn.modules.rnn sees it, with cuDNN's demands on recurrent networks."""

    def __init__(self, original) -> None:
        self.original = original

    def __getattr__(self, name):
        kernel = getattr(self.original, name)
        whole = name in ("rnn_tanh", "rnn_relu", "gru", "lstm")  # not one step of a cell
        return self._checked(kernel, name) if whole else kernel

    @staticmethod
    def _checked(kernel, name):
        def run(*args):
            # (input, states, weights, bias, layers, dropout, training, …);
            # of a packed sequence the sizes of its steps stand behind the input.
            packed = isinstance(args[3], list | tuple)
            states, weights = args[1 + packed], args[2 + packed]
            states = [states] if isinstance(states, torch.Tensor) else [*states]
            cuda = [isinstance(tensor, CudaTensor) for tensor in (args[0], *states, *weights)]
            if any(cuda) and not all(cuda):
                raise RuntimeError(f"Input, state and weights of {name} are not on the same device")
            out = kernel(*args)
            if not all(cuda) or not torch.backends.cudnn.enabled:
                return out
            if not all(state.is_contiguous() for state in states):
                raise RuntimeError("rnn: hx is not contiguous")
            return out if args[6 + packed] else tree_map(_NoWayBack.apply, out)

        return run


TRUE_OF_CUDA = {
    **dict.fromkeys(("is_available", "is_initialized", "is_bf16_supported"), True),
    **dict.fromkeys(("current_device", "memory_allocated", "max_memory_allocated"), 0),
    **dict.fromkeys(("memory_reserved", "max_memory_reserved"), 0),
    "is_current_stream_capturing": False,
    "device_count": 1,
    "get_device_name": "simulated CUDA device",
    "get_device_capability": (8, 0),
    "get_rng_state_all": [],
}
NOTHING_TO_DO = "init _lazy_init set_device synchronize empty_cache reset_peak_memory_stats".split()
NOTHING_TO_DO += "manual_seed manual_seed_all set_rng_state set_rng_state_all".split()


@contextmanager
def simulated_cuda() -> Iterator[SimulatedCuda]:
    """Inside the block PyTorch has one CUDA device. Yields what is recorded of it."""
    device = SimulatedCuda()
    with ExitStack() as stack:

        def put(owner, name, value):
            stack.enter_context(mock.patch.object(owner, name, value))

        for name, value in TRUE_OF_CUDA.items():
            put(torch.cuda, name, lambda *args, value=value, **options: value)
        for name in NOTHING_TO_DO:
            put(torch.cuda, name, lambda *args, **options: None)
        put(torch.accelerator, "is_available", lambda: True)
        put(torch.accelerator, "current_accelerator", lambda *args, **options: torch.device("cuda"))
        stream = SimpleNamespace(is_capturing=lambda: False)
        put(torch.accelerator, "current_stream", lambda *args: stream)
        put(torch.nn.modules.rnn, "_VF", _RecurrentKernels(torch._VF))
        put(torch.nn.RNNBase, "flatten_parameters", lambda self: None)
        put(torch, "Generator", _generator_class(torch.Generator))
        put(torch, "compile", lambda model=None, **options: model or (lambda function: function))
        put(tensor, "current", device)
        stack.enter_context(CudaOperations())
        stack.enter_context(_Calls())
        yield device
