"""torch's attention beside attention under sparse masks: dense, masked, and FlexAttention."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from autoq.errors import LibraryError
from autoq.measure.job import Timing
from autoq.templates.operators.sparse_attention import SparseAttention
from autoq.templates.workload import Constants
from peers.torch_work import TorchWork

_ALLOWED_ERROR = 0.02
_FLEX_BLOCK = 128
PEERS = ("cudnn", "flash", "masked", "flex")
"""cudnn and flash: dense. masked: torch's ordinary attention with the mask, by the kernel that it
takes. flex: FlexAttention, which skips blocks of 128 x 128 that the mask leaves empty."""


class TorchMasked:
    """torch's attention of the shapes of a workload, in its type."""

    def __init__(self, work: SparseAttention, constants: Constants) -> None:
        self._work = TorchWork()
        torch = self._work.torch
        generator = torch.Generator("cuda").manual_seed(0)
        kind = getattr(torch, work.dtype)
        shapes = [spec.shape for spec in work.inputs]
        self._qkv = [
            torch.randn(*shape, generator=generator, device="cuda", dtype=kind) for shape in shapes
        ]
        self._mask = torch.from_numpy(work.mask(constants).to_dense() != 0).cuda()
        self._depth = work.depth

    def seconds(self, name: str, timing: Timing) -> float:
        """Median of one of PEERS; raises LibraryError where it is wrong, and what torch raises."""
        torch = self._work.torch
        with torch.inference_mode(), torch.cuda.stream(self._work.stream):
            attend = getattr(self, f"_{name}")()
            y = self._work.warmed_up(attend)
            error = self._error(y, masked=name in ("masked", "flex"))
            if error > _ALLOWED_ERROR:
                raise LibraryError(f"{name} is wrong by {error:.3f}")
            return self._work.median_seconds(attend, timing)

    def _with_backend(self, names: tuple[str, ...], mask: Any = None) -> Callable[[], Any]:
        from torch.nn.attention import SDPBackend, sdpa_kernel

        backends = [getattr(SDPBackend, name) for name in names]

        def attend() -> Any:
            with sdpa_kernel(backends):
                return self._work.torch.nn.functional.scaled_dot_product_attention(
                    *self._qkv, attn_mask=mask
                )

        return attend

    def _cudnn(self) -> Callable[[], Any]:
        return self._with_backend(("CUDNN_ATTENTION",))

    def _flash(self) -> Callable[[], Any]:
        return self._with_backend(("FLASH_ATTENTION",))

    def _masked(self) -> Callable[[], Any]:
        return self._with_backend(("CUDNN_ATTENTION", "EFFICIENT_ATTENTION"), self._mask)

    def _flex(self) -> Callable[[], Any]:
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention

        mask = self._mask

        def kept(batch: Any, head: Any, query: Any, key: Any) -> Any:
            return mask[query, key]

        blocks = create_block_mask(
            kept, None, None, *mask.shape, device="cuda", BLOCK_SIZE=_FLEX_BLOCK
        )
        compiled = self._work.torch.compile(flex_attention, dynamic=False)
        return lambda: compiled(*self._qkv, block_mask=blocks)

    def _error(self, y: Any, masked: bool) -> float:
        """Largest error of the first pair, computed again in float32 step by step."""
        q, k, v = (array[0, 0].float() for array in self._qkv)
        scores = q @ k.T * self._depth**-0.5
        if masked:
            scores = scores.masked_fill(~self._mask, float("-inf"))
        expected = scores.softmax(-1) @ v
        return float((y[0, 0].float() - expected).abs().max() / expected.square().mean().sqrt())
