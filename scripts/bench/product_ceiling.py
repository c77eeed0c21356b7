"""How fast tensor cores multiply int8 when nothing is loaded: the ceiling of large products.

A block of two warpgroups on every multiprocessor multiplies what lies in its shared memory, tiles
of 64 x 256 as the kernels of large products have them, for as many instructions as a product of
8192 cubed takes of each. It loads, stores and waits for nothing. Zeros need next to no power and
show the clock that the tensor cores are allowed; random bytes on end show what is left of it under
the power limit. The result lies in a JSON file: microseconds of the launches on the way, cycles and
clock of the last one.
"""

from __future__ import annotations

import argparse
import ctypes
import datetime
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from autoq.devices import require_device, resolve
from autoq.kernel.nvcc import compile_cuda
from autoq.runtime.cuda.driver import Device, Event, Function, Memory, Module, Stream
from autoq.runtime.cuda.launching import launch
from autoq.templates.cuda.device.mma.wgmma import Wgmma

_SIZE, _N, _STAGES, _ROW_BYTES = 8192, 256, 4, 128
_TILE_M = 128
_STAGE_BYTES = (_TILE_M + _N) * _ROW_BYTES
_THREADS = 256
_REST_SECONDS = 0.5

_SOURCE = r"""
INSTRUCTION
__device__ __forceinline__ unsigned long long rows_at(unsigned address) {
  return 1ull << 62 | 64ull << 32 | (address & 0x3ffff) >> 4;
}
extern "C" __global__ void __launch_bounds__(256, 1) multiply(
    const uint4* values, unsigned* sums, unsigned long long* stamps, int steps) {
  extern __shared__ __align__(1024) unsigned char shared[];
  for (int i = threadIdx.x; i < STAGES * STAGE_BYTES / 16; i += 256)
    reinterpret_cast<uint4*>(shared)[i] = values[i];
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  const unsigned base = static_cast<unsigned>(__cvta_generic_to_shared(shared));
  const unsigned rows = threadIdx.x / 128 * (64 * 128);
  unsigned d[128] = {};
  unsigned long long began, ended;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(began));
  const long long first = clock64();
  for (int step = 0, stage = 0; step < steps; ++step) {
    const unsigned at = base + stage * STAGE_BYTES;
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    #pragma unroll
    for (int i = 0; i < 4; ++i)
      NAME(d, rows_at(at + rows) + 2 * i, rows_at(at + 128 * 128) + 2 * i, 1);
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
    stage = stage == STAGES - 1 ? 0 : stage + 1;
  }
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  const long long last = clock64();
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(ended));
  unsigned sum = 0;
  #pragma unroll
  for (int i = 0; i < 128; ++i) sum += d[i];
  sums[blockIdx.x * 256 + threadIdx.x] = sum;
  if (blockIdx.x == 0 && threadIdx.x == 0) stamps[0] = last - first, stamps[1] = ended - began;
}
"""


def machine_code(cache: Path | None) -> bytes:
    """The kernel, kept in a folder if there is one."""
    name = "multiply_64x256"
    text = _SOURCE.replace("INSTRUCTION", Wgmma.dense(_N, "int8", "int8", "int32").assembly(name))
    text = text.replace("NAME", name).replace("STAGE_BYTES", str(_STAGE_BYTES))
    return compile_cuda(text.replace("STAGES", str(_STAGES)), "sm_90a", cache).cubin


def measure(
    device: Device, function: Function, values: np.ndarray, launches: int
) -> dict[str, Any]:
    """Launches on end, after a rest: microseconds at ten points, and the last one's clock."""
    stream, units = Stream(), device.multiprocessors
    tiles = (_SIZE // _TILE_M) * (_SIZE // _N)
    steps = round(tiles * (_SIZE // _ROW_BYTES) / units)
    held = Memory(values.nbytes), Memory(4 * units * _THREADS), Memory(16)
    held[0].write(values)
    arguments = [*(ctypes.c_uint64(memory.address) for memory in held), ctypes.c_int32(steps)]
    pointers = (ctypes.c_void_p * len(arguments))(
        *(ctypes.addressof(argument) for argument in arguments)
    )
    time.sleep(_REST_SECONDS)
    events = [Event() for _ in range(launches + 1)]
    events[0].record(stream)
    for event in events[1:]:
        extents = (units, 1, 1), (_THREADS, 1, 1), (1, 1, 1)
        launch(function, extents, _STAGES * _STAGE_BYTES, stream, pointers, False)
        event.record(stream)
    device.synchronize()
    pairs = zip(events[1:], events[:-1], strict=True)
    us = [later.seconds_since(earlier) * 1e6 for later, earlier in pairs]
    stamps = np.empty(2, np.uint64)
    held[2].read(stamps)
    cycles, nanoseconds = map(int, stamps)
    return {
        "us": [round(one, 1) for one in us[1 :: max(1, launches // 10)]],
        "cycles": cycles,
        "last_clock_ghz": round(cycles / nanoseconds, 3),
        "last_us": round(float(np.median(us[-10:])), 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--launches", type=int, default=600)
    parser.add_argument("--cache", type=Path, help="folder of compiled kernels")
    parser.add_argument("--output", type=Path, required=True, help="JSON file")
    options = parser.parse_args()
    host = resolve("cuda")
    require_device(host)
    device, bytes_held = Device(0), _STAGES * _STAGE_BYTES
    code = Module(machine_code(options.cache))
    function = Function(code, "multiply", bytes_held, 1)
    random = np.random.default_rng(0).integers(0, 256, bytes_held, np.uint8)
    cases = {"zeros": np.zeros(bytes_held, np.uint8), "random": random}
    result: dict[str, Any] = {
        "device": host.device,
        "date": datetime.date.today().isoformat(),
        "launches": options.launches,
    }
    for name, values in cases.items():
        result[name] = measure(device, function, values, options.launches)
        print(name, result[name], flush=True)
    options.output.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
