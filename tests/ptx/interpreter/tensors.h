// cp.async.bulk.tensor: boxes of tensors between global and shared memory, tiled and im2col.
#pragma once

#include "bulk.h"

namespace ptx {

// A row of a box: where its elements lie in global memory and which of them are inside.
struct Row {
  uint64_t address;
  int64_t first, last;  // elements inside the tensor, of those of the row; none if first == last
};

inline int64_t row_elements(const TensorMap& map) { return map.im2col ? map.channels : map.box[0]; }

inline bool inside(const TensorMap& map, const int64_t* at) {
  for (int axis = 1; axis < map.rank; ++axis)
    if (at[axis] < 0 || at[axis] >= map.dims[axis]) return false;
  return true;
}

inline Row row_at(const TensorMap& map, const int64_t* at) {
  if (!inside(map, at)) return {0, 0, 0};
  uint64_t address = map.base + at[0] * map.element_bytes;
  for (int axis = 1; axis < map.rank; ++axis) address += at[axis] * map.strides[axis];
  const int64_t count = row_elements(map);
  const int64_t first = std::min(std::max<int64_t>(0, -at[0]), count);
  const int64_t last = std::max(first, std::min(count, map.dims[0] - at[0]));
  return {address, first, last};
}

// The rows of a tiled box, in the order in which they lie in shared memory.
inline std::vector<Row> tiled_rows(const TensorMap& map, const int32_t* start) {
  int64_t counts[5] = {1, 1, 1, 1, 1}, total = 1;
  for (int axis = 1; axis < map.rank; ++axis) {
    counts[axis] = (map.box[axis] + map.steps[axis] - 1) / map.steps[axis];
    total *= counts[axis];
  }
  std::vector<Row> rows;
  for (int64_t number = 0; number < total; ++number) {
    int64_t at[5] = {start[0]}, rest = number;
    for (int axis = 1; axis < map.rank; ++axis) {
      at[axis] = start[axis] + rest % counts[axis] * map.steps[axis];
      rest /= counts[axis];
    }
    rows.push_back(row_at(map, at));
  }
  return rows;
}

// The rows of an im2col column: pixels from the start on, through the bounding box of rank 4 maps
// (c, w, h, n), each moved by the offsets of a filter tap.
inline std::vector<Row> im2col_rows(const TensorMap& map, const int32_t* start, const uint32_t* offset) {
  int64_t base[3] = {start[1], start[2], start[3]};
  std::vector<Row> rows;
  for (int64_t pixel = 0; pixel < map.pixels; ++pixel) {
    const int64_t at[5] = {start[0], base[0] + offset[0], base[1] + offset[1], base[2]};
    rows.push_back(row_at(map, at));
    for (int axis = 0; axis < 2; ++axis) {
      base[axis] += map.steps[1 + axis];
      if (base[axis] <= map.dims[1 + axis] - 1 + map.upper[axis]) break;
      base[axis] = map.lower[axis];
      if (axis == 1) ++base[2];
    }
  }
  return rows;
}

// The tensor map that a parameter holds at an address.
inline const TensorMap& map_at(Warp& w, int lane, uint64_t address) {
  if (address % 64) throw Fault("a tensor map is not aligned to 64 bytes");
  uint64_t number;
  std::memcpy(&number, resolve(w, lane, GENERIC, address, 8, false), 8);
  if (number >= launch_of(w).maps.size()) throw Fault("there is no tensor map at this address");
  return launch_of(w).maps[number];
}

inline uint32_t check_box(const TensorMap& map, int rank, uint32_t shared) {
  const int64_t bytes = row_elements(map) * map.element_bytes;
  if (map.rank != rank) throw Fault("a tensor map of another rank");
  if (shared % 128) throw Fault("a box in shared memory is not aligned to 128 bytes");
  if (bytes % 16) throw Fault("a row of a box is not of whole 16 bytes");
  if (map.swizzle && bytes != 16 << map.swizzle) throw Fault("rows of a box are not as wide as its swizzle");
  return uint32_t(bytes);
}

inline std::vector<uint8_t> box_bytes(Launch& launch, const TensorMap& map, const std::vector<Row>& rows) {
  const int64_t size = row_elements(map) * map.element_bytes;
  std::vector<uint8_t> bytes(rows.size() * size, 0);
  for (size_t i = 0; i < rows.size(); ++i) {
    const Row& row = rows[i];
    if (row.first == row.last) continue;
    const int64_t skip = row.first * map.element_bytes, count = (row.last - row.first) * map.element_bytes;
    std::memcpy(&bytes[i * size + skip], global_at(launch, row.address + skip, count, false), count);
  }
  return bytes;
}

// operands: target, map, barrier (bases and offsets each), coordinates, offsets, mask; modifier:
// rank, offsets, whether a mask is given.
inline Outcome load_tensor(Warp& w, const Instruction& in) {
  const int rank = in.modifier[0], offsets = in.modifier[1];
  each_lane(w.exec, [&](int lane) {
    const uint32_t to = address_of(w, in.operand, 32, lane), signal = address_of(w, in.operand + 4, 32, lane);
    const TensorMap& map = map_at(w, lane, address_of(w, in.operand + 2, 64, lane));
    if (bool(map.im2col) != (offsets > 0)) throw Fault("the tensor map is of another mode");
    int32_t start[5] = {};
    uint32_t offset[3] = {};
    for (int i = 0; i < rank; ++i) start[i] = source(w, in.operand[6 + i])[lane];
    for (int i = 0; i < offsets; ++i) offset[i] = source(w, in.operand[6 + rank + i])[lane];
    const uint32_t bytes = check_box(map, rank, to);
    const auto rows = map.im2col ? im2col_rows(map, start, offset) : tiled_rows(map, start);
    const uint32_t* mask = in.modifier[2] ? source(w, in.operand[6 + rank + offsets]) : nullptr;
    const auto blocks = receivers(w, to, mask, lane);
    for (Block* block : blocks) {
      const uint32_t size = bytes * rows.size();
      require_replaceable(*block, shared_at(*block, to, size), size);
      mbarrier_at(*block, signal);
    }
    Launch& launch = launch_of(w);
    require_waited(w, range_of(launch, map.base, 1, false));
    box_bytes(launch, map, rows);  // checks the addresses where the copy is issued
    submit(w, w.block->cluster, in, [&launch, &map, blocks, to, signal, rows] {
      deliver(launch, blocks, to, signal, box_bytes(launch, map, rows), map.swizzle);
    });
  });
  return DONE;
}

// operands: map, source (base and offset each), coordinates; modifier: rank.
inline Outcome store_tensor(Warp& w, const Instruction& in) {
  each_lane(w.exec, [&](int lane) {
    const TensorMap& map = map_at(w, lane, address_of(w, in.operand, 64, lane));
    const uint32_t from = address_of(w, in.operand + 2, 32, lane);
    int32_t start[5] = {};
    for (int i = 0; i < in.modifier[0]; ++i) start[i] = source(w, in.operand[4 + i])[lane];
    const uint32_t bytes = check_box(map, in.modifier[0], from);
    if (map.im2col) throw Fault("the tensor map is of another mode");
    const auto rows = tiled_rows(map, start);
    Launch& launch = launch_of(w);
    Block& block = block_of(w, from, false);
    require_waited(w, range_of(launch, map.base, 1, true));
    require_fenced(block, shared_at(block, from, bytes * rows.size()), bytes * rows.size());
    submit_store(w, lane, [&launch, &map, &block, from, bytes, rows] {
      std::vector<uint8_t> read(bytes * rows.size());
      for (uint32_t i = 0; i < read.size(); i += 16)
        std::memcpy(&read[i], shared_at(block, swizzled((from & ((1u << RANK_SHIFT) - 1)) + i, map.swizzle), 16), 16);
      return std::function<void()>([&launch, &map, bytes, rows, read] {
        for (size_t i = 0; i < rows.size(); ++i) {
          const int64_t skip = rows[i].first * map.element_bytes;
          const int64_t count = (rows[i].last - rows[i].first) * map.element_bytes;
          if (count) std::memcpy(global_at(launch, rows[i].address + skip, count, true), &read[i * bytes + skip], count);
        }
      });
    });
  });
  return DONE;
}

inline void add_tensors(Table& t) {
  t.add("cp.async.bulk.tensor.load", load_tensor);
  t.add("cp.async.bulk.tensor.store", store_tensor);
}

}  // namespace ptx
