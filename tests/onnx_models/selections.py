"""Models that take elements at places, put them there, repeat them or lay masks over them."""

from __future__ import annotations

import numpy as np

from onnx_models.makers import model, node, normal

_RNG = np.random.default_rng(11)


def _places(size: int, *shape: int) -> np.ndarray:
    """Places of an axis, from either end."""
    return _RNG.integers(-size, size, shape)


def _of(op: str, shape: tuple[int, ...], opset: int = 18, run=None, attributes=None, **constants):
    """One node of `x` of float32, tensors of int64 that a run gives, and constants."""
    inputs = {"x": (shape, "float32")}
    inputs |= {name: (size, "int64") for name, size in (run or {}).items()}
    names = ["x", *(run or {}), *constants]
    made = node(op, " ".join(names), **(attributes or {}))
    return model([made], inputs, constants, opset=opset)


def _scatter(op: str, indices: np.ndarray, updates: tuple[int, ...], **attributes: object):
    made = node(op, "x i u", **attributes)
    inputs = {"x": ((4, 3, 5), "float32"), "u": (updates, "float32")}
    return model([made], inputs, {"i": indices}, opset=18)


SELECTIONS = {
    "embedding": model(
        [node("Gather", "w i", "a"), node("Gather", "w j", "b"), node("Add", "a b")],
        {"i": ((2, 7), "int64")}, {"w": normal(5, 12), "j": _places(5, 7)},
    ),
    "gather_of_a_run": _of("Gather", (2, 5, 4), run={"i": (2, 3)}, attributes={"axis": 1}),
    "gather_any": _of("Gather", (2, 5, 4), i=_places(5, 2, 3), attributes={"axis": -2}),
    "gather_elements": _of("GatherElements", (4, 3, 5), i=_places(3, 2, 4, 5),
                           attributes={"axis": 1}),
    "gather_elements_of_a_run": _of("GatherElements", (4, 3, 5), run={"i": (3, 3, 4)}),
    "gather_nd": _of("GatherND", (4, 3, 5), i=_places(3, 2, 6, 2)),
    "gather_nd_batches": _of("GatherND", (4, 3, 5), i=_places(3, 4, 2, 1),
                             attributes={"batch_dims": 1}),
    "gather_nd_of_a_run": _of("GatherND", (4, 4, 5), run={"i": (6, 2)}),
    "scatter_nd": _scatter("ScatterND", np.int64([[[1, 2], [-1, 0]]]), (1, 2, 5)),
    "scatter_nd_added": _scatter("ScatterND", np.int64([[1], [3], [-3], [1]]), (4, 3, 5),
                                 reduction="add"),
    "scatter_elements": _scatter("ScatterElements", np.argsort(normal(4, 2, 5), 0), (4, 2, 5)),
    "scatter_elements_least": _scatter("ScatterElements", _places(3, 4, 2, 5), (4, 2, 5), axis=1,
                                       reduction="min"),
    "scatter_old": model(
        [node("Scatter", "x i u", axis=1)], {"x": ((2, 5), "float32"), "u": ((2, 2), "float32")},
        {"i": np.int64([[4, -5], [0, 2]])}, opset=10,
    ),
    "expand": _of("Expand", (3, 1, 5), s=np.int64([2, 1, 4, 1])),
    "tile": _of("Tile", (3, 2, 5), s=np.int64([2, 1, 3])),
    "tile_by_one": _of("Tile", (3, 2), s=np.int64([1, 1])),
    "triangle": _of("Trilu", (2, 4, 6), k=np.int64(-1), attributes={"upper": 0}),
    "triangle_above": _of("Trilu", (2, 4, 6)),
    "one_hot": model(
        [node("OneHot", "x d v", axis=1)], {"x": ((4, 5), "int64")},
        {"d": np.int64(3), "v": np.float32([-1, 2])},
    ),
}  # fmt: skip
