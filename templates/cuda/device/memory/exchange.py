"""CUDA source that exchanges partial sums between warpgroups of a block or of a cluster.

Every warpgroup computes a part of a tile's reduction and finishes a slice of the tile: its threads
send the accumulators of all other slices to the same threads of the warpgroups that finish them,
16 bytes of each thread at a time; to other blocks by st.async (PTX ISA), which counts the bytes on
an mbarrier of the receiver.
"""

from __future__ import annotations

from autoq.templates.cuda.device.functions import DeviceFunction, device_function

_SEND = """
__device__ __forceinline__ void send_partial_@(const VALUE* acc, const void* place,
                                               const void* barrier, int rank) {
  unsigned to = (unsigned)__cvta_generic_to_shared(place);
  unsigned signal = (unsigned)__cvta_generic_to_shared(barrier);
  asm volatile("mapa.shared::cluster.u32 %0, %0, %1;" : "+r"(to) : "r"(rank));
  asm volatile("mapa.shared::cluster.u32 %0, %0, %1;" : "+r"(signal) : "r"(rank));
  #pragma unroll
  for (int i = 0; i < WORDS; i += 4)
    asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32"
                 " [%0], {%1, %2, %3, %4}, [%5];"
                 :: "r"(to + 512 * i), "REGISTER"(acc[i]), "REGISTER"(acc[i + 1]),
                    "REGISTER"(acc[i + 2]), "REGISTER"(acc[i + 3]), "r"(signal) : "memory");
}
"""

_STORE = """
__device__ __forceinline__ void store_partial_@(const unsigned* acc, void* place) {
  #pragma unroll
  for (int i = 0; i < WORDS; i += 4)
    *reinterpret_cast<uint4*>(static_cast<char*>(place) + 512 * i) =
        make_uint4(acc[i], acc[i + 1], acc[i + 2], acc[i + 3]);
}
"""

_ADD = """
__device__ __forceinline__ void add_partial_@(VALUE* acc, const void* place) {
  #pragma unroll
  for (int i = 0; i < WORDS; i += 4) {
    const VALUE4 v = *reinterpret_cast<const VALUE4*>(static_cast<const char*>(place) + 512 * i);
    acc[i] += v.x; acc[i + 1] += v.y; acc[i + 2] += v.z; acc[i + 3] += v.w;
  }
}
"""

_KEEP = """
__device__ __forceinline__ void keep_slice_@(unsigned* acc, const unsigned* slice) {
  #pragma unroll
  for (int i = 0; i < WORDS; ++i) acc[i] = slice[i];
}
"""


# Type of accumulators in CUDA, and the constraint of their registers in assembly.
_VALUES = {"uint32": ("unsigned", "uint4", "r"), "float32": ("float", "float4", "f")}


def _partial(name: str, source: str, words: int, dtype: str) -> DeviceFunction:
    value, four, register = _VALUES[dtype]
    for placeholder, text in (
        ("WORDS", str(words)), ("VALUE4", four), ("VALUE", value), ("REGISTER", register)
    ):  # fmt: skip
        source = source.replace(placeholder, text)
    return device_function(name, source)


def send_partial(words: int, dtype: str = "uint32") -> DeviceFunction:
    """send(acc, place, barrier, rank): `words` accumulators, a multiple of 4, to another thread.

    place: where they lie in the receiving block, 128 * 4 * words bytes for a warpgroup, from this
    thread's first 16; barrier: counts their bytes there; rank: the receiving block in the cluster.
    """
    return _partial("send_partial", _SEND, words, dtype)


def store_partial(words: int) -> DeviceFunction:
    """store(acc, place): `send_partial` to a thread of the same block; a barrier must follow."""
    return device_function("store_partial", _STORE.replace("WORDS", str(words)))


def add_partial(words: int, dtype: str = "uint32") -> DeviceFunction:
    """add(acc, place): adds what `send_partial` put into this thread's place."""
    return _partial("add_partial", _ADD, words, dtype)


def keep_slice(words: int) -> DeviceFunction:
    """keep(acc, slice): moves a slice of the accumulators to their beginning."""
    return device_function("keep_slice", _KEEP.replace("WORDS", str(words)))
