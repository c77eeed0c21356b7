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
