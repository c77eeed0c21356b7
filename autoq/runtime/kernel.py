"""Compiled kernels as plain data: machine code and how to launch it.

A CUDA kernel is launched through the driver with the constants below, so an artifact needs neither
TVM's compiler nor a host compiler on the machine that runs it.
"""

from __future__ import annotations

from dataclasses import dataclass

from autoq.templates.program import Initially


@dataclass(frozen=True)
class Parameter:
    """An array that a kernel takes, shape and dtype as it is stored."""

    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True)
class Workspace:
    """Memory that a kernel uses while it runs; initially is a value of `Initially`."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    initially: str = Initially.ANYTHING.value

    @property
    def zeroed(self) -> bool:
        """Whether it is cleared before each run."""
        return self.initially == Initially.ZERO.value

    @property
    def stays_zero(self) -> bool:
        """Whether it is cleared once, and each run leaves zeros."""
        return self.initially == Initially.STAYS_ZERO.value


@dataclass(frozen=True)
class Buffer:
    """A kernel argument: the device address of buffer `index`.

    A kernel's parameters come first, then its workspaces.
    """

    index: int


@dataclass(frozen=True)
class Scalar:
    """A kernel argument passed by value; dtype is int32, int64, uint32, uint64 or float32."""

    value: float
    dtype: str


@dataclass(frozen=True)
class TiledMap:
    """A tensor map of `cuTensorMapEncodeTiled` over buffer `index`.

    dims: elements, innermost first; strides: bytes, without the innermost; the rest are the
    driver's enumerators.
    """

    index: int
    dtype: str
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    element_strides: tuple[int, ...]
    interleave: int
    swizzle: int
    l2_promotion: int
    out_of_bounds_fill: int


@dataclass(frozen=True)
class Im2colMap:
    """A tensor map of `cuTensorMapEncodeIm2col` over an NHWC buffer `index`.

    dims: (c, w, h, n); strides: bytes of w, h, n; corners: (w, h) bounding-box offsets; channels
    and pixels: the box of one load.
    """

    index: int
    dtype: str
    dims: tuple[int, int, int, int]
    strides: tuple[int, int, int]
    lower: tuple[int, int]
    upper: tuple[int, int]
    channels: int
    pixels: int
    element_strides: tuple[int, int, int, int]
    swizzle: int


Argument = Buffer | Scalar | TiledMap | Im2colMap


@dataclass(frozen=True)
class Launch:
    """One launch: function name in the cubin, grid and block in threads, arguments in order.

    cluster is (1, 1, 1) without clusters; `programmatic` says that the kernel itself waits for the
    kernels before it, so that it may start while they run; module is the number of the cubin.
    cooperative: blocks wait for one another, so that none may run unless all do.
    """

    symbol: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cluster: tuple[int, int, int]
    smem_bytes: int
    arguments: tuple[Argument, ...]
    programmatic: bool = False
    module: int = 0
    cooperative: bool = False


@dataclass(frozen=True)
class CudaKernel:
    """Cubins, `modules`, and their launches in order.

    Whoever runs it gives memory for the parameters and, behind them, for the workspaces.
    registers and spill_bytes are the largest that ptxas reported over its functions.
    """

    modules: tuple[bytes, ...]
    launches: tuple[Launch, ...]
    parameters: tuple[Parameter, ...]
    workspaces: tuple[Workspace, ...] = ()
    registers: int = 0
    spill_bytes: int = 0


@dataclass(frozen=True)
class FunctionCall:
    """A call of a TVM packed function of ELF object `module`.

    arguments index the kernel's parameters, then its workspaces.
    """

    symbol: str
    arguments: tuple[int, ...]
    module: int = 0


@dataclass(frozen=True)
class CpuKernel:
    """ELF objects, `modules`, and the calls of their functions in order.

    Whoever runs it gives memory for the parameters and, behind them, for the workspaces.
    """

    modules: tuple[bytes, ...]
    calls: tuple[FunctionCall, ...]
    parameters: tuple[Parameter, ...]
    workspaces: tuple[Workspace, ...] = ()


Kernel = CudaKernel | CpuKernel
