// cp.async: copies of single threads from global to shared memory, which commit and wait in groups.
#pragma once

#include "mbarriers.h"

namespace ptx {

// Note where the bytes come from that are under way to each granule, or that nothing is any longer.
// Different bytes to the same place would arrive in either order.
inline void note_copy(Block& block, const Copy& copy, bool under_way) {
  const size_t first = (shared_at(block, copy.to, copy.bytes) - block.shared.data()) / GRANULE;
  for (uint32_t at = 0; at < copy.bytes; at += GRANULE) {
    const uint64_t from = at < copy.read ? copy.from + at : Block::ZEROS;
    uint64_t& coming = block.coming[first + at / GRANULE];
    if (under_way && coming && coming != from)
      throw Fault("cp.async: a copy of other bytes to byte " + std::to_string(copy.to + at) +
                  " of shared memory is under way");
    coming = under_way ? from : 0;
  }
}

inline void perform(Warp& w, const Copy& copy) {
  Block& block = block_of(w, copy.to, true);
  uint8_t* to = shared_at(block, copy.to, copy.bytes);
  note_copy(block, copy, false);
  if (copy.read) std::memcpy(to, global_at(launch_of(w), copy.from, copy.read, false), copy.read);
  std::memset(to + copy.read, 0, copy.bytes - copy.read);
  note_write(w, copy.lane, to, copy.bytes);
}

// operands: base and offset of the target, of the source, bytes to read; modifier: bytes, bits of
// the bases, whether bytes to read are given.
inline Outcome copy_async(Warp& w, const Instruction& in) {
  const uint32_t bytes = in.modifier[0];
  Launch& launch = launch_of(w);
  const uint32_t* read = in.modifier[3] ? source(w, in.operand[4]) : nullptr;
  each_lane(w.exec, [&](int lane) {
    Copy copy;
    copy.to = address_of(w, in.operand, in.modifier[1], lane);
    copy.from = address_of(w, in.operand + 2, in.modifier[2], lane);
    copy.bytes = bytes, copy.read = read ? read[lane] : bytes, copy.lane = lane;
    copy.group = w.copy_groups[lane];
    if (copy.read > bytes) throw Fault("cp.async reads more bytes than it writes");
    if (copy.to % bytes || copy.from % bytes) throw Fault("cp.async: an address is not aligned");
    // Checked where it is issued.
    shared_at(block_of(w, copy.to, true), copy.to, bytes);
    if (copy.read) global_at(w, copy.from, copy.read, false);
    if (!launch.settings.late) return perform(w, copy);
    note_copy(block_of(w, copy.to, true), copy, true);
    w.copies.push_back(copy);
  });
  return DONE;
}

inline Outcome commit_copies(Warp& w, const Instruction&) {
  each_lane(w.exec, [&](int lane) { ++w.copy_groups[lane]; });
  return DONE;
}

// modifier 0: groups that may be left, -1 for cp.async.wait_all.
inline Outcome wait_for_copies(Warp& w, const Instruction& in) {
  const int left = in.modifier[0];
  std::vector<Copy> later;
  for (const Copy& copy : w.copies) {
    const bool waits = w.exec >> copy.lane & 1;
    if (waits && (left < 0 || int32_t(w.copy_groups[copy.lane] - copy.group) > left)) perform(w, copy);
    else later.push_back(copy);
  }
  w.copies.swap(later);
  return DONE;
}

// operands: base and offset of an mbarrier, at which each lane arrives when its copies have ended.
// These are no longer the lane's to wait for.
inline Outcome arrive_behind_copies(Warp& w, const Instruction& in) {
  each_lane(w.exec, [&](int lane) {
    const uint32_t address = address_of(w, in.operand, 32, lane);
    Block& block = block_of(w, address, false);
    mbarrier_at(block, address);
    std::vector<Copy> own, others;
    for (const Copy& copy : w.copies) (copy.lane == lane ? own : others).push_back(copy);
    w.copies.swap(others);
    submit(w, block.cluster, in, [&w, &block, address, own] {
      for (const Copy& copy : own) perform(w, copy);
      arrive_at(launch_of(w), mbarrier_at(block, address), 1, 0);
    });
  });
  return DONE;
}

inline void add_copies(Table& t) {
  t.add("cp.async", copy_async);
  t.add("cp.async.commit_group", commit_copies);
  t.add("cp.async.wait", wait_for_copies);
  t.add("cp.async.mbarrier.arrive", arrive_behind_copies);
}

}  // namespace ptx
