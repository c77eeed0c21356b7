"""Constants of a residual product: those of its inner product, and b where it is constant."""

from __future__ import annotations

from typing import Any

import numpy as np

from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.base import Template
from autoq.templates.cuda.device.residual.nibbles import nibbles_of, packed_nibbles
from autoq.templates.cuda.device.residual.plan import ResidualPlan, inner_product
from autoq.templates.cuda.device.residual.turned import turned
from autoq.templates.oracle.residual_quantisation import quantise
from autoq.templates.workload import Constants

_WRITTEN = ("weight", "scale")
"""Constants of the inner product that kernels write here."""
_NO_BIAS = "no_bias"


def packed(plan: ResidualPlan, inner: Template, config: Any) -> tuple[TensorSpec, ...]:
    """b as integers if it is constant, what else the product takes, bias and thresholds."""
    work = plan.workload
    specs = list(_of_b(plan)) if work.constant_b else []
    for spec in inner.packed(inner_product(work, plan.knobs.nibbles), config):
        if spec.name not in _WRITTEN:
            name = _NO_BIAS if spec.name == "bias" else spec.name
            specs.append(TensorSpec(name, spec.shape, spec.dtype))
    given = [spec for spec in work.constants if spec.name != "b"]
    if work.constant_b and plan.bias_at:
        given = [spec for spec in given if spec.name != "bias"]
    return (*specs, *given)


def _of_b(plan: ResidualPlan) -> tuple[TensorSpec, ...]:
    """Bytes, but for what only a product of nibbles reads."""
    values, residual = plan.weights("b_values"), plan.weights("b_residual")
    nibbles = plan.knobs.nibbles
    specs = [nibbles_of(values) if nibbles else values, plan.b_scale]
    if plan.compensates:
        specs.append(nibbles_of(residual) if nibbles else residual)
    if plan.sparse:
        specs += [plan.b_turned, plan.b_magnitudes, plan.b_peaks]
        specs += [values] if nibbles else []
    return tuple(specs)


def pack(
    plan: ResidualPlan, inner: Template, config: Any, constants: Constants
) -> tuple[np.ndarray, ...]:
    """The arrays of `packed`."""
    work = plan.workload
    arrays: dict[str, np.ndarray] = {"scalars": work.direct_scalars}
    arrays |= {
        name: np.ascontiguousarray(constants[name], np.float32)
        for name in ("bias", "threshold", "crossover")
        if name in constants
    }
    for spec in packed(plan, inner, config):
        if spec.name == _NO_BIAS:
            arrays[_NO_BIAS] = np.zeros(spec.shape, np.int32)
    if work.constant_b:
        arrays |= _pack_b(plan, constants)
    return tuple(arrays[spec.name] for spec in packed(plan, inner, config))


def _pack_b(plan: ResidualPlan, constants: Constants) -> dict[str, np.ndarray]:
    """b [n, k] as the kernels that quantise it would have left it."""
    work = plan.workload
    b = np.asarray(constants["b"])
    found = quantise(b.T if work.b_order == "kn" else b, work.bits, axis=1)
    scale = np.zeros(plan.b_scale.shape, np.float32)
    scale[: work.n] = found.scale[:, 0]
    if plan.bias_at:
        scale[plan.bias_at : plan.bias_at + work.n] = constants["bias"]
    arrays = {
        "b_values": plan.layout.pack(found.values),
        "b_residual": plan.layout.pack(found.residual),
    }
    if plan.knobs.nibbles:
        arrays |= {f"{name}_nibbles": packed_nibbles(one) for name, one in arrays.items()}
    arrays |= {"b_turned": turned(found.residual), "b_scale": scale}
    if plan.sparse:
        magnitudes = np.abs(found.values.astype(np.int32))
        arrays["b_magnitudes"] = magnitudes.sum(axis=1, dtype=np.int32)
        whole = np.pad(magnitudes, ((0, 0), (0, 16 * plan.peaks - work.k)))
        arrays["b_peaks"] = whole.reshape(work.n, plan.peaks, 16).max(axis=2).astype(np.uint8)
    return arrays
