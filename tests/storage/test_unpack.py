"""Restoring a pack: damage is told, nothing is overwritten, and what was interrupted goes on."""

from __future__ import annotations

import io
import lzma
import shutil
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest
import records as made
from commandline import invoke
from packs import carried, ended

from normexp.config.plan import Plan
from normexp.errors import UserError
from normexp.storage import index
from normexp.storage import packs as packing
from normexp.storage.packs import pack, unpack
from normexp.storage.store import CURVE, LAYERS, MANIFEST, PACK, RUN, RUNS, SWEEP, Store


@pytest.fixture
def store(tmp_path: Path, plan: Plan) -> Store:
    return ended(tmp_path / "here", plan)


def test_existing_files_are_not_changed(store: Store, plan: Plan, tmp_path: Path) -> None:
    pack(store)
    run_ids = list(plan.configs)
    here = {run_id: (store.folder / RUNS / run_id / RUN) for run_id in run_ids}
    other = replace(made.done(plan.configs[run_ids[0]], 1.7), log="another\n")
    store.write(other)
    (store.folder / SWEEP).write_text("changed\n")
    here[run_ids[1]].unlink()
    text = here[run_ids[0]].read_text()
    restored = unpack(store.folder / PACK)
    assert (restored.runs, restored.kept) == (1, 3)
    assert here[run_ids[0]].read_text() == text
    assert store.log(run_ids[0]) == "another\n"
    assert (store.folder / SWEEP).read_text() == "changed\n"
    assert here[run_ids[1]].exists()


def remade(path: Path, change: dict[str, bytes | None]) -> None:
    """Rewrite a pack with some members changed, added or (None) removed."""
    files = {}
    with tarfile.open(path, "r:xz") as tar:
        for member in tar:
            content = tar.extractfile(member)
            assert content is not None
            files[member.name] = content.read()
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:xz") as tar:
        for name, data in {**files, **change}.items():
            if data is not None:
                member = tarfile.TarInfo(name)
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))
    path.write_bytes(buffer.getvalue())


def refused(path: Path, fact: str = "damaged") -> None:
    before = sorted(path.parent.rglob("*"))
    with pytest.raises(UserError, match=fact) as fault:
        unpack(path)
    assert f"{path} is damaged" in fault.value.complaints[0]
    assert sorted(path.parent.rglob("*")) == before


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.999])
def test_a_changed_byte_or_a_lost_end_is_refused(store: Store, tmp_path: Path, share: float) -> None:
    pack(store)
    path = carried(store, tmp_path)
    data = bytearray(path.read_bytes())
    path.write_bytes(data[: int(share * len(data))])
    refused(path)
    data[int(share * len(data))] ^= 0x55
    path.write_bytes(data)
    refused(path)


def test_invalid_packs_are_refused(store: Store, plan: Plan, tmp_path: Path) -> None:
    pack(store)
    path = carried(store, tmp_path)
    whole = path.read_bytes()
    one, other = list(plan.configs)[:2]
    text = (store.folder / RUNS / other / RUN).read_bytes()
    cases: list[tuple[dict[str, bytes | None], str]] = [
        ({MANIFEST: None}, "manifest.json"),
        ({MANIFEST: b"{}"}, "manifest"),
        ({"../../evil.txt": b"x"}, "'../../evil.txt'"),
        ({f"{RUNS}/{one}/weights.safetensors": b"x"}, "weights.safetensors'"),
        ({f"{RUNS}/{one}/{RUN}": None}, f"run.json of {one}"),
        ({f"{RUNS}/{one}/{RUN}": text}, f"{one} .* {other}"),
        ({f"{RUNS}/{one}/{RUN}": b"[]"}, "not a JSON object"),
        ({f"{RUNS}/{one}/{CURVE}": b"step\n1\n"}, "line"),
        ({f"{RUNS}/{one}/{LAYERS}": b"\xff"}, "utf-8"),
    ]
    for change, fact in cases:
        path.write_bytes(whole)
        remade(path, change)
        refused(path, fact)
    path.write_bytes(lzma.compress(b"no tar"))
    refused(path)
    path.write_bytes(whole)
    assert unpack(path).runs == 4


def test_a_locked_folder_is_refused(store: Store) -> None:
    pack(store)
    with store.lock(), pytest.raises(UserError, match="in use"):
        unpack(store.folder / PACK)


def test_the_commands_take_a_sweep_or_a_folder_of_sweeps(store: Store, tmp_path: Path) -> None:
    done = invoke("pack", store.folder.parent)
    assert done.out == f"{store.folder / PACK}: 4 runs, {(store.folder / PACK).stat().st_size / 1e6:.2f} MB\n"
    target = carried(store, tmp_path)
    assert index.waiting(tmp_path / "there") == [target]
    assert invoke("unpack", target.parent).out == f"{target.parent}: 4 runs restored from {PACK}\n"
    assert index.waiting(tmp_path / "there") == []
    assert f"{target.parent}: 0 runs restored from {PACK}, 4 " in invoke("unpack", tmp_path / "there").out
    for command in ("pack", "unpack"):
        assert invoke(command, tmp_path).code == 2


def test_an_interrupted_unpack_goes_on(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pack(store)
    path = carried(store, tmp_path)
    written: list[Path] = []

    def until_the_second(folder: Path, files: dict[str, bytes], last: str) -> None:
        if len(written) == 2:
            raise KeyboardInterrupt
        written.append(folder)
        write(folder, files, last)

    write = packing._write
    monkeypatch.setattr(packing, "_write", until_the_second)
    with pytest.raises(KeyboardInterrupt):
        unpack(path)
    monkeypatch.undo()
    assert len(Store(path.parent).ended()) == 2
    assert not (path.parent / MANIFEST).exists(), "it would count as a whole sweep"
    assert index.waiting(path.parent.parent) == [path]
    restored = unpack(path)
    assert (restored.runs, restored.kept) == (2, 2)
    assert index.waiting(path.parent.parent) == []
    assert len(Store(path.parent).records()) == 4


def test_a_pack_waits_while_its_folder_lacks_a_run_of_it(store: Store, plan: Plan) -> None:
    path = pack(store).path
    assert index.waiting(store.folder) == []
    shutil.rmtree(store.folder / RUNS / list(plan.configs)[3])
    assert index.waiting(store.folder) == [path]
    unpack(path)
    assert index.waiting(store.folder) == []
