"""Peak memory of a worker process by depth.

The peak is the largest resident set of the worker (ru_maxrss), pages that it shares with the server that it was forked
from included; `private` are the pages that it alone has at the end of the run. Prints and writes benchmarks/memory.csv.
"""

from __future__ import annotations

import sys

from benchmarks.harness import say, say_machine, write_csv
from benchmarks.work import with_memory
from normexp.config.run import RunConfig
from normexp.execution.events import Finished
from normexp.execution.pool.pool import processes

DEPTHS = (2, 12, 20, 30)
MAX_MEBIBYTES = 600
"""What a worker may take for the deepest of these."""


def main() -> None:
    """Measure, print, write; exit code 1 where the bound is broken."""
    say_machine()
    rows = []
    for event in processes([RunConfig(depth=depth, steps=20) for depth in DEPTHS], jobs=1, work=with_memory):
        if isinstance(event, Finished):
            sizes = {name: int(event.record.environment[name]) // 1024 for name in ("peak", "private")}
            rows.append({"depth": event.record.config.depth} | {f"{name}_mib": size for name, size in sizes.items()})
            say(rows[-1])
    write_csv("memory", rows)
    if rows[-1]["peak_mib"] > MAX_MEBIBYTES:
        sys.exit(f"the worker took more than {MAX_MEBIBYTES} MiB")


if __name__ == "__main__":
    main()
