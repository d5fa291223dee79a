"""Files of other people are data: nothing in the package runs them, and huge numbers in them are harmless."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from others import ids, learned

from normexp.analysis.collapse import signal
from normexp.analysis.explain import story
from normexp.config.run import RunConfig
from normexp.errors import UserError
from normexp.report import report
from normexp.runner import time_left
from normexp.storage.codec import CHECKSUM, FILES
from normexp.storage.store import CURVE, LAYERS, RUN, RUNS, Store
from normexp.terminal.live import duration, result_line

PACKAGE = Path(__file__).parents[2] / "normexp"
RUNS_CODE = {
    ("config.plugins", "exec"): "a plugin, which is given explicitly",
    ("config.plugins", "compile"): "a plugin, which is given explicitly",
    ("config.plugins", "importlib.import_module"): "modules of ours by their names",
    ("execution.pool.pool", "pickle.dumps"): "the work, for a worker of our own",
    ("execution.pool.child", "pickle.dumps"): "messages of a worker of our own, over its socket pair",
    ("execution.pool.child", "pickle.loads"): "the work, from the driver, and its messages, over a socket pair",
    ("execution.dask.driver", "pickle.dumps"): "the work, for a host of our own",
    ("execution.dask.host", "pickle.loads"): "the work, from the process that started this one, over its socket pair",
    ("execution.dask.workers", "subprocess.Popen"): "this Python with a module of ours, without a shell",
    ("__init__", "importlib.import_module"): "modules of ours by their names",
    ("commands.app", "importlib.import_module"): "modules of ours by their names",
    ("schemes.models", "yaml.load"): "with BaseLoader, which makes texts",
    ("report.report", "importlib.import_module"): "a module of ours by its name",
    ("execution.pool.preload", "importlib.import_module"): "modules of ours by their names",
    ("claims.calculations", "import_module"): "modules of ours by their names",
    ("storage.manifest", "subprocess.run"): "git rev-parse HEAD, without a shell",
    ("training.paths.compiled.library", "subprocess.run"): "the compiler's version, without a shell",
    ("training.paths.compiled.library", "subprocess.Popen"): "the compiler, on sources of ours, without a shell",
}
"""Modules and calls that could run code, and why they are safe here."""
DANGEROUS = {"eval", "exec", "compile", "__import__", "import_module", "Popen", "popen", "system", "unsafe_load"}
MODULES_OF_CODE = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib", "subprocess", "importlib", "runpy"}
DANGEROUS_METHODS = {"yaml.load", "yaml.load_all", "yaml.full_load", "torch.load", "np.load", "numpy.load", "os.execv"}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return learned(tmp_path / "results")


def dangerous_calls() -> Iterator[tuple[str, str]]:
    """Yield module and call of everything in the package that could run code."""
    for path in PACKAGE.rglob("*.py"):
        module = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
        tree = ast.parse(path.read_text("utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module in MODULES_OF_CODE - {"importlib"}:
                yield module, f"from {node.module}"
            if not isinstance(node, ast.Call):
                continue
            assert not any(word.arg == "shell" for word in node.keywords), f"{path}:{node.lineno}"
            assert not any(word.arg == "allow_pickle" for word in node.keywords), f"{path}:{node.lineno}"
            called = ast.unparse(node.func)
            called = re.sub(r"\(.*", "", called)
            owner = called.rpartition(".")[0]
            if called in DANGEROUS or called in DANGEROUS_METHODS or owner in MODULES_OF_CODE:
                yield module, called


def test_only_known_calls_can_run_code() -> None:
    assert set(dangerous_calls()) - set(RUNS_CODE) == set()
    models = (PACKAGE / "schemes" / "models.py").read_text("utf-8")
    assert "yaml.BaseLoader" in models
    assert "pickle" not in "".join(path.read_text("utf-8") for path in (PACKAGE / "storage").glob("*.py")).replace(
        '".pickle"', ""
    )


def test_a_record_that_names_a_plugin_loads_none(store: Store, tmp_path: Path) -> None:
    (tmp_path / "evil.py").write_text("raise SystemExit('it was run')")
    path = store.folder / RUNS / ids(store)[0] / RUN
    stored = json.loads(path.read_text())
    stored["config"]["norm"] = str(tmp_path / "evil.py")
    stored["plugin"] = str(tmp_path / "evil.py")
    path.write_text(json.dumps(stored))
    assert len(store.records()) == 1
    assert "--plugin" in store.warnings[0]


HUGE = 2**62


@pytest.mark.parametrize(
    ("part", "values"),
    [
        ("result", {"steps_done": HUGE, "parameters": HUGE, "final_val_loss": 1e200, "best_val_loss": -1e200}),
        ("config", {"steps": HUGE}),
        ("config", {"depth": HUGE}),
        ("seconds", {"total": None, "total_kind": "inf", "steps": -1e308}),
    ],
)
def test_huge_numbers_in_a_record_are_harmless(store: Store, part: str, values: dict[str, object]) -> None:
    folder = store.folder / RUNS / ids(store)[0]
    run = json.loads((folder / RUN).read_text())
    run[part].update(values)
    del run[CHECKSUM], run[FILES]  # as an older version wrote it
    (folder / RUN).write_text(json.dumps(run))
    rows = "0,,,,1e200\n1,1e-3,-1e200,,\n2,1e-3,1e200,,1e300\n"
    (folder / CURVE).write_text(f"step,lr,train_loss,grad_norm,val_loss\n{rows}")
    (folder / LAYERS).write_text(f"step,layer,part,quantity,value\n0,{HUGE},stream,rms,1e300\n")
    assert report.rebuild(store).markdown
    record = store.records().get(folder.name)
    assert (record is None) == (part == "config")
    if record is not None:
        with pytest.raises(UserError, match=r"curve\.csv"):  # it ends before the run did
            store.read(folder.name)
        record = replace(record, traces=store.traces(folder.name, as_they_are=True))
        assert record.traces is not None
        assert signal("", record.traces).rows
        assert story(record, [])
        assert result_line(record)
        assert duration(time_left.seconds([RunConfig()], time_left.pace([record]), 1))
