"""Hashes the machine code of the best record of every workload, to see what a change touches.

For each workload of the shipped records (or of the given files) the kernel that `autoq compile`
would choose is compiled for the target, which needs no GPU. A line holds a hash of its SASS, symbol
names left out, for each module of a program of several stages; then the template, whether it came
from a record, and the workload's key:

    python scripts/machine_code.py --target cuda:sm_90a --output before.txt

Run it again after a change and compare the files: a line that differs is a kernel that does.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from autoq.compilation.selection import choose
from autoq.devices import Host
from autoq.kernel.elf import text_sections
from autoq.kernel.kernel_store import KernelStore
from autoq.records.database import Database
from autoq.templates.registry import TEMPLATES
from autoq.templates.target import parse_target
from autoq.templates.workload import Workload
from autoq.templates.workload_key import key


def code_hash(elf: bytes) -> str:
    """Hash of the machine code in an ELF file, a cubin or an object: its .text sections alone."""
    digests = (hashlib.sha256(content).digest() for content in sorted(text_sections(elf)))
    return hashlib.sha256(b"".join(digests)).hexdigest()[:16]


def workloads(database: Database, arch: str) -> list[Workload]:
    """The distinct workloads of records of an arch, by their keys."""
    records = (record for lines in database.files for record in lines.records)
    found = {record.workload for record in records if record.device.arch == arch}
    return sorted(found, key=key)


def line_of(workload: Workload, host: Host, database: Database, store: KernelStore) -> str:
    """What is written of a workload."""
    chosen = choose(workload, host, database, TEMPLATES)
    if chosen is None:
        return f"{'no template':16} - - {key(workload)}"
    kernel = store.kernel(chosen.template, workload, chosen.config, host.target)
    source = "record" if Path(chosen.source).suffix else chosen.source
    hashes = "+".join(map(code_hash, kernel.modules))
    return f"{hashes} {chosen.template.name} {source} {key(workload)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("records", type=Path, nargs="*", help="the shipped ones by default")
    parser.add_argument("--target", default="cuda:sm_90a")
    parser.add_argument("--output", type=Path, help="the terminal by default")
    parser.add_argument("--every", type=int, default=1, help="every how many workloads are taken")
    parser.add_argument("--cache", type=Path, help="folder that keeps kernels between runs")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    options = parser.parse_args()
    host = Host(parse_target(options.target), None)
    database = Database.load(options.records, shipped=not options.records)
    store = KernelStore(options.cache)
    taken = workloads(database, host.target.arch)[:: options.every]
    with ThreadPoolExecutor(options.jobs) as pool:
        lines = list(pool.map(lambda one: line_of(one, host, database, store), taken))
    text = "".join(f"{line}\n" for line in lines)
    if options.output is None:
        sys.stdout.write(text)
    else:
        options.output.write_text(text)


if __name__ == "__main__":
    main()
