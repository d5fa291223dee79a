"""What others wrote (configs, results, packs, weights) is data: nothing of it is run, followed out of the folder, or
let loose on a terminal or a page."""

from __future__ import annotations

import ast
import io
import json
import lzma
import os
import re
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import records as made

from normexp import estimate
from normexp.claims import reading
from normexp.cli import app
from normexp.config import sweepfile
from normexp.errors import UserError
from normexp.results import archive, library, reportfiles
from normexp.results.pack import named, pack, unpack
from normexp.results.store import CURVE, FIGURES, LAYERS, LOG, MANIFEST, PACK, RUN, RUNS, SWEEP, WEIGHTS, Store
from normexp.run import RunConfig
from normexp.views import report
from normexp.views.collapse import signal
from normexp.views.explain import story
from normexp.views.live import duration, result_line
from normexp.views.pages.page import Commands, Page
from normexp.views.pages.textpage import markdown
from normexp.views.pages.webpage import html

PACKAGE = Path(__file__).parent.parent / "normexp"
RUNS_CODE = {
    ("plugins", "exec"): "a plugin, which is given explicitly",
    ("plugins", "compile"): "a plugin, which is given explicitly",
    ("execute.processes", "pickle.dumps"): "the work, for a worker of our own",
    ("execute.channel", "pickle.dumps"): "messages of a worker of our own, over its socket pair",
    ("execute.channel", "pickle.loads"): "messages of a worker of our own, over its socket pair",
    ("execute.child", "pickle.loads"): "the work, from the driver",
    ("execute.dask", "pickle.dumps"): "the work, for a host of our own",
    ("execute.host", "pickle.loads"): "the work, from the process that started this one, over its socket pair",
    ("execute.hosts", "subprocess.Popen"): "this Python with a module of ours, without a shell",
    ("__init__", "importlib.import_module"): "modules of ours by their names",
    ("models", "yaml.load"): "with BaseLoader, which makes texts",
    ("views.report", "importlib.import_module"): "a module of ours by its name",
    ("execute.preload", "importlib.import_module"): "modules of ours by their names",
    ("claims.computed", "import_module"): "modules of ours by their names",
    ("results.commit", "subprocess.run"): "git rev-parse HEAD, without a shell",
}
"""Module and call that could run what it is given, and why it does not here."""
DANGEROUS = {"eval", "exec", "compile", "__import__", "import_module", "Popen", "popen", "system", "unsafe_load"}
MODULES_OF_CODE = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib", "subprocess", "importlib", "runpy"}
DANGEROUS_METHODS = {"yaml.load", "yaml.load_all", "yaml.full_load", "torch.load", "np.load", "numpy.load", "os.execv"}


def dangerous_calls() -> Iterator[tuple[str, str]]:
    """Module and call of everything in the package that could run code, whatever it is given."""
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


def test_nothing_in_the_package_runs_what_it_is_given_but_for_these() -> None:
    assert set(dangerous_calls()) - set(RUNS_CODE) == set()
    models = (PACKAGE / "models.py").read_text("utf-8")
    assert "yaml.BaseLoader" in models
    assert "pickle" not in "".join(path.read_text("utf-8") for path in (PACKAGE / "results").glob("*.py")).replace(
        '".pickle"', ""
    )


@pytest.fixture
def store(tmp_path: Path) -> Store:
    plan = made.plan({"lr": [1e-3, 1e-2]})
    found = Store(tmp_path / "results" / plan.folder)
    found.begin(plan, [], force=False)
    for config in plan.configs.values():
        found.write(made.done(config, 1.9))
    return found


def ids(store: Store) -> list[str]:
    return sorted(store.ended())


def elsewhere(path: Path, outside: Path) -> None:
    """Move a file or folder out of the results, and leave a symbolic link to it."""
    path.rename(outside)
    path.symlink_to(outside)


class TestLinks:
    """A results folder from elsewhere whose parts are symbolic links: nothing is read or written through them."""

    @pytest.mark.parametrize("name", [RUNS, FIGURES])
    def test_a_folder_of_a_sweep_that_leads_elsewhere_is_not_written_through(
        self, store: Store, tmp_path: Path, name: str
    ) -> None:
        outside = tmp_path / "outside"
        (store.folder / FIGURES).mkdir()
        elsewhere(store.folder / name, outside)
        victim = outside / ".victim.tmp"
        victim.write_text("mine")
        with pytest.raises(UserError, match="symbolic link, which is not followed"):
            store.begin(made.plan({"lr": [1e-3, 1e-2]}), [], force=True)
        with pytest.raises(UserError, match="symbolic link"):
            store.write_derived(f"{name}/x.csv", "x")
        assert victim.read_text() == "mine"

    def test_a_run_that_leads_elsewhere_is_pending_and_not_written_through(self, store: Store, tmp_path: Path) -> None:
        run_id = ids(store)[0]
        elsewhere(store.folder / RUNS / run_id, tmp_path / "outside")
        before = sorted(path.name for path in (tmp_path / "outside").iterdir())
        assert run_id not in store.records()
        assert "symbolic link, which is not followed" in store.warnings[0]
        for use in (
            lambda: store.write(made.done(made.plan({"lr": [1e-3, 1e-2]}).configs[run_id], 1.5)),
            lambda: store.begin(made.plan({"lr": [1e-3, 1e-2]}), [], force=False),
            lambda: store.log(run_id),
        ):
            with pytest.raises(UserError, match="symbolic link"):
                use()
        assert sorted(path.name for path in (tmp_path / "outside").iterdir()) == before

    @pytest.mark.parametrize("name", [LOG, CURVE])
    def test_what_a_link_leads_to_gets_into_no_pack(self, store: Store, tmp_path: Path, name: str) -> None:
        secret = tmp_path / "secret"
        secret.write_text("secret")
        path = store.folder / RUNS / ids(store)[0] / name
        path.unlink()
        path.symlink_to(secret)
        with pytest.raises(UserError, match="symbolic link"):
            pack(store)
        with pytest.raises(UserError, match="symbolic link"):
            store.read(ids(store)[0])

    def test_what_a_link_leads_to_gets_into_no_report(self, store: Store, tmp_path: Path) -> None:
        (tmp_path / "secret").write_text("secret")
        (store.folder / FIGURES).mkdir()
        (store.folder / FIGURES / "curves.png").symlink_to(tmp_path / "secret")
        with pytest.raises(UserError, match="symbolic link"):
            reportfiles.pictures(store.folder)

    def test_another_sweep_with_links_costs_this_one_nothing(self, store: Store, tmp_path: Path) -> None:
        run_id = ids(store)[0]
        for name in (RUN, WEIGHTS):
            path = store.folder / RUNS / run_id / name
            path.unlink(missing_ok=True)
            path.symlink_to(tmp_path / "outside")
        here = Store(tmp_path / "results" / "here")
        for weights in (False, True):
            assert here.find_elsewhere(tmp_path / "results", run_id, weights=weights) is None
        assert set(library.records(tmp_path / "results")) == {ids(store)[0]} - {run_id} | {ids(store)[-1]}

    @pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes")
    @pytest.mark.parametrize("name", [MANIFEST, SWEEP, f"{RUNS}/RUN_ID/{RUN}", f"{RUNS}/RUN_ID/{CURVE}"])
    def test_nobody_waits_for_a_pipe(self, store: Store, name: str) -> None:
        run_id = ids(store)[0]
        path = store.folder / name.replace("RUN_ID", run_id)
        path.unlink()
        os.mkfifo(path)
        told = ""
        try:
            store.read_plan()
            store.records()
            store.traces(run_id)
        except UserError as fault:
            told = str(fault)
        assert "a pipe or a device" in told + "".join(store.warnings)


def written(path: Path, *members: tuple[tarfile.TarInfo, bytes]) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for member, content in members:
            tar.addfile(member, io.BytesIO(content))
    path.write_bytes(lzma.compress(buffer.getvalue()))


def member(name: str, *, kind: bytes = tarfile.REGTYPE, size: int = 0, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.size, info.linkname = kind, size, target
    return info


class TestPacks:
    """A pack from elsewhere."""

    def refused(self, folder: Path, told: str) -> None:
        before = sorted(folder.parent.rglob("*"))
        for use in (unpack, named):
            with pytest.raises(UserError, match=told):
                use(folder / PACK)
        assert sorted(folder.parent.rglob("*")) == before

    @pytest.mark.parametrize(
        "kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE]
    )
    def test_anything_but_a_plain_file_is_refused(self, tmp_path: Path, kind: bytes) -> None:
        written(tmp_path / PACK, (member(f"{RUNS}/a/{RUN}", kind=kind, target="/etc/passwd"), b""))
        self.refused(tmp_path, "is no plain file")

    @pytest.mark.parametrize(
        "name",
        ["../evil", "/evil", f"{RUNS}/../../evil/{RUN}", f"{RUNS}/a/../{RUN}", f"{RUNS}/a/run.json/x", "a\0b", ""],
    )
    def test_no_name_leads_out_of_the_folder(self, tmp_path: Path, name: str) -> None:
        written(tmp_path / PACK, (member(name, size=1), b"x"))
        with pytest.raises(UserError, match=r"no place in it|damaged"):
            unpack(tmp_path / PACK)
        assert [path.name for path in tmp_path.iterdir()] == [PACK]

    def test_what_unpacks_to_too_much_is_refused_before_it_does(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(archive, "MOST_BYTES", 10**6)
        big = b"\0" * 3 * 10**6
        written(tmp_path / PACK, (member(f"{RUNS}/a/{RUN}", size=len(big)), big))
        assert (tmp_path / PACK).stat().st_size < 2000
        self.refused(tmp_path, "unpacks to more than 0.0 GB")

    def test_a_sparse_file_does_not_grow(self, tmp_path: Path) -> None:
        info = member(f"{RUNS}/a/{RUN}", kind=tarfile.GNUTYPE_SPARSE)
        header = bytearray(info.tobuf(tarfile.GNU_FORMAT))
        header[483:495] = b"77777777777\0"  # its size when it has grown: 8 GiB
        header[148:156] = b" " * 8
        header[148:156] = b"%06o\0 " % sum(header)
        (tmp_path / PACK).write_bytes(lzma.compress(bytes(header) + b"\0" * 1024))
        self.refused(tmp_path, "is no plain file")

    def test_too_many_files_are_refused(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(archive, "MOST_FILES", 3)
        written(tmp_path / PACK, *((member(f"{RUNS}/{name}/{RUN}"), b"") for name in "abcd"))
        self.refused(tmp_path, "it holds more than 3 files")

    def test_what_could_not_be_unpacked_again_is_not_packed(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(archive, "MOST_BYTES", 10**3)
        with pytest.raises(UserError, match="too many for one pack"):
            pack(store)
        assert not (store.folder / PACK).exists()

    def test_nothing_is_restored_through_a_link(self, store: Store, tmp_path: Path) -> None:
        pack(store)
        elsewhere(store.folder / RUNS, tmp_path / "outside")
        for path in (tmp_path / "outside").rglob(RUN):
            path.unlink()
        with pytest.raises(UserError, match="symbolic link"):
            unpack(store.folder / PACK)
        assert not list((tmp_path / "outside").rglob(RUN))


BAD_NAMES = [
    "../x",
    "..",
    "...",
    "/etc/x",
    "a/b",
    "a\\b",
    "a\0b",
    "a\nb",
    "a\x1b[31m",
    ".hidden",
    "-rf",
    " x",
    "x ",
    "x.",
    "con",
    "NUL",
    "aux.yaml",
    "com1",
    "n" * 300,
    "é" * 90,
]


def quoted(name: str) -> str:
    return json.dumps(name)


@pytest.mark.parametrize("name", BAD_NAMES, ids=ascii)
def test_no_name_leaves_the_folder_of_results(name: str) -> None:
    if "\n" not in name and name == name.strip():  # YAML texts are put on one line
        with pytest.raises(UserError, match="name: "):
            sweepfile.parse(f"name: {quoted(name)}\ngrid: {{lr: [1e-3]}}", origin="x.yaml")
    with pytest.raises(UserError, match="name: "):
        sweepfile.parse("grid: {lr: [1e-3]}", origin="x.yaml", stem=name)
    text = "claims:\n- {id: a, section: a, text: a, stated: a, kind: cited, source: a, says: a, agrees: true}\n"
    with pytest.raises(UserError, match="name: "):
        reading.parse(text, Path(f"{name}.yaml") if "/" not in name and "\0" not in name else Path("x.yaml")) if (
            "/" not in name and "\0" not in name
        ) else reading.parse(f"name: {quoted(name)}\n{text}", Path("x.yaml"))


@pytest.mark.parametrize("name", ["title", "a|b", "dépth α", "6.2", "lr_scan+x=1", "console", "n" * 100])
def test_other_names_do(name: str) -> None:
    assert sweepfile.parse("grid: {lr: [1e-3]}", origin="x.yaml", stem=name).folder == name


NASTY = "\x1b]0;title\x07[red]x[/] [link=http://x]y[/link] <script src=//x></script> | `b` ![i](http://x)\r\x9b2J"


def program(arguments: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "argv", ["normexp", *arguments])
    try:
        app.main()
    except SystemExit as end:
        return int(end.code or 0)
    return 0


class TestTerminal:
    """Text of others on standard output and standard error: no control character is raw, nothing is markup."""

    @pytest.fixture
    def nasty(self, tmp_path: Path) -> Store:
        plan = made.plan({"norm": ["none", "ln"], "lr": [1e-3, 1e-2]}, label=NASTY, title=NASTY)
        store = Store(tmp_path / "results" / plan.folder)
        store.begin(plan, [], force=False)
        one, two, three = list(plan.configs.values())[:3]
        store.write(made.done(one, 1.9, environment={"torch": NASTY, "torch_threads": 1}, reused_from=NASTY))
        store.write(made.dead(two, 3))
        broken = made.failed(three)
        store.write(broken.__class__(config=three, status=broken.status, error=NASTY, log=NASTY))
        path = store.folder / RUNS / two.run_id / RUN
        path.write_text(path.read_text().replace("blocks.3.ffn.fc1", json.dumps(NASTY)[1:-1]))
        return store

    def test_of_results(
        self, nasty: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
    ) -> None:
        (tmp_path / "results" / "\x1b[31mred").mkdir()
        (tmp_path / "results" / "\x1b[31mred" / MANIFEST).write_text('{"\\u001b[31m": 1}')
        commands = [["list"], ["report", str(nasty.folder)], *(["explain", run_id] for run_id in ids(nasty))]
        for command in commands:
            assert program(command, tmp_path, monkeypatch) == 0
        out, err = capfd.readouterr()
        for text in (out, err, (nasty.folder / "summary.md").read_text()):
            assert not set(text) & {"\x1b", "\x07", "\r", "\x9b"}
        assert "[red]x[/]" in out
        assert "blocks.3.ffn.fc1" not in out

    @pytest.mark.parametrize(
        "arguments",
        [
            ["sweep", "bad.yaml"],
            ["sweep", "\x1b[31m.yaml"],
            ["explain", "\x1b[31m[red][/]"],
            ["report", "\x1b[31m[/]"],
            ["claims", "bad.yaml"],
        ],
    )
    def test_of_complaints(
        self,
        arguments: list[str],
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        capfd: pytest.CaptureFixture[str],
    ) -> None:
        (tmp_path / "bad.yaml").write_text('name: "\\e[31m"\n"\\e[2J[red]": 1\ngrid: {"\\e[31m": ["\\a"], lr: "\\e"}\n')
        assert program(arguments, tmp_path, monkeypatch) == 2
        err = capfd.readouterr().err
        assert err.startswith("normexp: ")
        assert not set(err) & {"\x1b", "\x07"}


def test_a_page_loads_nothing_and_its_commands_stay_commands() -> None:
    lines = (f"normexp claims 'x\n```\n{NASTY}' id", "normexp claims ```` id")
    page = Page(NASTY, (Commands(lines),))
    text = html(page)
    assert "<script" not in text
    assert 'src="' not in text
    assert "\x1b" not in text + markdown(page)
    told = markdown(page).splitlines()
    fence = told[2]
    assert fence == "`" * 5
    assert told.count(fence) == 2
    assert told[-1] == fence


def test_a_record_that_names_a_plugin_loads_none(store: Store, tmp_path: Path) -> None:
    (tmp_path / "evil.py").write_text("raise SystemExit('it was run')")
    path = store.folder / RUNS / ids(store)[0] / RUN
    stored = json.loads(path.read_text())
    stored["config"]["norm"] = str(tmp_path / "evil.py")
    stored["plugin"] = str(tmp_path / "evil.py")
    path.write_text(json.dumps(stored))
    assert len(store.records()) == 1
    assert "is of a plugin: give its file with --plugin" in store.warnings[0]


HUGE = 2**62


@pytest.mark.parametrize(
    ("place", "values"),
    [
        ("result", {"steps_done": HUGE, "parameters": HUGE, "final_val_loss": 1e200, "best_val_loss": -1e200}),
        ("config", {"steps": HUGE}),
        ("config", {"depth": HUGE}),
        ("seconds", {"total": None, "total_kind": "inf", "steps": -1e308}),
    ],
)
def test_huge_numbers_in_a_record_cost_no_memory_and_no_traceback(
    store: Store, place: str, values: dict[str, object]
) -> None:
    folder = store.folder / RUNS / ids(store)[0]
    run = json.loads((folder / RUN).read_text())
    run[place].update(values)
    (folder / RUN).write_text(json.dumps(run))
    rows = f"0,,,,1e200\n1,1e-3,-1e200,,\n{HUGE},1e-3,1e200,,1e300\n"
    (folder / CURVE).write_text(f"step,lr,train_loss,grad_norm,val_loss\n{rows}")
    (folder / LAYERS).write_text(f"step,layer,part,quantity,value\n0,{HUGE},stream,rms,1e300\n")
    assert report.rebuild(store).markdown
    record = store.read(folder.name)
    assert (record is None) == (place == "config")
    if record is not None:
        assert record.traces is not None
        assert signal("", record.traces).rows
        assert story(record, [])
        assert result_line(record)
        assert duration(estimate.seconds([RunConfig()], [record], 1)[0])
