// Which warps run: blocks of a cluster together, clusters in order, more of them at once where
// those that run wait for each other through global memory.
#pragma once

#include <sstream>

#include "asynchronous.h"
#include "control.h"
#include "mbarriers.h"

namespace ptx {

// Registers that hold something from the start: (slot, kind, argument) for each.
enum Special { TID, NTID, CTAID, NCTAID, LANE, WARP_INDEX, CLUSTER_RANK, CLUSTER_ID, CLUSTER_SIZE,
               CLUSTER_CTAID, NCLUSTER, SHARED_ADDRESS, SHARED_GENERIC, LANE_MASK, SHARED_SIZE };

inline uint32_t special_value(const Warp& w, int lane, int kind, int argument) {
  const Block& block = *w.block;
  const Settings& s = block.launch->settings;
  const int thread = w.index * LANES + lane;
  const int xyz[3] = {thread % s.block[0], thread / s.block[0] % s.block[1], thread / s.block[0] / s.block[1]};
  switch (kind) {
    case TID: return xyz[argument];
    case NTID: return s.block[argument];
    case CTAID: return block.index[argument];
    case NCTAID: return s.grid[argument];
    case LANE: return lane;
    case WARP_INDEX: return w.index;
    case CLUSTER_RANK: return block.rank;
    case CLUSTER_ID: return block.cluster_index[argument];
    case CLUSTER_SIZE: return s.cluster[0] * s.cluster[1] * s.cluster[2];
    case CLUSTER_CTAID: return block.index[argument] % s.cluster[argument];
    case NCLUSTER: return s.grid[argument] / s.cluster[argument];
    case SHARED_ADDRESS:
    case SHARED_GENERIC: return uint32_t(block.rank << RANK_SHIFT) + SYSTEM_SHARED + argument;
    case LANE_MASK: {
      const uint32_t below = (1u << lane) - 1, own = 1u << lane;
      const uint32_t masks[] = {own, below, below | own, ~(below | own), ~below};
      return masks[argument];
    }
    default: return s.shared_bytes;
  }
}

inline void start_warp(Block& block, Warp& w, int index) {
  Launch& launch = *block.launch;
  const Settings& s = launch.settings;
  const int threads = s.block[0] * s.block[1] * s.block[2] - index * LANES;
  w.block = &block;
  w.index = index;
  w.active = w.alive = threads >= LANES ? ALL : (1u << threads) - 1;
  w.predicates.assign(s.predicates, 0);
  w.predicates[0] = ALL;
  w.storage.assign(size_t(s.registers + 1) * LANES, 0xdeadbeef);
  w.registers = w.storage.data();
  w.constants = launch.constants.data();
  w.local.assign(size_t(s.local_bytes) * LANES, 0xcd);
  for (size_t i = 0; i + 2 < launch.specials.size(); i += 3) {
    const int32_t* special = &launch.specials[i];
    uint32_t* slot = w.registers + special[0] * LANES;
    for (int lane = 0; lane < LANES; ++lane) {
      const uint32_t value = special_value(w, lane, special[1], special[2]);
      if (special[1] == SHARED_GENERIC) reinterpret_cast<uint64_t*>(slot)[lane] = value;
      else slot[lane] = value;
    }
  }
}

inline std::unique_ptr<Cluster> start_cluster(Launch& launch, uint32_t number) {
  const Settings& s = launch.settings;
  auto cluster = std::make_unique<Cluster>();
  const int size = s.cluster[0] * s.cluster[1] * s.cluster[2];
  const int threads = s.block[0] * s.block[1] * s.block[2];
  int at[3], rest = number;
  for (int axis = 0; axis < 3; ++axis) at[axis] = rest % (s.grid[axis] / s.cluster[axis]), rest /= s.grid[axis] / s.cluster[axis];
  cluster->blocks.resize(size);
  cluster->threads = size * threads;
  for (int rank = 0; rank < size; ++rank) {
    Block& block = cluster->blocks[rank];
    block.launch = &launch;
    block.cluster = cluster.get();
    block.rank = rank;
    block.threads = threads;
    rest = rank;
    for (int axis = 0; axis < 3; ++axis) {
      block.cluster_index[axis] = at[axis];
      block.index[axis] = at[axis] * s.cluster[axis] + rest % s.cluster[axis];
      rest /= s.cluster[axis];
    }
    // What no one has written is large and odd as an integer and as a float.
    block.shared.assign(s.shared_bytes, 0x6b);
    block.writes.resize(s.shared_bytes / GRANULE + 1);
    block.reads.resize(block.writes.size());
    block.coming.resize(block.writes.size());
    block.warps.resize((threads + LANES - 1) / LANES);
    for (size_t i = 0; i < block.warps.size(); ++i) start_warp(block, block.warps[i], i);
  }
  return cluster;
}

inline std::string words_of(const Awaited& awaits) {
  std::ostringstream out;
  out << awaits.what;
  if (const MBarrier* barrier = awaits.mbarrier)
    out << (awaits.number & 0xffffff) - SYSTEM_SHARED << ": " << barrier->pending << " arrivals and " << barrier->bytes
        << " bytes are missing";
  else if (awaits.what == BARRIER)
    out << awaits.number;
  return out.str();
}

inline std::string stand(const Launch& launch) {
  std::ostringstream out;
  out << "nothing can go on";
  int told = 0;
  for (const auto& cluster : launch.clusters)
    for (const Block& block : cluster->blocks)
      for (const Warp& w : block.warps) {
        if (!w.alive || ++told > 40) continue;
        out << "\n  block " << block.index[0] << "," << block.index[1] << "," << block.index[2] << " warp "
            << w.index << " at @" << w.pc << " waits for " << words_of(w.awaits);
      }
  return out.str();
}

inline void end_cluster(Launch& launch, Cluster& cluster) {
  if (cluster.pending) throw Fault("a cluster ends while a bulk copy into its shared memory is under way");
}

// Instructions without a barrier, an arrival or an end, behind which a launch is given up.
constexpr uint64_t MOST_QUIET = 100000000;

struct At {
  const Warp* warp = nullptr;
};

// Run every warp of the resident clusters once; whether any instruction ran.
inline bool turn(Launch& launch, At& at, bool& ended) {
  bool moved = false;
  for (auto& cluster : launch.clusters)
    for (Block& block : cluster->blocks)
      for (Warp& w : block.warps) {
        if (!w.alive) continue;
        at.warp = &w;
        const int64_t slice = launch.settings.late ? 1 + launch.draw() % 700 : 1000;
        if (run(w, slice, moved) == ENDED) end_warp(w);
      }
  for (size_t i = 0; i < launch.clusters.size();) {
    if (launch.clusters[i]->threads) { ++i; continue; }
    end_cluster(launch, *launch.clusters[i]);
    launch.clusters.erase(launch.clusters.begin() + i);
    ended = true;
  }
  at.warp = nullptr;
  return moved;
}

inline void run_launch(Launch& launch, At& at) {
  const Settings& s = launch.settings;
  uint32_t total = 1, started = 0;
  for (int axis = 0; axis < 3; ++axis) total *= s.grid[axis] / s.cluster[axis];
  size_t most = s.residents;
  int idle = 0;
  uint64_t quiet_from = 0;
  uint64_t events = launch.events;
  while (started < total || !launch.clusters.empty()) {
    while (started < total && launch.clusters.size() < most) launch.clusters.push_back(start_cluster(launch, started++));
    bool ended = false;
    const bool moved = turn(launch, at, ended);
    // Warps that only read a semaphore over and over let others start as well.
    if (launch.events != events || ended) idle = 0, quiet_from = launch.instructions;
    events = launch.events;
    if (++idle > 100) {
      if (!run_pending(launch)) most += 4;
      idle = 0;
    }
    if (launch.instructions - quiet_from > MOST_QUIET) throw Fault("runs for ever: " + stand(launch));
    if (moved) continue;
    if (run_pending(launch)) continue;
    if (started < total) { most += 4; continue; }
    throw Fault(stand(launch));
  }
  finish_stores(launch);
}

}  // namespace ptx
