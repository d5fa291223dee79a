"""Damaged files are reported with path and line, and affect only their run."""

from __future__ import annotations

import contextlib
import json
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stored import write_all

from normexp.config.plan import Plan
from normexp.errors import UserError
from normexp.report import export, report
from normexp.storage import packs
from normexp.storage.store import Store


@pytest.mark.parametrize(
    ("damage", "fact"),
    [
        (lambda text: text[: len(text) // 2], "Expecting|Unterminated|delimiter"),
        (lambda text: "", "Expecting value"),
        (lambda text: "[1, 2]", "not a JSON object"),
        (lambda text: text.replace('"norm": "ln"', '"norm": "rms"'), "its config .* d2-rms"),
        (lambda text: text.replace('"seed": 0', '"seed": 0,\n"flavour": 1'), "flavour"),
        (lambda text: text.replace('"status": "done"', '"status": "dome"'), "dome"),
        (lambda text: text.replace('"schema": 1', '"schema": 99'), "schema 99"),
        (lambda text: text.replace('"init_val_loss": 4.3', '"init_val_loss": NaN'), "NaN is not JSON"),
        (lambda text: text.replace('"init_val_loss": 4.3', '"init_val_loss": "4"'), "result.init_val_loss: '4'"),
        (lambda text: text.replace('"data": 0.2', '"data": null'), "seconds.data: None"),
        (lambda text: text.replace('"torch_threads": 1', '"torch_threads": []'), r"environment.torch_threads: \[\]"),
        (lambda text: text.replace('"parameters": 123456', '"parameters": 1e3'), "parameters: 1000.0"),
        (lambda text: text.replace('"parameters": 123456', '"parameters": 1' + "0" * 30), "parameters: 10000"),
        (lambda text: text.replace('"guess": 4.07', '"guess": 1.5'), "learnable gap"),
        (lambda text: text.replace('"outcome": "learned"', '"outcome": "nonfinite"'), "nonfinite without"),
        (lambda text: text.replace('"final_val_loss": 1.9', '"final_val_loss": null'), "learned without"),
        (lambda text: text.replace('"status": "done"', '"status": "failed"'), "failed with"),
        (lambda text: re.sub('"numerics": [0-9]+,', "", text), "missing numerics"),
        (lambda text: "[" * 100_000, "nested too deeply"),
    ],
)
def test_a_garbled_record_is_reported_and_pending(store: Store, plan: Plan, damage, fact: str) -> None:
    records = write_all(store, plan)
    run_id = next(iter(records))
    path = store.folder / "runs" / run_id / "run.json"
    before = path.read_text("utf-8")
    path.write_text(damage(before), "utf-8")
    assert path.read_text("utf-8") != before
    assert list(store.records()) == list(records)[1:]
    assert len(store.warnings) == 1
    assert str(path) in store.warnings[0]
    assert "pending" in store.warnings[0]
    assert re.search(fact, store.warnings[0])


PLAIN = (st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=5))
JSON = st.recursive(
    st.one_of(*PLAIN, st.just(10**400), st.just("\ud800"), st.sampled_from(["lr", "norm", "done", "nan"])),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["lr", "x", "step"]), inner, max_size=2)
    ),
    max_leaves=4,
)


def positions(value: object) -> list[tuple[dict | list, object]]:
    """Return each (container, key) in a JSON value, recursively."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [position for key, item in list(items) for position in ((value, key), *positions(item))]


@settings(deadline=None, max_examples=40)
@given(st.data())
def test_any_value_in_a_file_may_be_garbled(shelf: tuple[Store, dict[Path, str]], data: st.DataObject) -> None:
    store, files = shelf
    path = data.draw(st.sampled_from(list(files)))
    content = json.loads(files[path])
    container, key = data.draw(st.sampled_from(positions(content)))
    container[key] = data.draw(JSON)
    path.write_text(json.dumps(content), "utf-8")
    try:
        for use in (store.read_plan, store.records, lambda: report.rebuild(store)):
            with contextlib.suppress(UserError):
                use()
    finally:
        path.write_text(files[path], "utf-8")


def test_a_record_that_is_not_utf8_is_reported(store: Store, plan: Plan) -> None:
    run_id = next(iter(write_all(store, plan)))
    (store.folder / "runs" / run_id / "run.json").write_bytes(b"\xff\xfe{")
    assert run_id not in store.records()
    assert len(store.warnings) == 1


@pytest.mark.parametrize(("last", "line"), [("100,0.001,4", 102), ("99,0.1,4,4,4\n" + "1" * 200_000, 103)])
def test_a_broken_curve_is_reported_with_its_line(store: Store, plan: Plan, last: str, line: int) -> None:
    run_id = next(iter(write_all(store, plan)))
    path = store.folder / "runs" / run_id / "curve.csv"
    lines = path.read_text("utf-8").splitlines()
    path.write_text("\n".join([*lines[:101], last]), "utf-8")
    with pytest.raises(UserError, match=rf"curve\.csv: line {line}"):
        store.traces(run_id)


def test_a_curve_cut_at_the_end_of_a_line_is_not_used(store: Store, plan: Plan) -> None:
    run_id = next(i for i, record in write_all(store, plan).items() if record.config.norm != "none")
    path = store.folder / "runs" / run_id / "curve.csv"
    path.write_text("".join(path.read_text("utf-8").splitlines(keepends=True)[:60]), "utf-8")
    for use in (
        lambda: store.read(run_id),
        lambda: list(export.EXPORTERS["csv"].files(report.read(store), store)),
    ):
        with pytest.raises(UserError, match=r"curve\.csv: .* step 58 .*100"):
            use()
    packed = packs.pack(store)
    assert [str(path) in warning for warning in packed.warnings] == [True]
    assert run_id not in packs.named(packed.path)
