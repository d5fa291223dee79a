"""The short forms of curves and layers restore every digit and refuse other text."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from packs import plain

from normexp.records.record import CurveRow, SignalRow
from normexp.storage import codec, compact

NUMBERS = st.floats() | st.floats(width=32) | st.integers(-3, 3).map(float)
CURVES = st.lists(
    st.builds(
        CurveRow,
        step=st.integers(0, 9) | st.integers(0, 10**9),
        lr=st.none() | st.sampled_from([1e-3, 3e-4]) | NUMBERS,
        train_loss=st.none() | NUMBERS,
        grad_norm=st.none() | NUMBERS,
        val_loss=st.none() | NUMBERS,
    ),
    max_size=12,
)
SIGNALS = st.lists(
    st.builds(
        SignalRow,
        step=st.integers(0, 10**6),
        layer=st.integers(0, 99),
        part=st.sampled_from(["stream", "mixer", "1.5s"]),
        quantity=st.sampled_from(["rms", "grad_norm", "leak"]),
        value=NUMBERS,
    ),
    max_size=12,
)


@given(CURVES)
@settings(deadline=None)
def test_curves_come_back_to_the_last_digit(rows: list[CurveRow]) -> None:
    text = compact.to_curve(compact.from_curve(codec.curve_to_csv(rows)))
    assert plain(codec.curve_from_csv(text)) == plain(rows)
    assert codec.curve_to_csv(codec.curve_from_csv(text)) == text


@given(SIGNALS)
@settings(deadline=None)
def test_layers_come_back_to_the_last_digit(rows: list[SignalRow]) -> None:
    text = compact.to_layers(compact.from_layers(codec.signal_to_csv(rows)))
    assert plain(codec.signal_from_csv(text)) == plain(rows)
    assert codec.signal_to_csv(codec.signal_from_csv(text)) == text


def test_single_precision_takes_few_digits() -> None:
    row = CurveRow(step=1, lr=1e-3, train_loss=4.311762809753418, grad_norm=0.9572846484316849, val_loss=None)
    other = replace(row, step=2, train_loss=4.3117628)
    short = compact.from_curve(codec.curve_to_csv([row, other]))
    assert short.splitlines()[1:] == ["1,0.001,4.311763s,,", ",,4.3117628,,"]


HEADER = "step,lr,train_loss,grad_norm,val_loss\n"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", 1),
        ("step\n", 1),
        (f"{HEADER},0.1,1.0,,\n", 2),
        (f"{HEADER}1,0.1,1.0,\n", 2),
        (f"{HEADER}1,0.1,1.0,,", 2),
    ],
)
def test_invalid_curves_are_refused_with_their_line(text: str, line: int) -> None:
    with pytest.raises(ValueError, match=f"line {line} "):
        compact.to_curve(text)
