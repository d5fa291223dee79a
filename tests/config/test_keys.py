"""Keys: what a text or a value becomes, and what is said of one that cannot."""

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
    ("name", "text", "words"),
    [
        ("lr", "1e-3e", "not a number"),
        ("lr", "0", "above 0"),
        ("lr", "-1", "above 0"),
        ("lr", ".inf", "not a number"),
        ("lr", "nan", "not a number"),
        ("lr", "1e999", "not finite"),
        ("lr", "1e305", "size is out of range"),
        ("lr", "1,5", "write 1.5, or [1,5] for two values"),
        ("lr", "1_000", "not a number"),
        ("lr", "1e-3\n", "has characters that are not plain digits: write 1e-3"),
        ("lr", "١", "has characters that are not plain digits: write 1"),
        ("depth", "4.5", "not a whole number"),
        ("depth", "true", "not a number"),
        ("depth", "-2", "at least 0"),
        ("depth", "9" * 301, "size is out of range"),
        ("depth", "9" * 500, "too long"),
        ("warmup", "0.1", "not a whole number"),
        ("warmup", "1:30", "base-60"),
        ("seed", "0777", "octal"),
        ("seed", "08", "without the 0"),
        ("seed", "18446744073709551616", "at most 9223372036854775807"),
        ("residual", "maybe", "neither true nor false"),
        ("norm", "rmsnorm", "did you mean rms?"),
        ("norm", "layernorm", "did you mean ln?"),
        ("norm", "Layer-Norm", "did you mean ln?"),
        ("norm", "batch_norm", "did you mean bn?"),
        ("norm", "BatchNorm1d", "did you mean bn?"),
        ("final_norm", "layernorm", "did you mean ln?"),
        ("qk_norm", "l2-norm", "did you mean l2?"),
        ("position", "prenorm", "did you mean pre?"),
        ("optimizer", "null", "not one of adam, adamw, sgd"),
        ("beta1", "1", "below 1"),
    ],
)
def test_a_wrong_text_is_told_from_a_right_one(name: str, text: str, words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        KEYS[name].parse(text)


@pytest.mark.parametrize(
    ("name", "value"),
    [("depth", True), ("depth", "8"), ("lr", None), ("lr", math.nan), ("lr", math.inf), ("lr", 10**400), ("norm", 1)],
)
def test_a_wrong_python_value_is_a_value_error(name: str, value: object) -> None:
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
def test_a_numpy_scalar_is_the_python_value_that_is_equal_to_it(name: str, value: Any, plain: Value) -> None:
    checked = KEYS[name].check(value)
    assert checked == plain
    assert type(checked) is KEYS[name].kind


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("depth", np.bool_(True), "True is not a number"),
        ("depth", np.float32(2.5), "2.5 is not a whole number"),
        ("depth", np.str_("2"), "is not a number"),
        ("depth", np.array([2]), "array([2]) is not a number"),
        ("lr", np.float32("inf"), "inf is not finite"),
        ("lr", np.datetime64("2026-01-01"), "is not a number"),
        ("lr", np.longdouble(1) + np.finfo(np.longdouble).eps, "has more digits than a float holds"),
        ("residual", np.int64(1), "1 is neither true nor false"),
        ("norm", np.int64(1), "1 is not one of"),
        ("norm", np.str_("rmsnorm"), "did you mean rms?"),
    ],
)
def test_a_numpy_scalar_of_another_kind_is_refused(name: str, value: Any, words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        KEYS[name].check(value)


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("lr", "1e\u22123", "has a typographic minus: write 1e-3"),
        ("lr", "1e\u20133", "has a typographic minus: write 1e-3"),
        ("lr", "\u22121", "has a typographic minus: write -1"),
        ("seed", "\u20115", "has a typographic minus: write -5"),
        ("lr", "0,5", "'0,5' has a decimal comma: write 0.5, or [0,5] for two values"),
        ("lr", "1,5e-3", "has a decimal comma: write 1.5e-3"),
        ("lr", "1,5e\u22123", "has a decimal comma: write 1.5e-3"),
        ("lr", "\uff11e-3", "has characters that are not plain digits: write 1e-3"),
        ("depth", "\u0663", "has characters that are not plain digits: write 3"),
        ("lr", "1e-3\u00a0", "has characters that are not plain digits: write 1e-3"),
        ("lr", "one\u2212third", "is not a number"),
    ],
)
def test_a_number_in_look_alike_characters_is_told_in_plain_ones(name: str, text: str, words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        KEYS[name].parse(text)


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


def test_a_bound_that_is_only_a_guard_is_told_where_it_is_passed() -> None:
    assert KEYS["steps"].limits() == "a whole number at least 1"
    assert KEYS["seed"].limits() == "a whole number at least 0"
    assert KEYS["depth"].limits() == "a whole number at least 0 and at most 10000"
    with pytest.raises(ValueError, match="at least 1 and at most 1000000000"):
        KEYS["steps"].parse("1000000001")
    with pytest.raises(ValueError, match=r"a whole number at least 1$"):
        KEYS["steps"].parse("0")
