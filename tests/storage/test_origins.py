"""Copies of plugins in results folders: complete, unchanged, named in errors, and packed."""

from __future__ import annotations

from pathlib import Path

import pytest
import records as made

from normexp.config import grid, plugins, sweep_file
from normexp.config.plan import Plan, Shard
from normexp.config.plugins import Plugin
from normexp.errors import UserError
from normexp.storage import plugin_snapshots
from normexp.storage.packs import pack, packed, unpack
from normexp.storage.store import PACK, Store

TEXT = Path(__file__).parents[2].joinpath("examples", "l1_norm.py").read_text("utf-8")
ONE, TWO = Plugin("own.py", TEXT), Plugin("own.py", TEXT + "\n# ünlike\r\n")


def plan(norm: str) -> Plan:
    return grid.plan(sweep_file.read({"name": "own", "base": {"depth": 1}, "grid": {"norm": ["ln", norm]}}))


def filled(folder: Path, plugin: Plugin) -> Store:
    """Return the folder of a sweep that used the plugin."""
    store = Store(folder)
    with plugins.using(plugin):
        store.begin(plan("l1"), (), force=False)
        for config in plan("l1").configs.values():
            store.write(made.done(config, 1.5))
    return store


def test_every_version_that_made_runs_is_kept_byte_for_byte(tmp_path: Path) -> None:
    store = filled(tmp_path / "own", ONE)
    with plugins.using(TWO):
        store.begin(plan("l1"), (), force=False)
    assert plugin_snapshots.kept(store.folder) == {f"{each.digest}.py": each.text.encode() for each in (ONE, TWO)}
    assert {plugins.read(path).digest for path in (store.folder / "plugins").iterdir()} == {ONE.digest, TWO.digest}


def test_a_plugin_of_no_run_is_not_kept(tmp_path: Path) -> None:
    with plugins.using(ONE):
        Store(tmp_path / "own").begin(plan("rms"), (), force=False)
    assert not (tmp_path / "own" / "plugins").exists()


def test_errors_name_the_copy_of_a_missing_plugin(tmp_path: Path) -> None:
    store = filled(tmp_path / "own", ONE)
    path = store.folder / "plugins" / f"{ONE.digest}.py"
    with pytest.raises(UserError) as caught:
        store.read_plan()
    assert [fact for fact in ("--plugin", str(path)) if fact not in str(caught.value)] == []
    assert len(store.records()) == 1
    assert str(path) in store.warnings[0]
    with plugins.using(plugins.read(path)):
        assert len(store.records()) == 2
        assert store.read_plan().configs.keys() == plan("l1").configs.keys()


def test_a_shard_keeps_the_plugins_of_the_complete_sweep(tmp_path: Path) -> None:
    store = Store(tmp_path / "own")
    with plugins.using(ONE):
        parts = [plan("l1").part(Shard(number, 4)) for number in range(1, 5)]
        without = next(part for part in parts if not any(config.plugins() for config in part.configs.values()))
        store.begin(without, (), force=False)
    assert list(plugin_snapshots.kept(store.folder)) == [f"{ONE.digest}.py"]


def test_loaded_plugins_are_not_named(tmp_path: Path) -> None:
    store = filled(tmp_path / "own", ONE)
    with plugins.using(TWO):
        store.begin(plan("l1"), (), force=False)
    with plugins.using(ONE), pytest.raises(UserError) as caught:
        store.read_plan()
    assert f"{TWO.digest}.py" in str(caught.value)
    assert f"{ONE.digest}.py" not in str(caught.value)


def test_a_changed_copy_is_ignored_and_replaced(tmp_path: Path) -> None:
    store = filled(tmp_path / "own", ONE)
    path = store.folder / "plugins" / f"{ONE.digest}.py"
    path.write_text("changed = True")
    assert plugin_snapshots.kept(store.folder) == {}
    with pytest.raises(UserError, match=r"give its file with --plugin FILE\.py$"):
        store.read_plan()
    with plugins.using(ONE):
        store.begin(plan("l1"), (), force=False)
    assert path.read_bytes() == ONE.text.encode()


def test_a_pack_with_a_changed_text_is_damaged(tmp_path: Path) -> None:
    store = filled(tmp_path / "own", ONE)
    name = f"plugins/{ONE.digest}.py"
    top = {name: b"changed = True", "manifest.json": (store.folder / "manifest.json").read_bytes()}
    (tmp_path / PACK).write_bytes(packed(top))
    with pytest.raises(UserError, match=f"is damaged.*{name}"):
        unpack(tmp_path / PACK)
    assert [path.name for path in tmp_path.iterdir()] == ["own", PACK]


def test_a_symbolic_link_is_not_followed(tmp_path: Path) -> None:
    store = filled(tmp_path / "own", ONE)
    elsewhere = tmp_path / "elsewhere"
    (store.folder / "plugins").rename(elsewhere)
    (store.folder / "plugins").symlink_to(elsewhere)
    with pytest.raises(UserError, match=r"give its file with --plugin FILE\.py$"):
        store.read_plan()
    with plugins.using(TWO), pytest.raises(UserError, match="is a symbolic link"):
        store.begin(plan("l1"), (), force=False)
    assert [path.name for path in elsewhere.iterdir()] == [f"{ONE.digest}.py"]


def test_a_pack_contains_the_copies(tmp_path: Path) -> None:
    store = filled(tmp_path / "own", ONE)
    with plugins.using(ONE):
        data = pack(store).path.read_bytes()
    other = tmp_path / "there" / "own"
    other.mkdir(parents=True)
    (other / PACK).write_bytes(data)
    assert unpack(other / PACK).runs == 2
    assert plugin_snapshots.kept(other) == plugin_snapshots.kept(store.folder) != {}
