"""The encoders of figure 17 in torch: dense in float16, and under a mask in float32 to compare."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from sparse_attention.transformer_cases import DEPTH, LAYERS, Shape

_WARM_UP = 3


class Torch:
    """An encoder in torch on the GPU, with the weights of the ONNX model."""

    def __init__(self, shape: Shape) -> None:
        import torch

        self._shape = shape
        self._weights = {
            name: torch.from_numpy(value.copy()).cuda() for name, value in shape.weights().items()
        }
        self._x = torch.from_numpy(shape.feed()).cuda()

    def _encode(self, x: Any, attend: Callable[[Any, Any, Any], Any]) -> Any:
        """The output; attend maps q, k, v of [batch, heads, length, depth] to the like."""
        from torch.nn import functional

        weights = {name: value.to(x.dtype) for name, value in self._weights.items()}

        def linear(x: Any, name: str) -> Any:
            return functional.linear(x, weights[f"{name}.weight"].T, weights[f"{name}.bias"])

        def norm(x: Any, name: str) -> Any:
            parts = (weights[f"{name}.factor"], weights[f"{name}.offset"])
            return functional.layer_norm(x, x.shape[-1:], *parts)

        for layer in range(LAYERS):
            name = f"layer{layer}"
            heads = [
                linear(x, f"{name}.attention.{kind}")
                .view(*x.shape[:2], self._shape.heads, DEPTH)
                .transpose(1, 2)
                for kind in ("query", "key", "value")
            ]
            y = attend(*heads).transpose(1, 2).reshape(x.shape)
            x = norm(x + linear(y, f"{name}.attention.output"), f"{name}.norm1")
            y = linear(functional.relu(linear(x, f"{name}.expand")), f"{name}.shrink")
            x = norm(x + y, f"{name}.norm2")
        return x

    def masked(self, mask: np.ndarray) -> np.ndarray:
        """What the encoder is under a mask, in float32."""
        import torch

        left_out = ~torch.from_numpy(mask).cuda()

        def attend(q: Any, k: Any, v: Any) -> Any:
            y = torch.empty_like(q)
            for batch, head in itertools.product(range(q.shape[0]), range(q.shape[1])):
                scores = q[batch, head] @ k[batch, head].T / DEPTH**0.5
                y[batch, head] = (
                    scores.masked_fill_(left_out, -torch.inf).softmax(-1) @ v[batch, head]
                )
            return y

        with torch.inference_mode():
            return np.asarray(self._encode(self._x.float(), attend).cpu())

    def dense(self) -> dict[str, Callable[[], Any]]:
        """Replays of the dense encoder, by the name of the attention that it uses."""
        import torch
        from torch.nn.attention import SDPBackend, sdpa_kernel
        from torch.nn.functional import scaled_dot_product_attention as attention

        works: dict[str, Callable[[], Any]] = {}
        backends = {"cudnn": SDPBackend.CUDNN_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION}
        for name, backend in backends.items():
            with torch.inference_mode(), sdpa_kernel(backend):
                with torch.cuda.stream(torch.cuda.Stream()):
                    for _ in range(_WARM_UP):
                        self._encode(self._x, attention)
                torch.cuda.synchronize()
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph):
                    self._encode(self._x, attention)
            works[f"torch_fp16_{name}"] = graph.replay
        return works
