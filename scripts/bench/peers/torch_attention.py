"""torch's scaled_dot_product_attention by each of its fused kernels, always of 16-bit floats."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from autoq.errors import LibraryError
from autoq.libraries.ranking import PeerTime
from autoq.measure.job import Timing
from autoq.templates.operators.attention import Attention
from peers.torch_work import TorchWork

BACKENDS = ("CUDNN_ATTENTION", "FLASH_ATTENTION", "EFFICIENT_ATTENTION")
# Of the output's root mean square, compared with torch's own arithmetic in float32.
_ALLOWED_ERROR = {"float16": 0.02, "bfloat16": 0.15}


class TorchAttention:
    """Attention of the same shapes, orders and mask; of bytes in float16, which is all there is."""

    def __init__(self) -> None:
        self._work = TorchWork()
        self.version = self._work.version

    def supports(self, work: Attention) -> bool:
        return True

    def prepare(self, works: Sequence[Attention]) -> None:
        """Nothing: torch plans when it first sees a shape, on the device."""

    def measure(self, work: Attention, timing: Timing) -> PeerTime:
        """The fastest of the backends; raises LibraryError where none is right."""
        if timing.cold:
            raise LibraryError("torch's attention is timed with its operands in the cache alone")
        found, refusal = {}, ""
        for name in BACKENDS:
            try:
                found[name] = self._backend(work, name, timing)
            except (LibraryError, RuntimeError) as failure:  # torch's root of CUDA errors
                refusal = str(failure)
        if not found:
            raise LibraryError(refusal)
        best = min(found, key=lambda name: found[name][0])
        others = {name: seconds for name, (seconds, _) in found.items() if name != best}
        note = "" if work.floating else ", in float16"
        return PeerTime(found[best][0], best + note, len(found), found[best][1], others)

    def _backend(self, work: Attention, name: str, timing: Timing) -> tuple[float, float]:
        """Median seconds and largest error of one backend."""
        torch = self._work.torch
        from torch.nn.attention import SDPBackend, sdpa_kernel

        kind = work.q_dtype if work.floating else "float16"
        backend = sdpa_kernel(getattr(SDPBackend, name))
        with torch.inference_mode(), torch.cuda.stream(self._work.stream), backend:
            operands = self._operands(work, kind)

            def attend() -> Any:
                return torch.nn.functional.scaled_dot_product_attention(
                    *operands, is_causal=work.causal
                )

            y = self._work.warmed_up(attend)
            error = self._error(y, work, operands)
            if error > _ALLOWED_ERROR[kind]:
                raise LibraryError(f"{name} is wrong by {error:.3f}")
            return self._work.median_seconds(attend, timing), error

    def _operands(self, work: Attention, kind: str) -> list[Any]:
        """Normal q, k and v [batch, heads, rows, depth] in their orders, and the mask or None."""
        torch = self._work.torch
        generator = torch.Generator("cuda").manual_seed(0)

        def normal(*shape: int) -> Any:
            dtype = getattr(torch, kind)
            return torch.randn(*shape, generator=generator, device="cuda", dtype=dtype)

        arrays = []
        for name, rows in (("q", work.queries), ("k", work.keys), ("v", work.keys)):
            order = getattr(work, f"{name}_order")
            array = normal(*work.shape_in(order, rows))
            arrays.append(array.transpose(1, 2) if order == "blhd" else array)
        mask = normal(*work.mask_shape) if work.mask_axes else None
        whole = (work.batch, work.heads, work.queries, work.keys)
        return [*arrays, None if mask is None else mask.expand(whole)]

    def _error(self, y: Any, work: Attention, operands: Sequence[Any]) -> float:
        """Largest error of the first pair, computed again in float32 step by step."""
        torch = self._work.torch
        q, k, v, mask = (None if one is None else one[0, 0].float() for one in operands)
        scores = q @ k.T * work.depth**-0.5
        if mask is not None:
            scores = scores + mask
        if work.causal:
            hidden = torch.ones_like(scores, dtype=torch.bool).triu(1)
            scores = scores.masked_fill(hidden, float("-inf"))
        expected = scores.softmax(-1) @ v
        return float((y[0, 0].float() - expected).abs().max() / expected.square().mean().sqrt())
