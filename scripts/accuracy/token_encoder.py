"""An encoder that classifies sequences of tokens, and its training, in torch.

Attention is a function of q, k and v that is given, so that a trained encoder can be asked again
with another one in its place.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from list_expressions import CLASSES, PADDING, VOCABULARY
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, scaled_dot_product_attention

Attention = Callable[[Tensor, Tensor, Tensor], Tensor]
"""A function of q, k and v, [batch, heads, length, depth], to the like."""

DEPTH = 64


@dataclass(frozen=True)
class Training:
    """How an encoder is trained: steps of batches, the first tenth of them with a rising rate."""

    steps: int
    batch: int = 64
    rate: float = 1e-3
    weight_decay: float = 0.01


class Layer(nn.Module):
    """A layer of an encoder; norms stand in front of what they normalise."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.heads = nn.Linear(width, 3 * width)
        self.output = nn.Linear(width, width)
        self.expand, self.shrink = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor, attend: Attention) -> Tensor:
        batch, length, width = x.shape
        heads = self.heads(self.norm1(x)).view(batch, length, 3, width // DEPTH, DEPTH)
        y = attend(*heads.permute(2, 0, 3, 1, 4))
        x = x + self.output(y.transpose(1, 2).reshape(x.shape))
        return x + self.shrink(nn.functional.gelu(self.expand(self.norm2(x))))


class Encoder(nn.Module):
    """Four layers over tokens and places; the mean over tokens is classified."""

    def __init__(self, length: int, heads: int, layers: int = 4) -> None:
        super().__init__()
        width = heads * DEPTH
        self.tokens = nn.Embedding(VOCABULARY, width)
        self.places = nn.Parameter(torch.randn(length, width) / math.sqrt(width))
        self.layers = nn.ModuleList(Layer(width) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.classes = nn.Linear(width, CLASSES)

    def forward(self, tokens: Tensor, attend: Attention) -> Tensor:
        """Logits [batch, CLASSES] of tokens [batch, length]."""
        x = self.tokens(tokens) + self.places
        for layer in self.layers:
            x = layer(x, attend)
        there = (tokens != PADDING).unsqueeze(2).to(x.dtype)
        mean = (self.norm(x) * there).sum(1) / there.sum(1)
        return self.classes(mean)


def masked(mask: Tensor | None) -> Attention:
    """torch's attention under a mask [length, length], true where a query sees a key."""

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return scaled_dot_product_attention(q, k, v, attn_mask=mask)

    return attend


def train(
    model: Encoder, tokens: Tensor, values: Tensor, mask: Tensor | None, training: Training
) -> float:
    """Train on the GPU in bfloat16, weights in float32; the loss of the last hundredth of steps.

    A step is a CUDA graph: small kernels would wait for their launches.
    """
    rate = torch.zeros((), device=tokens.device)
    optimizer = torch.optim.AdamW(
        model.parameters(), rate, weight_decay=training.weight_decay, fused=True, capturable=True
    )
    own_tokens = tokens[: training.batch].long()
    own_values = values[: training.batch].long()
    loss, attend = torch.zeros((), device=tokens.device), masked(mask)

    def step() -> None:
        # A cache of narrow weights would outlive the graph's capture.
        with torch.autocast("cuda", torch.bfloat16, cache_enabled=False):
            logits = model(own_tokens, attend)
        found = cross_entropy(logits.float(), own_values)
        found.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
        loss.add_(found.detach())

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            step()  # at a rate of 0
    stream.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    last = max(1, training.steps // 100)
    order = torch.randperm(len(tokens), device=tokens.device)
    for number in range(training.steps):
        rate.fill_(rate_of(number, training))
        start = number * training.batch % (len(tokens) - training.batch + 1)
        chosen = order[start : start + training.batch]
        own_tokens.copy_(tokens[chosen])
        own_values.copy_(values[chosen])
        if number == training.steps - last:
            loss.zero_()
        graph.replay()
    return float(loss) / last


def rate_of(step: int, training: Training) -> float:
    """The rate of learning of a step: it rises, then falls as a cosine does."""
    risen = (step + 1) / (training.steps / 10)
    done = step / training.steps
    return training.rate * min(1.0, risen) * 0.5 * (1 + math.cos(math.pi * done))
