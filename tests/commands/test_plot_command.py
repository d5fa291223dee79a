"""normexp plot: what it writes where, and what it says where it cannot."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import records as made

from normexp.commands.app import main
from normexp.storage.store import Store


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    plan = made.plan({"depth": [2, 4], "lr": [1e-3, 1e-2]}, width=16, name="tiny")
    store = Store(tmp_path / "tiny")
    store.begin(plan, [], force=False)
    for config in plan.configs.values():
        store.write(made.dead(config, 5) if config.lr > 5e-3 and config.depth == 4 else made.done(config, 1.9))
    return store.folder


def plot(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    monkeypatch.setattr(sys, "argv", ["normexp", "plot", *map(str, arguments)])
    try:
        main()
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def test_a_map_lands_in_the_sweep_s_figures_with_its_data(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--kind", "map", "--x", "lr", "--y", "depth", "--theme", "light,dark", "--format", "svg"]
    assert plot(monkeypatch, folder, *options, "--width", "column") == 0
    stem = "outcome_map-own-column"
    names = [f"{stem}.csv", f"{stem}-light.svg", f"{stem}-dark.svg"]
    assert capsys.readouterr().out.split() == [str(folder / "figures" / name) for name in names]
    light, dark = ((folder / "figures" / name).read_text("utf-8") for name in names[1:])
    assert 'width="237.6pt"' in light
    assert "#14161a" in dark
    assert "#14161a" not in light
    first = (folder / "figures" / names[1]).read_bytes()
    assert plot(monkeypatch, folder, *options, "--width", "column") == 0
    assert (folder / "figures" / names[1]).read_bytes() == first


def test_runs_of_older_numerics_are_told(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = next((folder / "runs").glob("*/run.json"))
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | {"numerics": 0}), "utf-8")
    assert plot(monkeypatch, folder, "--kind", "map", "--format", "svg") == 0
    assert "warning: 1 run outdated" in capsys.readouterr().err


def test_a_file_of_one_s_own(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = folder.parent / "paper" / "scan.pdf"
    options = ["--kind", "sensitivity", "--only", "depth=4", "--facet", "none", "--y", "fraction"]
    assert plot(monkeypatch, folder, *options, "--to", target) == 0
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
def test_only_the_figure_of_the_report_takes_its_place(
    folder: Path, options: list[str], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert plot(monkeypatch, folder, *options, "--format", "svg") == 0
    assert name in [path.name for path in (folder / "figures").iterdir()]
    assert (folder / "figures" / "lr_sensitivity.svg").exists() is (name == "lr_sensitivity.svg")


def test_a_title_of_one_s_own_or_none(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    heights = {}
    for title in ("Of my own <paper>", ""):
        target = folder.parent / "titled.svg"
        assert plot(monkeypatch, folder, "--kind", "depth", "--title", title, "--to", target) == 0
        text = target.read_text("utf-8")
        assert ("Of my own &lt;paper&gt;" in text) is bool(title)
        assert "<!-- tiny -->" not in text
        heights[title] = text.split('height="')[1].split('"')[0]
    assert float(heights[""].removesuffix("pt")) < float(heights["Of my own <paper>"].removesuffix("pt"))


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--kind", "pie"], "normexp: --kind pie: no such figure; there are:"),
        (["--kind", "map", "--x", "norm"], "--x norm: it is ln in every run that the figure is of: what varies is"),
        (
            ["--kind", "depth", "--only", "depth=2"],
            "normexp: depth is 2 in every run that the figure is of: what varies",
        ),
        (["--kind", "depth", "--facet", "deth"], "--facet deth: no such axis: did you mean depth?"),
        (["--x", "lr"], "--x, --y, --facet, --color and --title are of one figure: choose it with --kind curves|"),
        (["--theme", "dusk"], "--theme dusk: write one of light, dark"),
        (["--format", "gif"], "--format gif: write one of svg, png, pdf"),
        (["--width", "poster"], "--width poster: write one of column, full"),
        (["--kind", "map", "--color", "red"], "--color red: write one of outcome, fraction"),
        (["--kind", "map", "--to", "x.gif"], "--to: a file that ends in gif: write one of svg, png, pdf"),
        (
            ["--kind", "map", "--to", "x.svg", "--format", "png"],
            "--to x.svg: ends in svg, and --format is png: leave one of them out",
        ),
        (["--to", "x.png"], "--to x.png: one file is for one figure: choose it with --kind"),
        (["--only", "lr=1"], "--only leaves no run: lr is 0.001, 0.01"),
    ],
)
def test_what_cannot_be_drawn_is_told(
    folder: Path,
    options: list[str],
    told: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert plot(monkeypatch, folder, *options) == 2
    errors = capsys.readouterr().err
    assert told in errors
    assert "Traceback" not in errors
    assert not (folder / "figures").exists()
