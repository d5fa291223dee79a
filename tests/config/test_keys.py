"""Keys: which texts and values they accept, and the errors for others."""

import math
import re
from typing import Any

import numpy as np
import pytest

from normexp.config.keys import Key
from normexp.config.run import KEYS
from normexp.schemes.network_config import Value


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("lr", "1e-3", 1e-3),
        ("lr", "1E-3", 1e-3),
        ("lr", "3.0e-4", 3e-4),
        ("lr", "1.e-2", 1e-2),
        ("lr", "+1e-3", 1e-3),
        ("lr", ".5", 0.5),
        ("lr", "1", 1.0),
        ("warmup", "1e1", 10),
        ("steps", "1.0e2", 100),
        ("depth", "4.0", 4),
        ("depth", "0", 0),
        ("seed", "9223372036854775807", 2**63 - 1),
        ("residual", "true", True),
        ("residual", "No", False),
        ("norm", "none", "none"),
        ("norm", "None", "none"),
        ("norm", "null", "none"),
        ("norm", "~", "none"),
        ("norm", "", "none"),
        ("norm", "LN", "ln"),
    ],
)
def test_text_becomes_a_value_of_the_keys_type(name: str, text: str, value: Value) -> None:
    parsed = KEYS[name].parse(text)
    assert parsed == value
    assert type(parsed) is type(value)


@pytest.mark.parametrize(
    ("name", "text", "fact"),
    [
        ("lr", "1e-3e", "'1e-3e'"),
        ("lr", "0", "above 0"),
        ("lr", "-1", "above 0"),
        ("lr", ".inf", "'.inf'"),
        ("lr", "nan", "'nan'"),
        ("lr", "1e999", "inf"),
        ("lr", "1e305", "out of range"),
        ("lr", "1_000", "'1_000'"),
        ("depth", "4.5", "4.5"),
        ("depth", "true", "'true'"),
        ("depth", "-2", "at least 0"),
        ("depth", "9" * 301, "out of range"),
        ("depth", "9" * 500, "too long"),
        ("warmup", "0.1", "0.1"),
        ("warmup", "1:30", "base-60"),
        ("seed", "0777", "octal"),
        ("seed", "08", "octal"),
        ("seed", "18446744073709551616", "at most 9223372036854775807"),
        ("residual", "maybe", "'maybe'"),
        ("norm", "rmsnorm", "did you mean rms?"),
        ("norm", "layernorm", "did you mean ln?"),
        ("norm", "Layer-Norm", "did you mean ln?"),
        ("norm", "batch_norm", "did you mean bn?"),
        ("norm", "BatchNorm1d", "did you mean bn?"),
        ("final_norm", "layernorm", "did you mean ln?"),
        ("qk_norm", "l2-norm", "did you mean l2?"),
        ("position", "prenorm", "did you mean pre?"),
        ("optimizer", "null", "adam, adamw, sgd"),
        ("beta1", "1", "below 1"),
        # decimal commas and look-alike characters
        ("lr", "1,5", "write 1.5, or [1,5]"),
        ("lr", "0,5", "write 0.5, or [0,5]"),
        ("lr", "1,5e-3", "write 1.5e-3"),
        ("lr", "1,5e\u22123", "write 1.5e-3"),
        ("lr", "1e\u22123", "minus: write 1e-3"),
        ("lr", "1e\u20133", "minus: write 1e-3"),
        ("lr", "\u22121", "minus: write -1"),
        ("seed", "\u20115", "minus: write -5"),
        ("lr", "\uff11e-3", "digits: write 1e-3"),
        ("lr", "1e-3\n", "digits: write 1e-3"),
        ("lr", "1e-3\u00a0", "digits: write 1e-3"),
        ("lr", "\u0661", "digits: write 1"),
        ("depth", "\u0663", "digits: write 3"),
        ("lr", "one\u2212third", "not a number"),
    ],
)
def test_invalid_texts_are_rejected(name: str, text: str, fact: str) -> None:
    with pytest.raises(ValueError, match=re.escape(fact)):
        KEYS[name].parse(text)


@pytest.mark.parametrize(
    ("name", "value"),
    [("depth", True), ("depth", "8"), ("lr", None), ("lr", math.nan), ("lr", math.inf), ("lr", 10**400), ("norm", 1)],
)
def test_invalid_python_values_are_rejected(name: str, value: object) -> None:
    with pytest.raises(ValueError, match=r"not|neither|range"):
        KEYS[name].check(value)


@pytest.mark.parametrize(
    ("name", "value", "plain"),
    [
        ("depth", np.int64(2), 2),
        ("depth", np.uint8(2), 2),
        ("depth", np.float32(2.0), 2),
        ("depth", np.array(2), 2),
        ("seed", np.uint64(2**63 - 1), 2**63 - 1),
        ("lr", np.float64(1e-3), 1e-3),
        ("lr", np.float32(1e-3), 0.0010000000474974513),
        ("lr", np.float16(1e-3), 0.0010004043579101562),
        ("lr", np.longdouble(0.5), 0.5),
        ("lr", np.int32(1), 1.0),
        ("residual", np.bool_(True), True),
        ("residual", np.False_, False),
        ("norm", np.str_("RMS"), "rms"),
        ("norm", np.array("ln"), "ln"),
    ],
)
def test_a_numpy_scalar_becomes_the_equal_python_value(name: str, value: Any, plain: Value) -> None:
    checked = KEYS[name].check(value)
    assert checked == plain
    assert type(checked) is KEYS[name].kind


@pytest.mark.parametrize(
    ("name", "value", "fact"),
    [
        ("depth", np.bool_(True), "True"),
        ("depth", np.float32(2.5), "2.5"),
        ("depth", np.str_("2"), "'2'"),
        ("depth", np.array([2]), "array([2])"),
        ("lr", np.float32("inf"), "inf"),
        ("lr", np.datetime64("2026-01-01"), "2026"),
        ("lr", np.longdouble(1) + np.finfo(np.longdouble).eps, "float"),
        ("residual", np.int64(1), "1 "),
        ("norm", np.int64(1), "1 "),
        ("norm", np.str_("rmsnorm"), "did you mean rms?"),
    ],
)
def test_a_numpy_scalar_of_another_kind_is_rejected(name: str, value: Any, fact: str) -> None:
    with pytest.raises(ValueError, match=re.escape(fact)):
        KEYS[name].check(value)


def test_minus_zero_is_zero() -> None:
    assert math.copysign(1, float(KEYS["weight_decay"].parse("-0.0"))) == 1


def test_a_synonym_has_one_canonical_value_and_a_key_without_effect_is_neutral() -> None:
    key = Key(kind=int, default=5, neutral=3, help="", synonyms={1: 0})
    assert [key.canonical(value, True) for value in (0, 1, 2)] == [0, 0, 2]
    assert key.canonical(2, False) == 3


def test_every_default_and_neutral_value_is_allowed() -> None:
    for key in KEYS.values():
        assert key.check(key.default) == key.default
        assert key.check(key.neutral) == key.neutral
        assert key.help
        assert key.limits()


def test_a_technical_bound_is_only_shown_when_exceeded() -> None:
    assert KEYS["steps"].limits() == "a whole number at least 1"
    assert KEYS["seed"].limits() == "a whole number at least 0"
    assert KEYS["depth"].limits() == "a whole number at least 0 and at most 10000"
    with pytest.raises(ValueError, match="at least 1 and at most 1000000000"):
        KEYS["steps"].parse("1000000001")
    with pytest.raises(ValueError, match=r"a whole number at least 1$"):
        KEYS["steps"].parse("0")
