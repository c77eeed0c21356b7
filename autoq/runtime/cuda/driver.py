"""The CUDA driver API through ctypes: the calls that loading and launching kernels need."""

from __future__ import annotations

import ctypes
import functools
from ctypes import byref, c_char_p, c_float, c_int, c_size_t, c_void_p
from typing import Any

from autoq.errors import DriverError, TargetError

_ATTRIBUTE_MULTIPROCESSORS, _ATTRIBUTE_MAJOR, _ATTRIBUTE_MINOR = 16, 75, 76
_ATTRIBUTE_L2_BYTES, _ATTRIBUTE_SMEM_OPTIN = 38, 97
_FUNCTION_MAX_DYNAMIC_SMEM, _FUNCTION_NON_PORTABLE_CLUSTER = 8, 14
_STREAM_NON_BLOCKING = 1


@functools.cache
def load_driver() -> ctypes.CDLL:
    """libcuda, initialised; raises TargetError where there is no driver or no GPU."""
    try:
        library = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise TargetError("no CUDA driver (libcuda.so.1) on this machine") from error
    code = library.cuInit(0)
    if code != 0:
        raise TargetError(f"the CUDA driver found no usable GPU (cuInit returned {code})")
    return library


def call(name: str, *args: Any) -> None:
    """Call a driver function; raises DriverError with CUDA's name of the error."""
    library = load_driver()
    code = getattr(library, name)(*args)
    if code != 0:
        text = c_char_p()
        library.cuGetErrorName(code, byref(text))
        label = text.value.decode() if text.value else str(code)
        raise DriverError(f"{name} failed: {label}")


def device_count() -> int:
    """Number of CUDA GPUs; 0 without a driver."""
    try:
        count = c_int()
        call("cuDeviceGetCount", byref(count))
    except (TargetError, DriverError):
        return 0
    return count.value


def driver_version() -> str:
    """CUDA version the driver supports, e.g. "13.0"."""
    version = c_int()
    call("cuDriverGetVersion", byref(version))
    return f"{version.value // 1000}.{version.value % 1000 // 10}"


class Device:
    """A GPU and its primary context, which is made current for the calling thread."""

    def __init__(self, ordinal: int = 0) -> None:
        if not 0 <= ordinal < device_count():
            raise TargetError(f"no CUDA GPU {ordinal}; this machine has {device_count()}")
        self.ordinal = ordinal
        self._context = c_void_p()
        call("cuDevicePrimaryCtxRetain", byref(self._context), ordinal)
        self.make_current()

    def make_current(self) -> None:
        """Make the primary context current for this thread."""
        call("cuCtxSetCurrent", self._context)

    def _attribute(self, number: int) -> int:
        value = c_int()
        call("cuDeviceGetAttribute", byref(value), number, self.ordinal)
        return value.value

    @property
    def name(self) -> str:
        """Name as nvidia-smi prints it."""
        text = ctypes.create_string_buffer(128)
        call("cuDeviceGetName", text, 128, self.ordinal)
        return text.value.decode()

    @property
    def arch(self) -> str:
        """Architecture to compile for, e.g. "sm_90a"."""
        number = self._attribute(_ATTRIBUTE_MAJOR) * 10 + self._attribute(_ATTRIBUTE_MINOR)
        return "sm_90a" if number == 90 else f"sm_{number}"

    @property
    def multiprocessors(self) -> int:
        return self._attribute(_ATTRIBUTE_MULTIPROCESSORS)

    @property
    def l2_bytes(self) -> int:
        return self._attribute(_ATTRIBUTE_L2_BYTES)

    @property
    def smem_bytes(self) -> int:
        """Largest dynamic shared memory of a block in bytes."""
        return self._attribute(_ATTRIBUTE_SMEM_OPTIN)

    def synchronize(self) -> None:
        """Wait for all work; raises DriverError when any of it failed."""
        call("cuCtxSynchronize")


def clear(address: int, size: int, stream: Stream) -> None:
    """Put the clearing of device memory on a stream."""
    call("cuMemsetD8Async", c_void_p(address), 0, c_size_t(size), stream.handle)


class Memory:
    """Device memory of `size` bytes, freed with the object."""

    def __init__(self, size: int) -> None:
        self.size = size
        pointer = c_void_p()
        try:
            call("cuMemAlloc_v2", byref(pointer), c_size_t(max(size, 1)))
        except DriverError as error:
            raise DriverError(f"{size} bytes of GPU memory cannot be had: {error}") from error
        self.address = int(pointer.value or 0)

    def fill(self, byte: int) -> None:
        """Set every byte."""
        call("cuMemsetD8_v2", c_void_p(self.address), byte, c_size_t(self.size))

    def write(self, source: Any, offset: int = 0) -> None:
        """Copy a contiguous numpy array or bytes in, at a byte offset."""
        address, size = _host_span(source)
        if offset + size > self.size:
            raise DriverError(f"copy of {size} bytes at {offset} into {self.size} bytes")
        call("cuMemcpyHtoD_v2", c_void_p(self.address + offset), c_void_p(address), c_size_t(size))

    def read(self, target: Any, offset: int = 0) -> None:
        """Copy into a contiguous numpy array from a byte offset."""
        address, size = _host_span(target)
        if offset + size > self.size:
            raise DriverError(f"copy of {size} bytes at {offset} out of {self.size} bytes")
        call("cuMemcpyDtoH_v2", c_void_p(address), c_void_p(self.address + offset), c_size_t(size))

    def free(self) -> None:
        """Give the memory back; safe to call twice."""
        address, self.address = self.address, 0
        if address:
            load_driver().cuMemFree_v2(c_void_p(address))

    def __del__(self) -> None:
        if getattr(self, "address", 0):
            self.free()


def _host_span(array: Any) -> tuple[int, int]:
    if isinstance(array, bytes):
        return ctypes.cast(c_char_p(array), c_void_p).value or 0, len(array)
    if not array.flags.c_contiguous:
        raise ValueError(f"an array of strides {array.strides} is no run of bytes")
    return array.ctypes.data, array.nbytes


class Stream:
    """A stream that does not synchronise with the default stream."""

    def __init__(self) -> None:
        self.handle = c_void_p()
        call("cuStreamCreate", byref(self.handle), _STREAM_NON_BLOCKING)

    @classmethod
    def legacy(cls) -> Stream:
        """The legacy default stream, which orders itself with all blocking streams."""
        return cls.external(0)

    @classmethod
    def external(cls, handle: int) -> Stream:
        """A stream of another library, which must outlive this object."""
        stream = cls.__new__(cls)
        stream.handle = c_void_p(handle)
        return stream

    def synchronize(self) -> None:
        """Wait for the stream's work; raises DriverError when it failed."""
        call("cuStreamSynchronize", self.handle)


class Event:
    """A point in a stream that elapsed time is measured from."""

    def __init__(self) -> None:
        self.handle = c_void_p()
        call("cuEventCreate", byref(self.handle), 0)

    def record(self, stream: Stream) -> None:
        """Place the event behind the stream's work so far."""
        call("cuEventRecord", self.handle, stream.handle)

    def seconds_since(self, earlier: Event) -> float:
        """Seconds between two recorded events; waits for this one."""
        call("cuEventSynchronize", self.handle)
        milliseconds = c_float()
        call("cuEventElapsedTime", byref(milliseconds), earlier.handle, self.handle)
        return milliseconds.value * 1e-3


class Function:
    """A kernel of a loaded module, ready for `launch`."""

    def __init__(self, module: Module, symbol: str, smem_bytes: int, cluster: int) -> None:
        self.handle = c_void_p()
        self._module = module  # keeps the code loaded
        call("cuModuleGetFunction", byref(self.handle), module.handle, symbol.encode())
        if smem_bytes > 48 << 10:
            call("cuFuncSetAttribute", self.handle, _FUNCTION_MAX_DYNAMIC_SMEM, smem_bytes)
        if cluster > 8:
            call("cuFuncSetAttribute", self.handle, _FUNCTION_NON_PORTABLE_CLUSTER, 1)

    def resident_blocks(self, threads: int, smem_bytes: int) -> int:
        """How many blocks of so many threads the current device runs at once."""
        each, device, units = c_int(), c_int(), c_int()
        call(
            "cuOccupancyMaxActiveBlocksPerMultiprocessor", byref(each), self.handle, threads,
            c_size_t(smem_bytes),
        )  # fmt: skip
        call("cuCtxGetDevice", byref(device))
        call("cuDeviceGetAttribute", byref(units), _ATTRIBUTE_MULTIPROCESSORS, device)
        return each.value * units.value


class Module:
    """A cubin loaded into the current context, unloaded with the object."""

    def __init__(self, cubin: bytes) -> None:
        self.handle = c_void_p()
        call("cuModuleLoadData", byref(self.handle), cubin)

    def __del__(self) -> None:
        if self.handle:
            load_driver().cuModuleUnload(self.handle)
