"""Stored files that are damaged: told with file and line, and nothing in them breaks more than their run."""

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
    ("damage", "told"),
    [
        (lambda text: text[: len(text) // 2], "Expecting|Unterminated|delimiter"),
        (lambda text: "", "Expecting value"),
        (lambda text: "[1, 2]", "not a JSON object"),
        (lambda text: text.replace('"norm": "ln"', '"norm": "rms"'), "its config is that of"),
        (lambda text: text.replace('"seed": 0', '"seed": 0,\n"flavour": 1'), "unknown keys flavour"),
        (lambda text: text.replace('"status": "done"', '"status": "dome"'), "dome"),
        (lambda text: text.replace('"schema": 1', '"schema": 99'), "newer normexp"),
        (lambda text: text.replace('"init_val_loss": 4.3', '"init_val_loss": NaN'), "NaN is not JSON"),
        (
            lambda text: text.replace('"init_val_loss": 4.3', '"init_val_loss": "4"'),
            "result.init_val_loss: '4' is not a n",
        ),
        (lambda text: text.replace('"data": 0.2', '"data": null'), "seconds.data: None is not a number"),
        (
            lambda text: text.replace('"torch_threads": 1', '"torch_threads": []'),
            r"environment.torch_threads: \[\] is not a",
        ),
        (lambda text: text.replace('"parameters": 123456', '"parameters": 1e3'), "1000.0 is not a whole number"),
        (lambda text: text.replace('"parameters": 123456', '"parameters": 1' + "0" * 30), "whole number of 64 bits"),
        (lambda text: text.replace('"guess": 4.07', '"guess": 1.5'), "nothing to learn"),
        (lambda text: text.replace('"outcome": "learned"', '"outcome": "nonfinite"'), "without a death"),
        (lambda text: text.replace('"final_val_loss": 1.9', '"final_val_loss": null'), "without a final"),
        (lambda text: text.replace('"status": "done"', '"status": "failed"'), "failed with result"),
        (lambda text: re.sub('"numerics": [0-9]+,', "", text), "it has no numerics"),
        (lambda text: "[" * 100_000, "nested too deeply"),
    ],
)
def test_a_garbled_record_is_told_and_pending(store: Store, plan: Plan, damage, told: str) -> None:
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
    assert re.search(told, store.warnings[0])


PLAIN = (st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=5))
JSON = st.recursive(
    st.one_of(*PLAIN, st.just(10**400), st.just("\ud800"), st.sampled_from(["lr", "norm", "done", "nan"])),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["lr", "x", "step"]), inner, max_size=2)
    ),
    max_leaves=4,
)


def places(value: object) -> list[tuple[dict | list, object]]:
    """Each (holder, key) of a JSON value, holders of holders included."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [found for key, item in list(items) for found in ((value, key), *places(item))]


@settings(deadline=None, max_examples=150)
@given(st.data())
def test_any_value_in_a_file_may_be_garbled(shelf: tuple[Store, dict[Path, str]], data: st.DataObject) -> None:
    store, files = shelf
    path = data.draw(st.sampled_from(list(files)))
    content = json.loads(files[path])
    holder, key = data.draw(st.sampled_from(places(content)))
    holder[key] = data.draw(JSON)
    path.write_text(json.dumps(content), "utf-8")
    try:
        for use in (store.read_plan, store.records, lambda: report.rebuild(store)):
            with contextlib.suppress(UserError):
                use()
    finally:
        path.write_text(files[path], "utf-8")


def test_a_record_that_is_not_utf8_is_told(store: Store, plan: Plan) -> None:
    run_id = next(iter(write_all(store, plan)))
    (store.folder / "runs" / run_id / "run.json").write_bytes(b"\xff\xfe{")
    assert run_id not in store.records()
    assert len(store.warnings) == 1


def test_a_broken_curve_names_file_and_line(store: Store, plan: Plan) -> None:
    run_id = next(iter(write_all(store, plan)))
    path = store.folder / "runs" / run_id / "curve.csv"
    lines = path.read_text("utf-8").splitlines()
    path.write_text("\n".join([*lines[:101], "100,0.001,4"]), "utf-8")
    with pytest.raises(UserError, match=r"curve\.csv: line 102 has 3 cells, not 5"):
        store.traces(run_id)


def test_a_curve_cut_at_the_end_of_a_line_is_not_passed_on(store: Store, plan: Plan) -> None:
    run_id = next(i for i, record in write_all(store, plan).items() if record.config.norm != "none")
    path = store.folder / "runs" / run_id / "curve.csv"
    path.write_text("".join(path.read_text("utf-8").splitlines(keepends=True)[:60]), "utf-8")
    for use in (
        lambda: store.read(run_id),
        lambda: list(export.EXPORTERS["csv"].files(report.read(store), store)),
    ):
        with pytest.raises(UserError, match=r"curve\.csv: it ends at step 58 of 100"):
            use()
    packed = packs.pack(store)
    assert [f"{path}: it ends at step 58 of 100" in warning for warning in packed.warnings] == [True]
    assert run_id not in packs.named(packed.path)


def test_a_curve_with_a_huge_cell_names_file_and_line(store: Store, plan: Plan) -> None:
    run_id = next(iter(write_all(store, plan)))
    path = store.folder / "runs" / run_id / "curve.csv"
    path.write_text(path.read_text("utf-8") + "1" * 200_000, "utf-8")
    with pytest.raises(UserError, match=r"curve\.csv: line 103: field larger"):
        store.traces(run_id)
