"""A folder's manifest: its plan comes back, and one that is damaged, missing or newer is told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import records as made
from stored import refuse

from normexp.config.plan import Pivot, Published
from normexp.errors import UserError
from normexp.storage.store import Store


def test_the_plan_comes_back(tmp_path: Path) -> None:
    plan = made.plan(
        {"norm": ["ln", "none"], "lr": [1e-3, 1.0], "residual": [True]},
        label="as written",
        title="dépth α | `x`",
        pivot=Pivot(rows=("norm",), columns=("lr",)),
        published=[Published(where={"norm": "none", "lr": 1.0}, text="NaN", source="Table 1")],
    )
    store = Store(tmp_path / "x")
    store.begin(plan, [], force=False)
    assert store.read_plan() == plan
    manifest = json.loads((store.folder / "manifest.json").read_text("utf-8"), parse_constant=refuse)
    assert manifest["schema"] == 1
    assert [point["run_id"] for point in manifest["points"]] == [point.config.run_id for point in plan.points]


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("schema", "x", "schema: 'x' is not a whole number"),
        ("runs", None, "runs: None is not an object"),
        ("runs", ["x"], "runs: \\['x'\\] is not an object"),
        ("points", [{"label": "", "values": {}, "run_id": 7}], r"points\[0\].run_id: 7 is not a text"),
        ("points", [{"label": "", "values": {}, "run_id": "d2"}], "asks for d2, which is not among the runs"),
        ("axes", ["flavour"], "unknown keys flavour"),
        ("axes", ["norm"], "other axes"),
        ("pivot", {"rows": "lr", "columns": []}, "pivot.rows: 'lr' is not a list"),
        ("title_kind", [], "title_kind"),
    ],
)
def test_a_garbled_manifest_is_told(store: Store, key: str, value: object, told: str) -> None:
    path = store.folder / "manifest.json"
    content = json.loads(path.read_text("utf-8"))
    content |= {key: value} | ({"title": None} if key == "title_kind" else {})
    path.write_text(json.dumps(content), "utf-8")
    with pytest.raises(UserError, match=rf"manifest\.json: .*{told}"):
        store.read_plan()


def test_a_deeply_nested_manifest_is_told(store: Store) -> None:
    (store.folder / "manifest.json").write_text('{"a":' * 100_000)
    with pytest.raises(UserError, match=r"manifest\.json: its JSON is nested too deeply"):
        store.records()


def test_a_folder_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"not a results folder: it has no manifest\.json"):
        Store(tmp_path).read_plan()
    with pytest.raises(UserError, match="absent: no such folder"):
        Store(tmp_path / "absent").read_plan()
    (tmp_path / "manifest.json").write_text('{"normexp": "9.0", "schema": 99, "points": [], "runs": {}, "axes": []}')
    with pytest.raises(UserError, match=r"written by normexp 9\.0"):
        Store(tmp_path).records()
