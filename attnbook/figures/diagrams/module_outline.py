"""The parts of a block, read off the module: sublayers, residual connections, widths, parameters.

Nothing here knows a class of the library. A block is a module with children ``NAME``, a sublayer,
and ``around_NAME``, its residual connection, called as ``residual(x, sublayer)``. Where norm,
dropout and sum stand is read off a trace of that call (``torch.fx``), so the outline shows what the
code does."""

from dataclasses import dataclass, replace

from torch import Tensor, nn
from torch.fx import Node, Tracer

from ...validate import require

__all__ = ["Part", "Sublayer", "count_parameters", "describe", "read_block"]


@dataclass(frozen=True)
class Part:
    """One box of a drawing.

    Attributes:
        role: its purpose, "self-attention"; "" where the kind of module says it.
        kind: "attention", "cross", "feed", "norm", "dropout", "scale", "embedding" or "other".
        module: name of its class.
        detail: widths, "8 heads × 64"; "" where there are none.
        parameters: their number.
        shared: whose matrix it uses instead of a matrix of its own.
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
        named = ", ".join(filter(None, (self.module, self.detail)))
        return [line for line in (self.role, named, count) if line]


@dataclass(frozen=True)
class Sublayer:
    """A sublayer with its residual connection.

    Attributes:
        before: steps inside the branch before the sublayer.
        part: the sublayer.
        behind: steps inside the branch after it.
        join: "sum" where x is added, "none" where it is not, "other" where the two are combined in
            another way.
        after: steps after the sum.
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
    return sum(p.numel() for p in {p for module in modules for p in module.parameters()})


def describe(module: nn.Module, name: str = "") -> Part:
    """The box of a module; ``name`` is its attribute in the parent."""
    role, kind = _ROLES.get(name, (name.replace("_", " "), "other"))
    called, detail = type(module).__name__, ""
    linears = [m for m in module.modules() if isinstance(m, nn.Linear)]
    rate, heads = getattr(module, "p", None), getattr(module, "num_heads", None)
    if isinstance(rate, float) and "Dropout" in called:
        return Part("", "dropout", "dropout", f"{rate:g}", 0)
    if isinstance(module, nn.Embedding):
        kind, detail = "embedding", f"{module.num_embeddings:,} × {module.embedding_dim}"
    elif isinstance(heads, int) and hasattr(module, "d_head"):
        detail = f"{heads} head{'s' * (heads > 1)} × {module.d_head}"
    elif "Norm" in called:
        kind = "norm"
    elif linears:
        # two maps of one shape side by side: once
        steps = list(dict.fromkeys((m.in_features, m.out_features) for m in linears))
        if all(a[1] == b[0] for a, b in zip(steps, steps[1:])):
            widths = (steps[0][0], *(step[1] for step in steps))
            detail = " → ".join(f"{width:,}" for width in widths)
    return Part(role, kind, called, detail, count_parameters(module))


def read_block(layer: nn.Module) -> tuple[Sublayer, ...]:
    """The sublayers of a block and their residuals ``around_NAME``, as they were registered."""
    children = layer._modules if isinstance(layer, nn.Module) else {}
    names = [k for k, child in children.items() if child is not None and f"around_{k}" in children]
    require(
        bool(names),
        "layer must be a block with sublayers and their residual connections (children NAME and "
        f"around_NAME), got {type(layer).__name__}",
    )
    return tuple(
        _read(name, layer.get_submodule(name), layer.get_submodule(f"around_{name}"))
        for name in names
        if type(layer.get_submodule(name)) is not nn.Identity
    )


class _Connection(nn.Module):
    def __init__(self, residual: nn.Module, sublayer: nn.Module) -> None:
        super().__init__()
        self.residual, self.sublayer = residual, sublayer

    def forward(self, x: Tensor) -> Tensor:
        return self.residual(x, self.sublayer)


class _Steps(Tracer):
    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return module_qualified_name != "residual"  # norm and dropout are single steps


class _NotAChain(Exception):
    """The call is no chain of modules, factors and one sum."""


def _read(name: str, sublayer: nn.Module, residual: nn.Module) -> Sublayer:
    part = describe(sublayer, name)
    try:
        return _walk(part, _Connection(residual, sublayer))
    except Exception:  # torch.fx stops in many ways where a method depends on numbers
        box = replace(describe(residual), role="residual connection", kind="other")
        return Sublayer((), part, (), "other", (box,))


def _walk(part: Part, root: _Connection) -> Sublayer:
    """Follow the trace from the output back to x."""
    nodes = list(_Steps().trace(root).nodes)
    x, node = nodes[0], nodes[-1].args[0]
    steps: list[Part] = []
    after: list[Part] = []
    behind: list[Part] | None = None  # until the sublayer is reached
    join = "none"
    while node is not x:
        if node.op == "call_module" and len(node.args) == 1:
            if node.target == "sublayer":
                behind, steps = steps, []
            elif not _nothing(module := root.get_submodule(node.target)):
                steps.insert(0, describe(module))
            node = node.args[0]
        elif _is(node, "add") and x in node.args and behind is None and join == "none":
            after, steps, join = steps, [], "sum"
            (node,) = (a for a in node.args if a is not x)
        elif _is(node, "mul"):
            numbers = [a for a in node.args if not isinstance(a, Node) or a.op == "get_attr"]
            steps.insert(0, _scale(root, *numbers))
            (node,) = (a for a in node.args if a not in numbers)
        else:
            raise _NotAChain
    if behind is None:
        raise _NotAChain
    return Sublayer(tuple(steps), part, tuple(behind), join, tuple(after))


def _is(node: Node, name: str) -> bool:
    called = getattr(node.target, "__name__", node.target)
    return node.op in ("call_function", "call_method") and called.strip("_i") == name


def _scale(root: nn.Module, factor: object) -> Part:
    if not isinstance(factor, Node):
        return Part("", "scale", f"× {factor:g}", "", 0)
    target = str(factor.target)
    count = root.get_parameter(target).numel()
    return Part("", "scale", f"× {target.rpartition('.')[2]}", "", count)


def _nothing(module: nn.Module) -> bool:
    kind = type(module)
    return kind is nn.Identity or "Dropout" in kind.__name__ and getattr(module, "p", None) == 0
