"""normexp from Python: results, refused input, and use in scripts, on standard input and in threads."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from enum import StrEnum
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import normexp
from normexp import api
from normexp.config import grid, sweep_file
from normexp.execution.events import Finished, Progress
from normexp.execution.pool import launch
from normexp.records.record import Outcome
from normexp.storage.store import Store

TINY = {"depth": 1, "width": 8, "hidden": 8, "heads": 2, "vocab": 8, "batch": 4, "steps": 3, "eval_every": 2}
CONFIG = {"name": "tiny", "base": {**TINY, "norm": "none"}, "grid": {"lr": [1e-3, 1e-2], "position": ["pre", "post"]}}
EXAMPLE = (Path(__file__).parents[1] / "examples" / "from_python.py").read_text("utf-8")


@pytest.fixture(autouse=True)
def _no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("normexp.report.report.write_figures", lambda store, report: None)


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> normexp.SweepResult:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("normexp.report.report.write_figures", lambda store, report: None)
        return normexp.sweep(CONFIG, out=tmp_path_factory.mktemp("out"), executor="inline")


def test_a_single_run_equals_that_of_a_sweep(swept: normexp.SweepResult) -> None:
    seen: list[Progress] = []
    wanted = normexp.RunConfig(**{**TINY, "norm": "none", "lr": 1e-2, "position": "post", "eps": 1e-3})
    record = normexp.run(wanted, executor="inline", progress=seen.append)
    assert record.config == wanted.canonical()
    stored = swept.read(record.run_id)
    assert record.result == stored.result
    assert record.traces is not None
    assert stored.traces is not None
    assert [repr(row) for row in record.traces.curve] == [repr(row) for row in stored.traces.curve]
    assert seen[0].step == 1


def test_the_result_of_a_sweep(swept: normexp.SweepResult) -> None:
    assert swept.exit_code == 0
    assert list(swept.frame["lr"]) == [1e-3, 1e-2]
    assert [len(swept.frame), len(swept.points), len(swept.summary)] == [2, 4, 4]
    assert set(swept.records) == set(swept.frame["run_id"])
    assert swept.conclusion in repr(swept)
    missing = "d1-none-pre-attention-lr1-w0-s0-00000000"
    with pytest.raises(normexp.UserError, match=f"{missing}: .*{swept.folder}"):
        swept.read(missing)


def test_loading_gives_types_and_the_word_none(swept: normexp.SweepResult) -> None:
    for frame in (normexp.load(swept.folder), normexp.load(swept.folder / "runs.csv")):
        pd.testing.assert_frame_equal(frame, swept.frame)
        assert set(frame["norm"]) == {"none"}
        kinds = {name: str(frame[name].dtype) for name in ("depth", "lr", "residual", "final_val_loss", "step")}
        assert kinds == {
            "depth": "Int64",
            "lr": "float64",
            "residual": "boolean",
            "final_val_loss": "Float64",
            "step": "Int64",
        }
    together = normexp.load(swept.folder.parent)
    assert set(together["sweep"]) == {"tiny"}
    pd.testing.assert_frame_equal(together.drop(columns="sweep"), swept.frame)


def test_paths_without_results_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("base: {depth: 1}\n")
    for path, fact in ((tmp_path, ""), (tmp_path / "nowhere", ""), (tmp_path / "a.yaml", r".*\.csv")):
        with pytest.raises(normexp.UserError, match=f"{path}{fact}"):
            normexp.load(path)


def test_a_config_is_a_path_a_text_or_a_dict(tmp_path: Path) -> None:
    text = "name: axes\nbase: {depth: 2}\ngrid: {lr: [0.001, 0.01], seed: [0, 1]}\n"
    path = tmp_path / "axes.yaml"
    path.write_text(text)
    raw_config = {
        "name": "axes",
        "base": {"depth": np.int64(2)},
        "grid": {"lr": np.logspace(-3, -2, 2), "seed": range(2)},
    }
    plans = [grid.plan(sweep_file.read(config, ["steps=10"])) for config in (path, str(path), text, raw_config)]
    assert all(plan.points == plans[0].points and plan.folder == "axes+steps=10" for plan in plans)
    assert [point.config.lr for point in plans[0].points] == [1e-3, 1e-3, 1e-2, 1e-2]
    assert grid.plan(sweep_file.read("base: {depth: 2}")).points[0].config.depth == 2


def test_numpy_values_are_accepted_anywhere_in_a_dict() -> None:
    raw_config = {
        "base": {"depth": np.int64(2), "residual": np.bool_(False), "norm": np.str_("rms"), "eps": np.float32(1e-3)},
        "zip": {"seed": np.array([0, 1, 0, 1]), "lr": np.array([1e-3, 1e-3, 1e-2, 1e-2], dtype=np.float32)},
        "exclude": {"lr": np.float32(1e-3), "seed": np.uint8(1)},
    }
    points = grid.plan(sweep_file.read(raw_config)).points
    rates = [float(np.float32(rate)) for rate in (1e-3, 1e-2, 1e-2)]
    assert [(point.config.seed, point.config.lr) for point in points] == [*zip((0, 0, 1), rates, strict=True)]
    (one,) = {(point.config.depth, point.config.residual, point.config.norm, point.config.eps) for point in points}
    assert one == (2, False, "rms", 0.0010000000474974513)
    listed = {"base": {"depth": np.longdouble(2)}, "grid": {"norm": [Norms.RMS, "ln"], "lr": [np.float64(0.1)]}}
    assert [point.config.norm for point in grid.plan(sweep_file.read(listed)).points] == ["rms", "ln"]
    with pytest.raises(normexp.UserError, match="has more digits than a float holds"):
        sweep_file.read({"base": {"lr": np.longdouble(1) / 3}})


class Norms(StrEnum):
    """Words of someone's own."""

    RMS = "rms"


def test_numpy_scalars_make_the_run_of_a_sweep(swept: normexp.SweepResult) -> None:
    wanted = {name: np.array(value)[()] for name, value in TINY.items()} | {
        "norm": np.str_("none"),
        "lr": np.float64(0.01),
    }
    assert normexp.run(wanted, executor="inline").result == swept.read(normexp.RunConfig(**wanted).run_id).result


def test_a_path_may_look_like_yaml_and_a_text_like_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("d/lr: high/c.yaml", "a: b"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("name: c\nbase: {depth: 3}")
        assert grid.plan(sweep_file.read(name)).points[0].config.depth == 3
    with pytest.raises(normexp.UserError, match=r"lr: low/c.yaml: no such file"):
        sweep_file.read("lr: low/c.yaml")
    assert grid.plan(sweep_file.read("base: {depth: 3}")).points[0].config.depth == 3
    assert grid.plan(sweep_file.read(f"title: {'x' * 5000}")).points[0].config.depth == 20
    with pytest.raises(normexp.UserError, match="gird: unknown key"):
        sweep_file.read("gird: {depth: 3}")


def test_dropped_duplicates_draw_a_warning(tmp_path: Path) -> None:
    raw_config = {"base": {**TINY, "depth": 0}, "zip": {"seed": [0, 1, 0, 1, 1], "lr": [1e-3, 1e-3, 1e-2, 1e-2, 1e-2]}}
    with pytest.warns(normexp.ConfigWarning, match="dropped 1 duplicate point"):
        swept_once = normexp.sweep(raw_config, out=tmp_path, executor="inline")
    assert list(zip(swept_once.points["seed"], swept_once.points["lr"], strict=True)) == [
        (0, 1e-3),
        (1, 1e-3),
        (0, 1e-2),
        (1, 1e-2),
    ]
    assert len(swept_once.records) == 4


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ("nowhere.yaml", "nowhere.yaml: no such file"),
        ({"base": {"dept": 3}}, "config:.*did you mean depth"),
        ({"base": {"depth": object()}}, "config: .*object"),
        ({"base": {"sharpness": 0.01}}, "nothing to learn"),
        ("a: b: c", "config:1:.*not YAML"),
    ],
)
def test_bad_configs_are_refused_before_anything_is_written(config: object, words: str, tmp_path: Path) -> None:
    with pytest.raises(normexp.UserError, match=words):
        normexp.sweep(config, out=tmp_path / "out", executor="inline")  # type: ignore[arg-type]
    assert not (tmp_path / "out").exists()


def test_bad_options_and_runs_are_refused(tmp_path: Path) -> None:
    with pytest.raises(normexp.UserError, match=r"executor threads: .*processes, inline"):
        normexp.sweep(CONFIG, out=tmp_path, executor="threads")
    with pytest.raises(normexp.UserError, match=r"executor threads: .*processes, inline"):
        normexp.run(normexp.RunConfig(), executor="threads")
    with pytest.raises(normexp.UserError, match="jobs: -1"):
        normexp.sweep({"base": {"depth": 1}}, out=tmp_path / "results", jobs=-1)
    assert not (tmp_path / "results").exists()
    with pytest.raises(normexp.UserError, match="sharpness"):
        normexp.run(normexp.RunConfig(**TINY, sharpness=0.01))
    with pytest.raises(normexp.UserError) as fault:
        normexp.RunConfig(depth=-1, norm="lm")
    assert len(fault.value.complaints) == 2
    assert isinstance(fault.value, ValueError)


def test_ctrl_c_keeps_finished_runs(tmp_path: Path) -> None:
    class Stops:
        def begin(self, *todo: object, **counts: object) -> None: ...

        def event(self, event: object) -> None:
            if isinstance(event, Finished):
                signal.raise_signal(signal.SIGINT)

        def end(self) -> None: ...

    with pytest.raises(KeyboardInterrupt):
        normexp.sweep(CONFIG, out=tmp_path, executor="inline", progress=Stops())
    assert len(Store(tmp_path / "tiny").records()) == 1
    assert len(normexp.sweep(CONFIG, out=tmp_path, executor="inline").records) == 2


LIGHT = """
import sys, normexp
normexp.RunConfig, normexp.UserError
assert not {"torch", "pandas", "numpy", "yaml"} & set(sys.modules), sorted(sys.modules)
"""
PLAINLY = "import normexp.report.report; normexp.report.report.write_figures = lambda store, report: None"
IN_THREADS = """
assert "torch" not in sys.modules
import json, sys, threading
assert threading.current_thread() is threading.main_thread()
main, told = sys.modules["__main__"], {}
def work(name):
    swept = normexp.sweep({"name": name, "base": {**BASE, "lr": len(name) / 1000}}, jobs=1)
    told[name] = list(swept.frame["outcome"])
threads = [threading.Thread(target=work, args=(name,)) for name in ("a", "bb", "ccc")]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert sys.modules["__main__"] is main
print("TOLD", json.dumps(told, sort_keys=True))
"""


@pytest.mark.slow
def test_the_example_and_threads_from_standard_input(tmp_path: Path) -> None:
    quick = EXAMPLE
    for full, short in (("steps=100", "steps=4"), ('"steps": 200', '"steps": 4'), ('"depth": 6', '"depth": 1')):
        assert full in quick
        quick = quick.replace(full, short)
    script = "\n".join([LIGHT, PLAINLY, quick, f"BASE = {TINY!r}", IN_THREADS])
    done = subprocess.run(
        [sys.executable, "-"], input=script, capture_output=True, text=True, cwd=tmp_path, timeout=120, check=False
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].split()[0] in {outcome.value for outcome in Outcome}
    raw_config = json.loads(lines[-1].removeprefix("TOLD "))
    assert {name: len(words) for name, words in raw_config.items()} == {"a": 1, "bb": 1, "ccc": 1}
    assert {word for words in raw_config.values() for word in words} <= {outcome.value for outcome in Outcome}
    assert sorted(path.name for path in (tmp_path / "results").iterdir()) == ["a", "bb", "ccc", "rates"]


def test_main_is_restored_by_concurrent_users() -> None:
    main, hidden = sys.modules["__main__"], threading.Event()

    def hide(seconds: float) -> None:
        with launch._main_hidden():
            hidden.set()
            time.sleep(seconds)

    thread = threading.Thread(target=hide, args=(0.05,))
    thread.start()
    hidden.wait()
    hide(0.1)
    thread.join()
    assert sys.modules["__main__"] is main


def test_the_package_offers_its_names_and_no_others() -> None:
    assert normexp.run is api.run
    assert normexp.sweep is api.sweep
    assert {*normexp.__all__, "__version__"} <= set(dir(normexp))
    with pytest.raises(AttributeError, match="has no attribute 'rum'"):
        normexp.rum  # noqa: B018


def test_a_run_takes_a_dict_and_refuses_unknown_keys() -> None:
    small = {"depth": 1, "width": 8, "heads": 2, "hidden": 8, "vocab": 16, "batch": 4, "steps": 3}
    record = normexp.run(small, executor="inline")
    assert record.config.depth == 1
    assert record.status == "done"
    with pytest.raises(normexp.UserError, match="did you mean depth"):
        normexp.run({**small, "deph": 2})


def test_a_plugin_may_be_given_to_each_function(tmp_path: Path) -> None:
    with pytest.raises(normexp.UserError, match="no_such"):
        normexp.load(tmp_path, plugin=tmp_path / "no_such.py")
    with pytest.raises(normexp.UserError, match="no_such"):
        normexp.run({"depth": 1}, plugin=tmp_path / "no_such.py")


def test_former_names_of_keywords_work_with_a_warning() -> None:
    with pytest.warns(FutureWarning, match="plain=.*autograd="):
        record = normexp.run({**TINY, "steps": 1}, plain=True, executor="inline")
    assert record.by_autograd
