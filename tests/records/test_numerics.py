import pytest

from normexp.config.run import RunConfig
from normexp.records.numerics import numerics
from normexp.records.record import RunRecord, Status


@pytest.mark.parametrize(
    ("keys", "number"),
    [
        ({}, 4),
        ({"norm": "none"}, 4),
        ({"mixer": "mean"}, 3),
        ({"mixer": "linear", "norm": "rms"}, 3),
        ({"dtype": "bfloat16"}, 1),
        ({"dtype": "bfloat16", "norm": "none"}, 1),
        ({"dtype": "bfloat16", "norm": "rms"}, 2),
        ({"dtype": "bfloat16", "final_norm": "rms"}, 2),
        ({"dtype": "bfloat16", "qk_norm": "rms"}, 2),
        ({"dtype": "bfloat16", "qk_norm": "rms", "mixer": "mean"}, 1),
        ({"dtype": "bfloat16", "norm": "rms", "position": "rezero"}, 1),
    ],
)
def test_only_runs_affected_by_a_change_are_outdated(keys: dict[str, str], number: int) -> None:
    config = RunConfig(**keys)  # type: ignore[arg-type]
    assert numerics(config) == number
    assert RunRecord(config=config, status=Status.FAILED).numerics == number
    assert not RunRecord(config=config, status=Status.FAILED).outdated
    assert RunRecord(config=config, status=Status.FAILED, numerics=1).outdated == (number > 1)
