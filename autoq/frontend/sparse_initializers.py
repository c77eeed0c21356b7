"""Initializers that a model gives as sparse tensors, made dense where the model is read.

What their zeros are good for is found again in the weights of layers (`know_zeros`), as it is for
models that store their zeros.
"""

from __future__ import annotations

import math

import numpy as np
import onnx

from autoq.errors import ModelError
from autoq.frontend.read import array_of


def with_dense_initializers(model: onnx.ModelProto, source: str) -> onnx.ModelProto:
    """The model without sparse initializers in its main graph, itself where there are none.

    Raises ModelError for one whose indices do not fit its values or its shape.
    """
    if not model.graph.sparse_initializer:
        return model
    dense = onnx.ModelProto()
    dense.CopyFrom(model)
    del dense.graph.sparse_initializer[:]
    for sparse in model.graph.sparse_initializer:
        array = _dense(sparse, source)
        dense.graph.initializer.append(onnx.numpy_helper.from_array(array, sparse.values.name))
    return dense


def _dense(sparse: onnx.SparseTensorProto, source: str) -> np.ndarray:
    name, shape = sparse.values.name, tuple(sparse.dims)
    where = f"{source}: sparse initializer {name!r} of shape {list(shape)}"
    if not shape or min(shape) < 1:
        raise ModelError(f"{where}: extents of 1 or more are expected; export the model again")
    values = array_of(sparse.values, source).reshape(-1)
    indices = array_of(sparse.indices, source).astype(np.int64)
    if indices.ndim == 2 and indices.shape[1] == len(shape):
        inside = (indices >= 0).all() and (indices < np.array(shape)).all()
        places = np.ravel_multi_index(indices.T, shape) if inside else np.full(1, -1)
    elif indices.ndim == 1:
        places = indices
    else:
        raise ModelError(
            f"{where}: indices are {list(indices.shape)}; [values] or [values, {len(shape)}] is "
            "expected; export the model again"
        )
    size = math.prod(shape)
    if len(indices) != len(values) or (places < 0).any() or (places >= size).any():
        raise ModelError(
            f"{where}: {len(indices)} indices for {len(values)} values, or some outside the "
            "shape; export the model again"
        )
    array = np.zeros(size, values.dtype)
    array[places] = values
    return array.reshape(shape)
