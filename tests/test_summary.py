"""Cells, pivots, conclusion: counts add up, the dead count, nothing is cut."""

from __future__ import annotations

import io
import math
import re
import statistics
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
import records as made
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from records import end, runs_of
from rich.console import Console

from normexp.errors import UserError
from normexp.execute import worker
from normexp.plan import Pivot, Plan, Published
from normexp.record import Outcome
from normexp.results.store import Store
from normexp.views import report
from normexp.views.conclusion import conclusion
from normexp.views.console import console, encodable, output
from normexp.views.labels import listed, loss_text, range_text, value_text
from normexp.views.pivot import cell_text, pivot
from normexp.views.summary import best, by_loss, cells, half_interval, summarize

OUTCOMES = [outcome.value for outcome in Outcome]


def seeds(*ends: str) -> tuple[Plan, pd.DataFrame]:
    """One cell, a seed for each end."""
    plan = made.plan({"lr": [1e-3], "seed": list(range(len(ends)))})
    return plan, runs_of(plan, list(ends))


BLOWN_UP = ("unsettled", "diverged", "nan@3", "inf@12")
NOT_DONE = ("failed", "killed", "timeout", "interrupted", "pending")
ENDS = st.sampled_from(("1.6", "2.5", "learned", "plateau", *BLOWN_UP, *NOT_DONE))


@settings(deadline=None, max_examples=50)
@given(st.lists(ENDS, min_size=12, max_size=12))
def test_counts_add_up_whatever_happened(ends: list[str]) -> None:
    plan = made.plan({"norm": ["ln", "rms"], "lr": [1e-3, 1e-2], "seed": [0, 1, 2]})
    runs = runs_of(plan, ends)
    summary = summarize(plan, runs)
    assert (summary["planned"] == summary["done"] + summary["failed"] + summary["pending"]).all()
    assert (summary["done"] == summary[OUTCOMES].sum(axis=1)).all()
    assert summary["planned"].sum() == 12
    assert (summary["median_val_loss"].isna() == (summary["done"] == 0)).all(), "the dead are infinite, not missing"
    alive = summary["learned"] + summary["plateau"]
    assert (summary["mean_val_loss"].isna() == (alive == 0)).all()
    assert (summary["std_val_loss"].isna() == (alive < 2)).all()
    assert (summary["first_dead_step"].isna() == (summary["nonfinite"] == 0)).all()
    for cell in cells(plan, runs):
        text = cell_text(cell)
        told = [int(count) for count in re.findall(r"(\d+) of 3\b", text)] + [3] * text.count("(3)")
        assert sum(told) == 3, "each run is told once"
        assert ("nan" in text) == any(run["kind"] == "nan" for run in cell.runs)
    statuses = [str(status) for status in runs["status"]]
    assert summary["failed"].sum() == sum(status in {"failed", "killed", "timeout"} for status in statuses)
    assert summary["pending"].sum() == sum(status in {"pending", "interrupted"} for status in statuses)
    survivors = [how for how in ends[:3] if how in {"1.6", "2.5", "learned", "plateau"}]
    assert summary["survivors"][0].startswith(f"{len(survivors)}/")
    assert math.isfinite(summary["mean_val_loss"][0]) == bool(survivors)
    assert conclusion(plan, runs)


@settings(deadline=None, max_examples=50)
@given(st.permutations(["nan@3", "1.7", "2.5", "inf@9", "diverged", "pending", "failed"]))
def test_best_is_the_finite_minimum_in_any_order(ends: list[str]) -> None:
    plan = made.plan({"lr": [1e-4, 2e-4, 3e-4, 4e-4, 5e-4, 6e-4, 7e-4]})
    runs = runs_of(plan, ends)
    top = best(cells(plan, runs))
    assert top is not None
    assert top.median == 1.7
    ordered = list(by_loss(summarize(plan, runs))["median_val_loss"])
    assert ordered[:5] == [1.7, 2.5, 1e9, math.inf, math.inf]
    assert all(map(math.isnan, ordered[5:]))


def test_the_dead_count_in_the_median_and_not_in_the_mean() -> None:
    plan, runs = seeds("1.6", "1.8", "nan@12")
    row = summarize(plan, runs).iloc[0]
    assert row["median_val_loss"] == 1.8
    assert row["mean_val_loss"] == pytest.approx(1.7)
    assert row["survivors"] == "2/3"
    assert (row["first_dead_step"], row["last_dead_step"]) == (12, 12)
    plan, runs = seeds("1.6", "nan@12", "inf@33")
    row = summarize(plan, runs).iloc[0]
    assert (row["median_val_loss"], row["first_dead_step"], row["last_dead_step"]) == (math.inf, 12, 33)


def test_a_blown_up_loss_is_not_averaged() -> None:
    plan, runs = seeds("1.6", "diverged", "unsettled")
    row = summarize(plan, runs).iloc[0]
    assert (row["mean_val_loss"], row["survivors"], row["median_val_loss"]) == (1.6, "1/3", 100.0)


def test_the_interval_is_students() -> None:
    losses = ["1.6", "1.8", "2.3", "1.7"]
    plan, runs = seeds(*losses)
    row = summarize(plan, runs).iloc[0]
    values = list(map(float, losses))
    half = 3.182446305284263 * statistics.stdev(values) / 2
    assert row["std_val_loss"] == pytest.approx(statistics.stdev(values))
    assert row["low95_val_loss"] == pytest.approx(statistics.fmean(values) - half)
    assert row["high95_val_loss"] == pytest.approx(statistics.fmean(values) + half)
    assert half_interval([1.0, 3.0]) == pytest.approx(12.706204736)
    assert row["learned_fraction"] == pytest.approx((4.07 - statistics.fmean(values)) / (4.07 - 1.5))


def test_a_redundant_point_shows_its_run_in_each_cell() -> None:
    plan = made.plan({"norm": ["ln", "none"], "position": ["post", "pre"]}, depth=2)
    assert len(plan.configs) == 3
    summary = summarize(plan, runs_of(plan, ["1.6", "1.8", "nan@12"]))
    assert list(summary["nonfinite"]) == [0, 0, 1, 1]
    assert list(summary["planned"]) == [1, 1, 1, 1]
    assert conclusion(plan, runs_of(plan, ["1.6", "1.8", "nan@12"])).startswith("2 of 3 finished runs learned")


@pytest.mark.parametrize(
    ("ends", "text"),
    [
        (["1.865"], "1.865"),
        (["plateau"], "plateau 4.07"),
        (["nan@12"], "nan @12"),
        (["diverged"], "diverged 1e+09, rising"),
        (["unsettled"], "unsettled 100, falling"),
        (["timeout"], "timeout"),
        (["interrupted"], "pending"),
        (["pending"], "pending"),
        (["slow"], "plateau 4.07, falling"),
        (["slow", "slow"], "plateau 4.065 ± 0.000 (2), falling"),
        (["slow", "plateau", "slow"], "plateau 4.065 ± 0.000 (3), 2 falling"),
        (["slow", "1.6"], "1.600 (1 of 2); plateau 4.065 (1 of 2), falling"),
        (["2.5654", "2.5654"], "2.565 ± 0.000 (2)"),
        (["1.85", "1.87", "1.89"], "1.870 ± 0.020 (3)"),
        (["1.87", "nan@12", "nan@33"], "1.870 (1 of 3); 2 of 3 nan @12–33"),
        (["nan@12", "inf@12"], "2 of 2 nan/inf @12"),
        (["pending", "plateau", "1.6"], "1.600 (1 of 3); plateau 4.065 (1 of 3); 1 of 3 pending"),
    ],
)
def test_cell_text(ends: list[str], text: str) -> None:
    plan, runs = seeds(*ends)
    assert cell_text(cells(plan, runs)[0]) == text


def test_pivot_is_laid_out_as_asked_with_the_published_text_beside() -> None:
    plan = made.plan(
        {"norm": ["none", "ln"], "lr": [1e-3, 3.16227766e-3], "warmup": [0, 200]},
        pivot=Pivot(rows=("norm",), columns=("lr",)),
        published=[Published(where={"norm": "none", "lr": 1e-3}, text="NaN", source="Table 2")],
    )
    ends = ["nan@12", "nan@13", "nan@4", "nan@5", "1.6", "1.7", "1.8", "plateau"]
    first, second = pivot(plan, runs_of(plan, ends))
    assert (first.title, second.title) == ("warmup 0", "warmup 200")
    assert first.header == ("norm", "lr 0.001", "lr 0.00316")
    assert first.rows == (("none", "nan @12 [NaN]", "nan @4"), ("ln", "1.600", "1.800"))
    assert second.rows == (("none", "nan @13 [NaN]", "nan @5"), ("ln", "1.700", "plateau 4.07"))
    assert (first.note, second.note) == ("", "In brackets: Table 2."), "once for both"


def test_what_cells_of_several_seeds_mean_is_told_once() -> None:
    axes = {"norm": ["ln", "rms"], "warmup": [0, 9], "seed": [0, 1]}
    plan = made.plan(
        axes,
        pivot=Pivot(rows=("norm",), columns=()),
        published=[Published(where={"norm": "ln", "warmup": 0}, text="2.44", source="Table 2")],
    )
    notes = [table.note for table in pivot(plan, runs_of(plan, ["1.6"] * 8))]
    assert notes == ["In brackets: Table 2.", "Cells of several seeds: mean ± std over seeds (k of n)."]
    plan = made.plan(axes | {"seed": [0]}, pivot=Pivot(rows=("norm",), columns=()))
    assert [table.note for table in pivot(plan, runs_of(plan, ["1.6"] * 4))] == ["", ""]
    plan = made.plan(axes | {"lr": []}, pivot=Pivot(rows=("norm",), columns=()))
    assert pivot(plan, runs_of(plan, [])) == []


def test_pivot_rows_stand_together() -> None:
    plan = made.plan(
        {"position": ["post", "pre"], "norm": ["ln", "rms"]}, pivot=Pivot(rows=("norm", "position"), columns=())
    )
    (table,) = pivot(plan, runs_of(plan, ["1.6", "1.7", "1.8", "1.9"]))
    assert table.header == ("norm / position", "")
    assert [row for row, *_ in table.rows] == ["ln, post", "ln, pre", "rms, post", "rms, pre"]


def test_pivot_rows_are_headed_by_the_keys_that_vary_in_their_table() -> None:
    plan = made.plan({"norm": ["ln", "rms"]}, lr=3e-3, pivot=Pivot(rows=("position", "norm"), columns=("lr",)))
    (table,) = pivot(plan, runs_of(plan, ["1.6", "1.7"]))
    assert (table.header[0], table.rows[0][0]) == ("norm", "ln")
    plan = made.plan({"norm": ["ln"]}, pivot=Pivot(rows=("position", "norm"), columns=("lr",)))
    (table,) = pivot(plan, runs_of(plan, ["1.6"]))
    assert (table.header[0], table.rows[0][0]) == ("position / norm", "pre, ln")


def test_pivot_of_a_key_that_is_no_axis_any_more() -> None:
    plan = made.plan({"norm": ["ln", "rms"]}, lr=3e-3, pivot=Pivot(rows=("norm",), columns=("lr",)))
    (table,) = pivot(plan, runs_of(plan, ["1.6", "1.7"]))
    assert table.header == ("norm", "lr 0.003")


def saved(folder: Path, plan: Plan, ends: list[str]) -> Store:
    """A results folder with these ends."""
    store = Store(folder / plan.folder)
    store.begin(plan, [], force=False)
    for config, how in zip(plan.configs.values(), ends, strict=True):
        record = end(config, how)
        if record is not None:
            store.write(record)
    return store


NASTY = "a|b `x` <br>\nsecond *line* \\| [link](x) &lt; | --- |"


def test_markdown_survives_any_name(tmp_path: Path) -> None:
    plan = made.plan(
        {"norm": ["none", "ln"], "lr": [1e-3, 1e-2]},
        label=NASTY,
        title=NASTY,
        pivot=Pivot(rows=("norm",), columns=("lr",)),
        published=[Published(where={"norm": "none"}, text="1|2\n`", source=NASTY)],
    )
    text = report.rebuild(saved(tmp_path, plan, ["nan@3", "1.6", "failed", "pending"])).markdown
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    widths, shown = [], []
    for token in tokens:
        if token.type == "tr_open":
            widths.append(0)
        if token.type in ("th_open", "td_open"):
            widths[-1] += 1
        shown += [child.content for child in token.children or []]
        assert not any(child.type in ("code_inline", "html_inline", "link_open") for child in token.children or [])
    assert widths == [3] * 3 + [18] * 5
    assert "".join(shown).count("a|b `x` <br> second *line* \\| [link](x) &lt; | --- |") == 8


def test_markdown_says_what_a_reader_must_know(tmp_path: Path) -> None:
    plan = made.plan({"norm": ["ln", "rms", "none"]}, depth=2)
    store = saved(tmp_path, plan, ["1.6", "1.7", "nan@3"])
    configs = list(plan.configs.values())
    store.write(made.done(configs[0], 1.6, numerics=0, environment={"torch": "2.12", "torch_threads": 2}))
    store.begin(made.plan({"norm": ["ln", "rms"]}, depth=2), [], force=False)
    (store.folder / "runs" / configs[1].run_id / "run.json").write_text("{")
    text = report.rebuild(store).markdown
    assert "1 run stale" in text
    assert "cannot be used" in text
    assert f"1 stored run that no point asks for any more: {configs[2].run_id}" in text
    assert "Reference losses in nats: floor 1.500, guess 4.070, bigram 3.000." in text
    store.write(made.done(configs[1], 1.6))
    assert "different torch: 2.12 and 2.13.0" in report.rebuild(store).markdown
    assert "different torch_threads: 1 and 2" in report.rebuild(store).markdown.replace("\\_", "_")


@pytest.mark.parametrize("name", report.COMPARED)
def test_another_environment_is_told_by_the_names_that_workers_store(name: str) -> None:
    assert set(worker.environment()) == set(made.ENVIRONMENT)
    first, second = made.plan({"norm": ["ln", "rms"]}).configs.values()
    other = made.ENVIRONMENT | {name: "other"}
    records = {"a": made.done(first, 1.6), "b": made.done(second, 1.6, environment=other)}
    assert report.warnings(records, []) == [f"runs were made with different {name}: {made.ENVIRONMENT[name]} and other"]


def test_strays_are_named_up_to_five_and_the_rest_counted() -> None:
    ids = [f"id{index}" for index in range(8)]
    assert report.warnings({}, ids[:5])[0].endswith(": id0, id1, id2, id3 and id4")
    assert report.warnings({}, ids)[0] == (
        "8 stored runs that no point asks for any more: id0, id1, id2, id3, id4 and 3 more"
    )


def test_no_runs_is_a_header_and_says_so(tmp_path: Path) -> None:
    found = report.rebuild(saved(tmp_path, made.plan({"lr": []}), []))
    assert "| lr | planned |" in found.markdown
    assert "\n\nno runs\n" in found.markdown
    assert "no runs" in printed(found, width=80, terminal=True)


def test_a_half_finished_folder_is_reported(tmp_path: Path) -> None:
    plan = made.plan({"norm": ["ln", "rms"], "seed": [0, 1]})
    store = saved(tmp_path, plan, ["1.6", "pending", "pending", "pending"])
    found = report.rebuild(store)
    assert list(found.summary["pending"]) == [1, 2]
    assert {path.name for path in store.folder.glob("*.*")} >= {"points.csv", "runs.csv", "timings.csv", "summary.md"}
    with pytest.raises(UserError, match="not a results folder"):
        report.rebuild(Store(tmp_path))


def printed(found: report.Report, *, width: int, terminal: bool, encoding: str = "utf-8") -> str:
    """What the terminal or the pipe gets."""
    buffer = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    out = Console(file=buffer, width=width, force_terminal=terminal, color_system=None) if terminal else output(buffer)
    out.print(console(found))
    buffer.seek(0)
    return buffer.read()


@pytest.mark.parametrize(("width", "terminal"), [(20, True), (40, True), (80, True), (300, True), (80, False)])
def test_nothing_is_cut_on_the_terminal(tmp_path: Path, width: int, terminal: bool) -> None:
    axes = {"norm": ["none", "ln"], "position": ["post", "pre"], "lr": [1e-3, 0.00316227766, 1e-2]}
    plan = made.plan(axes, title="dépth")
    ends = ["nan@1234", "inf@77", "failed", "1.6", "1.7", "2.5", "plateau", "1.9", "unsettled"]
    text = printed(report.rebuild(saved(tmp_path, plan, ends)), width=width, terminal=terminal)
    joined = "".join(text.split())
    assert "…" not in text
    assert "\x1b" not in text
    for told in ("0.00316", "1234", "77", "survivors", "learnedfraction", "4.065"):
        assert told in joined
    assert not terminal or max(map(len, text.splitlines())) <= width
    if not terminal:
        assert len([line for line in text.splitlines() if line.startswith(("none ", "ln "))]) == 12


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "utf-8"])
def test_any_encoding_will_do(tmp_path: Path, encoding: str) -> None:
    plan = made.plan({"lr": [1e-3], "seed": [0, 1, 2]}, title="dépth α ±")
    found = report.rebuild(saved(tmp_path, plan, ["1.85", "1.87", "nan@3"]))
    text = printed(found, width=200, terminal=True, encoding=encoding)
    shown = {
        "ascii": ("d?pth ? +/-", "+/- 0.014"),
        "cp1252": ("dépth ? +/-", "± 0.014"),
        "utf-8": ("dépth α ±", "± 0.014"),
    }
    for told in shown[encoding]:
        assert told in text
    assert encodable("1–2 × 3", "ascii") == "1-2 x 3"


def test_control_characters_reach_neither_terminal_nor_markdown(tmp_path: Path) -> None:
    published = [Published(where={"norm": "ln"}, text="\x1b]0;x\x07", source="\x9b2J")]
    plan = made.plan(
        {"norm": ["ln", "none"]},
        title="red \x1b[31m\tα",
        label="a\x1b[2Jb\u202e",
        pivot=Pivot(rows=("norm",), columns=()),
        published=published,
    )
    found = report.rebuild(saved(tmp_path, plan, ["1.85", "nan@3"]))
    for text in (printed(found, width=200, terminal=False), found.markdown):
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", text)
        assert re.search(r"red \ufffd\\?\[31m α", text)
        assert "a\ufffd" in text


def test_the_text_path_imports_neither_torch_nor_matplotlib(tmp_path: Path) -> None:
    store = saved(tmp_path, made.plan({"norm": ["ln", "none"], "seed": [0, 1]}), ["1.6", "1.7", "nan@3", "nan@4"])
    program = (
        "import sys; from pathlib import Path; from normexp.views import report;"
        "from normexp.views.console import console, output;"
        "from normexp.results.store import Store; output().print(console(report.rebuild(Store(Path(sys.argv[1])))));"
        "print([name for name in ('torch', 'matplotlib', 'scipy.stats') if name in sys.modules])"
    )
    arguments = [sys.executable, "-c", program, str(store.folder)]
    told = subprocess.run(arguments, capture_output=True, text=True, check=True, timeout=60).stdout
    assert told.splitlines()[-1] == "[]"


def test_labels() -> None:
    assert [value_text("lr", lr) for lr in (1e-3, 3.16227766e-3, 1e-5)] == ["0.001", "0.00316", "1e-05"]
    assert value_text("residual", True) == "true"
    assert [loss_text(loss) for loss in (1.8654, 812.3, 1.2e9, math.inf, math.nan)] == [
        "1.865",
        "812",
        "1.2e+09",
        "inf",
        "",
    ]
    assert [loss_text(loss) for loss in (-0.0, -1e-9, -0.0004, -0.0006)] == ["0.000", "0.000", "0.000", "-0.001"]
    assert [range_text(steps) for steps in ([], [5], [9, 5, 7])] == ["", "5", "5–9"]
    assert listed(["a"]) + listed(["a", "b"]) + listed(["a", "b", "c"]) == "aa and ba, b and c"
