"""How many MB each kind of heads of ``test_causality`` needs for a long text, forward and backward,
beyond what the process has: as JSON.
"""

import json
import sys
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT), str(ROOT / "tests/helpers"), str(ROOT)]

from attnbook.mechanisms.attention import soft_attention  # noqa: E402
from tests.mechanisms.attention import test_causality  # noqa: E402


def megabytes(field: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field)) / 1024


def peak(name: str, n: int) -> float:
    make = test_causality.HEADS[name]
    layer = make(**({"length": n} if "length" in make.keywords else {}))
    x = torch.randn(1, n, test_causality.D, requires_grad=True)
    Path("/proc/self/clear_refs").write_text("5")  # the peak is what there is now
    before = megabytes("VmRSS")
    layer(x, is_causal=True, need_weights=False).context.sum().backward()
    return megabytes("VmHWM") - before


torch.manual_seed(0)
soft_attention.STORED_WEIGHTS = 2**17  # and blocks of as many
found = {}
for name in test_causality.LINEAR:
    peak(name, 500)  # what is made once
    found[name] = peak(name, 8000)
print(json.dumps(found))
