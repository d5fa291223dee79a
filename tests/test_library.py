from pathlib import Path

import pytest
import records

from normexp.errors import UserError
from normexp.results import library
from normexp.results.store import Store


@pytest.fixture
def out(tmp_path: Path) -> Path:
    for name, norm in (("one", "ln"), ("two", "rms")):
        plan = records.plan({"lr": [1e-3, 1e-2]}, name=name, norm=norm)
        store = Store(tmp_path / name)
        store.begin(plan, [], force=False)
        first, second = plan.configs.values()
        store.write(records.done(first, 1.9))
        if name == "one":
            store.write(records.dead(second, 5))
    (tmp_path / "README.md").write_text("not a sweep")
    (tmp_path / "other").mkdir()
    return tmp_path


def test_shelves_count_what_has_ended_and_how(out: Path) -> None:
    one, two = library.shelves(out)
    assert (one.folder, one.ended, one.runs, dict(one.results)) == ("one", 2, 2, {"learned": 1, "nonfinite": 1})
    assert (two.folder, two.ended, two.runs, dict(two.results)) == ("two", 1, 2, {"learned": 1})


def test_a_broken_manifest_costs_its_own_line(out: Path) -> None:
    (out / "one" / "manifest.json").write_text("{")
    assert [shelf.folder for shelf in library.shelves(out)] == ["two"]


def test_no_folder_is_no_sweeps(tmp_path: Path) -> None:
    assert library.shelves(tmp_path / "none") == []


def test_a_run_is_found_by_its_id_or_a_part(out: Path) -> None:
    run_id = sorted(Store(out / "one").ended())[0]
    for name in (run_id, run_id[-8:]):
        store, found = library.find(out, name)
        assert (store.folder.name, found) == ("one", run_id)


def test_an_unknown_or_ambiguous_id_is_told(out: Path) -> None:
    with pytest.raises(UserError, match="no run of that id"):
        library.find(out, "nosuch")
    with pytest.raises(UserError, match="part of 2 run ids"):
        library.find(out, "-ln-")
