"""How many exact answers a second the generators of hulls, triangulations and tours make on one
core.
"""

from __future__ import annotations

import argparse
import os
import platform
import time
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"

import torch  # noqa: E402
from common import calibration, save  # noqa: E402

from attnbook.tasks.geometry.points import draw  # noqa: E402

TIMED = (
    ("sorting", 10, 1000, 0),
    ("hulls", 5, 1000, 0),
    ("hulls", 10, 1000, 0),
    ("hulls", 50, 128, 0),
    ("hulls", 50, 1000, 5000),
    ("hulls", (5, 50), 1000, 5000),
    ("hulls", 500, 100, 0),
    ("delaunay", 5, 128, 0),
    ("delaunay", 10, 128, 0),
    ("delaunay", 50, 128, 0),
    ("tours", 5, 128, 0),
    ("tours", 10, 128, 500),
    ("tours", 10, 1000, 500),
    ("tours", (5, 10), 1000, 0),
    ("tours", 13, 128, 0),
    ("tours", 16, 8, 0),
)
"""Kind, points, rows of a batch, and the rate that is to be reached (0: none was set)."""


def rate(kind: str, n, count: int, seconds: float) -> float:
    """Instances a second of the processor's time, the median of batches drawn for so many
    seconds, at least five.
    """
    generator = torch.Generator().manual_seed(0)
    draw(kind, n, count, generator)
    taken: list[float] = []
    while sum(taken) < seconds or len(taken) < 5:
        begun = time.process_time()
        draw(kind, n, count, generator)
        taken.append(time.process_time() - begun)
    return count / sorted(taken)[len(taken) // 2]


def qhull(n: int, count: int) -> float:
    """Hulls a second by SciPy, one after the other."""
    from scipy.spatial import ConvexHull

    points = torch.rand(count, n, 2, generator=torch.Generator().manual_seed(0)).double().numpy()
    begun = time.process_time()
    for row in points:
        ConvexHull(row)
    return count / (time.process_time() - begun)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=1.0, help="of each row")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    found = {
        "torch": torch.__version__,
        "machine": platform.machine(),
        "threads": 1,
        "calibration": calibration(),
        "rates": [],
    }
    print(f"one core, calibration {found['calibration']}")
    for kind, n, count, bar in TIMED:
        row = {
            "kind": kind,
            "n": n,
            "batch": count,
            "a_second": round(rate(kind, n, count, options.seconds)),
            "bar": bar,
        }
        found["rates"].append(row)
        print(
            f"  {kind:<10}n = {n!s:<9} batch {count:<6}{row['a_second']:>10,} a second"
            + (f"   (bar {bar:,})" if bar else "")
        )
        assert row["a_second"] >= bar, (
            f"{kind} of {n}: {row['a_second']} a second, the bar is {bar}"
        )
    found["qhull_hulls_of_50"] = round(qhull(50, 500))
    print(f"  Qhull, hulls of 50 one by one: {found['qhull_hulls_of_50']:,} a second")
    save(found, options.json)


if __name__ == "__main__":
    main()
