"""Chooses among the records of a model's kernels by what the whole network takes on this GPU.

    python scripts/bench/choose_in_network.py bert.onnx --records tuned.jsonl --output best.jsonl

A kernel that is timed alone finds its weights in the L2 and the whole device idle. In a network its
weights come from memory, and its blocks start beside the last ones of the kernel in front of it. So
the fastest records of a workload take turns in the model's CUDA graph, in the place of all kernels
of that workload, and the one with which the graph is fastest stays. The records come from `autoq
tune` or `scripts/remeasure.py`, which check every output element; those chosen are written
as they are, one a workload.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from autoq import compile, frontend, graph
from autoq.compilation.compiler import compile_all
from autoq.compilation.layout_times import LayoutTimes
from autoq.compilation.selection import TemplateSelection, select
from autoq.devices import Host, require_device, resolve
from autoq.graph.ir import Layer
from autoq.graph.lowering.layouts import choose_layouts
from autoq.measure.job import REGISTRY, load_registry
from autoq.records.database import Database
from autoq.records.journal import Journal
from autoq.records.lookup import Choice, choices
from autoq.runtime.artifact import Artifact, read_artifact
from autoq.runtime.cuda.driver import Event, Memory, Stream
from autoq.runtime.cuda.executor import CudaExecutor
from autoq.runtime.cuda.graph import CudaGraph, begin_capture, end_capture
from autoq.runtime.cuda.kernel import BoundKernel, LoadedKernel
from autoq.runtime.kernel import Kernel
from autoq.runtime.plan import Slot
from autoq.templates.workload import Workload

ROUNDS, REPLAYS = 7, 7
LEAST_GAIN = 1e-3
"""Share of the graph's time that a record must save to take another one's place: the noise."""


class Network:
    """A compiled model whose kernels can be replaced, and the time of its graph."""

    def __init__(self, artifact: Artifact) -> None:
        self._executor = CudaExecutor(artifact)
        self._calls = artifact.plan.calls
        self._stream, self._start, self._stop = Stream(), Event(), Event()
        self.kernels: list[BoundKernel] = list(self._executor._bound)
        self.memory: list[Memory] = []

    def _address(self, slot: Slot) -> int:
        return self._executor._address(slot)

    def placed(
        self, kernel: Kernel, constants: dict[int, tuple[np.ndarray, ...]]
    ) -> tuple[dict[int, BoundKernel], list[Memory]]:
        """The kernel in the place of calls, each with constants of its own, and their memory."""
        loaded, bound, kept = LoadedKernel(kernel), {}, []
        for index, arrays in constants.items():
            call = self._calls[index]
            held = [Memory(array.nbytes) for array in arrays]
            for memory, array in zip(held, arrays, strict=True):
                memory.write(np.ascontiguousarray(array))
            spaces = loaded.new_workspaces()
            given = [slot for slot in call.arguments if slot.space != "constant"]
            bound[index] = loaded.bind([
                *map(self._address, given), *(memory.address for memory in held),
                *map(self._address, call.outputs), *(memory.address for memory in spaces),
            ])  # fmt: skip
            kept += [*held, *spaces]
        return bound, kept

    def graph(self, placed: dict[int, BoundKernel]) -> CudaGraph:
        """The network with some kernels replaced, launches overlapping as in a session."""
        stream = Stream()

        def work() -> None:
            for index, kernel in enumerate(self.kernels):
                placed.get(index, kernel).launch(stream, overlapped=True)

        work()
        stream.synchronize()
        begin_capture(stream)
        work()
        return end_capture(stream)

    def _seconds(self, one: CudaGraph) -> float:
        self._start.record(self._stream)
        one.replay(self._stream)
        self._stop.record(self._stream)
        return self._stop.seconds_since(self._start)

    def turns(self, graphs: Sequence[CudaGraph]) -> list[float]:
        """Median seconds of each graph, which take turns."""
        samples: list[list[float]] = [[] for _ in graphs]
        for _ in range(ROUNDS):
            for taken, one in zip(samples, graphs, strict=True):
                self._seconds(one)
                taken.append(statistics.median(self._seconds(one) for _ in range(REPLAYS)))
        return [statistics.median(taken) for taken in samples]


@dataclass(frozen=True)
class Contest:
    """The layers of one workload by their place in the plan, and the records they may run on."""

    workload: Workload
    layers: dict[int, TemplateSelection]
    choices: list[Choice]

    @property
    def selections(self) -> list[TemplateSelection]:
        """A kernel for each record."""
        (first, *_) = self.layers.values()
        return [
            replace(first, source=choice.found.source, chosen=choice.template, config=choice.config)
            for choice in self.choices
        ]

    def constants(self, choice: Choice) -> dict[int, tuple[np.ndarray, ...]]:
        """What the layers hold, packed as a record's kernel reads it."""
        return {
            index: choice.template.constants(self.workload, choice.config, layer.node.constants)
            for index, layer in self.layers.items()
        }


def contests(model: Path, host: Host, database: Database, most: int) -> Iterator[Contest]:
    """Each workload of which there are several records; the first is what `compile` takes."""
    templates = list(load_registry(REGISTRY).values())
    plain = graph.optimise(frontend.load(model, None), host.target, templates)
    lowered = choose_layouts(plain, LayoutTimes(host, database, templates))
    layers: dict[Workload, dict[int, TemplateSelection]] = {}
    for index, node in enumerate(lowered.nodes):
        chosen = select(node, host, database, templates) if isinstance(node, Layer) else None
        if isinstance(chosen, TemplateSelection):
            layers.setdefault(chosen.node.workload, {})[index] = chosen
    for workload, own in layers.items():
        found = choices(database, workload, host.target, templates, host.device)
        some = [choice for choice in found if not choice.found.shipped]
        if some:
            yield Contest(workload, own, some[:most])


def settle(network: Network, contest: Contest, kernels: Sequence[Kernel]) -> Choice:
    """Put the record into the network with which it is fastest; the memory stays with it."""
    places = [
        network.placed(kernel, contest.constants(choice))
        for kernel, choice in zip(kernels, contest.choices, strict=True)
    ]
    taken = network.turns([network.graph(bound) for bound, _ in places])
    best = min(range(len(taken)), key=taken.__getitem__)
    if taken[0] - taken[best] < LEAST_GAIN * taken[0]:
        best = 0
    bound, kept = places[best]
    network.memory.extend(kept)
    for index, kernel in bound.items():
        network.kernels[index] = kernel
    times = " ".join(f"{seconds * 1e6:.1f}" for seconds in taken)
    print(f"{contest.workload} x{len(bound)}: record {best} of {times}", flush=True)
    return contest.choices[best]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--records", type=Path, action="append", required=True)
    parser.add_argument("--most", type=int, default=6, help="records of a workload that are tried")
    parser.add_argument("--cache", type=Path, help="folder of compiled kernels")
    parser.add_argument("--jobs", type=int, default=8, help="kernels compiled at once")
    parser.add_argument("--output", type=Path, required=True, help="record file to append to")
    options = parser.parse_args()
    host = resolve("cuda")
    require_device(host)
    database = Database.load(options.records, shipped=True)
    found = list(contests(options.model, host, database, options.most))
    flat = itertools.chain.from_iterable(contest.selections for contest in found)
    kernels = compile_all(list(flat), options.cache, options.jobs)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "network.tar"
        compile(options.model, target=host, output=path, tuning_records=options.records,
                cache_dir=options.cache)  # fmt: skip
        network = Network(read_artifact(path))
    before = network.turns([network.graph({})])[0]
    journal = Journal(options.output)
    for contest in found:
        own = [kernels[selection.key] for selection in contest.selections]
        journal.append([settle(network, contest, own).found.record])
    after = network.turns([network.graph({})])[0]
    print(f"{options.model.name}: {before * 1e6:.1f} us, with what was chosen {after * 1e6:.1f} us")


if __name__ == "__main__":
    main()
