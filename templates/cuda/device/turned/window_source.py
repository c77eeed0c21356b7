"""CUDA source of the stages that a consumer has waited for and says itself which of it leaves."""

from __future__ import annotations

_WINDOW = r"""
// The stages of a piece of work that a warp has waited for, `taken` of them, and has left. A piece
// of work begins at the first place of the ring.
struct Window {
  PLACE place;
  int taken, left;
  __device__ __forceinline__ void leave(const Ring& ring, int stages, int lane) {
    __syncwarp();
    #pragma unroll 1
    for (int n = 0; n < stages; ++n, ++left)
      if (lane == 0) barrier_arrive(ring.empty + 8 * (left % RING_STAGES));
  }
  __device__ __forceinline__ void advance(const Ring& ring) {
    barrier_wait(ring.full + 8 * place.stage, place.phase);
    place.next(), ++taken;
  }
  __device__ __forceinline__ void end(const Ring& ring, int lane) {
    while (taken < K_STAGES) {
      leave(ring, taken - left, lane);
      advance(ring);
    }
    leave(ring, taken - left, lane);
    taken = left = 0;
  }
};
"""


def window_source(place: str, stages: str) -> str:
    """Window, of a ring whose place and number of stages have these names in the source."""
    return _WINDOW.replace("PLACE", place).replace("RING_STAGES", stages)
