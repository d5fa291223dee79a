"""Plugins that a config names: loaded with it, stored with its sweep, and found by later commands of the same user."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import records as made

from normexp.config import grid, plugins, sweep_file
from normexp.config.plan import Plan
from normexp.errors import UserError
from normexp.schemes import SCHEMES
from normexp.schemes.norms import NORMS
from normexp.storage import index, plugin_snapshots
from normexp.storage.packs import pack, unpack
from normexp.storage.store import MANIFEST, PACK, Store

TEXT = Path(__file__).parents[2].joinpath("examples", "l1_norm.py").read_text("utf-8")
CONFIG = "name: own\nplugin: own.py\nbase: {depth: 1}\ngrid: {norm: [ln, l1]}\n"


def forget() -> None:
    """Unload every plugin, as a new process would."""
    for plugin in plugins.loaded():
        for table in (NORMS, SCHEMES):
            table.remove(plugin.digest)
    plugins._loaded.clear()
    plugins._from_configs.clear()


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A cache folder of this test."""
    assert plugins.loaded() == ()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    yield tmp_path / "cache" / "normexp" / "plugins"
    forget()


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A config beside its plugin."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "own.py").write_text(TEXT, "utf-8")
    path = tmp_path / "mine" / "own.yaml"
    path.write_text(CONFIG)
    return path


def filled(folder: Path, plan: Plan) -> Store:
    """Store the runs of a plan, and unload its plugins."""
    store = Store(folder)
    store.begin(plan, (), force=False)
    for each in plan.configs.values():
        store.write(made.done(each, 1.5))
    forget()
    return store


@pytest.fixture
def store(config: Path, tmp_path: Path) -> Store:
    return filled(tmp_path / "results" / "own", grid.plan(sweep_file.load(config)))


def test_its_path_is_relative_to_the_config(config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    sweep = sweep_file.load(config)
    assert sweep.plugins == {"own.py": plugins.digest(TEXT.encode())}
    assert len(grid.plan(sweep).configs) == 2
    assert plugins.options() == ""


def test_several_plugins_are_a_list(config: Path) -> None:
    (config.parent / "two.py").write_text(TEXT.replace('"l1"', '"l1b"').replace('"fading"', '"fading2"'))
    config.write_text("plugin: [own.py, two.py]\ngrid: {norm: [l1, l1b]}\n")
    assert list(sweep_file.load(config).plugins) == ["own.py", "two.py"]
    assert {"l1", "l1b"} <= set(NORMS)


@pytest.mark.parametrize(
    ("line", "fact"),
    [
        ("plugin: other.py", "own.yaml:2: plugin: other.py: No such file"),
        ("plugin: [own.yaml, {a: 1}]", "own.yaml:2: plugin: | one value"),
        ("plugin: {a: 1}", "own.yaml:2: plugin: | a list"),
        ("plugin:", "own.yaml:2: plugin: | empty"),
        ("plugin: own.yaml", "own.yaml:"),
    ],
)
def test_a_wrong_plugin_is_refused_with_file_and_line(config: Path, line: str, fact: str) -> None:
    config.write_text(CONFIG.replace("plugin: own.py", line))
    with pytest.raises(UserError) as caught:
        sweep_file.load(config)
    assert all(part in str(caught.value) for part in fact.split(" | "))


def test_later_commands_need_no_option(store: Store) -> None:
    assert store.read_plan().plugins == {"own.py": plugins.digest(TEXT.encode())}
    assert len(store.records()) == 2
    assert plugins.options() == ""
    forget()
    assert index.find(store.folder.parent, "l1-pre")[1].config.norm == "l1"
    forget()
    assert [status.fault for status in index.statuses(store.folder.parent)] == [""]


def test_a_config_without_plugins_stores_none(tmp_path: Path) -> None:
    store = filled(tmp_path / "plain", grid.plan(sweep_file.parse("grid: {norm: [ln]}", origin="c.yaml")))
    assert "plugins" not in json.loads((store.folder / MANIFEST).read_text("utf-8"))


def is_refused(store: Store) -> bool:
    """Whether the sweep's plugin is not loaded, and the error names its copy or the option."""
    with pytest.raises(UserError, match="--plugin"):
        store.read_plan()
    return plugins.loaded() == ()


def test_a_plugin_that_this_user_has_not_named_is_not_loaded(store: Store, cache: Path) -> None:
    (approval,) = cache.iterdir()
    approval.unlink()
    assert is_refused(store)
    assert len(store.records()) == 1


def test_a_plugin_of_a_pack_from_elsewhere_is_not_loaded(store: Store, cache: Path, tmp_path: Path) -> None:
    other = tmp_path / "there" / "own"
    other.mkdir(parents=True)
    data = pack(store).path.read_bytes()
    forget()
    (other / PACK).write_bytes(data)
    for approval in cache.iterdir():
        approval.unlink()
    unpack(other / PACK)
    assert is_refused(Store(other))


def test_a_changed_copy_is_not_loaded(store: Store) -> None:
    (path,) = (store.folder / "plugins").iterdir()
    path.write_text(TEXT + "changed = True\n")
    assert is_refused(store)


def test_a_copy_that_the_manifest_does_not_name_is_not_loaded(store: Store) -> None:
    path = store.folder / MANIFEST
    path.write_text(
        path.read_text("utf-8").replace('"own.py"', '"other"').replace(plugins.digest(TEXT.encode()), "0" * 16)
    )
    assert is_refused(store)


def test_a_cache_folder_that_others_can_write_to_counts_for_nothing(store: Store, cache: Path) -> None:
    cache.chmod(0o777)
    assert is_refused(store)


def test_a_plugin_given_by_option_is_not_noted(config: Path, tmp_path: Path, cache: Path) -> None:
    config.write_text(CONFIG.replace("plugin: own.py\n", ""))
    plugins.add(plugins.read(config.parent / "own.py"))
    assert plugins.options() != ""
    filled(tmp_path / "results" / "own", grid.plan(sweep_file.load(config)))
    assert not cache.exists() or list(cache.iterdir()) == []


def test_only_loaded_plugins_are_approved(cache: Path) -> None:
    plugin_snapshots.approve({"own.py": plugins.digest(TEXT.encode())})
    assert not cache.exists() or list(cache.iterdir()) == []


def test_another_loaded_version_is_kept(store: Store, config: Path) -> None:
    (config.parent / "own.py").write_text(TEXT + "changed = True\n")
    sweep_file.load(config)
    (newer,) = plugins.loaded()
    with pytest.raises(UserError, match="--plugin"):
        store.read_plan()
    assert plugins.loaded() == (newer,)
