from pathlib import Path

import pytest
import records
from stored import saved

from normexp.config import plugins
from normexp.errors import UserError
from normexp.records.record import Status
from normexp.storage import index
from normexp.storage.store import Store


@pytest.fixture
def out(tmp_path: Path) -> Path:
    for name, norm in (("one", "ln"), ("two", "rms")):
        plan = records.plan({"lr": [1e-3, 1e-2]}, name=name, norm=norm)
        saved(tmp_path, plan, ["1.9", "nan@5" if name == "one" else "pending"])
    (tmp_path / "README.md").write_text("not a sweep")
    (tmp_path / "other").mkdir()
    return tmp_path


def test_statuses_count_results(out: Path) -> None:
    one, two = index.statuses(out)
    assert (one.folder, one.ended, one.runs, one.summary) == ("one", 2, 2, "1 learned, 1 nonfinite")
    assert (two.folder, two.ended, two.runs, two.summary) == ("two", 1, 2, "1 learned")


def test_a_broken_manifest_affects_only_its_sweep(out: Path) -> None:
    (out / "one" / "manifest.json").write_text("{")
    one, two = index.statuses(out)
    assert "manifest.json" in one.summary
    assert two.ended == 1


def test_a_sweep_names_the_plugin_that_it_needs(out: Path) -> None:
    manifest = out / "two" / "manifest.json"
    manifest.write_text(manifest.read_text("utf-8").replace('"norm": "rms"', '"norm": "l9"'), "utf-8")
    assert "l9" in index.statuses(out)[1].summary
    kept = out / "two" / "plugins" / f"{plugins.digest(b'x = 1')}.py"
    kept.parent.mkdir()
    kept.write_text("x = 1")
    status = index.statuses(out)[1]
    assert (status.ended, status.runs, status.summary) == (1, None, f"needs --plugin {kept}")


def test_a_missing_folder_has_no_sweeps(tmp_path: Path) -> None:
    assert index.statuses(tmp_path / "none") == []


def test_a_run_is_found_by_its_id_a_part_or_its_path(out: Path) -> None:
    run_id = sorted(Store(out / "one").ended())[0]
    for name in (run_id, run_id[-8:], f"results/one/runs/{run_id}", f"{out}/one/runs/{run_id}/"):
        store, record = index.find(out, name)
        assert (store.folder.name, record.run_id) == ("one", run_id)
        assert record.traces is not None


def test_a_copy_that_can_be_read_is_preferred(out: Path) -> None:
    run_id = sorted(Store(out / "one").ended())[0]
    three = Store(out / "three")
    three.begin(Store(out / "one").read_plan(), [], force=False)
    three.write(Store(out / "one").read(run_id))
    (out / "one" / "runs" / run_id / "run.json").write_text("{}")
    store, record = index.find(out, run_id)
    assert (store.folder.name, record.run_id) == ("three", run_id)
    (out / "three" / "runs" / run_id / "run.json").write_text("[]")
    with pytest.raises(UserError, match=r"run\.json"):
        index.find(out, run_id)


def test_an_unknown_or_ambiguous_id_is_refused(out: Path) -> None:
    with pytest.raises(UserError, match=f"nosuch: .*{out}"):
        index.find(out, "nosuch")
    with pytest.raises(UserError, match="2 run ids") as caught:
        index.find(out, "-ln-")
    assert [line.split(" ", 1)[1] for line in caught.value.complaints[1:]] == ["(in one)", "(in one)"]


@pytest.mark.parametrize("name", ["", ".", "/"])
def test_an_empty_id_is_refused(out: Path, name: str) -> None:
    with pytest.raises(UserError, match="empty run id"):
        index.find(out, name)


def test_ids_beyond_the_first_ten_are_counted(tmp_path: Path) -> None:
    plan = records.plan({"lr": [1e-3 * k for k in range(1, 13)]}, name="many")
    saved(tmp_path, plan, ["1.9"] * 12)
    with pytest.raises(UserError) as caught:
        index.find(tmp_path, "-lr")
    assert "12 run ids" in caught.value.complaints[0]
    assert len(caught.value.complaints) == 12
    assert caught.value.complaints[-1] == "and 2 more"


def test_records_are_those_of_every_sweep_that_can_be_read(out: Path) -> None:
    assert len(index.records(out)) == 3
    (out / "one" / "manifest.json").write_text("{")
    assert [record.config.norm for record in index.records(out).values()] == ["rms"]


def test_of_several_records_of_a_run_a_usable_one_is_taken(out: Path) -> None:
    plan = records.plan({"lr": [1e-3, 1e-2]}, name="zwei", norm="rms")
    other = Store(out / "zwei")
    other.begin(plan, [], force=False)
    first, second = plan.configs.values()
    other.write(records.failed(first))
    other.write(records.done(second, 2.0))
    found = index.records(out)
    assert [found[config.run_id].status for config in (first, second)] == [Status.DONE, Status.DONE]


def test_a_path_names_a_run_in_the_sweep_of_the_path(out: Path) -> None:
    config = next(iter(records.plan({"lr": [1e-3, 1e-2]}, name="one", norm="ln").configs.values()))
    other = Store(out / "three")
    other.begin(records.plan({"lr": [1e-3]}, name="three", norm="ln"), [], force=False)
    other.write(records.done(config, 1.7))
    for name in ("one", "three"):
        store, record = index.find(out, str(out / name / "runs" / config.run_id))
        assert (store.folder.name, record.run_id) == (name, config.run_id)
    (out / "three" / "runs" / config.run_id / "run.json").write_text("{")
    with pytest.raises(UserError, match="cannot be used"):
        index.find(out, str(out / "three" / "runs" / config.run_id))
