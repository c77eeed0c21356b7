"""The short epilogue, compiled for the host, gives the bits of `apply_epilogue`."""

from __future__ import annotations

import ctypes
import functools
import re
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from host_rows import COMPILER, SHIMS, aligned, fragments, needs_compiler, random_table

from autoq.templates.arrays.element import INTEGER_RANGE, element
from autoq.templates.epilogue import Epilogue, apply_epilogue, pack_scalars
from autoq.templates.epilogue.cuda.fragments.fragment_rows import FragmentRows
from autoq.templates.epilogue.cuda.parameters.epilogue_table import epilogue_table, table_words
from autoq.templates.epilogue.cuda.parameters.scalars import packed_scalars
from autoq.templates.epilogue.cuda.short_forms.bounds import limits
from autoq.templates.epilogue.cuda.values.requantisation import Form

MORE_SHIMS = r"""
static float4 make_float4(float a, float b, float c, float d) { return {a, b, c, d}; }
static float __fmaf_rn(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
static int __float_as_int(float a) { return (int)__float_as_uint(a); }
static float __int_as_float(int a) { return __uint_as_float(a); }
template <class T> static T least(T a, T b) { return b < a ? b : a; }
template <class T> static T most(T a, T b) { return a < b ? b : a; }
static int wrap(int a, int b) { return (int)((unsigned)a + (unsigned)b); }
static int __viaddmin_s32_relu(int a, int b, int c) { return most(least(wrap(a, b), c), 0); }
static int __viaddmax_s32(int a, int b, int c) { return most(wrap(a, b), c); }
static int __float2int_rn(float a) {
  return (int)least(most(__builtin_nearbyint((double)a), -2147483648.), 2147483647.);
}
static float __saturatef(float a) { return a > 0.f ? least(a, 1.f) : 0.f; }
// Halves below 2**-14 are denormal.
static float half(unsigned short bits) { return (float)bits * 0x1p-24f; }
static unsigned saturate(int v, int low, int high) { return least(most(v, low), high) & 0xff; }
"""

ENTRY = """
extern "C" void entry(const unsigned* acc, const float* scale, const float* limits,
                      float residual_zero_point, const unsigned* words, {out}* y,
                      const void* scalars) {{
  {rows}(acc, scale, limits, residual_zero_point, words, words + {channels} / 4, y,
         y + {channels}, 1, 1, {channels}{last});
}}
"""

CASES = [
    Epilogue("int8"),
    Epilogue("uint8"),
    Epilogue("int8", "uint8"),
    Epilogue("int8", "int8", True),
    Epilogue("uint8", "uint8", True),
    Epilogue("uint8", table=True),
    Epilogue("int8", "uint8", True, table=True),
]


@functools.cache
def build(row: FragmentRows, form: Form) -> ctypes.CDLL:
    """A short form as a host library; inline PTX becomes C++ expressions."""
    rows = row.rows(form)
    source = rows.source
    for dtype in ("int8", "uint8"):
        bounds = ", ".join(map(str, INTEGER_RANGE[dtype]))
        source = re.sub(
            rf'asm\("cvt\.pack\.sat\.{element(dtype).ptx}[^:]*: "=r"\((\w+)\) : "r"\((\w+)\), '
            r'"r"\((\w+)\), "r"\((\w+)\)\);',
            rf"\1 = saturate(\3, {bounds}) | saturate(\2, {bounds}) << 8 | \4 << 16;",
            source,
        )
    source = re.sub(
        r'asm\("cvt\.f32\.f16[^:]*: "=f"\((.*?)\) : "h"\((.*)\)\);', r"\1 = half(\2);", source
    )
    assert "asm" not in source
    out = element(row.epilogue.out_dtype).c_type
    last = ", (const char*)scalars + 32" if row.epilogue.table else ""
    entry = ENTRY.format(out=out, rows=rows.name, channels=row.channels, last=last)
    flags = ["-O1", "-std=c++17", "-ffp-contract=off", "-fno-strict-aliasing", "-w", "-shared"]
    with TemporaryDirectory() as folder:
        text, library = Path(folder, "row.cpp"), Path(folder, "row.so")
        text.write_text(SHIMS + MORE_SHIMS + source + entry)
        subprocess.run([COMPILER, *flags, "-fPIC", "-o", str(library), str(text)], check=True)
        return ctypes.CDLL(str(library))


def scalars_of(epilogue: Epilogue, relu: bool) -> np.ndarray:
    least, most = INTEGER_RANGE[epilogue.out_dtype]
    zero_point = 7.0 if least == 0 else -5.0
    return pack_scalars(
        accumulator_low=-120.0, accumulator_high=121.0, accumulator_scale=0.61,
        residual_scale=0.43, residual_zero_point=3.0, low=0.0 if relu else least - zero_point,
        high=most - zero_point, zero_point=zero_point,
    )  # fmt: skip


@needs_compiler
@pytest.mark.parametrize("epilogue", CASES, ids=str)
@pytest.mark.parametrize("relu", [False, True])
def test_short_form_is_exact(epilogue: Epilogue, relu: bool) -> None:
    channels = 16
    row = FragmentRows(epilogue, channels, channels, tail=False, bias=False)
    library = build(row, Form.BOUNDED)
    rng = np.random.default_rng(5)
    scalars = scalars_of(epilogue, relu)
    dtype = epilogue.residual_dtype or "int8"
    least, most = INTEGER_RANGE[dtype]
    table = random_table(epilogue, rng)
    packed = aligned(packed_scalars(epilogue, {"scalars": scalars, "table": table}))
    for trial in range(60):
        span = 10 ** (2 + trial % 6)
        total = rng.integers(-span, span, (2, channels))
        scale = 0.5 ** rng.integers(4, 12, channels) * (1 + trial % 2 * 0.37)
        scale = scale.astype("f4")
        small = limits(
            epilogue, "int8", np.zeros((channels, 1), np.int8), np.full(channels, span, np.int32),
            scale, scalars,
        )  # fmt: skip
        assert small[0] == 1
        # A thread reads every fourth vector of the shared table.
        strided = np.zeros((channels // 4, 4, 4), np.float32)
        strided[:, 0] = scale.reshape(-1, 4)
        residual = rng.integers(least, most + 1, (2, channels)).astype(dtype)
        y = aligned(np.full((2, channels), 99, epilogue.out_dtype))
        arrays = (aligned(fragments(total)), aligned(strided), aligned(small))
        pointers = [array.ctypes.data_as(ctypes.c_void_p) for array in arrays]
        words = aligned(residual)
        library.entry(
            *pointers, ctypes.c_float(3.0), words.ctypes.data_as(ctypes.c_void_p),
            y.ctypes.data_as(ctypes.c_void_p), packed.ctypes.data_as(ctypes.c_void_p),
        )  # fmt: skip
        expected = apply_epilogue(
            epilogue, total.astype(np.int32), np.int32(0), scale, scalars,
            residual if epilogue.residual_dtype else None, table,
        )  # fmt: skip
        np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("change", [
    {"zero_point": 0.5}, {"high": 40.0}, {"accumulator_low": -np.inf}, {"accumulator_scale": 1e6},
    {"residual_scale": np.nan}, {"residual_scale": 1e5}, {"residual_zero_point": np.inf},
    {"low": -1000.0}, {"accumulator_low": 130.0},
])  # fmt: skip
def test_limits_decline_what_they_cannot_prove(change: dict[str, float]) -> None:
    epilogue = Epilogue("int8", "int8", True)
    good = dict(
        accumulator_low=-120.0, accumulator_high=121.0, accumulator_scale=0.61,
        residual_scale=0.43, residual_zero_point=3.0, low=-123.0, high=132.0, zero_point=-5.0,
    )  # fmt: skip
    weight, bias = np.full((2, 8), -3, np.int8), np.array([5, -7], np.int32)
    scale = np.full(2, 0.5, np.float32)
    assert limits(epilogue, "uint8", weight, bias, scale, pack_scalars(**good))[0] == 1
    changed = pack_scalars(**(good | change))
    assert not limits(epilogue, "uint8", weight, bias, scale, changed).any()
    # 24 * 255 + 7 is the largest total.
    for largest, exact in ((2.0**22 - 9, 1), (2.0**22 + 9, 0)):
        scale = np.full(2, largest / (24 * 255 + 7), np.float32)
        assert limits(epilogue, "uint8", weight, bias, scale, pack_scalars(**good))[0] == exact


@pytest.mark.parametrize(("block_n", "channels"), [(128, 16), (96, 8), (48, 4)])
def test_table_holds_each_lane_s_channels(block_n: int, channels: int) -> None:
    scale = np.arange(2 * block_n, dtype=np.float32)
    bias = np.arange(2 * block_n, dtype=np.int32) + 1000
    table = epilogue_table(scale, bias, block_n)
    assert table.shape == (2, table_words(block_n, True))
    assert np.array_equal(epilogue_table(scale, None, block_n), table[:, 2 * block_n :])
    start = table[1, : 2 * block_n].reshape(-1, channels // 2, 4, 2, 2)
    scales = table[1, 2 * block_n :].view(np.float32).reshape(-1, channels // 4, 4, 4)
    for group in range(block_n // (4 * channels)):
        for lane in range(4):
            first = block_n + (group * 4 + lane) * channels
            mine = np.arange(first, first + channels)
            assert np.array_equal(scales[group, :, lane].ravel(), mine)
            for row in range(2):
                assert np.array_equal(start[group, :, lane, row].ravel(), mine + 1000)
