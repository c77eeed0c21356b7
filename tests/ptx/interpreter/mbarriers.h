// mbarrier: barriers in shared memory that count arrivals of threads and bytes of copies.
#pragma once

#include "asynchronous.h"

namespace ptx {

// The 8 bytes of a barrier: arrivals that are pending, those of a phase, bytes that are announced
// and have not arrived, and the parity of the phase that is under way.
struct MBarrier {
  uint64_t pending : 16, expected : 16;
  int64_t bytes : 31;
  uint64_t phase : 1;
};
static_assert(sizeof(MBarrier) == 8);

inline MBarrier& mbarrier_at(Block& block, uint32_t address) {
  if (address % 8) throw Fault("an mbarrier is not aligned to 8 bytes");
  uint8_t* at = shared_at(block, address, 8);
  if (!block.mbarriers.count(uint32_t(at - block.shared.data())))
    throw Fault("there is no initialised mbarrier at " + hexadecimal(address));
  return *reinterpret_cast<MBarrier*>(at);
}

inline void complete_if_done(Launch& launch, MBarrier& barrier) {
  if (barrier.pending || barrier.bytes) return;
  barrier.phase = !barrier.phase;
  barrier.pending = barrier.expected;
  ++launch.events;
}

inline void arrive_at(Launch& launch, MBarrier& barrier, uint32_t count, int64_t bytes) {
  barrier.bytes += bytes;
  if (count > barrier.pending) throw Fault("more arrivals at an mbarrier than it expects");
  barrier.pending -= count;
  complete_if_done(launch, barrier);
}

inline void count_bytes(Launch& launch, MBarrier& barrier, int64_t bytes) {
  barrier.bytes -= bytes;
  complete_if_done(launch, barrier);
}

// operands: base, offset, arrivals.
inline Outcome initialise_mbarrier(Warp& w, const Instruction& in) {
  each_lane(w.exec, [&](int lane) {
    const uint32_t address = address_of(w, in.operand, 32, lane), count = source(w, in.operand[2])[lane];
    if (address % 8) throw Fault("an mbarrier is not aligned to 8 bytes");
    if (count == 0 || count > 0xffff) throw Fault("an mbarrier of " + std::to_string(count) + " arrivals");
    Block& block = block_of(w, address, false);
    uint8_t* at = shared_at(block, address, 8);
    block.mbarriers.insert(uint32_t(at - block.shared.data()));
    MBarrier& barrier = *reinterpret_cast<MBarrier*>(at);
    barrier.pending = barrier.expected = count;
    barrier.bytes = 0;
    barrier.phase = 0;
  });
  return DONE;
}

inline Outcome invalidate_mbarrier(Warp& w, const Instruction& in) {
  each_lane(w.exec, [&](int lane) {
    const uint32_t address = address_of(w, in.operand, 32, lane);
    Block& block = block_of(w, address, false);
    mbarrier_at(block, address);
    block.mbarriers.erase(uint32_t(shared_at(block, address, 8) - block.shared.data()));
  });
  return DONE;
}

// operands: state, base, offset, count or bytes; modifier: 1 arrives, 2 announces bytes, 4 has an
// operand behind the address, 8 takes bytes off.
inline Outcome arrive(Warp& w, const Instruction& in) {
  const int how = in.modifier[0];
  uint64_t states[LANES] = {};
  each_lane(w.exec, [&](int lane) {
    const uint32_t address = address_of(w, in.operand + 1, 32, lane);
    const uint32_t given = how & 4 ? source(w, in.operand[3])[lane] : 1;
    MBarrier& barrier = mbarrier_at(block_of(w, address, true), address);
    states[lane] = uint64_t(barrier.phase) << 63 | barrier.pending;
    if (how & 8) count_bytes(launch_of(w), barrier, given);
    else arrive_at(launch_of(w), barrier, how & 1 ? (how & 2 ? 1 : given) : 0, how & 2 ? given : 0);
  });
  put(w, in.operand[0], states);
  return DONE;
}

// operands: count, state: the arrivals that were pending before the one that gave the state.
inline Outcome pending_count(Warp& w, const Instruction& in) {
  return lanes<uint32_t, uint64_t>(w, in, [](uint64_t state) { return uint32_t(state & 0xffff); });
}

// operands: p, base, offset, parity or state; modifier: whether parity, whether it waits.
inline Outcome wait_for_phase(Warp& w, const Instruction& in) {
  uint32_t done = 0;
  each_lane(w.exec, [&](int lane) {
    const uint32_t address = address_of(w, in.operand + 1, 32, lane);
    const uint32_t* words = source(w, in.operand[3]);
    const uint64_t parity = in.modifier[0] ? words[lane] & 1 : reinterpret_cast<const uint64_t*>(words)[lane] >> 63;
    const MBarrier& barrier = mbarrier_at(block_of(w, address, false), address);
    done |= uint32_t(barrier.phase != parity) << lane;
    if (barrier.phase == parity) w.awaits = {"the mbarrier at byte ", address, &barrier};
  });
  if (!done && in.modifier[1]) return BLOCKED;
  put_predicate(w, in.operand[0], done);
  return DONE;
}

// operands: d, a, rank.
inline Outcome map_address(Warp& w, const Instruction& in) {
  const uint32_t blocks = w.block->cluster->blocks.size();
  each_lane(w.exec, [&](int lane) {
    if (source(w, in.operand[2])[lane] >= blocks) throw Fault("mapa: the cluster has no such block");
  });
  return lanes<uint32_t, uint32_t, uint32_t>(w, in, [](uint32_t a, uint32_t rank) {
    return (a & ((1u << RANK_SHIFT) - 1)) | rank << RANK_SHIFT;
  });
}

// operands: base, offset, base and offset of the barrier, values; modifier: values, their bytes.
inline Outcome store_async(Warp& w, const Instruction& in) {
  const int count = in.modifier[0], size = in.modifier[1];
  each_lane(w.exec, [&](int lane) {
    const uint32_t to = address_of(w, in.operand, 32, lane), signal = address_of(w, in.operand + 2, 32, lane);
    std::vector<uint8_t> bytes(count * size);
    for (int i = 0; i < count; ++i) {
      const uint64_t value = size == 8 ? source_of<uint64_t>(w, in.operand[4 + i])[lane] : source(w, in.operand[4 + i])[lane];
      std::memcpy(&bytes[i * size], &value, size);
    }
    if (to % bytes.size()) throw Fault("st.async: the address is not aligned");
    if (to >> RANK_SHIFT != signal >> RANK_SHIFT) throw Fault("st.async: the barrier is in another block");
    Block& block = block_of(w, to, true);
    shared_at(block, to, bytes.size());
    Launch& launch = launch_of(w);
    submit(w, block.cluster, in, [&launch, &block, to, signal, bytes] {
      std::memcpy(shared_at(block, to, bytes.size()), bytes.data(), bytes.size());
      count_bytes(launch, mbarrier_at(block, signal), bytes.size());
    });
  });
  return DONE;
}

inline void add_mbarriers(Table& t) {
  t.add("mbarrier.init", initialise_mbarrier);
  t.add("mbarrier.inval", invalidate_mbarrier);
  t.add("mbarrier.arrive", arrive);
  t.add("mbarrier.pending_count", pending_count);
  t.add("mbarrier.wait", wait_for_phase);
  t.add("mapa", map_address);
  t.add("st.async", store_async);
  // Writes of the lanes until here may be read by the asynchronous proxy.
  t.add("fence.proxy.async", [](Warp& w, const Instruction&) {
    each_lane(w.exec, [&](int lane) { ++w.fences[lane]; });
    return DONE;
  });
}

}  // namespace ptx
