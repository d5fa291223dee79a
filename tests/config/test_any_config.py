"""Any text or bytes give a plan or printable error messages, within bounded time."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from normexp.config import grid, sweep_file
from normexp.config.groups import SECTIONS
from normexp.config.plan import Plan
from normexp.config.run import KEYS
from normexp.config.sweep_file import TOP
from normexp.errors import UserError

SECONDS = 5.0
"""CPU time that the slowest text may take; a usual one takes milliseconds."""
RELAXED = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]

WORDS = """1 0 -1 +1 4 16 64 1e-3 1E-3 1e3 1.0e2 4.5 08 0777 0x1F 1:30 1_000 1,5 nan .inf -.inf 1e999 -0.0 ~ null none
None true off ln rms pre post adam linear auto layernorm '8' "4, 8" '' 2026-01-01 np.logspace(-4,-2,3) ${lr} &a *a &b *b
!!float !!int !!binary !!set !!python/object:os.system !!python/name:os.system !local ? - : , # %YAML | > " ' [ ] { }"""
SCALARS = st.one_of(
    st.sampled_from(WORDS.split()),
    st.sampled_from(WORDS.split()),
    st.integers().map(str),
    st.floats().map(repr),
    st.integers(1, 500).map(lambda digits: "9" * digits),
    st.text(max_size=6).map(lambda text: json.dumps(text, ensure_ascii=False)),
    st.tuples(st.sampled_from(["&a", "&b", "!!str", "!!float"]), st.sampled_from(["1", "[1, 2]", "{lr: 1}"])).map(
        " ".join
    ),
)
NAMES = st.one_of(
    st.sampled_from([*KEYS]),
    st.sampled_from([*KEYS, *TOP, "label", "rows", "columns", "where", "text", "source", "logspace", "linspace"]),
    st.sampled_from(["range", "<<", "deph", "on", "1", "1.0", '"\\e[31m"', '"a\\nb"', "? [a]", "layers"]),
)


def flow(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    lists = st.lists(values, max_size=4).map(lambda items: f"[{', '.join(items)}]")
    return lists | mapping(values)


def mapping(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    pairs = st.lists(st.tuples(NAMES, values), max_size=4)
    return pairs.map(lambda items: f"{{{', '.join(f'{name}: {value}' for name, value in items)}}}")


VALUES = st.recursive(SCALARS, flow, max_leaves=8)
AXES = st.one_of(
    VALUES,
    st.lists(SCALARS, min_size=1, max_size=4).map(lambda items: f"[{', '.join(items)}]"),
    st.tuples(st.sampled_from(["logspace", "linspace", "range"]), SCALARS, SCALARS, SCALARS).map(
        lambda parts: f"{{{parts[0]}: [{', '.join(parts[1:])}]}}"
    ),
)
BODIES = st.one_of(
    mapping(AXES), mapping(AXES), VALUES, st.lists(mapping(AXES), max_size=3).map(", ".join).map("[{}]".format)
)
CONFIGS = st.lists(st.tuples(st.sampled_from([*SECTIONS, *SECTIONS, *TOP, *KEYS]), BODIES), min_size=1, max_size=5).map(
    lambda parts: "\n".join(f"{name}: {body}" for name, body in parts)
)
TOKENS = st.sampled_from([*WORDS.split(), *SECTIONS, *TOP, "lr", "norm", "\n", "\n ", "  ", "\t"])
TEXTS = st.text(max_size=60) | st.lists(TOKENS, max_size=40).map(" ".join) | st.lists(TOKENS).map("".join)
ENCODINGS = st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32", "cp1252", "utf-7", "cp037"])


def planned(text: str, *overrides: str) -> Plan | UserError:
    """Return a plan or the UserError, after checking the time."""
    start = time.process_time()
    result = outcome(lambda: grid.plan(sweep_file.parse(text, origin="c.yaml", overrides=overrides), max_runs=200))
    assert time.process_time() - start < SECONDS
    assert isinstance(result, Plan | UserError)
    return result


def outcome(call: Callable[[], object]) -> object:
    """Return the result of a call, or the UserError after checking that its messages are printable."""
    try:
        return call()
    except UserError as fault:
        error = fault
    assert error.complaints
    assert all(complaint.isprintable() for complaint in error.complaints)
    return error


@given(CONFIGS)
@settings(max_examples=100, deadline=None, suppress_health_check=RELAXED)
@example("grid: {seed: {range: [0, 999999, 1]}, eps: {linspace: [1e-9, 1, 999]}}\nbase: {norm: none}")
def test_a_nearly_valid_config_is_a_plan_or_an_error(text: str) -> None:
    planned(text)


@given(TEXTS)
@settings(max_examples=150, deadline=None, suppress_health_check=RELAXED)
def test_any_text_and_override_is_a_plan_or_an_error(text: str) -> None:
    planned(text)
    planned("base: {depth: 1}", text)
    planned("base: {depth: 1}", f"lr={text}")


@given(st.binary(max_size=80) | st.tuples(CONFIGS, ENCODINGS).map(lambda part: part[0].encode(part[1], "replace")))
@settings(max_examples=60, deadline=None, suppress_health_check=RELAXED)
def test_any_bytes_are_a_config_or_an_error(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "c.yaml"
    path.write_bytes(data)
    outcome(lambda: planned(sweep_file.text_of(path)))


BOMB = "\n".join(
    ["a0: &a0 [1, 1]"] + [f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]" for level in range(1, 12)]
)
MAPPING_BOMB = "\n".join(
    ["b0: &b0 {lr: 1}"]
    + [f"b{level}: &b{level} {{{', '.join(f'k{n}: *b{level - 1}' for n in range(10))}}}" for level in range(1, 12)]
)
PLACES = [
    "{}",
    "[{}]",
    "{{depth: {}}}",
    "{{depth: [{}]}}",
    "{{depth: {{range: {}}}}}",
    "{{rows: {}}}",
    "[{{where: {}, text: {}, source: {}}}]",
    "[{{label: {}, base: {}, grid: {}, zip: {}, exclude: {}}}]",
]


@pytest.mark.parametrize("section", [*SECTIONS, "sweeps", "table", "published", "name"])
def test_text_that_expands_to_billions_of_values_is_rejected_fast(section: str) -> None:
    for bomb in ("*a11", "*b11"):
        for place in PLACES:
            result = planned(f"{BOMB}\n{MAPPING_BOMB}\n{section}: {place.replace('{}', bomb).format()}")
            assert isinstance(result, UserError)


@pytest.mark.parametrize(
    "text",
    [
        "\n".join(f"key{number}: 1" for number in range(6_000)),
        "grid: {" + ", ".join(f"key{number}: 1" for number in range(6_000)) + "}",
        "grid: {norm: [" + ", ".join(f"layernrom{number}" for number in range(6_000)) + "]}",
        "grid: {lr: [" + "x, " * 20_000 + "]}",
        "exclude: [" + "{}, " * 20_000 + "]",
        "--- 1\n" * 5_000,
        "a: " * 20_000,
        "? " * 20_000,
        "- " * 20_000,
        "&a " * 20_000,
        "[{a: " * 20_000,
    ],
    ids=lambda text: text[:20],
)
def test_large_invalid_texts_are_rejected_fast(text: str) -> None:
    error = planned(text)
    assert isinstance(error, UserError)
    assert len(error.complaints) <= 31


def test_many_warnings_are_cut() -> None:
    plan = planned("grid:\n lr:\n" + " - 1e-3\n" * 1500)
    assert isinstance(plan, Plan)
    assert len(plan.warnings) == 32
    assert plan.warnings[-2:] == ("and 1469 more", "dropped 1499 duplicate points")


def test_an_endless_device_is_not_a_config() -> None:
    with pytest.raises(UserError, match="/dev/zero"):
        sweep_file.load(Path("/dev/zero"))


def test_reading_stops_after_a_thousand_errors() -> None:
    error = planned("\n".join(f"key{number}: 1" for number in range(1500)))
    assert isinstance(error, UserError)
    assert error.complaints[-1] == "and 972 more"
