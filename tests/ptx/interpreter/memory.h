// Addresses, and the loads and stores of threads.
#pragma once

#include "machine.h"

namespace ptx {

enum Space { GENERIC, GLOBAL, SHARED, LOCAL, PARAM, SHARED_CLUSTER };

inline std::string hexadecimal(uint64_t value) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
  return text;
}

inline Block& block_of(const Warp& w, uint32_t address, bool of_cluster) {
  const uint32_t rank = address >> RANK_SHIFT;
  Cluster& cluster = *w.block->cluster;
  if (rank >= cluster.blocks.size())
    throw Fault("shared address " + hexadecimal(address) + " is of no block of the cluster");
  Block& block = cluster.blocks[rank];
  if (&block != w.block && !of_cluster)
    throw Fault("shared::cta address " + hexadecimal(address) + " is of another block");
  if (block.threads == 0) throw Fault("the block whose shared memory is used has ended");
  return block;
}

inline uint8_t* shared_at(Block& block, uint32_t address, uint32_t bytes) {
  const uint32_t offset = address & ((1u << RANK_SHIFT) - 1);
  if (offset < SYSTEM_SHARED || offset - SYSTEM_SHARED + bytes > block.shared.size())
    throw Fault("out of bounds: " + std::to_string(bytes) + " bytes of shared memory at " +
                std::to_string(int64_t(offset) - SYSTEM_SHARED) + " of " +
                std::to_string(block.shared.size()));
  return block.shared.data() + offset - SYSTEM_SHARED;
}

inline const Range& range_of(Launch& launch, uint64_t address, uint64_t bytes, bool write) {
  for (const Range& range : launch.ranges) {
    if (address < range.start || address + bytes > range.end) continue;
    if (write && !range.writable) throw Fault("writes to an input, at " + hexadecimal(address - range.start));
    return range;
  }
  std::string where;
  for (size_t i = 0; i < launch.ranges.size(); ++i) {
    const Range& range = launch.ranges[i];
    if (address + 4096 < range.start || address > range.end + 4096) continue;
    where += ", byte " + std::to_string(int64_t(address - range.start)) + " of the " +
             std::to_string(range.end - range.start) + " of array " + std::to_string(i);
  }
  throw Fault("out of bounds: " + std::to_string(bytes) + " bytes at " + hexadecimal(address) + where);
}

inline uint8_t* global_at(Launch& launch, uint64_t address, uint64_t bytes, bool write) {
  range_of(launch, address, bytes, write);
  return reinterpret_cast<uint8_t*>(address);
}

// A launch that starts while those before it run touches nothing of theirs before it has waited.
inline void require_waited(const Warp& w, const Range& range) {
  if (launch_of(w).settings.programmatic && !range.early && !w.block->waited)
    throw Fault("before griddepcontrol.wait it uses what launches before it may still use");
}

inline uint8_t* global_at(Warp& w, uint64_t address, uint64_t bytes, bool write) {
  require_waited(w, range_of(launch_of(w), address, bytes, write));
  return reinterpret_cast<uint8_t*>(address);
}

inline uint8_t* resolve(Warp& w, int lane, int space, uint64_t address, uint32_t bytes, bool write) {
  if (space == GENERIC) {
    const uint64_t kind = address >> 56;
    space = kind == 0 ? GLOBAL : kind == 1 ? SHARED_CLUSTER : kind == 2 ? LOCAL : PARAM;
    address &= (1ull << 56) - 1;
  }
  switch (space) {
    case GLOBAL: return global_at(w, address, bytes, write);
    case SHARED:
    case SHARED_CLUSTER:
      return shared_at(block_of(w, address, space == SHARED_CLUSTER), address, bytes);
    case LOCAL: {
      const uint64_t size = launch_of(w).settings.local_bytes;
      if (address + bytes > size) throw Fault("out of bounds of local memory");
      return w.local.data() + lane * size + address;
    }
    default: {
      std::vector<uint8_t>& parameters = launch_of(w).parameters;
      if (write || address + bytes > parameters.size()) throw Fault("out of bounds of parameters");
      return parameters.data() + address;
    }
  }
}

// Remember who writes or reads shared memory, for the asynchronous proxy.
inline void note(
    std::vector<Access> Block::*kind, Warp& w, int lane, const uint8_t* at, uint32_t bytes) {
  for (Block& block : w.block->cluster->blocks) {
    const uint8_t* start = block.shared.data();
    if (at < start || at >= start + block.shared.size()) continue;
    const Access access{(w.block->rank << 16) | (w.index * LANES + lane), w.fences[lane]};
    const size_t first = (at - start) / GRANULE, last = (at - start + bytes - 1) / GRANULE;
    for (size_t i = first; i <= last; ++i) (block.*kind)[i] = access;
    return;
  }
}
inline void note_write(Warp& w, int lane, const uint8_t* to, uint32_t bytes) {
  note(&Block::writes, w, lane, to, bytes);
}
inline void note_read(Warp& w, int lane, const uint8_t* from, uint32_t bytes) {
  if (launch_of(w).settings.proxies) note(&Block::reads, w, lane, from, bytes);
}

inline bool may_be_shared(int space) {
  return space == SHARED || space == SHARED_CLUSTER || space == GENERIC;
}

inline uint64_t address_of(const Warp& w, const int32_t* operand, int bits, int lane) {
  const uint32_t* words = source(w, operand[0]);
  const uint64_t base = bits == 64 ? reinterpret_cast<const uint64_t*>(words)[lane] : words[lane];
  return bits == 64 ? base + int64_t(operand[1]) : uint32_t(base + operand[1]);
}

// A run of addresses that lie in one array, so that a warp looks it up once.
inline bool within_one_range(const Warp& w, const uint64_t* at, uint32_t mask, uint32_t bytes, bool write) {
  uint64_t low = ~0ull, high = 0;
  each_lane(mask, [&](int lane) {
    low = at[lane] < low ? at[lane] : low;
    high = at[lane] > high ? at[lane] : high;
  });
  for (const Range& range : launch_of(w).ranges)
    if (low >= range.start && high + bytes <= range.end && (range.writable || !write)) {
      require_waited(w, range);
      return true;
    }
  return false;
}

// Host pointers of every lane that executes; raises for an address out of bounds or unaligned.
struct Pointers {
  uint8_t* at[LANES];
  Pointers(Warp& w, const int32_t* operand, int space, int bits, uint32_t bytes, bool write) {
    uint64_t address[LANES];
    for (int lane = 0; lane < LANES; ++lane) address[lane] = address_of(w, operand, bits, lane);
    uint64_t all = 0;
    each_lane(w.exec, [&](int lane) { all |= address[lane]; });
    if (all & (bytes - 1)) throw Fault("an address is no multiple of the " + std::to_string(bytes) + " bytes accessed");
    const bool global = space == GLOBAL || (space == GENERIC && all >> 56 == 0);
    if (global && within_one_range(w, address, w.exec, bytes, write)) {
      for (int lane = 0; lane < LANES; ++lane) at[lane] = reinterpret_cast<uint8_t*>(address[lane]);
      return;
    }
    each_lane(w.exec, [&](int lane) { at[lane] = resolve(w, lane, space, address[lane], bytes, write); });
  }
};

template <class T>
inline uint64_t loaded(const uint8_t* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return uint64_t(value);
}

// operands: registers, base, offset; modifier: space, vector length, whether the value is signed,
// bits of a register, bits of the base.
template <class T, class Signed>
inline Outcome load(Warp& w, const Instruction& in) {
  const int count = in.modifier[1], space = in.modifier[0];
  const Pointers from(w, in.operand + count, space, in.modifier[4], sizeof(T) * count, false);
  if (may_be_shared(space))
    each_lane(w.exec, [&](int lane) { note_read(w, lane, from.at[lane], sizeof(T) * count); });
  for (int i = 0; i < count; ++i) {
    uint64_t out[LANES];
    each_lane(w.exec, [&](int lane) {
      const uint8_t* at = from.at[lane] + i * sizeof(T);
      out[lane] = in.modifier[2] ? loaded<Signed>(at) : loaded<T>(at);
    });
    if (in.modifier[3] == 64) {
      put(w, in.operand[i], out);
      continue;
    }
    uint32_t words[LANES];
    const uint32_t keep = in.modifier[3] == 16 ? 0xffff : ALL;
    for (int lane = 0; lane < LANES; ++lane) words[lane] = uint32_t(out[lane]) & keep;
    put(w, in.operand[i], words);
  }
  return DONE;
}

// operands: base, offset, registers; modifier: space, vector length, bits of a register, bits of
// the base.
template <class T>
inline Outcome store(Warp& w, const Instruction& in) {
  const int count = in.modifier[1], space = in.modifier[0];
  const Pointers to(w, in.operand, space, in.modifier[3], sizeof(T) * count, true);
  for (int i = 0; i < count; ++i) {
    const uint32_t* words = source(w, in.operand[2 + i]);
    const uint64_t* longs = reinterpret_cast<const uint64_t*>(words);
    each_lane(w.exec, [&](int lane) {
      const T value = T(in.modifier[2] == 64 ? longs[lane] : words[lane]);
      std::memcpy(to.at[lane] + i * sizeof(T), &value, sizeof(T));
    });
  }
  if (may_be_shared(space))
    each_lane(w.exec, [&](int lane) { note_write(w, lane, to.at[lane], sizeof(T) * count); });
  return DONE;
}

inline void add_memory(Table& t) {
  t.add("griddepcontrol.wait", [](Warp& w, const Instruction&) {
    w.block->waited = true;
    return DONE;
  });
  t.add("ld.8", load<uint8_t, int8_t>);
  t.add("ld.16", load<uint16_t, int16_t>);
  t.add("ld.32", load<uint32_t, int32_t>);
  t.add("ld.64", load<uint64_t, int64_t>);
  t.add("st.8", store<uint8_t>);
  t.add("st.16", store<uint16_t>);
  t.add("st.32", store<uint32_t>);
  t.add("st.64", store<uint64_t>);
  t.add("cvta.shared", [](Warp& w, const Instruction& in) {
    return lanes<uint64_t, uint64_t>(w, in, [](uint64_t a) { return a + SHARED_BASE; });
  });
  t.add("cvta.local", [](Warp& w, const Instruction& in) {
    return lanes<uint64_t, uint64_t>(w, in, [](uint64_t a) { return a + LOCAL_BASE; });
  });
  t.add("cvta.to.shared", [](Warp& w, const Instruction& in) {
    return lanes<uint64_t, uint64_t>(w, in, [](uint64_t a) { return a - SHARED_BASE; });
  });
  t.add("cvta.to.local", [](Warp& w, const Instruction& in) {
    return lanes<uint64_t, uint64_t>(w, in, [](uint64_t a) { return a - LOCAL_BASE; });
  });
}

}  // namespace ptx
