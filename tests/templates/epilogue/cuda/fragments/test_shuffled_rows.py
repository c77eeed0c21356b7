"""Packing by shuffles, its CUDA source run by four host threads, gives `apply_epilogue`'s bytes."""

from __future__ import annotations

import ctypes
import subprocess

import numpy as np
import pytest
from host_rows import COMPILER, SHIMS, aligned, needs_compiler

from autoq.templates.arrays.element import INTEGER_RANGE, element
from autoq.templates.arrays.storage import stored, stored_bytes, to_stored, value_dtype
from autoq.templates.epilogue import Epilogue, apply_epilogue, pack_scalars
from autoq.templates.epilogue.cuda.fragments.shuffled_rows import TILES, ShuffledRows

pytestmark = needs_compiler

CHANNELS = 8 * TILES
LANES = 4

# The lanes of a fragment row in lockstep: a shuffle writes, waits for all, reads, and waits again.
LOCKSTEP = """
#include <barrier>
#include <thread>
#include <vector>
struct alignas(8) float2 { float x, y; };
struct alignas(8) int2 { int x, y; };
static thread_local struct { int x; } threadIdx;
static std::barrier<> together(4);
static unsigned exchanged[4];
static unsigned __shfl_xor_sync(unsigned, unsigned value, int distance) {
  exchanged[threadIdx.x % 4] = value;
  together.arrive_and_wait();
  const unsigned found = exchanged[(threadIdx.x ^ distance) % 4];
  together.arrive_and_wait();
  return found;
}
"""
ENTRY = """
extern "C" void entry_{number}(const unsigned* acc, const float* scale, const int* bias,
                      const float* scalars, const {residual}* residual, {out}* y,
                      int ok0, int ok1, int left) {{
  std::vector<std::thread> lanes;
  for (int lane = 0; lane < 4; ++lane) lanes.emplace_back([=] {{
    threadIdx.x = lane;
    unsigned words[2 * {words} + 1];
    {load}
    {rows}(acc + lane * 16, scale + 2 * lane, bias + 2 * lane, bias + 32 + 2 * lane, scalars,
           words, words + {words}, y + {lane_bytes} * lane, y + {pitch} + {lane_bytes} * lane,
           ok0, ok1, left - 8 * lane);
  }});
  for (auto& lane : lanes) lane.join();
}}
"""


CASES = [
    ("int8", None, False, 64, 64, 16),
    ("uint8", "uint8", True, 32, 32, 16),
    ("int8", "int8", False, 30, 30, 16),
    ("uint8", "float32", False, 27, 19, 16),
    ("int8", "uint8", True, 48, 48, 128),
    ("int4", None, False, 64, 64, 16),
    ("uint4", "int8", True, 30, 30, 16),
    ("int4", "float32", False, 36, 20, 16),
]
ROWS = [
    ShuffledRows(Epilogue(out, residual, before), pitch, left < CHANNELS, True, block_pitch)
    for out, residual, before, pitch, left, block_pitch in CASES
] + [ShuffledRows(Epilogue("int8"), 32, False)]


def residual_pitch_of(row: ShuffledRows) -> int:
    return row.pitch if row.block_pitch == 16 else 1024


def entry(number: int, row: ShuffledRows) -> str:
    """The epilogue with an entry point that runs the four lanes of a row."""
    rows, load, words = row.rows(), row.load(), row.residual_words
    loads = "\n    ".join(
        f"{load.name}(words + {half * words}, "
        f"residual + {half * residual_pitch_of(row)} + 2 * lane, ok{half}, left - 2 * lane);"
        for half in range(2 if words else 0)
    )
    text = ENTRY.format(
        number=number,
        residual=element(row.epilogue.residual_dtype or "int8").c_type,
        out=element(row.epilogue.out_dtype).c_type,
        words=words,
        load=loads,
        rows=rows.name,
        pitch=stored_bytes((row.pitch,), row.epilogue.out_dtype),
        lane_bytes=stored_bytes((8,), row.epilogue.out_dtype),
    )
    return f"namespace n{number} {{\n{load.source}{rows.source}{text}}}\n"


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """Every row of ROWS as a host function, in one library: threads take long to compile."""
    folder = tmp_path_factory.mktemp("rows")
    source, built = folder / "rows.cpp", folder / "rows.so"
    entries = [entry(number, row) for number, row in enumerate(ROWS)]
    source.write_text("".join([SHIMS, LOCKSTEP, *entries]))
    flags = ["-std=c++20", "-O1", "-ffp-contract=off", "-fno-strict-aliasing", "-w", "-shared"]
    command = [COMPILER, *flags, "-fPIC", "-pthread", "-o", str(built), str(source)]
    subprocess.run(command, check=True)
    return ctypes.CDLL(str(built))


def lane_fragments(total: np.ndarray) -> np.ndarray:
    """Accumulators [2, 32 channels] as the lanes hold them, uint32 [lane, tile, row, 2]."""
    tiles = total.reshape(2, TILES, LANES, 2).transpose(2, 1, 0, 3)
    return (tiles & 0xFFFFFFFF).astype(np.uint32)


@pytest.mark.parametrize(
    ("out_dtype", "residual_dtype", "before", "pitch", "left", "block_pitch"),
    CASES,
)
def test_four_lanes_pack_what_the_epilogue_says(
    out_dtype, residual_dtype, before, pitch, left, block_pitch, library
):
    number = CASES.index((out_dtype, residual_dtype, before, pitch, left, block_pitch))
    row, epilogue = ROWS[number], ROWS[number].epilogue
    rng = np.random.default_rng(4)
    accumulator = rng.integers(-60000, 60000, (2, CHANNELS))
    bias = rng.integers(-9000, 9000, (2, CHANNELS)).astype(np.int32)
    scale = rng.uniform(0.001, 0.004, CHANNELS).astype(np.float32)
    least, most = INTEGER_RANGE[out_dtype]
    scalars = pack_scalars(
        accumulator_low=-90, accumulator_high=95, accumulator_scale=0.7, residual_scale=0.6,
        residual_zero_point=4, low=least - 5, high=most - 5, zero_point=5,
    )  # fmt: skip
    dtype = residual_dtype or "int8"
    values = (
        rng.standard_normal((2, CHANNELS)).astype(dtype)
        if dtype == "float32"
        else rng.integers(*INTEGER_RANGE[dtype], (2, CHANNELS)).astype(dtype)
    )
    # Where a channel's residual lies: blocks of 16 channels, block_pitch apart.
    channel = np.arange(CHANNELS)
    at = channel // 16 * block_pitch + channel % 16
    residual_pitch = residual_pitch_of(row)
    residual = np.zeros(residual_pitch + 512, dtype)
    for half in range(2):
        used = channel < left
        residual[half * residual_pitch + at[used]] = values[half, used]
    poison = 0x55  # bytes, and nibbles of 5
    y = np.full(stored_bytes((2 * pitch + CHANNELS,), out_dtype), poison, np.uint8)
    y = aligned(y.view(stored((1,), out_dtype)[1]))
    arrays = [lane_fragments(accumulator), scale, bias, scalars, residual]
    arrays = [*map(aligned, arrays), y]
    function = library[f"entry_{number}"]
    function(*[ctypes.c_void_p(array.ctypes.data) for array in arrays], 1, 1, left)
    count = min(left, CHANNELS)
    fill = poison & 15 if element(out_dtype).bits == 4 else poison
    expected = np.full(2 * pitch + CHANNELS, fill, value_dtype(out_dtype))
    for half in range(2):
        line = apply_epilogue(
            epilogue, accumulator[half].astype(np.int32), bias[half], scale, scalars,
            values[half] if residual_dtype else None,
        )  # fmt: skip
        expected[half * pitch : half * pitch + count] = line[:count]
    np.testing.assert_array_equal(y, to_stored(expected, out_dtype))


def test_rows_that_are_no_pixels_are_not_stored(library):
    arrays = (
        np.ones((LANES, TILES, 2, 2), np.uint32), np.ones(CHANNELS, np.float32),
        np.zeros(2 * CHANNELS, np.int32), pack_scalars(low=-128.0, high=127.0),
        np.zeros(64, np.int8), np.full(64, 77, np.int8),
    )  # fmt: skip
    arrays = [aligned(array) for array in arrays]
    function = library[f"entry_{len(CASES)}"]
    function(*[ctypes.c_void_p(array.ctypes.data) for array in arrays], 0, 1, 32)
    assert (arrays[-1][:32] == 77).all() and (arrays[-1][32:] == 1).all()
