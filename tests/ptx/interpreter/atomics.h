// atom and red: lanes one after the other.
#pragma once

#include "memory.h"

namespace ptx {

// Operations by the number that `Parser` gives.
enum Atomic { AT_ADD, AT_MIN, AT_MAX, AT_AND, AT_OR, AT_XOR, AT_EXCH, AT_CAS, AT_INC, AT_DEC };

template <class T>
inline T updated(T old, T a, T b, int operation) {
  switch (operation) {
    case AT_ADD: return old + a;
    case AT_MIN: return a < old ? a : old;
    case AT_MAX: return a > old ? a : old;
    case AT_EXCH: return a;
    case AT_CAS: return old == a ? b : old;
  }
  if constexpr (std::is_integral_v<T>) {
    switch (operation) {
      case AT_AND: return old & a;
      case AT_OR: return old | a;
      case AT_XOR: return old ^ a;
      case AT_INC: return old >= a ? T(0) : T(old + 1);
      case AT_DEC: return old == 0 || old > a ? a : T(old - 1);
    }
  }
  throw Fault("an atomic operation that is not known here");
}

// operands: the old value, base, offset, a, b; modifier: operation, space, bits of the base,
// whether b is given.
template <class T>
inline Outcome change(Warp& w, const Instruction& in) {
  const Pointers at(w, in.operand + 1, in.modifier[1], in.modifier[2], sizeof(T), true);
  const Raw<T>* a = source_of<T>(w, in.operand[3]);
  const Raw<T>* b = in.modifier[3] ? source_of<T>(w, in.operand[4]) : a;
  Raw<T> out[LANES] = {};
  each_lane(w.exec, [&](int lane) {
    T old;
    std::memcpy(&old, at.at[lane], sizeof old);
    const T now = updated<T>(old, from_raw<T>(a[lane]), from_raw<T>(b[lane]), in.modifier[0]);
    std::memcpy(at.at[lane], &now, sizeof now);
    note_write(w, lane, at.at[lane], sizeof now);
    out[lane] = to_raw<T>(old);
  });
  put(w, in.operand[0], out);
  return DONE;
}

inline void add_atomics(Table& t) {
  t.add("atom.s32", change<int32_t>);
  t.add("atom.u32", change<uint32_t>);
  t.add("atom.s64", change<int64_t>);
  t.add("atom.u64", change<uint64_t>);
  t.add("atom.f32", change<float>);
}

}  // namespace ptx
