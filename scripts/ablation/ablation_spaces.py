"""Makes recorded spaces of the ablation's trials: an archive of record files -> tuning_logs/spaces.

The trials of all bars of a convolution are trials of one template, conv2d_mma_sync, whose knobs
each bar restricts; those in the layout NHWCnc are of another workload. They are what searches asked
for, not a uniform sample of the space.
"""

from __future__ import annotations

import argparse
import dataclasses
import tarfile
from collections import defaultdict
from pathlib import Path

from autoq.recording.naming import file_name
from autoq.records.lines import parse_records
from autoq.records.record import Record
from autoq.records.recorded_space import SUFFIX, of_records, write_space


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("archive", type=Path, help="tar of record files")
    parser.add_argument("-o", "--output", type=Path, required=True, help="folder of spaces")
    options = parser.parse_args()
    by_workload: dict[str, list[Record]] = defaultdict(list)
    with tarfile.open(options.archive) as archive:
        for member in sorted(archive.getmembers(), key=lambda one: one.name):
            file = archive.extractfile(member)
            if file is not None and member.name.endswith(".jsonl"):
                for record in parse_records(member.name, file.read()).records:
                    base = record.template.partition(".")[0]
                    named = dataclasses.replace(record, template=base)
                    by_workload[record.workload_key].append(named)
    options.output.mkdir(parents=True, exist_ok=True)
    for records in by_workload.values():
        space = of_records(records, {record.identity: "searched" for record in records})
        path = options.output / (file_name(space.workload) + SUFFIX)
        size = write_space(path, space)
        print(f"{path.name}: {len(space.trials)} configurations, {size / 1024:.0f} KiB")


if __name__ == "__main__":
    main()
