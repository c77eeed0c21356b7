// Bulk copies of consecutive bytes, and where blocks of a cluster get what is multicast.
#pragma once

#include "mbarriers.h"

namespace ptx {

inline void require_fenced(
    const Block& block, const std::vector<Access>& accesses, const char* used, const uint8_t* at,
    uint32_t bytes) {
  const size_t first = (at - block.shared.data()) / GRANULE;
  const size_t last = (at - block.shared.data() + bytes - 1) / GRANULE;
  for (size_t i = first; i <= last; ++i) {
    const Access& access = accesses[i];
    if (access.thread < 0) continue;
    const int thread = access.thread & 0xffff;
    const Warp& user = block.cluster->blocks[access.thread >> 16].warps[thread / LANES];
    if (user.fences[thread % LANES] == access.fences)
      throw Fault("byte " + std::to_string(i * GRANULE) + " of shared memory was " + used +
                  " without a fence.proxy.async behind it by thread " + std::to_string(thread));
  }
}
// The asynchronous proxy sees what threads wrote only behind a fence of theirs.
inline void require_fenced(const Block& block, const uint8_t* from, uint32_t bytes) {
  require_fenced(block, block.writes, "written", from, bytes);
}
// And only behind one does it leave what they read as it was: `proxies` asks for that.
inline void require_replaceable(const Block& block, const uint8_t* to, uint32_t bytes) {
  if (!block.launch->settings.proxies) return;
  require_fenced(block, block.writes, "written", to, bytes);
  require_fenced(block, block.reads, "read", to, bytes);
}

inline void forget_accesses(Block& block, const uint8_t* to, uint32_t bytes) {
  const size_t first = (to - block.shared.data()) / GRANULE;
  const size_t last = (to - block.shared.data() + bytes - 1) / GRANULE;
  for (size_t i = first; i <= last; ++i) block.writes[i].thread = block.reads[i].thread = -1;
}

// The blocks that a load delivers to: those of a mask, or the one whose address is given.
inline std::vector<Block*> receivers(Warp& w, uint32_t to, const uint32_t* mask, int lane) {
  if (!mask) return {&block_of(w, to, true)};
  std::vector<Block*> found;
  Cluster& cluster = *w.block->cluster;
  for (uint32_t rank = 0; rank < 16; ++rank) {
    if (!(mask[lane] >> rank & 1)) continue;
    found.push_back(&block_of(w, (to & ((1u << RANK_SHIFT) - 1)) | rank << RANK_SHIFT, true));
  }
  if (mask[lane] >> cluster.blocks.size()) throw Fault("a multicast to a block that is not of the cluster");
  return found;
}

// The address of a byte under a swizzle of 0, 32, 64 or 128 bytes, given as 0 to 3.
inline uint32_t swizzled(uint32_t address, int swizzle) {
  return address ^ ((address >> 7 & ((1u << swizzle) - 1)) << 4);
}

// Put an arrived box of bytes into each receiver and count it there.
inline void deliver(Launch& launch, const std::vector<Block*>& to, uint32_t address, uint32_t signal,
                    const std::vector<uint8_t>& bytes, int swizzle) {
  for (Block* block : to) {
    if (!block->threads) throw Fault("a copy arrives in a block that has ended");
    for (uint32_t i = 0; i < bytes.size(); i += 16) {
      uint8_t* at = shared_at(*block, swizzled((address & ((1u << RANK_SHIFT) - 1)) + i, swizzle), 16);
      std::memcpy(at, &bytes[i], 16);
      forget_accesses(*block, at, 16);
    }
    count_bytes(launch, mbarrier_at(*block, signal), bytes.size());
  }
}

// operands: target, source, bytes, barrier, mask; bases and offsets each; modifier: whether a mask
// is given.
inline Outcome load_bulk(Warp& w, const Instruction& in) {
  each_lane(w.exec, [&](int lane) {
    const uint32_t to = address_of(w, in.operand, 32, lane), bytes = source(w, in.operand[4])[lane];
    const uint64_t from = address_of(w, in.operand + 2, 64, lane);
    const uint32_t signal = address_of(w, in.operand + 5, 32, lane);
    if (to % 16 || from % 16 || bytes % 16 || !bytes) throw Fault("a bulk copy is not of whole 16 bytes");
    const auto blocks = receivers(w, to, in.modifier[0] ? source(w, in.operand[7]) : nullptr, lane);
    Launch& launch = launch_of(w);
    global_at(w, from, bytes, false);
    for (Block* block : blocks) {
      require_replaceable(*block, shared_at(*block, to, bytes), bytes);
      mbarrier_at(*block, signal);
    }
    submit(w, w.block->cluster, in, [&launch, blocks, to, signal, from, bytes] {
      const uint8_t* at = global_at(launch, from, bytes, false);
      deliver(launch, blocks, to, signal, std::vector<uint8_t>(at, at + bytes), 0);
    });
  });
  return DONE;
}

// A store reads shared memory when its thread waits for that, and is written when it waits for it.
inline void submit_store(Warp& w, int lane, std::function<std::function<void()>()> fetch) {
  if (!launch_of(w).settings.late) return fetch()();
  w.stores.push_back({lane, w.store_groups[lane], false, std::move(fetch), {}});
}

// operands: target, source, bytes.
inline Outcome store_bulk(Warp& w, const Instruction& in) {
  each_lane(w.exec, [&](int lane) {
    const uint64_t to = address_of(w, in.operand, 64, lane);
    const uint32_t from = address_of(w, in.operand + 2, 32, lane), bytes = source(w, in.operand[4])[lane];
    if (to % 16 || from % 16 || bytes % 16 || !bytes) throw Fault("a bulk copy is not of whole 16 bytes");
    Launch& launch = launch_of(w);
    Block& block = block_of(w, from, false);
    global_at(w, to, bytes, true);
    require_fenced(block, shared_at(block, from, bytes), bytes);
    submit_store(w, lane, [&launch, &block, to, from, bytes] {
      const uint8_t* at = shared_at(block, from, bytes);
      const std::vector<uint8_t> read(at, at + bytes);
      return std::function<void()>([&launch, to, read] {
        std::memcpy(global_at(launch, to, read.size(), true), read.data(), read.size());
      });
    });
  });
  return DONE;
}

inline void add_bulk(Table& t) {
  t.add("cp.async.bulk.load", load_bulk);
  t.add("cp.async.bulk.store", store_bulk);
}

}  // namespace ptx
