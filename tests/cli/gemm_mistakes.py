"""Mistakes in asking for a product: arguments of `autoq gemm`, and words of the line they give."""

CPU = ("--target", "cpu")

MISTAKES = {
    "no rows": ((0, 32, 48, *CPU), ("M, N, K = 0, 32, 48", "at least 1")),
    "negative": (("--", 64, -32, 48), ("M, N, K = 64, -32, 48", "at least 1")),
    "huge": ((10**30, 32, 48, *CPU), ("at most 2147483647 values",)),
    "huge result": ((10**6, 10**6, 1, *CPU), ("at most 2147483647 values",)),
    "words": (("many", 32, 48), ("'M'", "integer")),
    "two extents": ((64, 32), ("'K'",)),
    "four extents": ((64, 32, 48, 16), ("16",)),
    "unknown type of A": ((64, 32, 48, "--a", "f7"), ("--a 'f7'", "s8, u8, s4", "bf16, f32, e4m3")),
    "unknown type of B": ((64, 32, 48, "--b", "int7"), ("--b 'int7'", "s8, u8")),
    "sums as a factor": ((64, 32, 48, "--a", "s32"), ("--a 's32'", "s8, u8")),
    "two types of floats": ((64, 32, 48, "--a", "f16", "--b", "bf16"), ("--a f16 --b bf16",)),
    "result of integers": ((64, 32, 48, "--out", "f8"), ("--out 'f8'", "s8, u8", "s32, f16, bf16")),
    "result of floats": ((64, 32, 48, "--a", "f16", "--out", "s8"), ("--out 's8'", "f16, bf16")),
    "group of integers": ((64, 32, 48, "--group", 16), ("--group 16", "not to s8", "f16")),
    "group of integers that does not divide": (
        (64, 32, 100, "--out", "f16", "--group", 48), ("group 48", "k = 100"),
    ),
    "bias of sums": ((64, 32, 48, "--out", "s32", "--bias"), ("--bias", "s32")),
    "scaled sums": ((64, 32, 48, "--out", "s32", "--scale", "row"), ("--scale row", "s32")),
    "activation of sums": (
        (64, 32, 48, "--out", "s32", "--activation", "relu"), ("is not for results of s32",),
    ),
    "no name of a scale": ((64, 32, 48, "--scale", ""), ("--scale ''", "column, row")),
    "no type of a residual": ((64, 32, 48, "--a", "f16", "--residual", ""), ("--residual ''",)),
    "no type of a residual of integers": ((64, 32, 48, "--residual", ""), ("--residual ''",)),
    "scaled columns of sums": (
        (64, 32, 48, "--out", "s32", "--scale", "column"), ("--scale column", "s32"),
    ),
    "rows of integers without columns": (
        (64, 32, 48, "--scale", "row"), ("--scale row", "always has scales by column"),
    ),
    "residual of floats on the CPU": (
        (64, 32, 48, *CPU, "--a", "bf16", "--residual", "bf16"),
        ("no kernel for cpu", "with --residual bf16; without it"),
    ),
    "batch on the CPU": (
        (64, 32, 48, *CPU, "--a", "bf16", "--batch", 2), ("with --batch 2; without it",),
    ),
    "unknown scale": ((64, 32, 48, "--scale", "block"), ("--scale 'block'", "column, row")),
    "no scale of a weight": (
        (64, 32, 48, "--a", "f16", "--scale", "row"), ("--scale row", "scales by column"),
    ),
    "no scale of a weight on the left": (
        (64, 32, 48, "--b", "f16", "--scale", "column"), ("always has scales by row",),
    ),
    "scale of floats": (
        (64, 32, 48, "--a", "f16", "--b", "f16", "--scale", "column"), ("f16 has none",),
    ),
    "residual of another type": (
        (64, 32, 48, "--a", "f16", "--residual", "f32"), ("--residual 'f32'", "f16"),
    ),
    "bytes beside eight bits of floats": (
        (64, 32, 48, "--a", "e4m3"), ("weight_dtype 'int8'", "float8_e4m3fn"),
    ),
    "float32 with itself": (
        (64, 32, 48, *CPU, "--a", "f32", "--b", "f32"), ("multiplied with integers alone",),
    ),
    "group of four bits that does not divide": (
        (64, 32, 48, *CPU, "--a", "f32", "--b", "s4", "--group", 32), ("group 32", "k = 48"),
    ),
    "scaled batch of integers": (
        (64, 32, 48, "--batch", 2, "--scale", "row,column"), ("--scale row,column", "one scale"),
    ),
    "group of a batch of integers": (
        (64, 32, 48, "--batch", 2, "--out", "f32", "--group", 16), ("--group 16", "one scale"),
    ),
    "residual of a batch of integers to halves": (
        (64, 32, 48, "--batch", 2, "--out", "f16", "--residual", "f16"),
        ("end in bytes, int32 or plain floats",),
    ),
    "batch of four bits": ((64, 32, 48, "--batch", 2, "--a", "s4"), ("choose int8 or uint8",)),
    "huge batch": (
        (64, 32, 48, "--a", "f16", "--batch", 10**9), ("--batch 1000000000", "at most 2147483647"),
    ),
    "no batch": ((64, 32, 48, "--a", "f16", "--batch", 0), ("--batch 0", "at least 1")),
    "negative group of integers": ((64, 32, 48, "--group", -5), ("group -5", "at least 0")),
    "eight bits of floats on the CPU": (
        (64, 32, 48, *CPU, "--a", "e4m3", "--b", "e4m3"),
        ("no kernel for cpu", "GPUs from sm_89 on", "bf16"),
    ),
    "unknown residual": ((64, 32, 48, "--residual", "s32"), ("--residual 's32'", "s8, u8")),
    "curved nibbles": ((64, 32, 48, "--out", "s4", "--activation", "silu"), ("silu", "s4")),
    "unknown curve": ((64, 32, 48, "--activation", "tanh"), ("'tanh'", "relu, gelu")),
    "zero points of integers": ((64, 32, 48, "--zero-points"), ("--zero-points", "floats")),
    "activation of integers": ((64, 32, 48, "--activation", "relu"), ("--activation relu",)),
    "group of floats": (
        (64, 32, 48, "--a", "f16", "--b", "f16", "--group", 16), ("--group 16", "integers"),
    ),
    "zero points of floats": (
        (64, 32, 48, "--a", "bf16", "--b", "bf16", "--zero-points"), ("--zero-points", "integers"),
    ),
    "group that does not divide": (
        (64, 32, 100, "--a", "f16", "--group", 48), ("group 48", "k = 100"),
    ),
    "negative group": ((64, 32, 64, "--a", "f16", "--group", -8), ("group -8", "at least 0")),
    "unknown activation": (
        (64, 32, 64, "--a", "f16", "--activation", "tanh"), ("'tanh'", "relu, gelu"),
    ),
    "unknown target": ((64, 32, 48, "--target", "tpu"), ("'tpu'", "cuda:sm_80")),
    "unknown tuner": ((64, 32, 48, *CPU, "--tuner", "magic"), ("'magic'", "diverse")),
    "no trials": ((64, 32, 48, *CPU, "--trials", 0), ("--trials 0", "at least 1")),
    "no time": ((64, 32, 48, *CPU, "--time-budget", 0), ("--time-budget 0", "positive")),
    "cold CPU": ((64, 32, 48, *CPU, "--cold"), ("--cold", "CUDA")),
    "negative jobs": ((64, 32, 48, *CPU, "--jobs", -1), ("--jobs",)),
    "a GPU's number": ((64, 32, 48, *CPU, "--device", 3), ("device 3", "the target is the CPU")),
    "negative device": ((64, 32, 48, "--device", -1), ("--device",)),
    "absent records": ((64, 32, 48, *CPU, "--tuning-records", "no.jsonl"), ("no.jsonl", "No such")),
    "absent folder": ((64, 32, 48, *CPU, "-o", "absent/x.jsonl"), ("absent",)),
    "four bits on the CPU": (
        (64, 32, 48, *CPU, "--a", "s4", "--b", "s4", "--out", "s4"),
        ("no kernel for cpu", "u4 x s8, s4 to s8"),
    ),
    "unsigned weights": (
        (64, 32, 48, "--target", "cuda:sm_90a", "--b", "u8"),
        ("s8 [64, 48] x u8 [48, 32]", "no kernel for cuda sm_90a", "f16, bf16"),
    ),
    "bfloat16 on a T4": (
        (64, 32, 48, "--target", "cuda:sm_75", "--a", "bf16"), ("cuda sm_75", "s8, s4"),
    ),
    "a table on the CPU": (
        (64, 32, 48, *CPU, "--activation", "gelu"), ("no kernel for cpu", "gelu to bytes", "f16"),
    ),
    "odd group": (
        (64, 32, 96, "--target", "cuda:sm_90a", "--a", "f16", "--group", 48),
        ("in groups of 48", "M, N, K = 64, 32, 96 with --group 32 would do"),
    ),
}  # fmt: skip
