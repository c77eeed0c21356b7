"""wgmma.mma_async: products of four warps whose B, or both factors, lie in shared memory.

Shared-memory tiles are K-major rows of 16, 32, 64 or 128 bytes (`memory/swizzle.py`), A [64, k] as
it is stored and B [n, k]. They are named by descriptors (`descriptors.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from tvm.script import tirx as T

from autoq.templates.arrays.element import element
from autoq.templates.cuda.device.mma.atom import Atom

INTEGER_N = (8, 16, 24, 32, *range(48, 257, 16))
"""Widths n that exist for integers."""

FLOATING_N = tuple(range(8, 257, 8))
"""Widths n that exist for floats."""

K_BYTES = 32
"""Bytes of a row of A that one instruction takes, and of B's unless A is sparse."""

# The integer table of TVM 0.27 stops here; wider ones are inline assembly, as are sparse ones.
_TABLE_LIMIT = 224


@dataclass(frozen=True)
class Wgmma(Atom):
    """One wgmma.mma_async, dense or sparse.

    a_from_registers: A is four registers of each thread instead of a tile in shared memory.
    b_transposed: B is stored [k, n], as values of attention are; of 16 bits only.
    """

    a_from_registers: bool = False
    b_transposed: bool = False

    warps: ClassVar[int] = 4

    @staticmethod
    def dense(n: int, a: str, b: str, accumulator: str) -> Wgmma:
        """The instruction of 64 x n accumulators over two dense tiles in shared memory."""
        return Wgmma((64, n, K_BYTES // element(a).bytes), a, b, accumulator)

    @property
    def a_in_registers(self) -> bool:
        return self.a_from_registers

    @property
    def b_in_registers(self) -> bool:
        return False

    @property
    def a_bytes(self) -> int:
        """Bytes of a row of A that one instruction takes."""
        return self.stored_k * self.a_element.bits // 8

    @property
    def b_bytes(self) -> int:
        """Bytes of a row of B that one instruction takes."""
        return self.k * self.b_element.bits // 8

    @property
    def instruction(self) -> str:
        variant = "mma_async.sp" if self.sparse else "mma_async"
        return f"wgmma.{variant}.sync.aligned.{self.shape_name}.{self.types_name}"

    @property
    def immediates(self) -> tuple[int, ...]:
        """What follows the operands of floats: signs of A and B, and for 16 bits transpositions."""
        if not self.a_element.floating:
            return ()
        if self.a_element.bits != 16:
            return (1, 1)
        b = int(self.b_transposed)
        return (1, 1, b) if self.a_from_registers else (1, 1, 0, b)

    def call(
        self,
        accumulators: Any,
        offset: int,
        a: Any,
        b: Any,
        accumulate: Any,
        metadata: Any = None,
        selector: int = 0,
    ) -> Any:
        """The call expression of D += A * B, or D = A * B; wrap it in T.evaluate.

        accumulators: local buffer of `register_dtype`, used from `offset` (Python integer); a: a
        descriptor (uint64 expression), or four uint32 registers; b: a descriptor; accumulate: bool
        expression, False overwrites D. A sparse atom takes its register of metadata, and with k =
        32 which threads of four give theirs: selector 0 for the first two, 1 for the last two.
        """
        if self.sparse != (metadata is not None):
            raise ValueError(f"{self}: metadata belongs to sparse products")
        first = tuple(a) if self.a_from_registers else (a,)
        if self.sparse or (not self.a_element.floating and self.n > _TABLE_LIMIT):
            own = (metadata,) if self.sparse else ()
            name = f"{self._name}_{selector}" if self.sparse else self._name
            return T.cuda.func_call(
                name,
                accumulators.ptr_to([offset]),
                *first,
                b,
                *own,
                T.cast(accumulate, "int32"),
                source_code=self.assembly(name, selector),
            )
        registers = [accumulators[offset + i] for i in range(self.d_registers)]
        return T.ptx[self.instruction](*registers, *first, b, accumulate, *self.immediates)

    @property
    def _name(self) -> str:
        """Name of the CUDA function around the assembly."""
        parts = ["wgmma", *(["sp"] if self.sparse else []), self.shape_name]
        if self.a_element.floating:
            parts.append(str(self.accumulator_element.ptx))
        parts += [str(self.a_element.ptx), str(self.b_element.ptx)]
        parts += ["registers"] if self.a_from_registers else []
        return "_".join([*parts, *(["transposed"] if self.b_transposed else [])])

    def assembly(self, name: str, selector: int = 0) -> str:
        """CUDA source of the instruction as a function `name`.

        Its parameters are a pointer to the accumulators, A as a descriptor or four registers, B's
        descriptor, a sparse one's metadata, and whether it accumulates.
        """
        floating = self.accumulator == "float32"
        outputs = [f'"+{"f" if floating else "r"}"(d[{i}])' for i in range(self.d_registers)]
        inputs = self._inputs()
        places = iter(f"%{self.d_registers + i}" for i in range(len(inputs)))
        taken = [f"{{{', '.join(f'%{i}' for i in range(self.d_registers))}}}"]
        if self.a_from_registers:
            taken.append(f"{{{', '.join(next(places) for _ in range(4))}}}")
        else:
            taken.append(next(places))
        taken.append(next(places))
        if self.sparse:
            taken += [next(places), str(selector)]
        parameters = ", ".join(f"{kind} {parameter}" for kind, parameter in inputs)
        bound = ", ".join(
            f'"{"l" if kind == "unsigned long long" else "r"}"({parameter})'
            for kind, parameter in inputs
        )
        return (
            f"__device__ __forceinline__ void {name}"
            f"({'float' if floating else 'unsigned'}* d, {parameters}) {{\n"
            f'  asm volatile("{{ .reg .pred p; setp.ne.b32 p, {next(places)}, 0; '
            f"{self.instruction} "
            f'{", ".join([*taken, "p", *map(str, self.immediates)])}; }}"\n'
            f"    : {', '.join(outputs)} : {bound});\n}}\n"
        )

    def _inputs(self) -> Sequence[tuple[str, str]]:
        """Types and names of the function's parameters behind D."""
        a = [("unsigned long long", "a")]
        if self.a_from_registers:
            a = [("unsigned", f"a{i}") for i in range(4)]
        metadata = [("unsigned", "metadata")] if self.sparse else []
        return [*a, ("unsigned long long", "b"), *metadata, ("int", "accumulate")]
