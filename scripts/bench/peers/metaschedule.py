"""TVM's MetaSchedule with its tensor-core rules, its candidates built and timed as autoq's are.

MetaSchedule's own builder and runner import TVM's tensor intrinsics (10-25 s) in every worker and
time without a CUDA graph; the ones here use autoq's compiler and its timing instead.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

import tvm
import tvm.s_tir.tensor_intrin  # registers what the tensor-core rules name
from tvm.ir.utils import derived_object
from tvm.s_tir import meta_schedule as ms

from autoq.devices import resolve
from autoq.errors import LibraryError
from autoq.libraries.ranking import PeerTime
from autoq.measure.job import Timing
from autoq.process.child import Child, ChildCrash, ChildError, ChildTimeout, Entry
from autoq.process.pool import ChildPool
from autoq.runtime.kernel import CudaKernel
from autoq.scratch import scratch_folder
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.target import Target
from peers.layer import Layer
from peers.metaschedule_children import RunRequest
from peers.metaschedule_workload import convolution, tuning_target

_FAILURES = (ChildCrash, ChildError, ChildTimeout)
_BUILD_SECONDS, _RUN_SECONDS = 120.0, 20.0
# MetaSchedule learns between rounds. Its own 64 trials and population of 512 would make a tuning of
# tens of trials one round that has learnt nothing, after 45 s of search on 16 cores.
_TRIALS_A_ROUND = 16
_POPULATION = 64
_RULES = "cuda-tensorcore"
_SEARCH_TIMING = Timing(repeat=5, min_seconds=5e-4, budget_seconds=0.02)
# How many of the fastest are checked and timed again in full.
_FINALISTS = 3
_ALLOWED_STEPS = 1


class MetaSchedule:
    """Tunes each layer with `trials` candidates when it is measured."""

    def __init__(self, trials: int) -> None:
        self._target = resolve("cuda").target
        self._trials = trials
        self.version = f"TVM {tvm.__version__}, {trials} trials, population {_POPULATION}"

    def supports(self, layer: Layer) -> bool:
        return layer.workload.groups == 1

    def prepare(self, layers: Sequence[Layer]) -> None:
        """Nothing: tuning needs the device for itself."""

    def measure(self, layer: Layer, timing: Timing) -> PeerTime:
        name, workload = layer.forms[-1]  # the one with the most channels, as WMMA wants them
        candidates = _Candidates(workload, self._target)
        try:
            with scratch_folder() as folder:
                self._tune(workload, candidates, str(folder))
            seconds, error = candidates.best(timing)
        finally:
            candidates.close()
        what = ", ".join(filter(None, (name, f"{candidates.timed} of {self._trials} ran")))
        return PeerTime(seconds, what, candidates.timed, float(error))

    def _tune(self, workload: Conv2d, candidates: _Candidates, folder: str) -> None:
        ms.tir_integration.tune_tir(
            tvm.IRModule({"main": convolution(workload)}),
            tuning_target(self._target),
            folder,
            max_trials_global=self._trials,
            num_trials_per_iter=min(self._trials, _TRIALS_A_ROUND),
            builder=_Builder(candidates),
            runner=_Runner(candidates),
            measure_callbacks=[ms.measure_callback.AddToDatabase(),
                               ms.measure_callback.UpdateCostModel()],
            space=ms.space_generator.PostOrderApply(
                sch_rules=_RULES, postprocs=_RULES, mutator_probs=_RULES
            ),
            strategy=ms.search_strategy.EvolutionarySearch(
                population_size=_POPULATION, init_min_unmeasured=_TRIALS_A_ROUND
            ),
            num_tuning_cores=len(os.sched_getaffinity(0)),
            seed=0,
        )  # fmt: skip


class _Candidates:
    """Compiled candidates by number, and the processes that compile and run them.

    Attributes:
        timed: how many candidates ran.
    """

    def __init__(self, workload: Conv2d, target: Target) -> None:
        build = Entry("peers.metaschedule_children", "serve_builds", target)
        run = Entry("peers.metaschedule_children", "serve_runs", workload)
        self._builders = ChildPool(lambda: Child(build), len(os.sched_getaffinity(0)))
        self._runner = ChildPool(lambda: Child(run), 1)
        self._kernels: dict[str, CudaKernel] = {}
        self._times: dict[str, float] = {}

    @property
    def timed(self) -> int:
        return len(self._times)

    def build(self, modules: Sequence[tvm.IRModule]) -> list[str | Exception]:
        """The number of each candidate's kernel, or why it has none."""
        futures = [self._submit(tvm.ir.save_json(module)) for module in modules]
        return [self._keep(future) for future in futures]

    def run(self, number: str) -> float:
        """Median seconds of a built candidate; raises what running it raised."""
        seconds, _ = self._call(RunRequest(self._kernels[number], _SEARCH_TIMING, check=False))
        self._times[number] = seconds
        return seconds

    def best(self, timing: Timing) -> tuple[float, int]:
        """Median seconds and error of the fastest right one; raises LibraryError for none."""
        refusal = "no candidate could be compiled and run"
        found: list[tuple[float, int]] = []
        for number in sorted(self._times, key=self._times.__getitem__):
            if len(found) == _FINALISTS:
                break
            try:
                seconds, error = self._call(RunRequest(self._kernels[number], timing, check=True))
            except _FAILURES as failure:
                refusal = str(failure)
                continue
            if error <= _ALLOWED_STEPS:
                found.append((seconds, error))
            else:
                refusal = f"a candidate is wrong by {error} quantisation steps"
        if not found:
            raise LibraryError(refusal)
        return min(found)

    def close(self) -> None:
        """End the processes."""
        self._builders.close()
        self._runner.close()

    def _submit(self, text: str) -> Future[CudaKernel]:
        return self._builders.submit(lambda child: child.call(text, _BUILD_SECONDS))

    def _keep(self, future: Future[CudaKernel]) -> str | Exception:
        try:
            kernel = future.result()
        except _FAILURES as failure:
            return failure
        number = str(len(self._kernels))
        self._kernels[number] = kernel
        return number

    def _call(self, request: RunRequest) -> tuple[float, int]:
        return self._runner.submit(lambda child: child.call(request, _RUN_SECONDS)).result()


@derived_object
class _Builder(ms.builder.PyBuilder):
    """Compiles with autoq's compiler; an artifact's path is a candidate's number."""

    def __init__(self, candidates: _Candidates) -> None:
        super().__init__()
        self.candidates = candidates

    def build(self, build_inputs: list[Any]) -> list[Any]:
        built = self.candidates.build([item.mod for item in build_inputs])
        return [
            ms.builder.BuilderResult(None, str(item))
            if isinstance(item, Exception)
            else ms.builder.BuilderResult(item, None)
            for item in built
        ]


@derived_object
class _Runner(ms.runner.PyRunner):
    """Times by replays of a CUDA graph."""

    def __init__(self, candidates: _Candidates) -> None:
        super().__init__()
        self.candidates = candidates

    def run(self, runner_inputs: list[Any]) -> list[Any]:
        return [self._timed(item.artifact_path) for item in runner_inputs]

    def _timed(self, number: str) -> Any:
        try:
            result = ms.runner.RunnerResult([self.candidates.run(number)], None)
        except _FAILURES as failure:
            result = ms.runner.RunnerResult(None, str(failure))
        return ms.runner.RunnerFuture(lambda: True, lambda: result)
