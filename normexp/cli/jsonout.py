"""JSON on standard output, for scripts."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from typing import Any


def show_json(data: Mapping[str, Any]) -> None:
    """Print one strict JSON object in ASCII, whatever the locale; a non-finite number is null beside its `_kind`."""
    from normexp.results.codec import to_json

    sys.stdout.write(re.sub(r"[^\x00-\x7f]", lambda found: json.dumps(found[0])[1:-1], to_json(data)))
