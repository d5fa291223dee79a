from normexp.terminal import models


def cells(table, name: str) -> tuple[str, ...]:
    return next(row for row in table.rows if row[0] == name)


def test_constants_are_those_of_the_depth() -> None:
    table = models.schemes(20)
    assert cells(table, "deepnorm")[4] == "skip 2.515, gain 0.2812 on v out fc1 fc2"
    assert cells(table, "lns")[4] == "branch_in 1 to 0.2236"
    assert cells(table, "rezero")[2:5] == ("none", "no", "branch_out 0 (learned)")
    assert cells(table, "b2t")[4] == "bottom 1"
    assert cells(table, "hybrid")[2] == "qkv, after"
    assert cells(table, "pre")[3:5] == ("yes", "none")
    assert cells(models.schemes(1), "residual_scaled")[4] == "branch_out 0.7071"


def test_batch_norm_is_marked() -> None:
    assert [row[0] for row in models.norms().rows if row[2] == "no"] == ["bn"]
