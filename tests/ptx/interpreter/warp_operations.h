// Instructions in which the lanes of a warp see each other: shfl, vote, match, redux, elect.
#pragma once

#include "machine.h"

namespace ptx {

// Whether every lane of a mask that has not exited is here; those that are not yet may still come.
inline bool gathered(const Warp& w, uint32_t mask) { return (mask & w.alive & ~w.active) == 0; }

// A member mask, which all executing lanes give alike.
inline uint32_t members(const Warp& w, int32_t operand) {
  return source(w, operand)[std::countr_zero(w.exec)];
}

// operands: d, p, a, b, c, members; modifier 0: 0 idx, 1 up, 2 down, 3 bfly.
inline Outcome shuffle(Warp& w, const Instruction& in) {
  if (!gathered(w, members(w, in.operand[5]))) return BLOCKED;
  const uint32_t *a = source(w, in.operand[2]), *b = source(w, in.operand[3]), *c = source(w, in.operand[4]);
  uint32_t out[LANES], inside = 0;
  for (int lane = 0; lane < LANES; ++lane) {
    const int by = b[lane] & 31, clamp = c[lane] & 31, segment = c[lane] >> 8 & 31;
    const int last = (lane & segment) | (clamp & ~segment), first = lane & segment;
    int from = 0;
    bool in_range = false;
    switch (in.modifier[0]) {
      case 0: from = first | (by & ~segment & 31), in_range = from <= last; break;
      case 1: from = lane - by, in_range = from >= last; break;
      case 2: from = lane + by, in_range = from <= last; break;
      default: from = lane ^ by, in_range = from <= last;
    }
    if (!in_range) from = lane;
    if (in_range && w.exec >> lane & 1 && !(w.exec >> from & 1))
      throw Fault("shfl reads lane " + std::to_string(from) + ", which does not take part");
    out[lane] = a[from];
    inside |= uint32_t(in_range) << lane;
  }
  put(w, in.operand[0], out);
  put_predicate(w, in.operand[1], inside);
  return DONE;
}

// operands: d, a, members; modifier 0: 0 all, 1 any, 2 uni, 3 ballot.
inline Outcome vote(Warp& w, const Instruction& in) {
  const uint32_t mask = members(w, in.operand[2]);
  if (!gathered(w, mask)) return BLOCKED;
  const uint32_t taking = mask & w.exec, set = predicate(w, in.operand[1]) & taking;
  if (in.modifier[0] == 3) {
    uint32_t out[LANES];
    for (uint32_t& word : out) word = set;
    put(w, in.operand[0], out);
    return DONE;
  }
  const bool result = in.modifier[0] == 0 ? set == taking : in.modifier[0] == 1 ? set != 0 : set == taking || !set;
  put_predicate(w, in.operand[0], result ? ALL : 0);
  return DONE;
}

// operands: d, p, a, members; modifier 0: whether all have to match.
template <class Word>
inline Outcome match(Warp& w, const Instruction& in) {
  const uint32_t mask = members(w, in.operand[3]);
  if (!gathered(w, mask)) return BLOCKED;
  const Word* a = source_of<Word>(w, in.operand[2]);
  uint32_t out[LANES] = {};
  bool all = true;
  each_lane(w.exec & mask, [&](int lane) {
    each_lane(w.exec & mask, [&](int other) { out[lane] |= uint32_t(a[other] == a[lane]) << other; });
    all = all && out[lane] == (w.exec & mask);
  });
  if (in.modifier[0] && !all) std::memset(out, 0, sizeof out);
  put(w, in.operand[0], out);
  put_predicate(w, in.operand[1], all ? ALL : 0);
  return DONE;
}

// operands: d, a, members.
template <class T, class F>
inline Outcome reduce(Warp& w, const Instruction& in, F f) {
  if (!gathered(w, members(w, in.operand[2]))) return BLOCKED;
  const uint32_t* a = source(w, in.operand[1]);
  T sum = T(a[std::countr_zero(w.exec)]);
  each_lane(w.exec & (w.exec - 1), [&](int lane) { sum = f(sum, T(a[lane])); });
  uint32_t out[LANES];
  for (uint32_t& word : out) word = uint32_t(sum);
  put(w, in.operand[0], out);
  return DONE;
}

// operands: d, p, members: the lowest lane is elected.
inline Outcome elect(Warp& w, const Instruction& in) {
  const uint32_t mask = members(w, in.operand[2]);
  if (!gathered(w, mask)) return BLOCKED;
  const int leader = std::countr_zero(w.exec & mask);
  uint32_t out[LANES];
  for (uint32_t& word : out) word = leader;
  put(w, in.operand[0], out);
  put_predicate(w, in.operand[1], 1u << leader);
  return DONE;
}

#define PTX_REDUX(NAME, TYPE, RESULT)                                                    \
  t.add(NAME, [](Warp& w, const Instruction& in) {                                       \
    return reduce<TYPE>(w, in, [](TYPE x, TYPE y) -> TYPE { return RESULT; });           \
  })

inline void add_warp_operations(Table& t) {
  t.add("shfl", shuffle);
  t.add("vote", vote);
  t.add("match.b32", match<uint32_t>);
  t.add("match.b64", match<uint64_t>);
  t.add("elect", elect);
  PTX_REDUX("redux.add", uint32_t, x + y);
  PTX_REDUX("redux.and", uint32_t, x & y);
  PTX_REDUX("redux.or", uint32_t, x | y);
  PTX_REDUX("redux.xor", uint32_t, x ^ y);
  PTX_REDUX("redux.min.u32", uint32_t, x < y ? x : y);
  PTX_REDUX("redux.max.u32", uint32_t, x > y ? x : y);
  PTX_REDUX("redux.min.s32", int32_t, x < y ? x : y);
  PTX_REDUX("redux.max.s32", int32_t, x > y ? x : y);
  t.add("bar.warp.sync", [](Warp& w, const Instruction& in) {
    return gathered(w, members(w, in.operand[0])) ? DONE : BLOCKED;
  });
  t.add("activemask", [](Warp& w, const Instruction& in) {
    uint32_t out[LANES];
    for (uint32_t& word : out) word = w.exec;
    put(w, in.operand[0], out);
    return DONE;
  });
}

#undef PTX_REDUX

}  // namespace ptx
