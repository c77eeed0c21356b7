"""Products with a residual whose rows are normalised where they are computed, by clusters."""

from __future__ import annotations

import numpy as np
from tvm.tirx import PrimFunc

from autoq.search.space import Space
from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.base import Template
from autoq.templates.cuda.wgmma import gemm_wgmma
from autoq.templates.cuda.wgmma.config import Grid, Shared, SplitTeam, WgmmaConfig
from autoq.templates.cuda.wgmma.kernel.pipeline import build_pipeline
from autoq.templates.cuda.wgmma.loads import MatrixLoad
from autoq.templates.cuda.wgmma.normalisation import Normalisation
from autoq.templates.cuda.wgmma.plan import Extras, PipelinePlan
from autoq.templates.operators.normalised_gemm import NormalisedGemm
from autoq.templates.target import Target
from autoq.templates.workload import Constants, Workload


def form(
    block_n: int, consumers: int, cluster: int, stages: int, cooperative: bool = True,
    row_bytes: int = 128, **others: object,
) -> WgmmaConfig:  # fmt: skip
    """A configuration of a cluster that owns rows."""
    knobs = {
        "block_n": block_n, "row_bytes": row_bytes, "per_stage": 1, "stages": stages,
        "team": SplitTeam(consumers, cooperative), "blocks_per_unit": 1,
        "grid": Grid(True, cluster, Shared.ACTIVATIONS), "group": 8, "channels_outer": True,
        "residual_early": False, "residual_ahead": False, "weights_stay": False,
        "weights_once": True, "m_blocks": 1, **others,
    }  # fmt: skip
    return WgmmaConfig(**knobs)


FORMS = {"default": form(192, 2, 4, 5)}
"""By k, or of all others."""


def matches(workload: Workload, target: Target) -> bool:
    """What `gemm_wgmma` computes, of rows of 768 in whole tiles."""
    return (
        isinstance(workload, NormalisedGemm)
        and workload.n == 768
        and workload.m % 384 == 0
        and workload.out_dtype == "uint8"
        and gemm_wgmma.matches(workload.one, target)
    )


def space(workload: NormalisedGemm, target: Target) -> Space[WgmmaConfig]:
    """The one configuration."""
    config = default(workload, target)
    values = {name: (getattr(config, name),) for name in config.__dataclass_fields__}
    return Space(WgmmaConfig, values, [], lambda config: {})


def default(workload: NormalisedGemm, target: Target) -> WgmmaConfig:
    """One by its reduction."""
    return FORMS.get(workload.k, FORMS["default"])


def build(
    workload: NormalisedGemm, config: WgmmaConfig, target: Target, ahead: int = 0
) -> PrimFunc:
    """The kernel of a configuration; parameters as `build_pipeline` says."""
    work = workload.one.as_conv2d()
    load = MatrixLoad(work, config.layout(work), config.block_m)
    normalisation = Normalisation(config, workload.n, workload.out_dtype)
    plan = PipelinePlan(
        work, config, load.layout, load, target,
        extras=Extras(ahead=ahead, normalisation=normalisation),
    )  # fmt: skip
    return build_pipeline(plan, workload.one.x_shape, workload.one.y_shape)


def pack(
    workload: NormalisedGemm, config: WgmmaConfig, constants: Constants
) -> tuple[np.ndarray, ...]:
    """What the product has, then the numbers of the normalisation."""
    own = ("factor", "offset", "numbers")
    normalisation = Normalisation(config, workload.n, workload.out_dtype)
    others = {name: value for name, value in constants.items() if name not in own}
    arrays = gemm_wgmma.pack(workload.one, config, others)
    return (*arrays, normalisation.packed_numbers(*(constants[name] for name in own)))


def packed(workload: NormalisedGemm, config: WgmmaConfig) -> tuple[TensorSpec, ...]:
    """What `pack` gives."""
    tiles = workload.n // config.block_n
    count = tiles * Normalisation(config, workload.n, workload.out_dtype).numbers
    return (*gemm_wgmma.packed(workload.one, config), TensorSpec("column_numbers", (count,), "float32"))


TEMPLATE = Template(
    "gemm_wgmma_normalised", 1, matches, space, default, build, pack, packed, preference=90,
    looks_ahead=True, tunable=False,
)  # fmt: skip
