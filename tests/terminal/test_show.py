"""Lines printed around a sweep are complete, on standard error and on standard output."""

import io
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import typer
from rich.console import Console

from normexp.analysis.tables import TextTable
from normexp.claims.files import choose
from normexp.commands import claims
from normexp.config import grid
from normexp.config.plan import Plan
from normexp.execution.executors import workers_to_count_on
from normexp.execution.signals import Stopped
from normexp.runner.run_selection import Options
from normexp.terminal import show
from normexp.terminal.console import ResponsiveTable

LONG = "results/" + "a-long-folder-name-" * 8 + "end: " + "words " * 30 + "last"


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """Use a terminal of 80 columns for both streams."""
    stream = io.StringIO()
    terminal = Console(file=stream, width=80, force_terminal=True, color_system=None, highlight=False, markup=False)
    monkeypatch.setattr(show, "screen", lambda: terminal)
    monkeypatch.setattr("normexp.terminal.console.output", lambda: terminal)
    return stream


def test_a_message_loses_no_word_and_is_not_wrapped(narrow: io.StringIO) -> None:
    show.say(LONG)
    assert narrow.getvalue() == LONG + "\n"


def test_paths_among_results_are_not_wrapped(narrow: io.StringIO) -> None:
    show.show(ResponsiveTable(TextTable(title="t", header=("a",), rows=(("1",),))), LONG)
    assert narrow.getvalue().endswith("\n" + LONG + "\n")


def test_a_message_is_put_into_the_encoding_of_the_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stderr", io.TextIOWrapper(raw, encoding="ascii", write_through=True))
    show.say("1–2 \x1b[2J")
    assert raw.getvalue() == b"1-2 ?[2J\n"


@pytest.mark.parametrize(("stop", "start"), [(True, "Tables: "), (False, "Tables and figures: ")])
def test_figures_are_named_only_if_they_were_drawn(
    stop: bool, start: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def figures(*given: object) -> None:
        if stop:
            raise Stopped(2)

    monkeypatch.setattr("normexp.report.report.write_figures", figures)
    keys = {"depth": 1, "width": 8, "hidden": 8, "heads": 2, "vocab": 8, "batch": 4, "steps": 2, "eval_every": 2}
    plan = grid.plan_of(name="tiny", title="Tiny", groups=[("", keys)])
    show.execute(plan, Options(out=tmp_path, jobs=1, executor="inline"))
    assert capsys.readouterr().out.splitlines()[-1] == f"{start}{tmp_path / 'tiny'}"


def test_claims_stop_after_a_stopped_sweep(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The exit code of a full disk is that of a failed run."""
    file, chosen, *_ = choose(["article"])
    figures: list[str] = []
    ends = {"stopped": True, "exit_code": 1}

    def execute(plan: Plan, options: Options) -> SimpleNamespace:
        figures.append(plan.name)
        return SimpleNamespace(**ends)

    monkeypatch.setattr(show, "execute", execute)
    with pytest.raises(typer.Exit) as end:
        claims._run(file, chosen, 1.0, Options(out=tmp_path), single=False)
    assert (end.value.exit_code, len(figures)) == (1, 1)
    ends["stopped"] = False
    assert claims._run(file, chosen, 1.0, Options(out=tmp_path), single=False) == 1
    assert len(figures) == 1 + len(file.sweeps)


@pytest.mark.parametrize(("jobs", "scheduler", "count"), [(None, "tcp://a:1", 1), (3, "tcp://a:1", 3), (3, None, 3)])
def test_estimates_assume_one_worker_of_a_remote_scheduler(jobs: int | None, scheduler: str | None, count: int) -> None:
    assert workers_to_count_on(jobs, scheduler) == count
