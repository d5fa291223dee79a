"""normexp plot: output files and their names, and refused options."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import records
from commandline import Done, invoke
from stored import saved

from normexp.plots.kinds import KINDS


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    plan = records.plan({"depth": [2, 4], "lr": [1e-3, 1e-2]}, width=16, name="tiny")
    return saved(tmp_path, plan, ["1.9", "1.9", "1.9", "nan@5"]).folder


def plot(*arguments: object) -> Done:
    return invoke("plot", *arguments)


def test_a_map_is_written_to_the_figures_of_the_sweep_with_its_data(folder: Path) -> None:
    options = ["--kind", "map", "--x", "lr", "--y", "depth", "--theme", "light,dark", "--format", "svg"]
    done = plot(folder, *options, "--width", "column")
    stem = "outcome_map-own-column"
    names = [f"{stem}.csv", f"{stem}-light.svg", f"{stem}-dark.svg"]
    assert (done.code, done.out.split()) == (0, [str(folder / "figures" / name) for name in names])
    light, dark = ((folder / "figures" / name).read_text("utf-8") for name in names[1:])
    assert 'width="237.6pt"' in light
    assert "#14161a" in dark
    assert "#14161a" not in light
    plot(folder, *options, "--width", "column")
    assert (folder / "figures" / names[1]).read_text("utf-8") == light


def test_outdated_runs_draw_a_warning(folder: Path) -> None:
    path = next((folder / "runs").glob("*/run.json"))
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | {"numerics": 0}), "utf-8")
    done = plot(folder, "--kind", "map", "--format", "svg")
    assert (done.code, done.err.count("warning: "), "outdated" in done.err) == (0, 1, True)


def test_to_names_the_file(folder: Path) -> None:
    target = folder.parent / "paper" / "scan.pdf"
    options = ["--kind", "sensitivity", "--only", "depth=4", "--facet", "none", "--y", "fraction"]
    assert plot(folder, *options, "--to", target).code == 0
    assert target.read_bytes().startswith(b"%PDF")
    assert sorted(path.name for path in target.parent.iterdir()) == ["scan.csv", "scan.pdf"]
    assert len(target.with_suffix(".csv").read_text("utf-8").splitlines()) == 3


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ([], "lr_sensitivity.svg"),
        (["--kind", "sensitivity"], "lr_sensitivity.svg"),
        (["--kind", "sensitivity", "--title", ""], "lr_sensitivity-own.svg"),
        (["--kind", "sensitivity", "--only", "depth=4"], "lr_sensitivity-own.svg"),
        (["--kind", "sensitivity", "--y", "fraction", "--theme", "dark"], "lr_sensitivity-own-dark.svg"),
        (["--theme", "dark"], "lr_sensitivity-dark.svg"),
    ],
)
def test_only_the_figure_of_the_report_gets_its_name(folder: Path, options: list[str], name: str) -> None:
    assert plot(folder, *options, "--format", "svg").code == 0
    assert name in [path.name for path in (folder / "figures").iterdir()]
    assert (folder / "figures" / "lr_sensitivity.svg").exists() is (name == "lr_sensitivity.svg")


def test_the_title_is_replaced_or_left_out(folder: Path) -> None:
    heights = {}
    for title in ("Of my own <paper>", ""):
        target = folder.parent / "titled.svg"
        assert plot(folder, "--kind", "depth", "--title", title, "--to", target).code == 0
        text = target.read_text("utf-8")
        assert ("Of my own &lt;paper&gt;" in text) is bool(title)
        assert "<!-- tiny -->" not in text
        heights[title] = text.split('height="')[1].split('"')[0]
    assert float(heights[""].removesuffix("pt")) < float(heights["Of my own <paper>"].removesuffix("pt"))


def test_all_kinds_are_listed() -> None:
    done = plot("--kind", "list")
    assert (done.code, [line.split(":")[0] for line in done.out.splitlines()]) == (0, [*KINDS])


@pytest.mark.parametrize(
    ("options", "facts"),
    [
        (["--kind", "pie"], ["--kind pie", "sensitivity"]),
        (["--kind", "map", "--x", "norm"], ["--x norm", "ln", "lr"]),
        (["--kind", "depth", "--only", "depth=2"], ["depth is 2", "lr"]),
        (["--kind", "depth", "--facet", "deth"], ["--facet deth", "depth"]),
        (["--x", "lr"], ["--x", "--title", "--kind"]),
        (["--theme", "dusk"], ["--theme dusk", "light", "dark"]),
        (["--format", "gif"], ["--format gif", "svg", "png", "pdf"]),
        (["--width", "poster"], ["--width poster", "column", "full"]),
        (["--kind", "map", "--color", "red"], ["--color red", "outcome", "fraction"]),
        (["--kind", "map", "--to", "x.gif"], ["--to", "gif", "svg"]),
        (["--kind", "map", "--to", "x.svg", "--format", "png"], ["--to x.svg", "--format", "png"]),
        (["--to", "x.png"], ["--to x.png", "--kind"]),
        (["--only", "lr=1"], ["--only", "lr", "0.001", "0.01"]),
    ],
)
def test_invalid_options_are_refused(folder: Path, options: list[str], facts: list[str]) -> None:
    done = plot(folder, *options)
    assert (done.code, "Traceback" in done.err) == (2, False)
    assert [fact for fact in facts if fact not in done.err] == []
    assert not (folder / "figures").exists()
