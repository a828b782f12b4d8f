"""A tensor that a model makes while it runs is made where its inputs are."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PATHS = [
    path for part in ("mechanisms", "models") for path in (ROOT / "attnbook" / part).rglob("*.py")
]
FACTORIES = set("arange empty eye full linspace logspace ones rand randint randn randperm".split())
FACTORIES |= {"tensor", "tril_indices", "triu_indices", "zeros"}


def homeless(source: str) -> list[int]:
    """Lines that make a tensor without a device, but for weights, buffers and lines for the CPU."""
    tree, lines = ast.parse(source), source.splitlines()
    # with the module, or torch.zeros(1, device=d)
    sent = [node for node in ast.walk(tree) if is_sent(node)]
    settled = {id(inner) for node in sent for inner in ast.walk(node)}
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return [
        node.lineno
        for node in calls
        if isinstance(node.func, ast.Attribute)
        and getattr(node.func.value, "id", "") == "torch"
        and node.func.attr in FACTORIES
        and id(node) not in settled
        and "on the CPU" not in lines[node.lineno - 1]
    ]


def is_sent(node: ast.AST) -> bool:
    """Whether what is made in it goes to the device with a module or by name."""
    if isinstance(node, ast.Call):
        named = {keyword.arg for keyword in node.keywords}
        return getattr(node.func, "attr", "") == "Parameter" or "device" in named
    return isinstance(node, ast.FunctionDef) and node.name == "__init__"


@pytest.mark.parametrize("path", sorted(PATHS), ids=lambda path: path.stem)
def test_no_tensor_is_made_without_a_device(path):
    assert not homeless(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("code", "lines"),
    [
        ("i = torch.arange(3)\nj = torch.zeros(3, device=x.device)", [1]),
        ("def __init__(self):\n    self.w = torch.zeros(3)\ntorch.ones(1)", [3]),
        ("nn.Parameter(torch.zeros(3)), torch.ones(2)  # on the CPU: only its length counts", []),
        ("torch.arange(3).to(device=x.device)", []),
    ],
)
def test_a_planted_mistake_is_seen(code, lines):
    assert homeless(code) == lines
