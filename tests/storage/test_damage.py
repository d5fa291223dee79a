"""Every kind of damage to every file of a run is contained and reported, by every command that reads a sweep."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import records as made
from commandline import TINY, main
from stored import write_all
from tinysweeps import plan as tiny_plan
from tinysweeps import sweep

from normexp.config.plan import Plan
from normexp.errors import UserError
from normexp.report import export, report
from normexp.storage import index, packs
from normexp.storage.store import CURVE, DEATH, LAYERS, LOG, RUN, RUNS, TRACES, WEIGHTS, Store

TEXTS = (RUN, *TRACES, LOG)
Damage = Callable[[bytes, bytes], bytes | None]
"""Maps a file's content, and that of the same file of another run, to the damaged content, or None for no file."""


def middle_line_lost(content: bytes, other: bytes) -> bytes:
    lines = content.splitlines(keepends=True)
    return b"".join(lines[: len(lines) // 2] + lines[len(lines) // 2 + 1 :])


def middle_line_doubled(content: bytes, other: bytes) -> bytes:
    lines = content.splitlines(keepends=True)
    at = len(lines) // 2
    return b"".join([*lines[:at], lines[at], *lines[at:]])


def digit_flipped(content: bytes, other: bytes) -> bytes:
    """Change a digit after a decimal point in the second half, so that text stays readable, or else the last byte."""
    half = range(len(content) // 2, len(content))
    at = next((i for i in half if content[i - 1 : i] == b"." and content[i : i + 1].isdigit()), len(content) - 1)
    return content[:at] + (b"1" if content[at : at + 1] != b"1" else b"2") + content[at + 1 :]


DAMAGES: Mapping[str, Damage] = {
    "cut": lambda content, other: content[: len(content) // 2],
    "last byte lost": lambda content, other: content[:-1],
    "row lost": middle_line_lost,
    "row doubled": middle_line_doubled,
    "bytes flipped": digit_flipped,
    "empty": lambda content, other: b"",
    "that of another run": lambda content, other: other,
    "missing": lambda content, other: None,
}
NEEDED: Mapping[str, frozenset[str]] = {
    "csv": frozenset({CURVE}),
    "parquet": frozenset({CURVE}),
    "tensorboard": frozenset({CURVE, LAYERS}),
    "markdown": frozenset(),
    "latex": frozenset(),
}
"""The files that each export needs besides records."""


@pytest.fixture
def folder(store: Store, plan: Plan) -> Store:
    """Four runs, two of them non-finite, so that each file exists."""
    write_all(store, plan)
    return store


def damage(store: Store, name: str, how: str, run_id: str) -> Path:
    """Damage a file of a run and return its path."""
    path = store.folder / RUNS / run_id / name
    others = [other for other in store.ended() if other != run_id and (store.folder / RUNS / other / name).exists()]
    other = next(
        content
        for content in ((store.folder / RUNS / other / name).read_bytes() for other in sorted(others))
        if content != path.read_bytes()
    )
    content = DAMAGES[how](path.read_bytes(), other)
    path.unlink() if content is None else path.write_bytes(content)
    return path


def nonfinite(plan: Plan) -> str:
    return next(run_id for run_id, config in plan.configs.items() if config.norm == "none")


@pytest.mark.parametrize("how", DAMAGES)
@pytest.mark.parametrize("name", TRACES)
def test_a_damaged_trace_blocks_only_its_readers(name: str, how: str, folder: Store, plan: Plan) -> None:
    run_id = nonfinite(plan)
    # The traces of the runs must differ for "that of another run".
    folder.write(made.dead(plan.configs[run_id], 17))
    whole = folder.records()
    path = damage(folder, name, how, run_id)
    assert folder.records() == whole
    (line,) = folder.damaged(whole, thoroughly=True)
    assert line.startswith(f"{path}")
    assert f"remove {path.parent}, " in line
    assert bool(folder.damaged(whole)) is (how != "bytes flipped"), "all others change the size"
    assert (line in report.read(folder).warnings) is (how != "bytes flipped")
    for to, needed in NEEDED.items():
        files = export.exporter(to).files(report.read(folder), folder)
        if name in needed:
            with pytest.raises(UserError) as fault:
                next(iter(files))
            assert fault.value.complaints == (line,), "before the first file"
        else:
            assert list(files), to
    with pytest.raises(UserError) as fault:
        folder.read(run_id)
    assert fault.value.complaints == (line,)
    found, record = index.find(folder.folder.parent, run_id)
    assert found.warnings == [line]
    assert record.traces is not None
    left = {part for file, part in TRACES.items() if getattr(record.traces, part) and file != name}
    assert left == set(TRACES.values()) - {TRACES[name]}
    packed = packs.pack(folder)
    assert [warning.startswith(line) for warning in packed.warnings] == [True]
    assert packs.named(packed.path) == set(whole) - {run_id}


@pytest.mark.parametrize("how", DAMAGES)
def test_a_damaged_record_counts_as_pending(how: str, folder: Store, plan: Plan) -> None:
    run_id = nonfinite(plan)
    whole = folder.records()
    path = damage(folder, RUN, how, run_id)
    found = folder.records()
    if how == "last byte lost":
        assert found == whole, "JSON needs no final line break"
    elif how == "missing":
        assert (set(whole) - set(found), folder.warnings) == ({run_id}, [])
    else:
        assert set(whole) - set(found) == {run_id}
        (warning,) = folder.warnings
        assert warning.startswith(str(path))
        assert "pending" in warning


@pytest.mark.parametrize("how", [how for how in DAMAGES if how != "that of another run"])
def test_a_damaged_log_blocks_nothing(how: str, folder: Store, plan: Plan) -> None:
    run_id = nonfinite(plan)
    folder.write(made.dead(plan.configs[run_id], 12, log="loss 1.5\nloss 2.5\nloss 3.5\n"))
    path = damage(folder, LOG, how, run_id)
    record = folder.read(run_id)
    assert record is not None
    assert record.traces is not None
    (line,) = folder.warnings
    assert line.startswith(str(path))
    packed = packs.pack(folder)
    assert packed.warnings == (line,)
    shutil.rmtree(folder.folder / RUNS)
    assert packs.unpack(packed.path).runs == len(plan.configs)


@pytest.mark.parametrize("how", [how for how in DAMAGES if how != "missing"])
def test_damaged_weights_are_not_read(how: str, folder: Store, plan: Plan) -> None:
    one, other = list(plan.configs.values())[:2]
    for config, text in ((one, b"0.5\n1.5\n2.5\n3.5\n"), (other, b"4.5\n")):
        folder.write(made.done(config, 1.9, weights=text))
    assert folder.damaged(folder.records(), thoroughly=True) == []
    path = damage(folder, WEIGHTS, how, one.run_id)
    with pytest.raises(UserError, match="--save-weights") as fault:
        folder.weights(one.run_id)
    assert str(path) in fault.value.complaints[0]
    assert folder.read(one.run_id) is not None
    assert [str(path) in line for line in folder.damaged(folder.records(), thoroughly=True)] == [True]


def without_stamps(store: Store) -> None:
    for path in store.folder.glob(f"{RUNS}/*/{RUN}"):
        stored = json.loads(path.read_text("utf-8"))
        path.write_text(json.dumps({key: stored[key] for key in stored if key not in ("files", "sha256")}), "utf-8")


class TestOlderRuns:
    """Runs without stamps stay readable, and their curves are checked for consistency."""

    @pytest.fixture
    def older(self, folder: Store) -> Store:
        without_stamps(folder)
        return folder

    def test_they_stay_readable(self, older: Store, plan: Plan) -> None:
        records = older.records()
        assert set(records) == set(plan.configs)
        assert older.damaged(records, thoroughly=True) == []
        assert all(older.traces(run_id, record.result).curve for run_id, record in records.items())
        packed = packs.pack(older)
        shutil.rmtree(older.folder / RUNS)
        assert (packed.warnings, packs.unpack(packed.path).runs) == ((), 4)

    @pytest.mark.parametrize(
        ("how", "fact"),
        [
            ("cut", r"line \d+"),
            ("row lost", r"line \d+"),
            ("row doubled", r"line \d+"),
            ("empty", "line 1"),
            ("that of another run", "init_val_loss"),
        ],
    )
    def test_a_damaged_curve_is_reported(self, how: str, fact: str, older: Store, plan: Plan) -> None:
        run_id = next(run_id for run_id, config in plan.configs.items() if config.norm == "ln")
        older.write(made.done(plan.configs[run_id], 1.8, initial=4.25))
        without_stamps(older)
        path = damage(older, CURVE, how, run_id)
        with pytest.raises(UserError, match=fact) as fault:
            older.traces(run_id, older.records()[run_id].result, only=(CURVE,))
        assert str(path) in fault.value.complaints[0]
        assert older.traces(run_id, only=(LAYERS, DEATH)).layers


@pytest.mark.slow
def test_a_damaged_copy_is_not_reused(tmp_path: Path) -> None:
    swept, _ = sweep(tmp_path, tiny_plan())
    run_id = min(swept.report.records)
    path = damage(swept.store, CURVE, "row lost", run_id)
    other, listener = sweep(tmp_path, tiny_plan("other"))
    assert ([config.run_id for config in listener.todo], listener.reused) == ([run_id], 3)
    (warning,) = other.report.warnings
    assert warning.startswith(str(path))


def test_a_restored_run_is_undamaged(folder: Store, plan: Plan) -> None:
    """A pack leaves gradient norms out; the stamp of a curve covers that form, too."""
    packed = packs.pack(folder)
    shutil.rmtree(folder.folder / RUNS)
    packs.unpack(packed.path)
    records = folder.records()
    assert folder.damaged(records, thoroughly=True) == []
    path = damage(folder, CURVE, "bytes flipped", nonfinite(plan))
    (line,) = folder.damaged(records, thoroughly=True)
    assert f"remove {path.parent}, " in line
    assert "`normexp unpack`" in line


def test_a_pack_whose_content_was_changed_is_refused(
    folder: Store, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_those = packs.read_those

    def changed(path: Path, names: object) -> dict[str, bytes]:
        found = read_those(path, names)  # type: ignore[arg-type]
        return {name: digit_flipped(text, b"") if name == CURVE else text for name, text in found.items()}

    monkeypatch.setattr(packs, "read_those", changed)
    path = packs.pack(folder).path
    monkeypatch.undo()
    shutil.rmtree(folder.folder / RUNS)
    with pytest.raises(UserError, match=r"runs/.*curve\.csv: SHA-256"):
        packs.unpack(path)
    assert folder.ended() == set()


COMMANDS: Mapping[str, tuple[tuple[str, ...], frozenset[str]]] = {
    "list": (("list",), frozenset()),
    "report": (("report", "{folder}"), frozenset()),
    "report --figures": (("report", "{folder}", "--figures"), frozenset()),
    "plot": (("plot", "{folder}", "--to", "drawn"), frozenset()),
    "explain": (("explain", "{run}"), frozenset()),
    "explain another": (("explain", "{other}"), frozenset()),
    "compare runs": (("compare", "{run}", "{other}"), frozenset()),
    "compare along": (("compare", "{folder}", "--along", "lr=1e-3,1e30"), frozenset()),
    "repro": (("repro", "{run}"), frozenset({CURVE})),
    "convert": (("convert", "{run}", "made.safetensors", "--to", "rms", "--force"), frozenset({WEIGHTS})),
    "pack": (("pack", "{folder}"), frozenset({*TRACES, LOG})),
    "merge": (("merge", "{folder}", "--out", "merged"), frozenset(TRACES)),
    "export csv": (("export", "{folder}", "--to", "csv", "--force"), frozenset({CURVE})),
    "export latex": (("export", "{folder}", "--to", "latex", "--force"), frozenset()),
    "export tensorboard": (("export", "{folder}", "--to", "tensorboard", "--force"), frozenset({CURVE, LAYERS})),
    "sweep": (("sweep", "tiny.yaml", "--executor", "inline"), frozenset()),
}
"""Command to arguments, and the files whose damage gives it another exit code than 0."""
SILENT = {"list", "explain another", "compare along", "convert"}
"""Commands that read no trace of the damaged run."""
SEVERAL = ("cut", "row lost", "bytes flipped", "missing")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a sweep of a run that learned nothing and one that died, with LayerNorm and their weights."""
    folder = tmp_path_factory.mktemp("tiny")
    (folder / "tiny.yaml").write_text(
        TINY.replace("}", ", optimizer: sgd}") + "grid: {lr: [1e-3, 1e30], seed: [0, 1]}\n"
    )
    with pytest.MonkeyPatch.context() as patch:
        assert main(["sweep", "tiny.yaml", "--executor", "inline", "--save-weights"], folder, patch) == 0
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("how", SEVERAL)
@pytest.mark.parametrize("name", [RUN, *TRACES, LOG, WEIGHTS])
def test_every_command_meets_damage(
    name: str,
    how: str,
    tiny: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("normexp.plots.drawing.draw", lambda *made, **look: None)
    monkeypatch.setattr("normexp.plots.drawing.render", lambda *drawn, **look: {})
    for command, (arguments, blocked) in COMMANDS.items():
        if command == "repro" and name not in (RUN, CURVE):
            continue  # it makes the run again, which takes a second
        shutil.rmtree(tmp_path, ignore_errors=True)
        shutil.copytree(tiny, tmp_path)
        store = Store(tmp_path / "results" / "tiny")
        run_id = next(path.parent.name for path in sorted(store.folder.glob(f"{RUNS}/*/{DEATH}")))
        other = min(store.ended() - {run_id})
        if name == LOG:
            record = store.read(run_id)
            assert record is not None
            store.write(replace(record, log="loss 1.5\nloss 2.5\nloss 3.5\n", weights=store.weights(run_id)[1]))
        before = {path: path.read_bytes() for path in store.folder.glob(f"{RUNS}/*/*")}
        path = damage(store, name, how, run_id)
        given = [part.format(folder=store.folder, run=run_id, other=other) for part in arguments]
        capfd.readouterr()
        code = main(given, tmp_path, monkeypatch)
        output = "".join(capfd.readouterr())
        case = (command, name, how, code, output)
        assert "Traceback" not in output, case
        relative = str(path.relative_to(tmp_path))
        if name == RUN:
            assert code in (0, 1, 2), case
            assert code == 0 or relative in output or run_id in output, case
        elif name in blocked:
            assert code in ((1, 2) if command != "merge" else (1,)), case
            assert relative in output or (name == WEIGHTS and how == "missing" and run_id in output), case
        else:
            assert code in (0, 1) if command == "repro" else code == 0, case
            found = how != "bytes flipped" or command in ("report --figures", "explain", "compare runs")
            if command not in SILENT and name in TRACES and found:
                assert relative in output, case
        for intact, content in before.items():
            if intact.parent.name != run_id:
                assert intact.read_bytes() == content, case
