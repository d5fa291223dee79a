"""Whole commands: one grid through normexp and through other tools that run sweeps, on two processes.

Every tool trains the same network on the same tokens with one thread a process, in an environment of its own under
benchmarks/.envs, which is made once. The tools take turns, in another order each round; a time is that of the whole
command, from its start to its end, results written. A second section sets normexp beside the plain loop alone, for
every norm with every mixer. Prints medians, quartiles and ratios (normexp over the other, round by round), and the
losses that the tools end with; writes benchmarks/sweep.csv.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.environments import OURS, CannotInstall, environment
from benchmarks.harness import FOLDER, say_machine, seconds, spread, write_csv

PEERS = FOLDER / "peers"
LOOP, HYDRA = "loop", "hydra"
SCRIPTS = {LOOP: "loop.py", "optuna": "with_optuna.py", HYDRA: "with_hydra.py", "ray": "with_ray.py"}
TOOLS = (OURS, *SCRIPTS)
NORMS = ("none", "ln", "rms", "bn", "dyt", "scale")
MIXERS = ("attention", "mean", "linear")
QUIET = {"OMP_NUM_THREADS": "1", "RAY_USAGE_STATS_ENABLED": "0"}
RATIO = ("ratio", "ratio_low", "ratio_high")

Value = str | int | float | bool
Losses = dict[tuple[str, float], float]
"""Position and learning rate of a run to its last validation loss."""


class ToolFailed(Exception):
    """What a command said last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """Runs that differ in position and learning rate. `fused`: the others use torch's fused Adam, not its default."""

    steps: int
    norm: str = "ln"
    mixer: str = "attention"
    positions: tuple[str, ...] = ("post", "pre")
    rates: tuple[float, ...] = (1e-4, 3e-4, 1e-3, 3e-3)
    depth: int = 12
    fused: bool = False

    @property
    def points(self) -> int:
        """Number of runs."""
        return len(self.positions) * len(self.rates)

    def base(self, tool: str) -> dict[str, Value]:
        """What all runs have in common."""
        common: dict[str, Value] = {"depth": self.depth, "norm": self.norm, "mixer": self.mixer, "steps": self.steps}
        return common if tool == OURS else common | {"fused": self.fused}

    def file_text(self, tool: str) -> str:
        """JSON, which is YAML too: normexp's config, and what the scripts of the others read."""
        name = {"name": "benchmark"} if tool == OURS else {}
        axes = {"position": self.positions, "lr": self.rates}
        return json.dumps(name | {"base": self.base(tool), "grid": axes}, indent=1)


def calm(norm: str, mixer: str, steps: int, *, fused: bool) -> Grid:
    """Runs that train with any norm or none: without one, Pre and Post are one network, and higher rates kill it."""
    rates = (1e-5, 3e-5, 1e-4, 3e-4)
    return Grid(steps=steps, norm=norm, mixer=mixer, positions=("pre",), rates=rates, fused=fused)


def command(tool: str, programs: Path, grid: Grid, folder: Path) -> list[str | Path]:
    """How the tool is called, by absolute paths; its file of the grid is `folder`/grid.yaml."""
    file, results = folder / "grid.yaml", folder / "results"
    if tool == OURS:
        return [programs / OURS, "sweep", file, "--jobs", "2", "--out", results]
    script = [programs / "python", PEERS / SCRIPTS[tool]]
    if tool == HYDRA:
        axes = [f"position={','.join(grid.positions)}", f"lr={','.join(map(repr, grid.rates))}"]
        fixed = [f"{key}={value}" for key, value in grid.base(tool).items()]
        return [*script, "--multirun", *fixed, *axes, f"hydra.sweep.dir={results}"]
    return [*script, file, results]


def timed(tool: str, programs: Path, grid: Grid) -> tuple[float, Losses]:
    """Seconds of the whole command in a fresh folder, and its losses. Raises ToolFailed."""
    with tempfile.TemporaryDirectory(prefix=f"sweep-{tool}-") as name:
        folder = Path(name)
        (folder / "results").mkdir()
        (folder / "grid.yaml").write_text(grid.file_text(tool))
        call = command(tool, programs, grid, folder)
        ended: list[subprocess.CompletedProcess[str]] = []
        with (folder / "log.txt").open("w") as log:
            run = partial(subprocess.run, call, stdout=log, stderr=log, text=True, cwd=folder, env=os.environ | QUIET)
            took = seconds(lambda: ended.append(run()))
        if ended[0].returncode:
            said = (folder / "log.txt").read_text().strip().splitlines() or ["nothing"]
            raise ToolFailed(f"exit {ended[0].returncode}: {said[-1]}")
        losses = dict(_losses(folder / "results"))
        if len(losses) != grid.points:
            raise ToolFailed(f"trained {len(losses)} of {grid.points} runs")
        return took, losses


def _losses(results: Path) -> Iterator[tuple[tuple[str, float], float]]:
    for file in results.rglob("run.json"):
        run = json.loads(file.read_text())
        loss = run["result"]["final_val_loss"] if "result" in run else run["val_loss"]
        yield (run["config"]["position"], run["config"]["lr"]), math.nan if loss is None else loss


def installed(tools: Sequence[str]) -> dict[str, Path]:
    """The programs of each tool that can be installed and then trains one step; what cannot is told and left out.

    That first call is not timed: it brings the files of the environment into memory.
    """
    found = {}
    for tool in tools:
        try:
            programs = environment(tool)
            timed(tool, programs, Grid(steps=1))
            found[tool] = programs
        except (CannotInstall, ToolFailed) as fault:
            print(f"{tool} is left out: {fault}", flush=True)
    return found


def rounds_of(
    programs: Mapping[str, Path], grid: Grid, rounds: int
) -> tuple[dict[str, list[float]], dict[str, Losses]]:
    """Seconds of each tool by round, and its losses (the same in every round)."""
    tools, took, losses = list(programs), dict[str, list[float]](), dict[str, Losses]()
    for number in range(rounds):
        first = number % len(tools)
        for tool in tools[first:] + tools[:first]:
            one, losses[tool] = timed(tool, programs[tool], grid)
            took.setdefault(tool, []).append(one)
    return {tool: took[tool] for tool in tools}, losses


def measure(section: str, programs: Mapping[str, Path], grid: Grid, rounds: int) -> list[dict[str, object]]:
    """A row for each tool, printed."""
    network = f"depth {grid.depth}, norm {grid.norm}, mixer {grid.mixer}"
    print(f"{network}: {grid.points} runs of {grid.steps} steps", flush=True)
    took, losses = rounds_of(programs, grid, rounds)
    rows = []
    for tool, times in took.items():
        row: dict[str, object] = {"section": section, "norm": grid.norm, "mixer": grid.mixer, "tool": tool}
        row |= {"fused": grid.fused and tool != OURS, "runs": grid.points, "steps": grid.steps, "rounds": rounds}
        median, low, high = spread(times, 2)
        told = f"  {tool:8}{median:7.2f} s ({low:.2f} to {high:.2f})"
        row |= {"seconds": median, "seconds_low": low, "seconds_high": high} | dict.fromkeys(RATIO)
        if OURS in took and tool != OURS:
            ratio, low, high = spread([ours / other for ours, other in zip(took[OURS], times, strict=True)])
            told += f"   normexp takes {ratio:.3f} of that ({low:.3f} to {high:.3f})"
            row |= dict(zip(RATIO, (ratio, low, high), strict=True))
        print(told, flush=True)
        rows.append(row)
    say_losses(losses)
    return rows


def say_worst(rows: Sequence[Mapping[str, object]]) -> None:
    """Print for each section where normexp's median ratio is largest."""
    for section, group in itertools.groupby(rows, key=lambda row: row["section"]):
        ratios = [(ratio, row) for row in group if isinstance(ratio := row["ratio"], float)]
        if ratios:
            ratio, row = max(ratios, key=lambda pair: pair[0])
            where = f"{row['tool']}, norm {row['norm']}, mixer {row['mixer']}"
            print(f"largest ratio of the {section}: {ratio:.3f} ({where})")


def say_losses(losses: Mapping[str, Losses]) -> None:
    """Print the last validation losses of each tool, and how many pairs of runs the first and another order alike."""
    tools = list(losses)
    for point in sorted(losses[tools[0]]):
        position, lr = point
        shown = "  ".join(f"{tool} {losses[tool][point]:.3f}" for tool in tools)
        print(f"  {position:4} lr {lr:<6g} {shown}")
    for tool in tools[1:]:
        one, other = losses[tools[0]], losses[tool]
        pairs = list(itertools.combinations(one, 2))
        alike = sum((one[a] < one[b]) == (other[a] < other[b]) for a, b in pairs)
        largest = max(abs(one[point] - other[point]) for point in one)
        told = f"order {alike} of {len(pairs)} pairs of runs alike; largest difference {largest:.3f}"
        print(f"  {tools[0]} and {tool} {told}")


def asked() -> argparse.Namespace:
    """The options."""

    def names(text: str) -> list[str]:
        return text.split(",")

    def numbers(text: str) -> list[int]:
        return [int(number) for number in text.split(",")]

    parser = argparse.ArgumentParser(prog="python -m benchmarks.sweep", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=numbers, default=[150, 50], help="of the runs through all tools; 0: leave out")
    parser.add_argument("--tools", type=names, default=list(TOOLS), help=f"of {','.join(TOOLS)}")
    parser.add_argument("--fused", action="store_true", help="the others use torch's fused Adam, not its default")
    parser.add_argument("--pair-steps", type=int, default=60, help="of each norm with each mixer; 0 leaves them out")
    parser.add_argument("--pair-rounds", type=int, default=1)
    parser.add_argument("--norm", type=names, default=list(NORMS), help=f"of {','.join(NORMS)}")
    parser.add_argument("--mixer", type=names, default=list(MIXERS), help=f"of {','.join(MIXERS)}")
    parser.add_argument("--csv", default="sweep", help="the table is benchmarks/CSV.csv")
    options = parser.parse_args()
    for name, allowed in (("tools", TOOLS), ("norm", NORMS), ("mixer", MIXERS)):
        unknown = sorted(set(getattr(options, name)) - set(allowed))
        if unknown:
            parser.error(f"--{name}: {','.join(unknown)}: must be of {','.join(allowed)}")
    if min(options.rounds, options.pair_rounds) < 1:
        parser.error("--rounds, --pair-rounds: must be at least 1")
    return options


def main() -> None:
    """Install, measure, print, write."""
    options = asked()
    say_machine()
    programs = installed(options.tools)
    rows = []
    for steps in filter(None, options.steps):
        rows += measure("tools", programs, Grid(steps=steps, fused=options.fused), options.rounds)
    both = {tool: programs[tool] for tool in (OURS, LOOP) if tool in programs}
    if options.pair_steps and len(both) == 2:
        for norm, mixer in itertools.product(options.norm, options.mixer):
            rows += measure(
                "pairs", both, calm(norm, mixer, options.pair_steps, fused=options.fused), options.pair_rounds
            )
    if rows:
        say_worst(rows)
        write_csv(options.csv, rows)


if __name__ == "__main__":
    main()
