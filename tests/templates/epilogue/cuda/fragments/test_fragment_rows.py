"""The epilogue's CUDA source, compiled for the host, gives the bits of `apply_epilogue`."""

from __future__ import annotations

import ctypes
import itertools
import subprocess

import numpy as np
import pytest
from host_rows import COMPILER, SHIMS, aligned, fragments, needs_compiler, random_table

from autoq.templates.arrays.element import INTEGER_RANGE, element
from autoq.templates.arrays.storage import stored, to_stored, value_dtype
from autoq.templates.epilogue import Epilogue, apply_epilogue, pack_scalars
from autoq.templates.epilogue.cuda.fragments.fragment_rows import FragmentRows
from autoq.templates.epilogue.cuda.parameters.scalars import packed_scalars

pytestmark = needs_compiler

ENTRY = """
extern "C" void entry_{number}(const unsigned* acc, const float* scale, const int* bias,
                      const float* scalars, const {residual}* residual, {out}* y,
                      int ok0, int ok1, int left) {{
  unsigned words[2 * {words} + 1];
  {load}
  {rows}(acc, scale, bias, bias + {channels}, scalars, words, words + {words}, y, y + {pitch},
         ok0, ok1, left{last});
}}
"""

CASES = [
    Epilogue(out, residual, before)
    for out, (residual, before) in itertools.product(
        ("int8", "uint8", "int32", "float32"),
        ((None, False), ("int8", False), ("int8", True), ("uint8", True), ("float32", False)),
    )
    if out != "int32" or residual is None
] + [
    Epilogue("int4"),
    Epilogue("uint4", "uint4"),
    Epilogue("int4", "int4", True),
    Epilogue("uint4", "int8", True),
    Epilogue("float32", "int4"),
    Epilogue("int8", "uint4", True),
    Epilogue("int8", table=True),
    Epilogue("uint8", "int8", True, table=True),
]


SHAPES = [(16, 64, 16), (16, 100, 12), (8, 24, 8), (4, 7, 3)]
"""Channels, the distance between rows, and how many channels a row has."""
ROWS = [
    FragmentRows(epilogue, channels, pitch, tail=left < channels, row_bias=True)
    for epilogue in CASES
    for channels, pitch, left in SHAPES
]


def entry(number: int, row: FragmentRows) -> str:
    """The row epilogue with an entry point, in a namespace of its own."""
    rows, load = row.rows(), row.load()
    words, pitch = row.residual_words, row.pitch
    residual_pitch, out_pitch = (
        stored((pitch,), dtype or "int8")[0][0]
        for dtype in (row.epilogue.residual_dtype, row.epilogue.out_dtype)
    )
    loads = "\n  ".join(
        f"{load.name}(words + {half * words}, residual + {half * residual_pitch}, ok{half}, left);"
        for half in range(2 if row.residual_words else 0)
    )
    text = ENTRY.format(
        number=number,
        residual=element(row.epilogue.residual_dtype or "int8").c_type,
        out=element(row.epilogue.out_dtype).c_type,
        words=row.residual_words,
        load=loads,
        rows=rows.name,
        last=", (const char*)scalars + 32" if row.epilogue.table else "",
        channels=row.channels,
        pitch=out_pitch,
    )
    return f"namespace n{number} {{\n{load.source}{rows.source}{text}}}\n"


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """Every row of ROWS as a host function; a call of the compiler for each takes three times."""
    folder = tmp_path_factory.mktemp("rows")
    source, built = folder / "rows.cpp", folder / "rows.so"
    source.write_text(SHIMS + "".join(entry(number, row) for number, row in enumerate(ROWS)))
    flags = ["-O1", "-ffp-contract=off", "-fno-strict-aliasing", "-w", "-shared", "-fPIC"]
    subprocess.run([COMPILER, *flags, "-o", str(built), str(source)], check=True)
    return ctypes.CDLL(str(built))


@pytest.mark.parametrize("epilogue", CASES, ids=str)
@pytest.mark.parametrize(("channels", "pitch", "left"), SHAPES)
def test_rows_are_exact(
    epilogue: Epilogue, channels: int, pitch: int, left: int, library: ctypes.CDLL
) -> None:
    number = CASES.index(epilogue) * len(SHAPES) + SHAPES.index((channels, pitch, left))
    function = library[f"entry_{number}"]
    rng = np.random.default_rng(5)
    zero_point = 7.0 if epilogue.out_dtype.startswith("u") else -5.0
    least, most = INTEGER_RANGE.get(epilogue.out_dtype, (-128, 127))
    scalars = aligned(
        pack_scalars(
            accumulator_low=-120.0, accumulator_high=121.0, accumulator_scale=0.5,
            residual_scale=0.25, residual_zero_point=3.0, low=least - zero_point + 2,
            high=most - zero_point - 1, zero_point=zero_point,
        )
    )  # fmt: skip
    table = random_table(epilogue, rng)
    packed = aligned(packed_scalars(epilogue, {"scalars": scalars, "table": table}))
    for trial in range(40):
        span = 10 ** (2 + trial % 7)
        total = rng.integers(-span, span, (2, channels))
        bias = aligned(rng.integers(-span, span, (2, channels)).astype(np.int32))
        # Scales of a power of two make ties.
        scale = aligned(
            (0.5 ** rng.integers(1, 12, channels) * (1 + trial % 2 * 0.37)).astype("f4")
        )
        residual_dtype = epilogue.residual_dtype or "int8"
        bounds = INTEGER_RANGE.get(residual_dtype, (0, 127))
        residual = rng.integers(bounds[0], bounds[1] + 1, (2, pitch))
        residual = residual.astype(value_dtype(residual_dtype))
        shape, dtype = stored((2, pitch), epilogue.out_dtype)
        y = aligned(np.full(shape, 99, dtype))
        residual_array = aligned(to_stored(residual, residual_dtype))
        function(
            *(
                array.ctypes.data_as(ctypes.c_void_p)
                for array in (aligned(fragments(total)), scale, bias, packed, residual_array, y)
            ),
            1, trial % 3 != 0, left,
        )  # fmt: skip
        expected = apply_epilogue(
            epilogue, total.astype(np.int32), bias, scale, scalars,
            residual[:, :channels] if epilogue.residual_dtype else None, table,
        )  # fmt: skip
        rows = slice(0, 2 if trial % 3 else 1)
        # The last byte of an odd row of 4 bits is written whole, its upper half as 0.
        kept = to_stored(expected[rows, :left], epilogue.out_dtype)
        assert np.array_equal(y[rows, : kept.shape[1]], kept)
        untouched = y.copy()
        untouched[rows, : kept.shape[1]] = 99
        assert np.all(untouched == 99), "stores beyond the tail or into a masked row"
