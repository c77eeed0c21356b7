"""CUDA source of the stages of x that a consumer has waited for and has not left."""

from __future__ import annotations

NEWEST_TWO = r"""
// The stages of x of a piece of work that a warp has waited for. It reads the newest one, and of
// those who pick the one before.
struct Window {
  XPlace place;
  int taken;
  unsigned even, odd;  // where the newest even and odd stages are
  __device__ __forceinline__ void leave(const Ring& ring, int back, int lane) {
    const int stage = place.stage - back;
    __syncwarp();
    if (lane == 0) barrier_arrive(ring.empty + 8 * (stage < 0 ? stage + X_STAGES : stage));
  }
  __device__ __forceinline__ void advance(const Ring& ring, int lane) {
    if (taken >= 2) leave(ring, 2, lane);
    barrier_wait(ring.full + 8 * place.stage, place.phase);
    const unsigned at = ring.stages + place.stage * X_STAGE;
    if (taken & 1) odd = at;
    else even = at;
    place.next(), ++taken;
  }
  // All stages that the piece of work has left.
  __device__ __forceinline__ void end(const Ring& ring, int lane) {
    while (taken < K_STAGES) advance(ring, lane);
    if (K_STAGES > 1) leave(ring, 2, lane);
    leave(ring, 1, lane);
    taken = 0;
  }
};
"""
"""Window, of consumers that read the newest two stages."""

SOME_STAGES = r"""
// The stages of x of a piece of work that a warp has waited for, `taken` of them, and has left. A
// piece of work begins at the first place of the ring.
struct Window {
  XPlace place;
  int taken, left;
  __device__ __forceinline__ void leave(const Ring& ring, int stages, int lane) {
    __syncwarp();
    #pragma unroll 1
    for (int n = 0; n < stages; ++n, ++left)
      if (lane == 0) barrier_arrive(ring.empty + 8 * (left % X_STAGES));
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
"""Window, of consumers that say themselves which stages they leave."""
