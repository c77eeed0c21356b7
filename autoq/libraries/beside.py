"""The time of cuBLASLt beside a product of autoq's, measured in a process of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from autoq.errors import AutoqError, DriverError, LibraryError
from autoq.libraries.byte_products import ByteProducts
from autoq.libraries.float_products import FloatProducts
from autoq.libraries.ranking import PeerTime
from autoq.measure.job import Timing
from autoq.process.child import Child, Entry
from autoq.templates.element import element
from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.float_gemm import FloatGemm
from autoq.templates.operators.gemm import Gemm

Product = Gemm | FloatGemm

_SECONDS = 300.0


@dataclass(frozen=True)
class Beside:
    """A library's time, its version and what it computed: "s8 x s8 -> s8"."""

    time: PeerTime
    version: str
    computed: str


def cublaslt_beside(product: Product, timing: Timing, ordinal: int = 0) -> Beside | str:
    """The fastest of the algorithms that cuBLASLt proposes on a GPU, or why there is none."""
    child = Child(Entry("autoq.libraries.beside", "serve", ordinal))
    try:
        reply: Beside | str = child.call((product, timing), _SECONDS)
        return reply
    except AutoqError as error:  # its process died, hung or could not start
        return str(error)
    finally:
        child.kill()


def nearest(product: Product) -> Product:
    """What cuBLASLt computes that is most like a product.

    Bytes are int8, as is what shares a byte, and sums and floats come out as int32. Floats keep
    their type, and neither bias nor activation is computed.
    """
    if isinstance(product, FloatGemm):
        out = "float32" if product.out_dtype == "float32" else product.in_dtype
        return replace(product, out_dtype=out, bias=False, activation="none")
    out = "int8" if element(product.epilogue.out_dtype).quantised else "int32"
    return replace(product, in_dtype="int8", weight_dtype="int8", epilogue=Epilogue(out))


def description(product: Product) -> str:
    """What cuBLASLt computes in the place of a product, in short."""
    computed = nearest(product)
    kind, out = element(computed.inputs[0].dtype).ptx, element(computed.outputs[0].dtype).ptx
    text = f"{kind} x {kind} -> {out}"
    if isinstance(product, Gemm):
        return text if computed == product else f"{text}, the nearest types that it has"
    if product.quantised:
        text += ", the weight dequantised beforehand"
    left_out = [
        *(["bias"] if product.bias else []),
        *([product.activation] if product.activation != "none" else []),
    ]
    return text + (f", without {' and '.join(left_out)}" if left_out else "")


def serve(ordinal: int) -> Callable[[tuple[Product, Timing]], Beside | str]:
    """The handler of the process for a GPU."""

    def measure(request: tuple[Product, Timing]) -> Beside | str:
        product, timing = request
        kind = FloatProducts if isinstance(product, FloatGemm) else ByteProducts
        try:
            library = kind(ordinal)
            time = library.measure(nearest(product), timing)
        except (LibraryError, DriverError) as error:
            return str(error)
        return Beside(time, library.version, description(product))

    return measure
