"""What the hardware of a target can hold and do: a row an architecture.

Limits of an architecture are those of the CUDA C++ Programming Guide, "Technical Specifications
per Compute Capability". Figures of a product are its datasheet's unless a row says that they were
measured. Constants that were fitted to the times of a kernel belong to the cost model that uses
them, not here; what several models guess alike stands here once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeVar

from autoq.search.lanes import choose

H = TypeVar("H", bound="Hardware")


@dataclass(frozen=True, kw_only=True)
class Hardware:
    """Numbers that templates and the roofline may ask for; 0 where unknown or not there.

    Limits of the architecture:
        smem_bytes: most shared memory of a block.
        reserved_smem_bytes: shared memory that every block takes of its multiprocessor beside its
            own.
        register_file: 32-bit registers of a multiprocessor.
        thread_registers: most registers of a thread.
        unit_threads, unit_blocks: most threads and blocks that a multiprocessor holds at once.
        schedulers: of a multiprocessor, each with an equal part of the registers and the warps.

    Figures of a product:
        product: the GPU whose figures these are.
        source: file that they were read from, empty for a row of `HARDWARE`.
        units: multiprocessors or cores.
        clustered_units: multiprocessors that clusters of 4 or 8 blocks can fill.
        clock_hz: clock of the multiprocessors.
        l2_bytes: size of the L2 cache.
        memory_rate: bytes a second to and from device memory.
        launch_seconds: what one kernel more costs in a CUDA graph.
        int4_rate, int8_rate, float16_rate, bfloat16_rate, e4m3_rate: peak of dense products on
            tensor cores that add in 32 bits, operations a second; a multiply-add is two.
        float32_rate: the same in float32 without tensor cores.
        sparse_factor: how many times that peak 2:4 sparse products reach; 1 where there are none.
    """

    smem_bytes: int = 0
    reserved_smem_bytes: int = 0
    register_file: int = 0
    thread_registers: int = 0
    unit_threads: int = 0
    unit_blocks: int = 0
    schedulers: int = 0
    product: str = ""
    source: str = ""
    units: int = 1
    clustered_units: int = 0
    clock_hz: float = 0.0
    l2_bytes: int = 0
    memory_rate: float = 0.0
    launch_seconds: float = 0.0
    int4_rate: float = 0.0
    int8_rate: float = 0.0
    float16_rate: float = 0.0
    bfloat16_rate: float = 0.0
    e4m3_rate: float = 0.0
    float32_rate: float = 0.0
    sparse_factor: float = 1.0

    @property
    def unit_smem_bytes(self) -> int:
        """Shared memory of a multiprocessor: one block can have all that is not reserved."""
        return self.smem_bytes + self.reserved_smem_bytes

    @property
    def scheduler_lane_registers(self) -> int:
        """Registers that the warps of a scheduler share in each of their 32 lanes."""
        return self.register_file // (32 * self.schedulers)

    def units_in_clusters(self, blocks: int) -> int:
        """Multiprocessors that clusters of so many blocks can fill; pairs fill all of them."""
        return choose(blocks <= 2, self.units, self.clustered_units)

    def of_units(self: H, units: int) -> H:
        """The same with another number of multiprocessors, of which clusters fill equal shares."""
        share = self.clustered_units * units // self.units
        return replace(self, units=units, clustered_units=share)


# What all architectures have in common.
_LIMITS = Hardware(register_file=65536, thread_registers=255, schedulers=4)
_SINCE_SM_80 = replace(_LIMITS, reserved_smem_bytes=1 << 10, sparse_factor=2.0)

HARDWARE = {
    "sm_75": replace(
        _LIMITS, smem_bytes=64 << 10, unit_threads=1024, unit_blocks=16,
        product="NVIDIA T4", units=40, clock_hz=1.59e9, l2_bytes=4 << 20, memory_rate=0.32e12,
        int4_rate=260e12, int8_rate=130e12, float16_rate=65e12, float32_rate=8.1e12,
    ),
    "sm_80": replace(
        _SINCE_SM_80, smem_bytes=163 << 10, unit_threads=2048, unit_blocks=32,
        product="NVIDIA A100 80GB PCIe", units=108, clock_hz=1.41e9, l2_bytes=40 << 20,
        memory_rate=1.9e12, int4_rate=1248e12, int8_rate=624e12,
        float16_rate=312e12, bfloat16_rate=312e12, float32_rate=19.5e12,
    ),
    # The multiprocessors are those of an RTX A6000.
    "sm_86": replace(
        _SINCE_SM_80, smem_bytes=99 << 10, unit_threads=1536, unit_blocks=16,
        product="NVIDIA GeForce RTX 3090", units=84, clock_hz=1.695e9, l2_bytes=6 << 20,
        memory_rate=0.9e12, int4_rate=568e12, int8_rate=284e12,
        float16_rate=71e12, bfloat16_rate=71e12, float32_rate=35e12,
    ),
    # Multiprocessors and memory rate are those of an RTX 6000 Ada.
    "sm_89": replace(
        _SINCE_SM_80, smem_bytes=99 << 10, unit_threads=1536, unit_blocks=24,
        product="NVIDIA GeForce RTX 4090", units=142, clock_hz=2.52e9, l2_bytes=72 << 20,
        memory_rate=0.96e12, int4_rate=1320e12, int8_rate=660e12,
        float16_rate=165e12, bfloat16_rate=165e12, e4m3_rate=330e12, float32_rate=82e12,
    ),
    # It has no 4-bit tensor cores; the other architectures have no clusters. Measured are the
    # multiprocessors in clusters, the clock under load, a copy (the datasheet has 4.8e12) and an
    # empty kernel. wgmma on random data reached 1861e12 for int8, 868e12 for float16, and for
    # sparse int8 1.6 to 1.9 times as much.
    "sm_90a": replace(
        _SINCE_SM_80, smem_bytes=227 << 10, unit_threads=2048, unit_blocks=32,
        product="NVIDIA H200", units=132, clustered_units=120, clock_hz=1.755e9, l2_bytes=60 << 20,
        memory_rate=4.3e12, launch_seconds=0.5e-6, int8_rate=1979e12, e4m3_rate=1979e12,
        float16_rate=989e12, bfloat16_rate=989e12, float32_rate=67e12,
    ),
}  # fmt: skip
"""Rows by architecture, oldest first."""

SMEM_BYTES_A_CLOCK = 128.0
"""Bytes to and from a multiprocessor's shared memory on any architecture: 32 banks of 4 bytes."""

L2_BYTES_A_CLOCK = 40.0
"""Bytes of the L2 that reach a multiprocessor a clock, for cost models to which nothing is fitted.

On an H200 it depends on how a kernel asks: 21 to 27 bytes arrive of rows that threads gather, 31
where all multiprocessors ask for something else (7e12 bytes a second together), 43 to 53 of tiles
that many ask for at the same time. Models that were fitted to such times have a rate of their own.
"""

FITTED_CLOCK_HZ = 1.75e9
"""Clock of the H100 and H200 to whose times cost models are fitted. Those that choose for other
architectures too turn clocks into seconds by it there, as their other constants are Hopper's.
"""

GUESSED_CLOCK_HZ = 1.5e9
"""The same in models of mma.sync kernels, which are fitted to no times."""

MOST_SMEM_BYTES = max(row.smem_bytes for row in HARDWARE.values())
"""Shared memory that no block of any architecture exceeds."""


def lacks(arch: str, name: str) -> bool:
    """Whether an architecture has no instruction that field `name` of a row could be about."""
    row = HARDWARE[arch]
    if name == "sparse_factor":
        return row.sparse_factor == 1.0
    return (name.endswith("_rate") or name == "clustered_units") and not getattr(row, name)
