"""The live view of collapse: columns side by side, and the layer that becomes non-finite."""

import io
import math
import re
from dataclasses import replace

import pytest
import records
from rich.console import Console

from normexp.analysis.collapse import plan_of
from normexp.execution.events import Finished, Progress, Started
from normexp.terminal.live import HOLD_SECONDS, CollapseView, names_of

PLAN = plan_of("as-a-transformer", {"depth": 6, "norm": "none"})
CONFIGS = {(config.norm, config.seed): config for config in PLAN.configs.values()}


class Clock:
    now = 100.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("normexp.terminal.live.time.monotonic", lambda: clock.now)
    return clock


def watched(width: int = 80, height: int = 24, encoding: str = "utf-8") -> CollapseView:
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    console = Console(file=stream, width=width, height=height, force_terminal=True, legacy_windows=False)
    view = CollapseView(console, names_of(PLAN))
    view.begin(list(CONFIGS.values()), done=0, failed=0, reused=0)
    view.end()
    return view


def train(view: CollapseView, norm: str, seed: int, *sizes: float) -> None:
    view.event(Started(CONFIGS[norm, seed]))
    view.event(Progress(CONFIGS[norm, seed], 5, loss=3.2, grad_norm=1.0, rms_by_layer=sizes))


def lines(view: CollapseView) -> list[str]:
    with view.console.capture() as shown:
        view.console.print(view)
    return [re.sub(r"\x1b\[[0-9;]*m", "", line).rstrip() for line in shown.get().splitlines()]


def test_bars_have_the_head_on_top_and_a_nonfinite_run_is_marked_for_a_while(clock: Clock) -> None:
    view = watched()
    train(view, "none", 0, 1.0, 1e2, 1e4, 1e6, 1e8, 1e9, 1e10, 1e10)
    train(view, "ln", 0, *[1.0] * 8)
    shown = lines(view)
    assert re.match(r"no norm +LN +RMSNorm$", shown[1])
    assert shown[2].count("seed 0, step 5/400") == 2
    first = [line[:26] for line in shown[4:12]]
    assert [int(line[:3]) for line in first] == [7, 6, 5, 4, 3, 2, 1, 0]
    assert [line.count("█") for line in first] == sorted((line.count("█") for line in first), reverse=True)
    assert first[-1].count("█") < first[0].count("█")
    view.event(Finished(records.dead(CONFIGS["none", 0], 6)))
    train(view, "none", 1, *[1.0] * 8)
    marked = lines(view)
    assert any("✝ step 6: nan in loss" in line for line in marked)
    assert any(line.startswith("✗ 4") for line in marked), "the layer that became non-finite"
    assert any("seed 0: non-finite at 6" in line for line in marked)
    clock.now += HOLD_SECONDS + 1
    after = lines(view)
    assert not any("✝" in line for line in after)
    assert "seed 1, step 5/400" in after[3]


@pytest.mark.parametrize("broken", [0, 1, 15, 16, 44, 59, 60])
def test_the_nonfinite_one_of_many_layers_is_shown(broken: int, clock: Clock) -> None:
    view = watched(height=20)
    train(view, "none", 0, *[1.0] * 61)
    record = records.dead(CONFIGS["none", 0], 6)
    assert record.result is not None
    assert record.result.death is not None
    death = replace(record.result.death, where="grad", layer=broken)
    view.event(Finished(replace(record, result=replace(record.result, death=death), traces=None)))
    shown = lines(view)
    assert len(shown) <= 20
    (marked,) = [line for line in shown if line.startswith("✗")]
    assert int(marked[1:3]) == broken


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
@pytest.mark.parametrize(("width", "height"), [(40, 24), (80, 12), (80, 50), (200, 24), (20, 8)])
def test_it_fits_any_terminal(width: int, height: int, encoding: str, clock: Clock) -> None:
    view = watched(width, height, encoding)
    for norm in ("none", "ln", "rms"):
        train(view, norm, 0, 1.0, float("inf"), float("nan"), *[1e30] * 200)
    view.event(Finished(records.dead(CONFIGS["none", 0], 6)))
    shown = lines(view)
    assert all(len(line) <= width for line in shown)
    assert len(shown) <= height
    "".join(shown).encode(encoding)


def test_a_nonfinite_run_shows_its_last_layers(clock: Clock) -> None:
    view = watched()
    train(view, "none", 0, *[1.0] * 8)
    view.event(Progress(CONFIGS["none", 0], 6, loss=math.nan, grad_norm=1.0, rms_by_layer=(1.0,) * 8))
    assert "step 6: non-finite" in lines(view)[2]
    record = records.dead(CONFIGS["none", 0], 6)
    assert record.traces is not None
    last = {row.layer: row.value for row in record.traces.death_layers if (row.step, row.part) == (6, "stream")}
    assert len(last) > 1
    view.event(Finished(record))
    shown = lines(view)[5 : 5 + len(last)]
    assert [line.split()[-1] for line in shown] == [
        f"{size:.1e}" if math.isfinite(size) else "!!!" for _, size in sorted(last.items(), reverse=True)
    ]
    assert view.tally.finished[0].traces is None, "traces would need memory"


def test_a_failed_run_is_named(clock: Clock) -> None:
    view = watched()
    view.event(Started(CONFIGS["ln", 0]))
    view.event(Finished(records.failed(CONFIGS["ln", 0])))
    assert any("seed 0: failed" in line for line in lines(view))
