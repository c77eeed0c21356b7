"""Results of many rows as JSON with a row a line."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any


def text_of(result: Mapping[str, Any]) -> str:
    """A result as JSON: what it holds besides is spread out, each of its `rows` is a line."""
    rows = ",\n ".join(json.dumps(rounded(row), separators=(",", ":")) for row in result["rows"])
    head = json.dumps({**result, "rows": []}, indent=1).removesuffix("[]\n}")
    return f"{head}[\n {rows}\n]}}\n"


def rounded(value: Any) -> Any:
    """What a row holds, with six digits of every float."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, Mapping):
        return {key: rounded(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [rounded(item) for item in value]
    return value
