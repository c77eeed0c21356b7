"""Layers whose weight has zeros in vectors, as sparse products of what is turned on its way there.

A layer's activations x [m, k] and its output y [m, n] are the right side and the output of a
sparse product the other way round: the weight [n, k] is its sparse left side.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from autoq.errors import InputError
from autoq.search.space import Space
from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.base import Template
from autoq.templates.operators.gemm import Gemm
from autoq.templates.operators.spmm import Spmm
from autoq.templates.program import Program, Stage, Workspace
from autoq.templates.sparse.conversion import to_vectors
from autoq.templates.sparse.sparsity import VECTORS
from autoq.templates.sparse.structure import Structure
from autoq.templates.target import Target
from autoq.templates.workload import Constants, Workload

if TYPE_CHECKING:
    from tvm.tirx import PrimFunc

_TURN = (1, 0)
_TURNED = {"b": "turned_x", "residual": "turned_residual", "y": "turned_y"}
_MOST_STORED = 0.5
_EPILOGUE = ("bias", "scale", "scalars", "float_bias")


def _few(workload: Gemm, vector: int, structure: Structure) -> bool:
    """Whether vectors that hold single values are few enough to be worth a trial."""
    assert workload.sparsity is not None
    whole = workload.sparsity.pattern == VECTORS
    return whole or structure.blocks * vector <= _MOST_STORED * workload.n * workload.k


def as_spmm(workload: Gemm) -> Spmm | None:
    """The sparse product of a layer; None without such zeros, or where it has another epilogue."""
    vectors = None if workload.sparsity is None else workload.sparsity.in_vectors
    if vectors is None or not _few(workload, *vectors):
        return None
    try:
        return Spmm(
            workload.n, workload.m, workload.k, *vectors, workload.in_dtype,
            workload.weight_dtype, workload.epilogue,
        )  # fmt: skip
    except InputError:
        return None


def spmm_constants(workload: Gemm, constants: Constants) -> dict[str, Any]:
    """The constants of `as_spmm`."""
    vector = _product(workload).vector
    matrix = to_vectors(np.asarray(constants["weight"]), vector)
    own = {name: constants[name] for name in _EPILOGUE if name in constants}
    return own | {
        "values": matrix.values,
        "columns": matrix.indices,
        "pointers": matrix.pointers,
        "b_zero_point": int(constants.get("x_zero_point", 0)),
    }


@dataclass(frozen=True)
class TurnedProduct:
    """The functions of a template that turns activations and leaves the product to another one.

    inner: the template of the sparse product. permutes, permute_kernel: of the target's kind.
    """

    inner: Template
    permutes: Callable[[tuple[int, ...], tuple[int, ...], str], bool]
    permute_kernel: Callable[[tuple[int, ...], tuple[int, ...], str, Target], PrimFunc]

    def matches(self, workload: Workload, target: Target) -> bool:
        """Gemm with zeros in vectors, where its arrays can be turned and the inner one follows."""
        if not isinstance(workload, Gemm):
            return False
        product = as_spmm(workload)
        if product is None or not self.inner.matches(product, target):
            return False
        arrays = (*workload.inputs, *workload.outputs)
        return all(self.permutes(array.shape, _TURN, array.dtype) for array in arrays)

    def space(self, workload: Gemm, target: Target) -> Space[Any]:
        """That of the sparse product."""
        return self.inner.space(_product(workload), target)

    def default(self, workload: Gemm, target: Target) -> Any:
        """That of the sparse product."""
        return self.inner.default(_product(workload), target)

    def build(self, workload: Gemm, config: Any, target: Target) -> Program:
        """What is read is turned, multiplied, and the output turned back."""
        product = _product(workload)
        inner = self.inner.program(product, config, target).renamed(_TURNED)
        before, spaces = [], []
        for given, turned in zip(workload.inputs, product.inputs, strict=True):
            name = _TURNED[turned.name]
            spaces.append(TensorSpec(name, turned.shape, turned.dtype))
            kernel = self.permute_kernel(given.shape, _TURN, given.dtype, target)
            before.append(Stage(kernel, (given.name,), (name,)))
        (y,) = product.outputs
        spaces.append(TensorSpec(_TURNED["y"], y.shape, y.dtype))
        back = self.permute_kernel(y.shape, _TURN, y.dtype, target)
        after = Stage(back, (_TURNED["y"],), (y.name,))
        workspaces = (*map(Workspace, spaces), *inner.workspaces)
        return Program((*before, *inner.stages, after), workspaces)

    def pack(self, workload: Gemm, config: Any, constants: Constants) -> tuple[np.ndarray, ...]:
        """Constants of the sparse product."""
        return self.inner.pack(_product(workload), config, spmm_constants(workload, constants))

    def packed(self, workload: Gemm, config: Any) -> tuple[TensorSpec, ...]:
        """What `pack` gives."""
        return self.inner.packed(_product(workload), config)

    def template(self, module: str) -> Template:
        """The template that a module defines, untuned behind every dense one."""
        return Template(
            f"gemm_{self.inner.name}", self.inner.version, self.matches, self.space, self.default,
            self.build, self.pack, self.packed, preference=self.inner.preference + _BEHIND_DENSE,
            module=module,
        )  # fmt: skip


_BEHIND_DENSE = -100


def _product(workload: Gemm) -> Spmm:
    product = as_spmm(workload)
    if product is None:
        raise InputError(f"{workload}: no zeros in vectors are known of its weight")
    return product
