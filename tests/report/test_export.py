"""Exports of a sweep: LaTeX, Markdown, CSV, Parquet, TensorBoard."""

from __future__ import annotations

import math
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
import records
from stored import saved

from normexp.analysis import frames
from normexp.commands import app
from normexp.config.plan import Pivot
from normexp.errors import UserError
from normexp.report import export, report
from normexp.report import export as latex
from normexp.storage.store import Store

HOSTILE = r"50 % of $x_1$ & \input{secret} #{1} ~^ <b> [a] *b* -- “ein”"
ENDS = ["2.0", "2.1", "4.065", "nan@12", "pending", "inf@3"]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Return a sweep of two learning rates with three seeds each, which end in all kinds of ways."""
    plan = records.plan(
        {"lr": [1e-3, 1e-2], "seed": [0, 1, 2]},
        name="swept",
        title=HOSTILE,
        pivot=Pivot(rows=("lr",), columns=("norm",)),
        width=8,
        depth=2,
    )
    return saved(tmp_path, plan, ENDS)


def files(name: str, store: Store) -> dict[str, bytes]:
    return dict(export.exporter(name).files(report.read(store), store))


def test_latex_keeps_outcomes_and_escapes_what_users_wrote(store: Store) -> None:
    text = files("latex", store)["tables.tex"].decode()
    assert r"2.050 $\pm$ 0.071 (2/3); plateau 4.065 (1/3)" in text
    assert r"2/3 nan/inf @3--12; 1/3 pending" in text, "kinds of one outcome are together"
    assert r"50 \% of \$x\_1\$ \& \textbackslash{}input\{secret\} \#\{1\}" in text
    body = re.search(r"\\begin\{tabular\}\{(l+)\}\n\\toprule\n(.*)\\bottomrule", text, re.DOTALL)
    assert body is not None
    rows = [line for line in body[2].splitlines() if line != r"\midrule"]
    assert all(line.endswith(r" \\") and len(re.findall(r"(?<!\\)&", line)) == len(body[1]) - 1 for line in rows)


def test_every_character_that_latex_reads_is_escaped() -> None:
    escaped = latex.escape("\\{}$&#_%~^[]*")
    for command in (r"\textbackslash{}", r"\textasciitilde{}", r"\textasciicircum{}"):
        escaped = escaped.replace(command, "")
    assert re.sub(r"\\[{}$&#_%]|\{[\[\]*]\}", "", escaped) == ""


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no pdflatex")
def test_latex_is_set(store: Store, tmp_path: Path) -> None:
    (tmp_path / "tables.tex").write_bytes(files("latex", store)["tables.tex"])
    (tmp_path / "all.tex").write_text(
        f"\\documentclass{{article}}\n{latex.PACKAGES}\n\\begin{{document}}\n\\input{{tables}}\n\\end{{document}}\n"
    )
    done = subprocess.run(
        ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "all.tex"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-2000:]


@pytest.mark.parametrize(
    ("axes", "header"),
    [
        ({"lr": [1e-3], "seed": [0]}, ("lr", "pre")),
        ({"position": ["pre"]}, ("position", "ln")),
        ({"norm": ["ln"], "position": ["pre"], "lr": [1e-3]}, ("norm", "pre, lr 0.001")),
        ({}, None),
    ],
)
def test_a_sweep_without_a_table_has_one(
    axes: dict[str, list[object]], header: tuple[str, ...] | None, tmp_path: Path
) -> None:
    plan = records.plan(axes)
    store = Store(tmp_path)
    store.begin(plan, [], force=False)
    store.write(records.done(next(iter(plan.configs.values())), 2.0))
    lines = files("markdown", store)["tables.md"].decode().splitlines()
    shown = next(line for line in lines if line.startswith("|"))
    assert shown == f"| {' | '.join(header)} |" if header else shown.startswith("| planned | done |")


def test_markdown_has_the_printed_tables(store: Store) -> None:
    text = files("markdown", store)["tables.md"].decode()
    assert "| 0.001 | 2.050 ± 0.071 (2/3); plateau 4.065 (1/3) |" in text
    assert "2/3 nan/inf @3–12; 1/3 pending" in text


def test_csv_comes_back_and_has_every_step(store: Store, tmp_path: Path) -> None:
    exported = files("csv", store)
    assert set(exported) == {"points.csv", "runs.csv", "summary.csv", "curves.csv"}
    (tmp_path / "runs.csv").write_bytes(exported["runs.csv"])
    pd.testing.assert_frame_equal(frames.read_csv(tmp_path / "runs.csv"), report.read(store).runs)
    curves = exported["curves.csv"].decode().splitlines()
    assert curves[0] == "run_id,step,lr,train_loss,grad_norm,val_loss"
    assert len(curves) == 1 + 3 * 101 + 13 + 4


def test_parquet_keeps_types(store: Store, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    exported = files("parquet", store)
    (tmp_path / "runs.parquet").write_bytes(exported["runs.parquet"])
    runs = report.read(store).runs
    back = pd.read_parquet(tmp_path / "runs.parquet")
    assert back.dtypes.astype(str).to_dict() == runs.dtypes.astype(str).to_dict()
    pd.testing.assert_frame_equal(back, runs)


def test_tensorboard_reads_curves_deaths_and_keys(store: Store, tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    exported = files("tensorboard", store)
    for name, content in exported.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    read = report.read(store)
    assert {name.rpartition("/")[0] for name in exported} == {"", *read.records}
    for run_id, record in read.records.items():
        events = EventAccumulator(str(tmp_path / run_id)).Reload()
        curve = [row for row in store.traces(run_id).curve if row.train_loss is not None]
        losses = events.Scalars("train_loss")
        assert [event.step for event in losses] == [row.step for row in curve]
        assert [event.value for event in losses] == pytest.approx([row.train_loss for row in curve], nan_ok=True)
        (final,) = events.Scalars("final/val_loss")
        assert math.isinf(final.value) is (record.result_word == "nonfinite")
        assert "stream_rms/layer_002" in events.Tags()["scalars"]
        assert "_hparams_/session_start_info" in events.summary_metadata
    assert "_hparams_/experiment" in EventAccumulator(str(tmp_path)).Reload().summary_metadata


@pytest.mark.parametrize("name", ["parquet", "tensorboard"])
def test_what_is_not_installed_is_named(name: str, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "tensorboard.plugins.hparams", None)
    with pytest.raises(UserError, match=rf"pip install 'normexp\[{name}\]'"):
        files(name, store)


def test_files_that_are_there_stay(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["normexp", "export", str(store.folder), *arguments])
        with pytest.raises(SystemExit) as end:
            app.main()
        return (int(end.value.code or 0), *capfd.readouterr())

    mine = tmp_path / "paper.tex"
    mine.write_text("mine")
    code, _, errors = run("--to", "latex", "--out", str(mine))
    assert (code, "--force" in errors, mine.read_text()) == (2, True, "mine")
    assert run("--to", "latex", "--out", str(mine), "--force")[:2] == (0, f"{mine}\n")
    assert mine.read_text().startswith("%")
    assert run("--to", "csv")[:2] == (0, f"{store.folder / 'export' / 'csv'}: 4 files\n")
    assert run("--to", "csv")[0] == 2
    assert run("--to", "csv", "--force")[0] == 0
    assert run("--to", "markdown", "--out", str(tmp_path))[:2] == (0, f"{tmp_path / 'tables.md'}\n")
    assert "tensorboard, latex, markdown" in run("--to", "excel")[2]
