"""The plain loop: python loop.py GRID.json RESULTS. Two processes from a fork that has imported torch."""

from __future__ import annotations

import itertools
import json
import multiprocessing
import sys
from functools import partial
from pathlib import Path
from typing import Any

from network import train


def one(results: Path, keys: dict[str, Any]) -> float:
    """A run in a folder of its own."""
    return train(keys, results / f"{keys['position']}-{keys['lr']:g}")


def main() -> None:
    """All points of the grid."""
    asked, results = json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2])
    points = itertools.product(*asked["grid"].values())
    runs = [asked["base"] | dict(zip(asked["grid"], point, strict=True)) for point in points]
    with multiprocessing.get_context("fork").Pool(2) as pool:
        pool.map(partial(one, results), runs, chunksize=1)


if __name__ == "__main__":
    main()
