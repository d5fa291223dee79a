"""The live view and the plain lines, from made-up events."""

import io
import math
import re
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import golden_texts
import pytest
import records
from rich.console import Console

from normexp.config.labels import duration
from normexp.execution.events import Finished, Progress, Started
from normexp.records.record import Status
from normexp.runner.time_left import guess, longest_first, work
from normexp.terminal.live import EVIDENCE_SECONDS, Tally, View, elided, names_of, result_line

PLAN = records.plan({"position": ["pre", "post"], "lr": [1e-3, 1e-2]})
CONFIGS = list(PLAN.configs.values())
FOLDER = Path("results/some")


def progress(config, step: int = 50) -> Progress:
    return Progress(config=config, step=step, loss=3.21, grad_norm=0.5, rms_by_layer=(1.0, 1e3, float("inf")))


class TestTally:
    def test_counts_results(self) -> None:
        tally = Tally(todo=CONFIGS)
        for config in CONFIGS:
            tally.update(Started(config))
        assert len(tally.running) == 4
        for record in (records.done(CONFIGS[0], 1.9), records.done(CONFIGS[1], 2.0), records.dead(CONFIGS[2], 5)):
            tally.update(Finished(record))
        assert tally.counts == {"learned": 2, "nonfinite": 1}
        assert list(tally.running) == [CONFIGS[3].run_id]

    def test_time_left_is_shown_once_there_is_evidence(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Starting the workers and the first evaluation take far longer than a step, and do not bias the estimate."""
        moments = list(simulated(monkeypatch))
        for shown, rest, _ in moments:
            assert shown is None or 0.6 * rest - 2 <= shown <= 1.6 * rest + 2
        assert moments[0][0] is None
        silent = [evidence for shown, _, evidence in moments if shown is None]
        assert max(silent) < EVIDENCE_SECONDS
        assert len(silent) < len(moments) / 10

    def test_only_the_replay_of_a_nonfinite_run_is_left(self, monkeypatch: pytest.MonkeyPatch) -> None:
        left = []
        for loss in (3.0, math.nan):
            now = 0.0
            monkeypatch.setattr("normexp.terminal.live.time.monotonic", lambda: now)  # noqa: B023
            tally = Tally(todo=CONFIGS[:1])
            tally.update(Started(CONFIGS[0]))
            for step in (1, 11):
                now += 10.0
                tally.update(replace(progress(CONFIGS[0], step), loss=loss if step == 11 else 3.0))
            left.append(tally.seconds_left)
        assert left[1] < left[0] / 4


START, RUN, PACE = 30.0, 1.0, 5.0
"""A simulated machine: seconds to start its workers, seconds per run outside training, time relative to the guess."""


def simulated(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[float | None, float, float]]:
    """Simulate six runs on two workers. Yield the time left as shown, the true one, and the training time so far."""
    now = 0.0
    monkeypatch.setattr("normexp.terminal.live.time.monotonic", lambda: now)
    plan = records.plan({"depth": [2, 4, 6], "lr": [1e-3, 1e-2]}, steps=200, eval_every=10)
    todo = longest_first(plan.configs.values())
    workers, events = [START, START], list[tuple[float, float, object]]()
    trained = dict[str, list[float]]()
    for config in todo:
        begun = min(workers)
        workers.remove(begun)
        events.append((begun if begun > START else 0.0, 0.0, Started(config)))
        for step in range(1, config.steps + 1):
            events.append(
                (begun + RUN + PACE * work(config, 0, step), PACE * work(config, 0, step), progress(config, step))
            )
        end = begun + RUN + PACE * work(config)
        seconds = {"steps": PACE * guess(config, config.steps), "total": PACE * work(config)}
        seconds["eval"] = seconds["total"] - seconds["steps"]
        record = records.done(config, 2.0)
        timed = replace(record, seconds=seconds, result=replace(record.result, steps_done=config.steps))
        events.append((end, PACE * work(config), Finished(timed)))
        workers.append(end)
    whole = max(workers)
    tally = Tally(todo=todo, started=0.0)
    for now, training, event in sorted(events, key=lambda moment: moment[0]):
        tally.update(event)
        run_id = (event.record if isinstance(event, Finished) else event.config).run_id
        trained.setdefault(run_id, []).append(training)
        first = {run_id: seen[1] if len(seen) > 1 else seen[0] for run_id, seen in trained.items()}
        yield tally.seconds_left, whole - now, sum(seen[-1] - first[run_id] for run_id, seen in trained.items())


class TestPlainLines:
    def view(self, encoding: str = "utf-8", **console: object) -> tuple[View, io.BytesIO]:
        raw = io.BytesIO()
        stream = io.TextIOWrapper(raw, encoding=encoding, write_through=True)
        return View(Console(file=stream, highlight=False, markup=False, **console), names_of(PLAN), FOLDER), raw

    @pytest.mark.parametrize(("encoding", "width"), [("utf-8", 20), ("ascii", 80), ("cp1252", 200)])
    def test_one_line_per_finished_run_and_no_control_characters(self, encoding: str, width: int) -> None:
        view, raw = self.view(encoding, width=width)
        view.begin(CONFIGS, done=3, failed=0, reused=1)
        for config in CONFIGS:
            view.event(Started(config))
            view.event(progress(config))
            view.event(Finished(records.failed(config) if config is CONFIGS[3] else records.done(config, 1.9)))
        view.end()
        lines = raw.getvalue().decode(encoding).splitlines()
        assert lines[:2] == [golden_texts.BEGIN, golden_texts.FINISHED]
        assert lines[4].startswith("[4/4] position post, lr 0.01: failed: Traceback: it broke")
        assert lines[4].endswith(f"(log: results/some/runs/{CONFIGS[3].run_id}/log.txt)")
        assert len(lines) == 5
        assert not re.search(r"[\x00-\x09\x0b-\x1f]", raw.getvalue().decode(encoding))

    def test_progress_is_printed_after_a_minute(self, monkeypatch: pytest.MonkeyPatch) -> None:
        now = 0.0
        monkeypatch.setattr("normexp.terminal.live.time.monotonic", lambda: now)
        view, raw = self.view()
        view.begin(CONFIGS, done=0, failed=0, reused=0)
        view.event(Started(CONFIGS[0]))
        now = 61.0
        view.event(progress(CONFIGS[0]))
        view.event(progress(CONFIGS[0]))
        assert raw.getvalue().decode().splitlines()[1:] == ["0 of 4 finished, 1 running"]

    @pytest.mark.parametrize("rounds", [1, 2])
    def test_a_hanging_run_is_named_without_events(self, rounds: int, monkeypatch: pytest.MonkeyPatch) -> None:
        now = 0.0
        monkeypatch.setattr("normexp.terminal.live.LOOK_SECONDS", 0.01)
        monkeypatch.setattr("normexp.terminal.live.time.monotonic", lambda: now)
        view, raw = self.view()
        for _ in range(rounds - 1):
            view.begin(CONFIGS, done=0, failed=0, reused=0)
            view.end()
        view.begin(CONFIGS, done=0, failed=0, reused=0)
        view.event(Started(CONFIGS[0]))
        view.event(Started(CONFIGS[1]))
        now = 200.0
        view.event(progress(CONFIGS[1]))
        now = 400.0
        for _ in range(500):
            if raw.getvalue().count(b"\n") >= 3 + rounds:
                break
            threading.Event().wait(0.01)
        view.end()
        *progress_lines, silence = raw.getvalue().decode().splitlines()[rounds:]
        assert progress_lines == [golden_texts.HEARTBEAT] * 2
        assert silence.startswith("position pre, lr 0.001: no step for 6:40: ")
        assert "--timeout" in silence

    @pytest.mark.parametrize(
        ("done", "failed", "line"), [(4, 0, golden_texts.NOTHING_TO_DO), (0, 3, golden_texts.FAILED)]
    )
    def test_nothing_to_do(self, done: int, failed: int, line: str) -> None:
        view, raw = self.view()
        view.begin([], done=done, failed=failed, reused=0)
        assert raw.getvalue().decode() == f"{line}\n"


def lines_of(view: View, console: Console) -> list[str]:
    with console.capture() as shown:
        console.print(view)
    return [re.sub(r"\x1b\[[0-9;]*m", "", line).rstrip() for line in shown.get().splitlines()]


def on_terminal(width: int, encoding: str = "utf-8", height: int = 24) -> Console:
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    return Console(
        file=stream,
        width=width,
        height=height,
        force_terminal=True,
        legacy_windows=False,
        highlight=False,
        markup=False,
    )


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
@pytest.mark.parametrize("width", [20, 40, 80, 200])
def test_the_live_view_fits_the_terminal_and_names_each_running_run(width: int, encoding: str) -> None:
    console = on_terminal(width, encoding)
    view = View(console, names_of(PLAN), FOLDER)
    view.tally = Tally(todo=CONFIGS)
    view.event(Started(CONFIGS[0]))
    for step in (10, 25, 50):
        view.event(progress(CONFIGS[0], step))
    lines = lines_of(view, console)
    assert len(lines) == 2
    assert all(len(line) <= width for line in lines)
    "".join(lines).encode(encoding)
    assert "0/4" in lines[0]
    assert "lr 0.001" in lines[1] or width < 40
    if width >= 80:
        assert "position pre, lr 0.001" in lines[1]
        assert "50/100" in lines[1]
        assert "loss 3.210" in lines[1]
        assert "grad 0.5" in lines[1]
    assert ("!" in lines[1]) == (width == 200 and encoding == "utf-8"), "a non-finite RMS"


def test_the_live_view_shows_outcomes_and_the_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    console = on_terminal(80)
    view = View(console, names_of(PLAN), FOLDER)
    now = 0.0
    monkeypatch.setattr("normexp.terminal.live.time.monotonic", lambda: now)
    view.tally = Tally(todo=CONFIGS, started=now)
    ends = [records.done(CONFIGS[0], 1.9), records.done(CONFIGS[1], 4.06), records.dead(CONFIGS[2], 5)]
    for config, record, seconds in zip(CONFIGS, ends, (25.0, 25.0, 10.0), strict=False):
        view.tally.update(Started(config))
        now += seconds
        trained = 24.0 if seconds == 25.0 else 24.0 * work(config, 0, 5) / work(config)
        view.tally.update(Finished(replace(record, seconds={"steps": trained, "total": trained})))
    first, second = lines_of(view, console)
    assert re.match(r"3/4 .* about 0:2\d left$", first), (
        "the run that became non-finite at step 5 took little of that minute"
    )
    assert second == "1 learned  1 plateau  1 nonfinite"


def test_long_names_are_cut_in_the_middle() -> None:
    assert elided("position mix, lr 0.003", 30) == "position mix, lr 0.003"
    assert elided("position mix, lr 0.003", 12) == "pos…lr 0.003"
    assert len(elided("position mix, lr 0.003", 1)) <= 1


def test_durations() -> None:
    assert [duration(seconds) for seconds in (0.2, 65, 7384)] == ["0:00", "1:05", "2:03:04"]


def test_result_lines_name_tensor_and_step_of_nonfinite_runs() -> None:
    assert result_line(records.dead(CONFIGS[0], 12)) == "nonfinite: nan in loss blocks.3.ffn.fc1 at step 12"
    assert result_line(records.done(CONFIGS[0], 4.06)) == "plateau: loss 4.060"
    assert result_line(records.failed(CONFIGS[0], Status.TIMEOUT)).startswith("timeout: ")
