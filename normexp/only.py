"""What `--only key=value` asks for: some of a sweep's points, by their labels and the values of their keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from normexp.config.yamlfile import nearest
from normexp.errors import UserError
from normexp.keys import Value, with_point
from normexp.labels import Labels
from normexp.plan import LABEL
from normexp.run import KEYS


def parse(texts: Sequence[str]) -> dict[str, list[Value]]:
    """Each key's values, from `key=value` or `key=value,value`. Raises UserError, all complaints at once."""
    found: dict[str, list[Value]] = {}
    complaints = []
    for text in texts:
        key, equals, values = text.partition("=")
        if not equals or not values:
            complaints.append(f"only {text}: write key=value")
        elif key == LABEL:
            found.setdefault(key, []).append(values)
        elif key not in KEYS:
            complaints.append(f"only {text}: {key} is no key: {nearest(key, [LABEL, *KEYS])}")
        else:
            try:
                found.setdefault(key, []).extend([KEYS[key].parse(value) for value in values.split(",")])
            except ValueError as fault:
                decimal = with_point(values)
                hint = f"; {values} is two values: for a decimal write {key}={decimal}" if decimal else ""
                complaints.append(f"only {text}: {fault}{hint}")
    if complaints:
        raise UserError(*complaints)
    return found


def as_labelled(wanted: Mapping[str, Sequence[Value]], labels: Labels) -> dict[str, list[Value]]:
    """The values that were asked for, each a value itself or the label that tables print for one."""
    return {key: [one for value in values for one in labels.matching(key, value)] for key, values in wanted.items()}
