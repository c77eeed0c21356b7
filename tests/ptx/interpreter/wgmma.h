// wgmma.mma_async: products of a warpgroup whose factors lie in shared memory, each warp's 16 rows
// by itself.
//
// Late, a product reads shared memory only when its group is waited for, and its metadata: an H200
// reads that register when the product begins, and ptxas gives it to others before. Until then its
// accumulators hold nothing that is of use, and moving them moves what they will hold.
#pragma once

#include <algorithm>

#include "bulk.h"
#include "mma.h"

namespace ptx {

constexpr uint32_t UNFINISHED = 0x7fc5a5a5;

enum Flag { A_REGISTERS = 1, NEGATE_A = 2, NEGATE_B = 4, SPARSE = 8, SELECTOR = 16, TRANSPOSED_B = 32 };

// The bytes of rows that a descriptor names, K-major.
inline std::vector<uint8_t> described(Warp& w, uint64_t descriptor, int first_row, int rows, int k_bytes) {
  const uint32_t start = (descriptor & 0x3fff) << 4;
  const uint32_t column = (descriptor >> 16 & 0x3fff) << 4, group = (descriptor >> 32 & 0x3fff) << 4;
  if (descriptor >> 49 & 7) throw Fault("a descriptor with a base offset is not known here");
  // Mode 1 is 128 bytes, 2 is 64, 3 is 32.
  const int mode = descriptor >> 62, swizzle = mode ? 4 - mode : 0;
  const uint32_t pitch = mode ? 16u << swizzle : 16;
  if (mode && start % pitch + k_bytes > pitch) throw Fault("a step along k leaves the swizzled row");
  std::vector<uint8_t> bytes(size_t(rows) * k_bytes);
  for (int row = 0; row < rows; ++row) {
    const uint32_t number = first_row + row;
    const uint32_t line = start + number / 8 * group + number % 8 * pitch;
    for (int k = 0; k < k_bytes; k += 16) {
      const uint32_t address = mode ? swizzled(line + k, swizzle) : line + k / 16 * column;
      const uint8_t* at = shared_at(*w.block, address, 16);
      require_fenced(*w.block, at, 16);
      std::memcpy(&bytes[size_t(row) * k_bytes + k], at, 16);
    }
  }
  return bytes;
}

// The bytes of rows [k, n] of 16-bit values that a descriptor names, MN-major: a line of `pitch`
// bytes for each k, eight lines to a group, and a column of groups for each `pitch` bytes along n.
inline std::vector<uint8_t> described_transposed(Warp& w, uint64_t descriptor, int k, int n_bytes) {
  const uint32_t start = (descriptor & 0x3fff) << 4;
  const uint32_t column = (descriptor >> 16 & 0x3fff) << 4, group = (descriptor >> 32 & 0x3fff) << 4;
  if (descriptor >> 49 & 7) throw Fault("a descriptor with a base offset is not known here");
  const int mode = descriptor >> 62;
  if (mode == 0) throw Fault("a transposed tile without a swizzle is not known here");
  const int swizzle = 4 - mode;
  const uint32_t pitch = 16u << swizzle;
  if (start % pitch) throw Fault("a transposed tile starts inside of a line");
  std::vector<uint8_t> bytes(size_t(k) * n_bytes);
  for (int row = 0; row < k; ++row)
    for (int n = 0; n < n_bytes; n += 16) {
      const uint32_t line = start + n / pitch * column + row / 8 * group + row % 8 * pitch;
      const uint8_t* at = shared_at(*w.block, swizzled(line + n % pitch, swizzle), 16);
      require_fenced(*w.block, at, 16);
      std::memcpy(&bytes[size_t(row) * n_bytes + n], at, 16);
    }
  return bytes;
}

template <class T, class S>
inline void widen(const uint8_t* from, size_t count, T* to) {
  for (size_t i = 0; i < count; ++i) {
    S value;
    std::memcpy(&value, from + i * sizeof(S), sizeof(S));
    to[i] = T(value);
  }
}

template <class T>
inline Matrix<T> decoded(const std::vector<uint8_t>& bytes, int rows, int element) {
  const int bits = element_bits(element);
  Matrix<T> out(rows, int(bytes.size()) * 8 / bits / rows);
  if (element == E_S8) widen<T, int8_t>(bytes.data(), bytes.size(), out.values.data());
  else if (element == E_U8) widen<T, uint8_t>(bytes.data(), bytes.size(), out.values.data());
  else
    for (size_t i = 0; i < out.values.size(); ++i) {
      uint32_t raw = 0;
      std::memcpy(&raw, &bytes[i * bits / 8], bits / 8);
      out.values[i] = element_of<T>(raw, element);
    }
  return out;
}

inline int result_registers(const Instruction& in) { return in.modifier[0] / (in.modifier[3] == A_F16 ? 4 : 2); }

// modifier: n, elements of a and b, accumulator, k, flags. Gives the accumulators' registers.
template <class T>
inline std::vector<uint32_t> computed(Warp& w, const PendingProduct& product) {
  const Instruction& in = *product.in;
  const int n = in.modifier[0], kind = in.modifier[3], k = in.modifier[4], flags = in.modifier[5];
  const int stored = flags & SPARSE ? k / 2 : k;
  const int bits = element_bits(in.modifier[1]);
  const uint32_t* words[5];
  for (size_t i = 0; i < product.words.size() / LANES; ++i) words[i] = &product.words[i * LANES];
  Matrix<T> a(0, 0);
  if (flags & A_REGISTERS) {
    a = fragment<T>(words, 16, stored, in.modifier[1]);
  } else {
    const auto rows = described(w, product.a_descriptor, w.index % 4 * 16, 16, stored * bits / 8);
    a = decoded<T>(rows, 16, in.modifier[1]);
  }
  const int b_bits = element_bits(in.modifier[2]);
  const Matrix<T> b =
      flags & TRANSPOSED_B
          ? decoded<T>(described_transposed(w, product.b_descriptor, k, n * b_bits / 8), k, in.modifier[2])
          : transposed(decoded<T>(described(w, product.b_descriptor, 0, n, k * b_bits / 8), n, in.modifier[2]));
  if (flags & SPARSE) a = spread(a, words[flags & A_REGISTERS ? 4 : 0], flags & SELECTOR ? 1 : 0);
  if (bool(flags & NEGATE_A) != bool(flags & NEGATE_B))
    for (T& value : a.values) value = -value;
  const int count = result_registers(in);
  std::vector<uint32_t> out(product.initial);
  std::vector<uint32_t*> registers(count);
  for (int i = 0; i < count; ++i) registers[i] = &out[i * LANES];
  Matrix<T> d(16, n);
  if (product.accumulate) take_accumulators(d, registers.data(), kind);
  add_product(d, a, b);
  give_accumulators(d, registers.data(), kind);
  return out;
}

// Compute a product and give the results to whoever waits for them.
inline void finish(Warp& w, PendingProduct& product) {
  if (product.in->modifier[5] & SPARSE) {
    const uint32_t* now = source(w, product.metadata);
    std::copy(now, now + LANES, product.words.end() - LANES);
  }
  const bool floating = is_floating(product.in->modifier[1]);
  const auto out = floating ? computed<float>(w, product) : computed<int32_t>(w, product);
  for (int32_t target : product.targets) {
    Owner& owner = w.owners[target];
    if (owner.product != &product) continue;
    std::memcpy(w.registers + target * LANES, &out[owner.index * LANES], LANES * 4);
    owner.product = nullptr;
  }
  for (const auto& feed : product.feeds)
    std::memcpy(&feed.into->initial[feed.at * LANES], &out[feed.index * LANES], LANES * 4);
}

// Take over the accumulators of a product: from registers, or from the products under way that
// they wait for.
inline void take_over(Warp& w, PendingProduct& product, int count) {
  product.initial.resize(count * LANES);
  product.targets.assign(product.in->operand, product.in->operand + count);
  w.owners.resize(launch_of(w).settings.registers + 1);
  for (int i = 0; i < count; ++i) {
    const int32_t slot = product.targets[i];
    Owner& owner = w.owners[slot];
    uint32_t* registers = w.registers + slot * LANES;
    if (owner.product) owner.product->feeds.push_back({owner.index, i, &product});
    else std::memcpy(&product.initial[i * LANES], registers, LANES * 4);
    owner = {&product, i};
    std::fill_n(registers, LANES, UNFINISHED);
  }
}

// operands: d, a's descriptor or registers, b's descriptor, metadata, predicate.
inline Outcome multiply_async(Warp& w, const Instruction& in) {
  const int flags = in.modifier[5], count = result_registers(in);
  const int32_t* operand = in.operand + count;
  auto product = std::make_unique<PendingProduct>();
  product->in = &in;
  product->group = w.product_groups;
  auto snapshot = [&](int32_t place) {
    const uint32_t* from = source(w, place);
    product->words.insert(product->words.end(), from, from + LANES);
  };
  if (flags & A_REGISTERS)
    for (int i = 0; i < 4; ++i) snapshot(*operand++);
  else
    product->a_descriptor = source_of<uint64_t>(w, *operand++)[0];
  product->b_descriptor = source_of<uint64_t>(w, *operand++)[0];
  if (flags & SPARSE) snapshot(product->metadata = *operand++);
  const uint32_t accumulate = predicate(w, *operand);
  if (accumulate != 0 && accumulate != ALL) throw Fault("lanes differ in whether they accumulate");
  product->accumulate = accumulate;
  take_over(w, *product, count);
  if (launch_of(w).settings.late) w.products.push_back(std::move(product));
  else finish(w, *product);
  return DONE;
}

inline Outcome commit_products(Warp& w, const Instruction&) {
  ++w.product_groups;
  return DONE;
}

// modifier 0: groups that may be left.
inline Outcome wait_for_products(Warp& w, const Instruction& in) {
  size_t done = 0;
  while (done < w.products.size() && int32_t(w.product_groups - w.products[done]->group) > in.modifier[0])
    finish(w, *w.products[done++]);
  w.products.erase(w.products.begin(), w.products.begin() + done);
  return DONE;
}

inline void add_wgmma(Table& t) {
  t.add("wgmma", multiply_async, true);
  t.add("wgmma.commit_group", commit_products, true);
  t.add("wgmma.wait_group", wait_for_products, true);
}

}  // namespace ptx
