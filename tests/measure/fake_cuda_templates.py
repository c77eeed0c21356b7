"""A CUDA template for a Gemm with int32 output whose candidates can be made to misbehave."""

from dataclasses import dataclass

from fake_templates import pack, packed
from tvm.script import tirx as T
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script.builder import ir as builder

from autoq.search.space import Space
from autoq.templates.base import Template
from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.gemm import Gemm
from autoq.templates.target import Target

_BODY = {
    "right": "",
    "wrong": "sum += 1;",
    "unwritten": "if (row == gridDim.x - 1) return;",
    "illegal_address": "y += (1ull << 40);",
    "trap": 'asm("trap;");',
    "hang": "while (true) __nanosleep(1000);",
    "compile_error": "this is not CUDA;",
}

_SOURCE = """
__device__ void {name}(const signed char* x, const signed char* w, const int* bias, int* y,
                       int row, int column) {{
  int sum = bias[column];
  for (int i = 0; i < {k}; ++i) sum += int(x[row * {k} + i]) * int(w[column * {k} + i]);
  {misbehave}
  y[row * {n} + column] = sum;
}}
"""


@dataclass(frozen=True)
class FakeConfig:
    behaviour: str


def workload(m: int = 64, n: int = 96, k: int = 128) -> Gemm:
    return Gemm(m, n, k, epilogue=Epilogue(out_dtype="int32"))


def _matches(workload: object, target: Target) -> bool:
    return isinstance(workload, Gemm) and target.kind == "cuda"


def _space(workload: Gemm, target: Target) -> Space[FakeConfig]:
    return Space(FakeConfig, {"behaviour": tuple(_BODY)})


def _default(workload: Gemm, target: Target) -> FakeConfig:
    return FakeConfig("right")


def _build(workload: Gemm, config: FakeConfig, target: Target):
    m, n, k = workload.m, workload.n, workload.k
    name = f"fake_{config.behaviour}"
    source = _SOURCE.format(name=name, n=n, k=k, misbehave=_BODY[config.behaviour])
    operands = (("x", (m, k), "int8"), ("w", (n, k), "int8"), ("bias", (n,), "int32"),
                ("y", (m, n), "int32"))  # fmt: skip
    with IRBuilder() as construction, builder.prim_func():
        builder.func_name("main")
        pointers = [
            builder.match_buffer(builder.arg(label, builder.handle()), shape, dtype, align=16).data
            for label, shape, dtype in operands
        ]
        builder.device_entry()
        row, column = builder.cta_id([m]), builder.thread_id([n])
        builder.evaluate(T.cuda.func_call(name, *pointers, row, column, source_code=source))
    return construction.get()


TEMPLATES = (Template("fake", 1, _matches, _space, _default, _build, pack, packed),)
