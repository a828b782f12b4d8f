"""What a live module is made of, read off the module: the sublayers of a block, their wiring,
widths and parameters.

Nothing here knows a class of the library. A block is a module with children ``NAME`` and
``around_NAME``: a sublayer and its wiring, an object with ``norm``, ``dropout`` and the methods
``sublayer_input(x)`` and ``combine(x, output)``. What the methods do is read by running them on stand-ins that
write down each step (``torch.fx``), so the outline shows what the code does."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import nn
from torch.fx import Graph, Node, Tracer

__all__ = ["Part", "Sublayer", "count_parameters", "describe", "read_block", "sublayers"]


@dataclass(frozen=True)
class Part:
    """One box of a drawing.

    role        what it is for, "self-attention"; "" where the kind of module says it
    kind        "attention", "cross", "feed", "norm", "dropout", "scale", "embedding" or "other"
    module      name of its class
    detail      widths, "8 heads × 64"; "" where there are none
    parameters  their number
    shared      whose matrix it is, where it has none of its own
    """

    role: str
    kind: str
    module: str
    detail: str
    parameters: int
    shared: str = ""

    @property
    def lines(self) -> list[str]:
        """What is written into the box, one to three lines."""
        count = self.shared or (f"{self.parameters:,} parameters" if self.parameters > 1 else "")
        if not self.role:
            return [" · ".join(filter(None, (f"{self.module} {self.detail}".strip(), count)))]
        return [
            self.role,
            ", ".join(filter(None, (self.module, self.detail))),
            *filter(None, (count,)),
        ]


@dataclass(frozen=True)
class Sublayer:
    """A sublayer in its wiring, from the stream to the stream.

    before  what stands between the stream and the sublayer, inside the branch
    part    the sublayer
    behind  what stands behind it, inside the branch
    join    "sum" where the stream is added, "none" where there is no residual, "wiring" where the
            two meet in another way
    after   what stands on the stream behind that
    """

    before: tuple[Part, ...]
    part: Part
    behind: tuple[Part, ...]
    join: str
    after: tuple[Part, ...]


_ROLES = {
    "attention": ("self-attention", "attention"),
    "cross_attention": ("attention over the source", "cross"),
    "feed_forward": ("feed-forward", "feed"),
}


def count_parameters(*modules: nn.Module) -> int:
    """The number of parameters of some modules; what they share counts once."""
    return sum(
        p.numel() for p in {id(p): p for module in modules for p in module.parameters()}.values()
    )


def describe(module: nn.Module, name: str = "") -> Part:
    """The box of a module; ``name`` is the attribute that it stands under in its parent."""
    role, kind = _ROLES.get(name, (name.replace("_", " "), "other"))
    called, detail = type(module).__name__, ""
    linears = [m for m in module.modules() if isinstance(m, nn.Linear)]
    if isinstance(getattr(module, "p", None), float) and "Dropout" in called:
        return Part("", "dropout", "dropout", f"{module.p:g}", 0)
    if isinstance(module, nn.Embedding):
        kind, detail = "embedding", f"{module.num_embeddings:,} × {module.embedding_dim}"
    elif hasattr(module, "num_heads") and hasattr(module, "d_head"):
        detail = f"{module.num_heads} head{'s' * (module.num_heads > 1)} × {module.d_head}"
    elif "Norm" in called:
        kind = "norm"
    elif linears:
        # two maps of one shape side by side: once
        steps = list(dict.fromkeys((m.in_features, m.out_features) for m in linears))
        if all(a[1] == b[0] for a, b in zip(steps, steps[1:])):
            detail = " → ".join(
                f"{width:,}" for width in (steps[0][0], *(step[1] for step in steps))
            )
    return Part(role, kind, called, detail, count_parameters(module))


def sublayers(layer: nn.Module) -> list[str]:
    """The names of the children that have a wiring, ``around_NAME``, in the order in which they
    were made.
    """
    return [
        name
        for name, child in layer._modules.items()
        if child is not None and f"around_{name}" in layer._modules
    ]


def read_block(layer: nn.Module) -> tuple[Sublayer, ...]:
    """The sublayers of a block in their wirings, first to last.

    Raises:
        ValueError: if the module has no sublayer with a wiring.
    """
    names = sublayers(layer) if isinstance(layer, nn.Module) else []
    if not names:
        raise ValueError(
            "layer must be a block with sublayers and their wirings (children NAME and "
            "around_NAME), got "
            f"{type(layer).__name__}"
        )
    return tuple(
        _read(describe(layer._modules[name], name), layer._modules[f"around_{name}"])
        for name in names
        if type(layer._modules[name]) is not nn.Identity
    )


class _Enter(nn.Module):
    def __init__(self, wiring: nn.Module) -> None:
        super().__init__()
        self.wiring = wiring

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.wiring.sublayer_input(x)


class _Leave(_Enter):
    def forward(self, x: torch.Tensor, output: torch.Tensor) -> torch.Tensor:
        return self.wiring.combine(x, output)


class _Steps(Tracer):
    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return True  # norm and dropout are steps, whatever they do inside


class _Unread(Exception):
    """The wiring does something that is no chain of modules and one sum."""


def _read(part: Part, wiring: nn.Module) -> Sublayer:
    try:
        before, joined, none = _walk(_Steps().trace(enter := _Enter(wiring)), enter, "x")
        if joined or none:
            raise _Unread
        behind, joined, after = _walk(_Steps().trace(leave := _Leave(wiring)), leave, "output")
    except Exception:  # torch.fx stops in many ways where a method looks at numbers
        own = replace(describe(wiring), role="wiring", kind="other")
        return Sublayer((), part, (), "wiring", (own,))
    return Sublayer(tuple(before), part, tuple(behind), "sum" if joined else "none", tuple(after))


def _walk(graph: Graph, root: nn.Module, start: str) -> tuple[list[Part], bool, list[Part]]:
    """The steps from an input to the output: those before the stream is added, whether it is,
    and those after.
    """
    first = next(iter(graph.nodes))  # a graph begins with its inputs
    inputs = {n.target: n for n in graph.nodes if n.op == first.op}
    node, stream = inputs[start], inputs["x"]
    steps, joined = ([], []), False
    while True:
        users = list(node.users)
        if len(users) != 1:
            raise _Unread
        before, node = node, users[0]
        if node.op == "output":
            break
        if node.op == "call_module":
            module = root.get_submodule(node.target)
            if not _nothing(module):
                steps[joined].append(describe(module))
        elif (
            _is(node, "add")
            and not joined
            and set(node.args) == {before, stream}
            and before is not stream
        ):
            joined = True
        elif _is(node, "mul"):
            (other,) = [a for a in node.args if a is not before]
            steps[joined].append(_scale(root, other))
        else:
            raise _Unread
    return steps[0], joined, steps[1]


def _is(node: Node, name: str) -> bool:
    return (
        node.op in ("call_function", "call_method")
        and getattr(node.target, "__name__", node.target).strip("_i") == name
    )


def _scale(root: nn.Module, factor: object) -> Part:
    if isinstance(factor, Node) and factor.op == "get_attr":
        name, count = factor.target.rpartition(".")[2], root.get_parameter(factor.target).numel()
        return Part("", "scale", f"× {name}", "", count)
    if isinstance(factor, int | float):
        return Part("", "scale", f"× {factor:g}", "", 0)
    raise _Unread


def _nothing(module: nn.Module) -> bool:
    return type(module) is nn.Identity or (
        "Dropout" in type(module).__name__ and getattr(module, "p", None) == 0
    )
