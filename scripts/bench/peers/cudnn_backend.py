"""cuDNN's backend API through ctypes: descriptors, engine configurations and execution plans."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from ctypes import byref, c_bool, c_char_p, c_float, c_int, c_int64, c_size_t, c_void_p
from enum import Enum, IntEnum
from typing import Any

from autoq.errors import LibraryError
from autoq.libraries.loading import load


class Type(Enum):
    """cudnnBackendAttributeType_t, with the C type of an element."""

    HANDLE = (0, c_void_p)
    DATA_TYPE = (1, c_int)
    BOOLEAN = (2, c_bool)
    INT64 = (3, c_int64)
    FLOAT = (4, c_float)
    VOID_PTR = (6, c_void_p)
    CONVOLUTION_MODE = (7, c_int)
    HEUR_MODE = (8, c_int)
    KNOB_TYPE = (9, c_int)
    POINTWISE_MODE = (14, c_int)
    DESCRIPTOR = (15, c_void_p)


class Kind(IntEnum):
    """cudnnBackendDescriptorType_t."""

    POINTWISE = 0
    CONVOLUTION = 1
    ENGINE = 2
    ENGINE_CONFIG = 3
    ENGINE_HEURISTICS = 4
    EXECUTION_PLAN = 5
    KNOB_CHOICE = 7
    OPERATION_CONVOLUTION_FORWARD = 10
    OPERATION_POINTWISE = 13
    OPERATION_GRAPH = 15
    VARIANT_PACK = 16
    TENSOR = 17


class Attribute(Enum):
    """cudnnBackendAttributeName_t, with the type of its elements."""

    POINTWISE_MODE = (0, Type.POINTWISE_MODE)
    POINTWISE_MATH_PRECISION = (1, Type.DATA_TYPE)
    CONVOLUTION_COMPUTE_TYPE = (100, Type.DATA_TYPE)
    CONVOLUTION_MODE = (101, Type.CONVOLUTION_MODE)
    CONVOLUTION_DILATIONS = (102, Type.INT64)
    CONVOLUTION_STRIDES = (103, Type.INT64)
    CONVOLUTION_POST_PADDINGS = (104, Type.INT64)
    CONVOLUTION_PRE_PADDINGS = (105, Type.INT64)
    CONVOLUTION_SPATIAL_DIMS = (106, Type.INT64)
    HEURISTICS_MODE = (200, Type.HEUR_MODE)
    HEURISTICS_GRAPH = (201, Type.DESCRIPTOR)
    HEURISTICS_RESULTS = (202, Type.DESCRIPTOR)
    CONFIG_ENGINE = (300, Type.DESCRIPTOR)
    CONFIG_KNOB_CHOICES = (302, Type.DESCRIPTOR)
    PLAN_HANDLE = (400, Type.HANDLE)
    PLAN_CONFIG = (401, Type.DESCRIPTOR)
    PLAN_WORKSPACE_BYTES = (402, Type.INT64)
    KNOB_CHOICE_TYPE = (600, Type.KNOB_TYPE)
    KNOB_CHOICE_VALUE = (601, Type.INT64)
    FORWARD_ALPHA = (700, Type.FLOAT)
    FORWARD_BETA = (701, Type.FLOAT)
    FORWARD_CONVOLUTION = (702, Type.DESCRIPTOR)
    FORWARD_W = (703, Type.DESCRIPTOR)
    FORWARD_X = (704, Type.DESCRIPTOR)
    FORWARD_Y = (705, Type.DESCRIPTOR)
    PW_DESCRIPTOR = (750, Type.DESCRIPTOR)
    PW_X = (751, Type.DESCRIPTOR)
    PW_B = (752, Type.DESCRIPTOR)
    PW_Y = (753, Type.DESCRIPTOR)
    PW_ALPHA_X = (754, Type.FLOAT)
    PW_ALPHA_B = (755, Type.FLOAT)
    GRAPH_HANDLE = (800, Type.HANDLE)
    GRAPH_OPERATIONS = (801, Type.DESCRIPTOR)
    TENSOR_ALIGNMENT = (900, Type.INT64)
    TENSOR_DATA_TYPE = (901, Type.DATA_TYPE)
    TENSOR_DIMENSIONS = (902, Type.INT64)
    TENSOR_STRIDES = (903, Type.INT64)
    TENSOR_UNIQUE_ID = (906, Type.INT64)
    TENSOR_IS_VIRTUAL = (907, Type.BOOLEAN)
    PACK_UNIQUE_IDS = (1000, Type.INT64)
    PACK_POINTERS = (1001, Type.VOID_PTR)
    PACK_WORKSPACE = (1003, Type.VOID_PTR)
    ENGINE_GLOBAL_INDEX = (1301, Type.INT64)


class DataType(IntEnum):
    """cudnnDataType_t."""

    FLOAT = 0
    INT8 = 3
    INT32 = 4


class PointwiseMode(IntEnum):
    """cudnnPointwiseMode_t."""

    ADD = 0
    MUL = 1
    IDENTITY = 21


CROSS_CORRELATION = 1

HEURISTIC_MODES = {"A": 3, "B": 1, "fallback": 2}
"""cudnnBackendHeurMode_t by name, the modes that propose engine configurations."""

_MOST_CONFIGS = 64


@functools.cache
def library() -> ctypes.CDLL:
    """libcudnn; raises LibraryError where there is none."""
    found = load("libcudnn", needs=("libcublasLt", "libnvrtc"))
    found.cudnnGetVersion.restype = c_size_t
    found.cudnnGetErrorString.restype = c_char_p
    return found


def version() -> str:
    """cuDNN's version, e.g. "9.19.0"."""
    number = library().cudnnGetVersion()
    return f"{number // 10000}.{number // 100 % 100}.{number % 100}"


def call(name: str, *args: Any) -> None:
    """Call a function of cuDNN; raises LibraryError with its last message."""
    code = getattr(library(), name)(*args)
    if code != 0:
        text = ctypes.create_string_buffer(1024)
        library().cudnnGetLastErrorString(text, c_size_t(1024))
        label = library().cudnnGetErrorString(code).decode()
        message = " ".join(text.value.decode(errors="replace").split())
        raise LibraryError(f"{name}: {label}: {message}"[:300])


class Handle:
    """A cuDNN context on the current device, kept until the process ends."""

    def __init__(self) -> None:
        self.pointer = c_void_p()
        call("cudnnCreate", byref(self.pointer))

    def set_stream(self, stream: c_void_p) -> None:
        """Run on `stream` from now on."""
        call("cudnnSetStream", self.pointer, stream)


class Descriptor:
    """A backend descriptor, kept until the process ends; it keeps what it refers to alive."""

    def __init__(self, kind: Kind) -> None:
        self.pointer = c_void_p()
        self._kept: list[Any] = []
        call("cudnnBackendCreateDescriptor", c_int(kind), byref(self.pointer))

    def set(self, attribute: Attribute, *values: Any) -> Descriptor:
        """Give an attribute its elements; handles and descriptors are given as objects."""
        self._kept += values
        number, kind = attribute.value
        code, element = kind.value
        raw = [getattr(value, "pointer", value) for value in values]
        if element is c_void_p:
            raw = [getattr(value, "value", value) for value in raw]
        array = (element * len(raw))(*raw)
        call("cudnnBackendSetAttribute", self.pointer, number, code, c_int64(len(raw)), array)
        return self

    def finalize(self) -> Descriptor:
        """Complete the descriptor; raises LibraryError for what cuDNN does not support."""
        call("cudnnBackendFinalize", self.pointer)
        return self

    def number(self, attribute: Attribute) -> int:
        """The single integer of an attribute."""
        number, kind = attribute.value
        code, element = kind.value
        value, count = element(), c_int64()
        call("cudnnBackendGetAttribute", self.pointer, number, code, c_int64(1), byref(count),
             byref(value))  # fmt: skip
        return int(value.value)

    def descriptors(self, attribute: Attribute, kind: Kind, most: int) -> list[Descriptor]:
        """At most `most` descriptors of an attribute."""
        number, of = attribute.value
        found = [Descriptor(kind) for _ in range(most)]
        pointers = (c_void_p * most)(*(item.pointer.value for item in found))
        count = c_int64()
        call("cudnnBackendGetAttribute", self.pointer, number, of.value[0], c_int64(most),
             byref(count), pointers)  # fmt: skip
        return found[: count.value]


def engine_configs(graph: Descriptor, mode: int) -> list[Descriptor]:
    """What one heuristic proposes for an operation graph, its favourite first."""
    heuristics = Descriptor(Kind.ENGINE_HEURISTICS)
    heuristics.set(Attribute.HEURISTICS_GRAPH, graph).set(Attribute.HEURISTICS_MODE, mode)
    heuristics.finalize()
    return heuristics.descriptors(Attribute.HEURISTICS_RESULTS, Kind.ENGINE_CONFIG, _MOST_CONFIGS)


def config_name(config: Descriptor) -> str:
    """The engine and knob values of a configuration: "eng5_k2=13_k14=3"."""
    (engine,) = config.descriptors(Attribute.CONFIG_ENGINE, Kind.ENGINE, 1)
    choices = config.descriptors(Attribute.CONFIG_KNOB_CHOICES, Kind.KNOB_CHOICE, _MOST_CONFIGS)
    knobs = [
        f"k{choice.number(Attribute.KNOB_CHOICE_TYPE)}={choice.number(Attribute.KNOB_CHOICE_VALUE)}"
        for choice in choices
    ]
    return "_".join([f"eng{engine.number(Attribute.ENGINE_GLOBAL_INDEX)}", *sorted(knobs)])


def variant_pack(pointers: dict[int, int], workspace: int) -> Descriptor:
    """Device addresses of the tensors by unique id, and of the workspace."""
    pack = Descriptor(Kind.VARIANT_PACK)
    pack.set(Attribute.PACK_UNIQUE_IDS, *pointers)
    pack.set(Attribute.PACK_POINTERS, *pointers.values())
    pack.set(Attribute.PACK_WORKSPACE, workspace)
    return pack.finalize()


def operations(ops: Sequence[Descriptor], handle: Handle) -> Descriptor:
    """The operation graph of some operations."""
    graph = Descriptor(Kind.OPERATION_GRAPH)
    graph.set(Attribute.GRAPH_OPERATIONS, *ops).set(Attribute.GRAPH_HANDLE, handle)
    return graph.finalize()
