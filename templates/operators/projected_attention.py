"""Attention whose queries, keys and values are products of one activation of bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from autoq.errors import InputError
from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.attention import Attention
from autoq.templates.operators.shared.shared_gemm import SharedGemm
from autoq.templates.target import Target
from autoq.templates.tensor_spec import TensorSpec
from autoq.templates.workload import Arrays, Constants, Tolerance, Workload

_BYTES = ("int8", "uint8")
_RENAMED = {"scalars": "projected_scalars"}
_OWN = {own: name for name, own in _RENAMED.items()}


@dataclass(frozen=True)
class ProjectedAttention(Workload, operator="projected_attention"):
    """`Attention` of the three outputs of a `SharedGemm`: of queries, keys and values, in turn.

    x is `[batch * rows, columns]`, y `[batch, rows, heads, depth]`. The products' outputs are
    `[batch, rows, heads, depth]` of `between_dtype`, rounded as a quantised model rounds them.

    The constants are those of `projection`, whose scalars are `projected_scalars`, and those of
    `attention`. Raises InputError for extents below 1 and types other than bytes.
    """

    batch: int
    heads: int
    rows: int
    depth: int
    columns: int
    in_dtype: str = "uint8"
    weight_dtype: str = "int8"
    between_dtype: str = "uint8"
    out_dtype: str = "uint8"
    quantised_scores: bool = False
    rescaled_scores: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        types = (self.in_dtype, self.weight_dtype, self.between_dtype, self.out_dtype)
        if any(dtype not in _BYTES for dtype in types):
            raise InputError(f"projected attention of {', '.join(types)}: choose int8 or uint8")
        _ = self.projection, self.attention  # they refuse other extents

    @property
    def projection(self) -> SharedGemm:
        """The products of queries, keys and values."""
        return SharedGemm(
            3, self.batch * self.rows, self.heads * self.depth, self.columns,
            self.in_dtype, self.weight_dtype, Epilogue(self.between_dtype),
        )  # fmt: skip

    @property
    def attention(self) -> Attention:
        """What becomes of them."""
        types = (self.between_dtype,) * 3
        return Attention(
            self.batch, self.heads, self.rows, self.rows, self.depth, *types, self.out_dtype,
            *("blhd",) * 4, quantised_scores=self.quantised_scores,
            rescaled_scores=self.rescaled_scores,
        )  # fmt: skip

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        return self.projection.inputs

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        return self.attention.outputs

    @property
    def constants(self) -> tuple[TensorSpec, ...]:
        projected = (
            replace(one, name=_RENAMED.get(one.name, one.name)) for one in self.projection.constants
        )
        return (*projected, *self.attention.constants)

    @property
    def operations(self) -> int:
        return self.projection.operations + self.attention.operations

    @property
    def bytes(self) -> int:
        weight = TensorSpec("weight", (3, self.heads * self.depth, self.columns), self.weight_dtype)
        return super().bytes + weight.bytes

    def constants_of_projection(self, constants: Constants) -> dict[str, Any]:
        """Those of `projection`, by its names."""
        names = {_RENAMED.get(one.name, one.name) for one in self.projection.constants}
        return {_OWN.get(name, name): value for name, value in constants.items() if name in names}

    def constants_of_attention(self, constants: Constants) -> dict[str, Any]:
        """Those of `attention`, by its names."""
        names = {one.name for one in self.attention.constants}
        return {name: value for name, value in constants.items() if name in names}

    def together(self, projection: Constants, attention: Constants) -> dict[str, Any]:
        """The constants of both."""
        projected = {_RENAMED.get(name, name): value for name, value in projection.items()}
        return {**projected, **attention}

    def check_constants(self, constants: Constants) -> None:
        super().check_constants(constants)
        self.attention.check_constants(self.constants_of_attention(constants))

    def tolerance(self, target: Target) -> Tolerance:
        """That of attention: products are exact."""
        return self.attention.tolerance(target)

    def reference(self, activations: Sequence[np.ndarray], constants: Constants) -> Arrays:
        return self.reference_in_threads(activations, constants, 1)

    def reference_in_threads(
        self, activations: Sequence[np.ndarray], constants: Constants, threads: int
    ) -> Arrays:
        of_projection = self.constants_of_projection(constants)
        projected = self.projection.reference_in_threads(activations, of_projection, threads)
        specs = self.attention.inputs
        between = [array.reshape(one.shape) for array, one in zip(projected, specs, strict=True)]
        of_attention = self.constants_of_attention(constants)
        return self.attention.reference_in_threads(between, of_attention, threads)

    def random_case(self, rng: np.random.Generator) -> tuple[Arrays, dict[str, Any]]:
        activations, projection = self.projection.random_case(rng)
        _, attention = self.attention.random_case(rng)
        return activations, self.together(projection, attention)

    def __str__(self) -> str:
        return f"{self.attention} of {self.columns} columns"


def projected(products: Workload, attention: Workload) -> ProjectedAttention | None:
    """The workload of attention whose inputs are the outputs of products; None without such a form.

    Each product stands for queries, keys or values, in whatever order.
    """
    if not isinstance(products, SharedGemm) or not isinstance(attention, Attention):
        return None
    types = (products.in_dtype, products.weight_dtype, products.epilogue.out_dtype)
    if attention.floating or not {*types, attention.out_dtype} <= set(_BYTES):
        return None
    found = ProjectedAttention(
        attention.batch, attention.heads, attention.queries, attention.depth, products.k, *types,
        attention.out_dtype, attention.quantised_scores, attention.rescaled_scores,
    )  # fmt: skip
    return found if (found.projection, found.attention) == (products, attention) else None
