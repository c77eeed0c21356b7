"""cuDNN's float16 convolutions through torch, which benchmarks its plans for each shape."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from autoq.errors import LibraryError
from autoq.libraries.ranking import PeerTime
from autoq.measure.job import Timing
from autoq.templates.operators.conv2d import Conv2d
from peers.layer import Layer
from peers.torch_work import TorchWork

# Of the output's root mean square: float16 holds 11 bits, and a plan may be a Winograd transform.
_ALLOWED_ERROR = 0.02


class TorchFp16:
    """`conv2d` over channels_last halves; with a residual, cuDNN's fused addition and ReLU."""

    def __init__(self) -> None:
        self._work = TorchWork()
        self.version = self._work.version
        cudnn = self._work.torch.backends.cudnn
        cudnn.benchmark = True
        cudnn.benchmark_limit = 0  # try every plan
        cudnn.allow_tf32 = False

    def supports(self, layer: Layer) -> bool:
        return True

    def prepare(self, layers: Sequence[Layer]) -> None:
        """Nothing: torch plans when it first sees a shape, on the device."""

    def measure(self, layer: Layer, timing: Timing) -> PeerTime:
        found = {}
        refusal = ""
        for name, workload in layer.forms:
            try:
                found[name] = self._form(workload, timing)
            except RuntimeError as failure:  # torch's root of CUDA and cuDNN errors
                refusal = str(failure)
        if not found:
            raise LibraryError(refusal)
        best = min(found, key=lambda name: found[name][0])
        others = {name: seconds for name, (seconds, _) in found.items() if name != best}
        seconds, error = found[best]
        what = ", ".join(filter(None, (best, "the plan that torch chose")))
        return PeerTime(seconds, what, len(found), error, others)

    def _form(self, workload: Conv2d, timing: Timing) -> tuple[float, float]:
        """Median seconds and largest error of one form; raises LibraryError when it is wrong."""
        torch = self._work.torch
        with torch.inference_mode(), torch.cuda.stream(self._work.stream):
            operands = self._operands(workload)
            convolve = self._convolution(workload, *operands)
            y = self._work.warmed_up(convolve)
            error = self._error(y, workload, *operands)
            if error > _ALLOWED_ERROR:
                raise LibraryError(
                    f"torch is wrong by {error:.3f} of the output's root mean square"
                )
            del y
            return self._work.median_seconds(convolve, timing), error

    def _operands(self, workload: Conv2d) -> tuple[Any, Any, Any]:
        """Normal activations, weights that keep the output's variance near 1, and the residual."""
        torch = self._work.torch
        generator = torch.Generator("cuda").manual_seed(0)

        def normal(n: int, h: int, w: int, c: int) -> Any:
            values = torch.randn(n, h, w, c, generator=generator, device="cuda", dtype=torch.half)
            return values.permute(0, 3, 1, 2)

        depth = math.prod(workload.weight_shape[1:])
        weight = normal(*workload.weight_shape) * depth**-0.5
        residual = normal(*workload.y_shape) if workload.epilogue.residual_dtype else None
        return normal(*workload.x_shape), weight, residual

    def _convolution(
        self, workload: Conv2d, x: Any, weight: Any, residual: Any
    ) -> Callable[[], Any]:
        torch, stride, dilation = self._work.torch, workload.stride, workload.dilation
        groups = workload.groups
        padding = workload.padding[:2]
        if workload.padding[2:] != padding:
            raise LibraryError("torch has no convolution with unequal padding")
        if residual is None:
            return lambda: torch.nn.functional.conv2d(
                x, weight, None, stride, padding, dilation, groups
            )
        zeros = torch.zeros(workload.k, device="cuda", dtype=torch.half)
        return lambda: torch.cudnn_convolution_add_relu(
            x, weight, residual, 1.0, zeros, stride, padding, dilation, groups
        )

    def _error(self, y: Any, workload: Conv2d, x: Any, weight: Any, residual: Any) -> float:
        """Largest error of the first and last image, computed again in float64."""
        ends = [0, -1]
        expected = self._work.torch.nn.functional.conv2d(
            x[ends].double(),
            weight.double(),
            None,
            workload.stride,
            workload.padding[:2],
            workload.dilation,
            workload.groups,
        )
        if residual is not None:
            expected = (expected + residual[ends].double()).relu()
        root_mean_square = expected.square().mean().sqrt()
        return float((y[ends] - expected).abs().max() / root_mean_square)
