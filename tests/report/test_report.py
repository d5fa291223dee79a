"""The report of a sweep in Markdown and on the terminal: complete in any width and encoding, with all warnings."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
import records as made
from markdown_it import MarkdownIt
from printed import printed
from stored import saved

from normexp.analysis.tables import reference_losses
from normexp.config.plan import Pivot, Published
from normexp.errors import UserError
from normexp.execution import worker
from normexp.records.execution_path import ExecutionPath
from normexp.records.record import COMPARED, STEP
from normexp.report import report
from normexp.storage.store import Store
from normexp.terminal.console import console, encodable

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
    warnings = text.partition("## Warnings")[2]
    for fact in (
        "1 run outdated",
        configs[1].run_id,
        f"1 orphaned run, which no point needs any more: {configs[2].run_id}",
    ):
        assert fact in warnings
    assert "entropy floor 1.500, unigram loss 4.070, bigram loss 3.000." in text
    store.write(made.done(configs[1], 1.6))
    assert "different torch: 2.12 and 2.13.0" in report.rebuild(store).markdown
    assert "different torch_threads: 1 and 2" in report.rebuild(store).markdown.replace("\\_", "_")


def test_reference_losses_are_given_by_label_if_they_differ() -> None:
    rows = [("a", 1.0), ("b", 1.5), ("c", 1.0), ("b", 1.6)]
    summary = pd.DataFrame(
        [{"label": label, "floor": floor, "guess": 4.0, "bigram": 2.0} for label, floor in rows], dtype=object
    )
    both = reference_losses(summary)
    assert (
        "a and c: entropy floor 1.000, unigram loss 4.000, bigram loss 2.000; b: entropy floor 1.500 to 1.600" in both
    )
    assert ": entropy floor 1.000, unigram loss" in reference_losses(summary[summary["label"] != "b"])


@pytest.mark.parametrize("name", COMPARED)
def test_mixed_environments_are_a_warning(name: str) -> None:
    assert {*worker.environment(), STEP, "compiler", "compiler_flags"} == set(made.ENVIRONMENT)
    first, second = made.plan({"norm": ["ln", "rms"]}).configs.values()
    value = str(ExecutionPath.TAPE) if name == STEP else "other"
    other = made.ENVIRONMENT | {name: value}
    records = {"a": made.done(first, 1.6), "b": made.done(second, 1.6, environment=other)}
    assert report.warnings(records, []) == [
        f"runs were made with different {name}: {made.ENVIRONMENT[name]} and {value}"
    ]


def test_up_to_five_orphaned_runs_are_named() -> None:
    ids = [f"id{index}" for index in range(8)]
    assert report.warnings({}, ids[:5])[0].endswith(": id0, id1, id2, id3 and id4")
    (warning,) = report.warnings({}, ids)
    assert warning.startswith("8 orphaned runs, ")
    assert warning.endswith(": id0, id1, id2, id3, id4 and 3 more")


def test_no_runs_is_a_header_and_says_so(tmp_path: Path) -> None:
    found = report.rebuild(saved(tmp_path, made.plan({"lr": []}), []))
    assert "| lr | planned |" in found.markdown
    assert "\n\nno runs\n" in found.markdown
    assert "no runs" in printed(console(found), width=80)


def test_a_half_finished_folder_is_reported(tmp_path: Path) -> None:
    plan = made.plan({"norm": ["ln", "rms"], "seed": [0, 1]})
    store = saved(tmp_path, plan, ["1.6", "pending", "pending", "pending"])
    found = report.rebuild(store)
    assert list(found.summary["pending"]) == [1, 2]
    assert {path.name for path in store.folder.glob("*.*")} >= {"points.csv", "runs.csv", "timings.csv", "summary.md"}
    with pytest.raises(UserError, match="not a results folder"):
        report.rebuild(Store(tmp_path))


@pytest.mark.parametrize("width", [20, 40, 80, 300, None])
def test_nothing_is_cut_on_a_terminal_or_in_a_pipe(tmp_path: Path, width: int | None) -> None:
    axes = {"norm": ["none", "ln"], "position": ["post", "pre"], "lr": [1e-3, 0.00316227766, 1e-2]}
    plan = made.plan(axes, title="dépth")
    ends = ["nan@1234", "inf@77", "failed", "1.6", "1.7", "2.5", "plateau", "1.9", "unsettled"]
    text = printed(console(report.rebuild(saved(tmp_path, plan, ends))), width=width)
    joined = "".join(text.split())
    assert "…" not in text
    assert "\x1b" not in text
    for text_without_spaces in ("0.00316", "1234", "77", "finiteruns", "learnedfraction", "4.065"):
        assert text_without_spaces in joined
    if width is not None:
        assert max(map(len, text.splitlines())) <= width
    else:
        assert len([line for line in text.splitlines() if line.startswith(("none ", "ln "))]) == 12


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "utf-8"])
def test_any_encoding_will_do(tmp_path: Path, encoding: str) -> None:
    plan = made.plan({"lr": [1e-3], "seed": [0, 1, 2]}, title="dépth α ±")
    found = report.rebuild(saved(tmp_path, plan, ["1.85", "1.87", "nan@3"]))
    text = printed(console(found), width=200, encoding=encoding)
    shown = {
        "ascii": ("d?pth ? +/-", "+/- 0.014"),
        "cp1252": ("dépth ? +/-", "± 0.014"),
        "utf-8": ("dépth α ±", "± 0.014"),
    }
    for output in shown[encoding]:
        assert output in text
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
    for text in (printed(console(found)), found.markdown):
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", text)
        assert re.search(r"red \ufffd\\?\[31m α", text)
        assert "a\ufffd" in text


def test_the_text_path_imports_neither_torch_nor_matplotlib(tmp_path: Path) -> None:
    store = saved(tmp_path, made.plan({"norm": ["ln", "none"], "seed": [0, 1]}), ["1.6", "1.7", "nan@3", "nan@4"])
    program = (
        "import sys; from pathlib import Path; from normexp.report import report;"
        "from normexp.terminal.console import console, output;"
        "from normexp.storage.store import Store; output().print(console(report.rebuild(Store(Path(sys.argv[1])))));"
        "print([name for name in ('torch', 'matplotlib', 'scipy.stats') if name in sys.modules])"
    )
    arguments = [sys.executable, "-c", program, str(store.folder)]
    output = subprocess.run(arguments, capture_output=True, text=True, check=True, timeout=60).stdout
    assert output.splitlines()[-1] == "[]"
