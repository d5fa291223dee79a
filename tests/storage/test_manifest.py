"""The manifest restores the plan. Damaged, missing and newer manifests are refused."""

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
    ("key", "value", "fact"),
    [
        ("schema", "x", "schema: 'x'"),
        ("runs", None, "runs: None"),
        ("runs", ["x"], "runs: \\['x'\\]"),
        ("points", [{"label": "", "values": {}, "run_id": 7}], r"points\[0\].run_id: 7"),
        ("points", [{"label": "", "values": {}, "run_id": "d2"}], " d2"),
        ("axes", ["flavour"], "flavour"),
        ("axes", ["norm"], "axes"),
        ("pivot", {"rows": "lr", "columns": []}, "pivot.rows: 'lr'"),
        ("title_kind", [], "title_kind"),
    ],
)
def test_a_garbled_manifest_is_refused(store: Store, key: str, value: object, fact: str) -> None:
    path = store.folder / "manifest.json"
    content = json.loads(path.read_text("utf-8"))
    content |= {key: value} | ({"title": None} if key == "title_kind" else {})
    path.write_text(json.dumps(content), "utf-8")
    with pytest.raises(UserError, match=rf"manifest\.json: .*{fact}"):
        store.read_plan()


def test_nested_missing_and_newer_manifests_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"manifest\.json"):
        Store(tmp_path).read_plan()
    with pytest.raises(UserError, match="absent: no such folder"):
        Store(tmp_path / "absent").read_plan()
    newer = '{"normexp": "9.0", "schema": 99, "points": [], "runs": {}, "axes": []}'
    for text, fact in (('{"a":' * 100_000, "nested"), (newer, r"normexp 9\.0")):
        (tmp_path / "manifest.json").write_text(text)
        with pytest.raises(UserError, match=rf"manifest\.json: .*{fact}"):
            Store(tmp_path).records()
