"""What to ask `autoq gemm` for where no kernel takes the product that it was asked for."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace

from autoq.cli.product_workload import (
    FACTORS,
    FLOAT_OUTPUTS,
    INTEGER_OUTPUTS,
    Product,
    ProductRequest,
    listed,
)
from autoq.errors import InputError
from autoq.templates.target import Target

# Extents at which every kernel of a pair of types is tried, and what extents are rounded up to.
_ROOMY, _MULTIPLES = (256, 256, 256), (2, 4, 8, 16, 32, 64)
_GROUPS = (32, 64, 128)

Takes = Callable[[Product], bool]


def require_kernel(request: ProductRequest, target: Target, takes: Takes) -> None:
    """Raise InputError, which says what would do instead, unless a kernel takes the product.

    takes: whether a kernel for the target takes a workload.
    """
    workload = request.workload()
    if takes(workload):
        return
    where = f"{target.kind} {target.arch}"
    table = workload.constant("table") is not None
    if table and _taken(replace(request, activation="none"), takes):
        raise InputError(
            f"{request}: no kernel for {where} with --activation {request.activation} to bytes; "
            "without it, or with --out f16, bf16 or f32, there is one"
        )
    for option in _refused_options(request, takes):
        raise InputError(f"{request}: no kernel for {where} with {option}; without it there is one")
    nearest = next((near for near in _near(request) if _taken(near, takes)), None)
    if nearest is None:
        way = "GPUs from sm_89 on multiply e4m3; convert both to bf16"
        way = way if request.a == request.b == "e4m3" else _supported(takes)
        raise InputError(f"{request}: no kernel for {where}; {way}")
    group = f" with --group {nearest.group}" if request.group else ""
    extents = listed((nearest.m, nearest.n, nearest.k))
    raise InputError(f"{request}: no kernel for {where}; M, N, K = {extents}{group} would do")


def _refused_options(request: ProductRequest, takes: Takes) -> Iterator[str]:
    """Options without any one of which a kernel would take the product."""
    for option, given, changes in (
        (f"--residual {request.residual}", request.residual is not None, {"residual": None}),
        (f"--scale {request.scale}", request.scale is not None, {"scale": None}),
        (f"--batch {request.batch}", request.batch != 1, {"batch": 1}),
    ):
        if given and _taken(replace(request, **changes), takes):
            yield option


def _near(request: ProductRequest) -> Iterator[ProductRequest]:
    """The request with other extents and groups, the most alike first."""
    groups = dict.fromkeys((request.group, *(_GROUPS if request.group else ()), 0))
    for group, multiple in itertools.product(groups, (1, *_MULTIPLES)):
        for chosen in (("k",), ("n",), ("m",), ("m", "n", "k")):
            rounded = {name: -(-getattr(request, name) // multiple) * multiple for name in chosen}
            yield replace(request, group=group, **rounded)


def _taken(request: ProductRequest, takes: Takes) -> bool:
    try:
        return takes(request.workload())
    except InputError:  # a group that does not divide k
        return False


def _supported(takes: Takes) -> str:
    """The pairs of types that kernels take, by the types of their results, in one line."""
    outs = tuple(dict.fromkeys((*INTEGER_OUTPUTS, *FLOAT_OUTPUTS)))
    rights: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for a, b in itertools.product(FACTORS, FACTORS):
        known = tuple(o for o in outs if _taken(ProductRequest(*_ROOMY, a, b, o), takes))
        if known:
            rights.setdefault((a, known), []).append(b)
    lefts: dict[tuple[tuple[str, ...], tuple[str, ...]], list[str]] = {}
    for (a, known), bs in rights.items():
        lefts.setdefault((tuple(bs), known), []).append(a)
    lines = [
        f"{', '.join(names)} x {', '.join(bs)} to {', '.join(known)}"
        for (bs, known), names in lefts.items()
    ]
    return f"it takes {'; '.join(lines) or 'no product at all'}"
