// Barriers of a block and of a cluster.
#pragma once

#include "machine.h"

namespace ptx {

inline void finish_if_complete(Launch& launch, Barrier& barrier, uint32_t expected) {
  if (barrier.arrived < expected) return;
  if (barrier.arrived > expected) throw Fault("more threads arrive at a barrier than it expects");
  barrier.arrived = barrier.expected = 0;
  ++barrier.round;
  ++launch.events;
}

// operands: barrier, threads; modifier: whether threads are given, whether it waits.
inline Outcome block_barrier(Warp& w, const Instruction& in) {
  const int lane = std::countr_zero(w.exec);
  const uint32_t number = source(w, in.operand[0])[lane];
  if (number >= 16) throw Fault("there is no barrier " + std::to_string(number));
  Block& block = *w.block;
  Barrier& barrier = block.barriers[number];
  if (w.at_barrier) {
    if (barrier.round == w.barrier_round) return BLOCKED;
    w.at_barrier = false;
    return DONE;
  }
  const uint32_t threads = in.modifier[0] ? source(w, in.operand[1])[lane] : 0;
  if (threads % LANES) throw Fault("a barrier expects threads that are no whole warps");
  if (barrier.arrived && barrier.expected != threads)
    throw Fault("warps expect different numbers of threads at a barrier");
  barrier.expected = threads;
  barrier.arrived += in.modifier[0] ? LANES : std::popcount(w.exec);
  const uint32_t round = barrier.round;
  finish_if_complete(*block.launch, barrier, threads ? threads : block.threads);
  if (!in.modifier[1] || barrier.round != round) return DONE;
  w.at_barrier = true;
  w.barrier_round = round;
  w.awaits = {BARRIER, number};
  return BLOCKED;
}

inline Outcome cluster_arrive(Warp& w, const Instruction&) {
  Cluster& cluster = *w.block->cluster;
  w.cluster_round = cluster.barrier.round + 1;
  cluster.barrier.arrived += std::popcount(w.exec);
  finish_if_complete(*w.block->launch, cluster.barrier, cluster.threads);
  return DONE;
}

inline Outcome cluster_wait(Warp& w, const Instruction&) {
  if (w.cluster_round == 0) throw Fault("barrier.cluster.wait without an arrival");
  if (int32_t(w.block->cluster->barrier.round - w.cluster_round) >= 0) return DONE;
  w.awaits = {"the cluster's barrier"};
  return BLOCKED;
}

// Threads that have exited count as arrived.
inline void leave(Warp& w, uint32_t lanes) {
  Block& block = *w.block;
  const uint32_t count = std::popcount(lanes);
  w.alive &= ~lanes;
  block.threads -= count;
  block.cluster->threads -= count;
  ++block.launch->events;
  for (Barrier& barrier : block.barriers)
    if (barrier.arrived && !barrier.expected && block.threads)
      finish_if_complete(*block.launch, barrier, block.threads);
  Barrier& barrier = block.cluster->barrier;
  if (barrier.arrived && block.cluster->threads)
    finish_if_complete(*block.launch, barrier, block.cluster->threads);
}

inline void add_barriers(Table& t) {
  t.add("barrier", block_barrier, true);
  t.add("barrier.cluster.arrive", cluster_arrive, true);
  t.add("barrier.cluster.wait", cluster_wait, true);
}

}  // namespace ptx
