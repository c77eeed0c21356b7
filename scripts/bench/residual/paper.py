"""The figures that the residual paper prints.

*A method for accelerating low precision operations by sparse matrix multiplication*, measured on an
A100-PCIE-40GB with CUTLASS 3.3 and cuSPARSE, and on a Xeon Platinum 8163 with MKL.
"""

from __future__ import annotations

from typing import Any

_NAMES = {
    "uniform": "uniform(0, 1)",
    "normal": "normal(10, 3)",
    "kar": "chi-square(1)",
    "esp": "exponential(4)",
    "poison": "Poisson(10)",
}
"""Its words for the distributions."""

GPU_SPEEDS = {
    1024: {"full": 3.35, "direct": 9.06, "sparse": (3.21, 3.61, 4.22, 5.31, 5.62)},
    4096: {"full": 27.96, "direct": 83.97, "sparse": (25.19, 32.36, 44.13, 53.13, 68.12)},
    8192: {"full": 44.05, "direct": 125.06, "sparse": (40.33, 49.9, 67.72, 74.48, 97.35)},
    16384: {"full": 50.32, "direct": 145.20, "sparse": (49.82, 60.12, 77.73, 100.41, 128.96)},
}
"""Table 3, TOPS, densities `GPU_DENSITIES`."""
GPU_DENSITIES = (0.001, 0.0005, 0.00025, 0.0001, 0.00005)

CPU_SPEEDS = {
    512: {"full": 9.19, "direct": 23.39, "sparse": (7.84, 7.87, 7.89, 7.92, 7.92)},
    1024: {"full": 73.56, "direct": 175.76, "sparse": (67.28, 70.05, 71.32, 71.91, 72.24)},
    4096: {"full": 277.40, "direct": 799.11, "sparse": (290.44, 354.21, 443.84, 513.31, 582.08)},
    8192: {"full": 379.75, "direct": 1122.17, "sparse": (335.83, 469.07, 572.40, 717.81, 926.42)},
}
"""Table 4, GOPS, densities `CPU_DENSITIES`."""
CPU_DENSITIES = (0.30, 0.20, 0.10, 0.05, 0.01)

_GAINS = {
    8: {
        "uniform": ((-41.63, 2.10), (-26.41, 1.28), None),
        "normal": ((-31.23, 2.10), (-23.50, 1.85), None),
        "kar": ((-0.49, 1.38), (-0.03, 1.28), (0.08, 1.05)),
        "esp": ((-4.63, 1.46), (-2.25, 1.24), None),
        "poison": ((-31.76, 2.10), (-29.48, 1.95), None),
    },
    4: {
        "uniform": ((-1.79, 2.10), (-0.30, 1.28), None),
        "normal": ((-1.14, 2.10), (-0.36, 1.85), None),
        "kar": ((0.12, 1.38), (0.11, 1.28), (0.13, 1.05)),
        "esp": ((0.15, 1.46), (0.10, 1.24), None),
        "poison": ((-1.12, 2.10), (-0.43, 1.95), None),
    },
}
"""Table 5 at thresholds 1, 0.8 and 0.5; None where the density does not suffice."""

_FACTORISATIONS = {
    "kar": {"direct": (0.945681, 0.650822), "full": (0.933172, 0.121827),
            "sparse": (0.930159, 0.150565)},
    "uniform": {"direct": (0.979227, 0.819087), "full": (0.97261, 0.139795),
                "sparse": (0.96432, 0.141484)},
    "normal": {"direct": (0.995767, 0.835512), "full": (0.99078, 0.124808),
               "sparse": (0.993823, 0.146129)},
    "esp": {"direct": (0.938367, 0.669409), "full": (0.932157, 0.121116),
            "sparse": (0.926652, 0.149053)},
}  # fmt: skip
"""Table 6: relative errors of Q R at 4 and at 8 bits."""

LENET = {
    4: {"accuracy": (0.4294, 0.5793, 0.671, 0.7023), "speedup": (10.13, 6.62, 5.14, 3.55)},
    8: {"accuracy": (0.8403, 0.8486, 0.8512, 0.8518), "speedup": (2.32, 1.96, 1.42, 1.42)},
}
"""Table 7, on FashionMNIST, at thresholds 1, 0.1, 0.01 and 0."""
LENET_FLOAT = 0.8518

DENSITY_OF_A_THIRD = {
    "exponential(4)": 0.6, "normal(10, 3)": 0.6, "Poisson(10)": 0.6, "chi-square(1)": 0.5,
    "uniform(0, 1)": 0.7,
}  # fmt: skip
"""Section 4.1.D on figure 8: the threshold from which on the density is below 0.3, roughly."""


def gain(name: str, bits: int, threshold: float) -> tuple[float, float] | None:
    """Table 5: accuracy gain and speed-up over the full residual; None where it has none."""
    (short,) = (short for short, long in _NAMES.items() if long == name)
    return _GAINS[bits][short][(1.0, 0.8, 0.5).index(threshold)]


def factorisation(name: str, bits: int) -> dict[str, float] | None:
    """Table 6: the errors by form; None for a distribution that it does not have."""
    found = _FACTORISATIONS.get(next(short for short, long in _NAMES.items() if long == name))
    return found and {form: pair[(4, 8).index(bits)] for form, pair in found.items()}


def printed() -> dict[str, Any]:
    """All of it as JSON has it."""
    return {
        "title": "A method for accelerating low precision operations by sparse matrix "
                 "multiplication",
        "devices": ["NVIDIA A100-PCIE-40GB", "Intel Xeon Platinum 8163"],
        "table_3_tops": {"densities": GPU_DENSITIES, "sizes": GPU_SPEEDS},
        "table_4_gops": {"densities": CPU_DENSITIES, "sizes": CPU_SPEEDS},
        "table_5": {
            f"{bits} bits": {_NAMES[name]: row for name, row in rows.items()}
            for bits, rows in _GAINS.items()
        },
        "table_6": {
            "bits": (4, 8), **{_NAMES[name]: row for name, row in _FACTORISATIONS.items()}
        },
        "table_7": {
            "thresholds": (1.0, 0.1, 0.01, 0.0), "float32": LENET_FLOAT,
            **{f"{bits} bits": row for bits, row in LENET.items()},
        },
        "figure_8_threshold_of_density_0.3": DENSITY_OF_A_THIRD,
    }  # fmt: skip
