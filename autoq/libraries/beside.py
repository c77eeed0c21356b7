"""The time of cuBLASLt beside a product of autoq's, measured in a process of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType

from autoq.errors import AutoqError, DriverError, LibraryError
from autoq.libraries import batched_products, byte_products, float_products
from autoq.libraries.ranking import PeerTime
from autoq.measure.job import Timing
from autoq.process.child import Child, Entry
from autoq.templates.arrays.element import element
from autoq.templates.operators.batched_gemm import BatchedGemm
from autoq.templates.operators.float_gemm import FloatGemm
from autoq.templates.operators.gemm import Gemm

Product = Gemm | FloatGemm | BatchedGemm

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
    """What cuBLASLt computes that is most like a product."""
    found: Product = _products(product).nearest(product)
    return found


def description(product: Product) -> str:
    """What cuBLASLt computes in the place of a product, in short."""
    computed = nearest(product)
    kind, out = element(computed.inputs[0].dtype).ptx, element(computed.outputs[0].dtype).ptx
    return f"{kind} x {kind} -> {out}{_products(product).difference(product)}"


def _products(product: Product) -> ModuleType:
    """The module of the library's batches of activations, products of floats, or of bytes."""
    if product.constant("weight") is None:
        return batched_products
    floating = element(product.inputs[0].dtype).floating
    return float_products if floating else byte_products


def serve(ordinal: int) -> Callable[[tuple[Product, Timing]], Beside | str]:
    """The handler of the process for a GPU."""

    def measure(request: tuple[Product, Timing]) -> Beside | str:
        product, timing = request
        try:
            library = _products(product).PRODUCTS(ordinal)
            time = library.measure(nearest(product), timing)
        except (LibraryError, DriverError) as error:
            return str(error)
        return Beside(time, library.version, description(product))

    return measure
