"""What peers through torch share: its stream, and times of CUDA graphs of its launches."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

from autoq.measure.cuda_graph_timing import CudaGraphTimer
from autoq.measure.job import Timing
from autoq.runtime.cuda.driver import Stream

WARM_UP = 3


class TorchWork:
    """torch, and the stream on which it works."""

    def __init__(self) -> None:
        import torch

        self.torch = torch
        self.stream = torch.cuda.Stream()
        self.version = f"torch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}"

    def warmed_up(self, work: Callable[[], Any]) -> Any:
        """What some work gives when it has been done a few times, on the present stream."""
        for _ in range(WARM_UP):
            y = work()
        return y

    def median_seconds(self, work: Callable[[], Any], timing: Timing) -> float:
        """Median of one launch of some work, which launches on `stream`."""
        self.stream.synchronize()
        stream = Stream.external(self.stream.cuda_stream)
        timer = CudaGraphTimer(stream, lambda number: self._capture(work, number))
        return statistics.median(timer.timings(timing))

    def _capture(self, work: Callable[[], Any], number: int) -> Callable[[], None]:
        graph = self.torch.cuda.CUDAGraph()
        with self.torch.cuda.graph(graph, stream=self.stream):
            for _ in range(number):
                work()
        return graph.replay
