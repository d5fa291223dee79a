"""Figures of a report that two processes draw."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
import records as made
from charts import source_of

from normexp.plots import drawing
from normexp.plots.chart import Chart, Map
from normexp.plots.kinds import fitting

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")


@pytest.fixture(scope="module")
def charts() -> list[Chart | Map]:
    plan = made.plan({"lr": [1e-3, 1e-2], "seed": [0, 1]})
    records = {config.run_id: made.done(config, 1.9) for config in plan.configs.values()}
    source = source_of(plan, records)
    return [chart for _, _, chart in fitting(source)]


@pytest.fixture
def process_log(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A file with the id of the process that drew each figure. The threads of the test runner are not counted."""
    monkeypatch.setattr(threading, "active_count", lambda: 1)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    render, log = drawing.render, tmp_path / "log"

    def logged(figure: object, **options: object) -> dict[str, bytes]:
        with log.open("a") as file:
            file.write(f"{os.getpid()}\n")
        return render(figure, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(drawing, "render", logged)
    return log


def test_two_processes_draw_the_same_files_as_one(charts: list[Chart | Map], process_log: Path) -> None:
    assert len(charts) >= 2
    one_by_one = [drawing.render(drawing.draw(chart)) for chart in charts]
    process_log.write_text("")
    assert drawing.images(charts) == one_by_one
    assert len(set(process_log.read_text().split())) == 2


def test_a_process_that_is_lost_loses_no_figure(
    charts: list[Chart | Map], process_log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drawing, "_send", lambda sender, charts: os._exit(1))
    assert [set(files) for files in drawing.images(charts)] == [{"svg", "png"}] * len(charts)
    assert set(process_log.read_text().split()) == {str(os.getpid())}


def test_a_process_with_threads_draws_alone(
    charts: list[Chart | Map], process_log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threading, "active_count", lambda: 2)
    drawing.images(charts[:2])
    assert set(process_log.read_text().split()) == {str(os.getpid())}
