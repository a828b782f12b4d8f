"""A tensor that a model makes while it runs is made where its inputs are; a GPU would stop at
any other.
"""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PATHS = [
    path
    for part in ("mechanisms", "models")
    for path in sorted((ROOT / "attnbook" / part).rglob("*.py"))
]
FACTORIES = set(
    (
        "arange empty eye full linspace logspace ones rand randint randn randperm tensor "
        "tril_indices triu_indices zeros"
    ).split()
)


def homeless(source: str) -> list[int]:
    """Lines that make a tensor without a device, but for weights, buffers and lines that say
    that they mean the CPU.
    """
    tree, lines = ast.parse(source), source.splitlines()
    # with the module
    sent = [
        node
        for node in ast.walk(tree)
        if (isinstance(node, ast.FunctionDef) and node.name == "__init__")
        or (isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "Parameter")
        # torch.zeros(1, device=d)
        or (isinstance(node, ast.Call) and "device" in {keyword.arg for keyword in node.keywords})
    ]
    settled = {id(inner) for node in sent for inner in ast.walk(node)}
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and getattr(node.func.value, "id", "") == "torch"
        and node.func.attr in FACTORIES
        and id(node) not in settled
        and "on the CPU" not in lines[node.lineno - 1]
    ]


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_no_tensor_is_made_without_a_device(path):
    assert not homeless(path.read_text(encoding="utf-8"))


def test_a_planted_mistake_is_seen():
    assert homeless(
        "def f(x):\n    i = torch.arange(3)\n    j = torch.zeros(3, device=x.device)\n    return "
        "i, j"
    ) == [2]
    assert homeless(
        "class A:\n    def __init__(self):\n        self.w = torch.zeros(3)\n    def f(self):\n  "
        "      torch.ones(1)"
    ) == [5]
    assert not homeless(
        "def f():\n    return nn.Parameter(torch.zeros(3)), torch.ones(2)  # on the CPU: only "
        "its length counts"
    )
    assert not homeless("def f(x):\n    return torch.arange(3).to(device=x.device)")
