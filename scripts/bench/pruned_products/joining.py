"""How rows of a run join those that a result file holds from earlier ones."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from autoq.errors import ConfigError
from autoq.templates.registry import matching
from autoq.templates.target import Target
from autoq.templates.workload import Workload

Row = Mapping[str, Any]


def timed_thing(row: Row) -> tuple[Any, ...]:
    """What a row is of: a case with a library, or with a template's configuration."""
    config = json.dumps(row.get("config"), sort_keys=True)
    return row["case"], row.get("peer"), row.get("template"), config, row.get("dense", False)


def joined(rows: Iterable[Row], row: Row) -> list[Row]:
    """The rows without an earlier one of the same thing, and the new one behind them."""
    thing = timed_thing(row)
    return [*(one for one in rows if timed_thing(one) != thing), row]


def of_today(
    rows: Iterable[Row], case: str, workload: Workload, targets: Iterable[Target]
) -> list[Row]:
    """The rows without those of a case whose configurations its templates no longer have.

    targets: what the case may have been compiled for. Rows of libraries, of dense kernels, whose
    workload is another one, and rows that name no template stay.
    """
    spaces = {
        one.name: one.space(workload, target)
        for target in targets
        for one in matching(workload, target)
    }

    def there(row: Row) -> bool:
        if row["case"] != case or "template" not in row or row.get("dense", False):
            return True
        space = spaces.get(row["template"])
        try:
            return space is not None and bool(space.from_dict(row["config"]))
        except ConfigError:
            return False

    return [row for row in rows if there(row)]
