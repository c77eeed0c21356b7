"""Joins comparisons that `autoq compare-search` made of single spaces: JSON, table and picture."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from autoq.replaying.plot import draw
from autoq.replaying.report import joined, table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", type=Path, nargs="+", help="JSON files of comparisons")
    parser.add_argument("-o", "--output", type=Path, required=True, help="name without suffix")
    options = parser.parse_args()
    data = joined([json.loads(path.read_text()) for path in options.parts])
    options.output.with_suffix(".json").write_text(json.dumps(data) + "\n")
    draw(data, options.output.with_suffix(".png"))
    print(table(data))


if __name__ == "__main__":
    main()
