// setp, selp, mov, and logic of predicates.
#pragma once

#include "halves.h"
#include "machine.h"

namespace ptx {

// Comparisons by the number that `Parser` gives; the unordered ones hold for a NaN.
enum Comparison { EQ, NE, LT, LE, GT, GE, EQU, NEU, LTU, LEU, GTU, GEU, NUM, NAN_ };

template <class V>
inline bool holds(V a, V b, int comparison) {
  const bool unordered = a != a || b != b;
  switch (comparison) {
    case EQ: return a == b;
    case NE: return a != b && !unordered;
    case LT: return a < b;
    case LE: return a <= b;
    case GT: return a > b;
    case GE: return a >= b;
    case EQU: return unordered || a == b;
    case NEU: return unordered || a != b;
    case LTU: return unordered || a < b;
    case LEU: return unordered || a <= b;
    case GTU: return unordered || a > b;
    case GEU: return unordered || a >= b;
    case NUM: return !unordered;
    default: return unordered;
  }
}

template <class T>
inline auto comparable(T a) {
  if constexpr (std::is_same_v<T, half_t> || std::is_same_v<T, bfloat_t>) return to_float(a);
  else return a;
}

template <class T>
inline uint32_t compared(const Raw<T>* a, const Raw<T>* b, int comparison) {
  uint32_t bits = 0;
  for (int lane = 0; lane < LANES; ++lane) {
    bits |= uint32_t(holds(comparable(from_raw<T>(a[lane])), comparable(from_raw<T>(b[lane])),
                           comparison)) << lane;
  }
  return bits;
}

inline uint32_t combined(uint32_t a, uint32_t b, int with) {
  return with == 1 ? a & b : with == 2 ? a | b : with == 3 ? a ^ b : a;
}

// operands: p, q, a, b and a predicate; modifier: comparison, how it combines with the predicate.
template <class T>
inline Outcome compare(Warp& w, const Instruction& in) {
  const Raw<T>* a = source_of<T>(w, in.operand[2]);
  const Raw<T>* b = source_of<T>(w, in.operand[3]);
  // Known where it stands still, so that each loop is of one comparison.
  uint32_t bits;
  switch (in.modifier[0]) {
    case EQ: bits = compared<T>(a, b, EQ); break;
    case NE: bits = compared<T>(a, b, NE); break;
    case LT: bits = compared<T>(a, b, LT); break;
    case GT: bits = compared<T>(a, b, GT); break;
    default: bits = compared<T>(a, b, in.modifier[0]);
  }
  const int with = in.modifier[1];
  const uint32_t other = with ? predicate(w, in.operand[4]) : 0;
  put_predicate(w, in.operand[0], combined(bits, other, with));
  put_predicate(w, in.operand[1], combined(~bits, other, with));
  return DONE;
}

template <class... T>
void comparisons(Table& t) {
  (t.add(std::string("setp.") + Name<T>::text, compare<T>), ...);
}

template <class Word>
inline Outcome select(Warp& w, const Instruction& in) {
  const Word *a = source_of<Word>(w, in.operand[1]), *b = source_of<Word>(w, in.operand[2]);
  const uint32_t which = predicate(w, in.operand[3]);
  Word out[LANES];
  for (int lane = 0; lane < LANES; ++lane) out[lane] = which >> lane & 1 ? a[lane] : b[lane];
  put(w, in.operand[0], out);
  return DONE;
}

// A register that takes an accumulator of a product under way will hold its result as well.
inline void move_owner(Warp& w, int32_t to, int32_t from) {
  Owner& owner = w.owners[to];
  owner = from >= 0 ? w.owners[from] : Owner{};
  if (owner.product) owner.product->targets.push_back(to);
}

template <class Word>
inline Outcome move(Warp& w, const Instruction& in) {
  if (!w.products.empty() && sizeof(Word) == 4) move_owner(w, in.operand[0], in.operand[1]);
  if (w.exec == ALL) {
    std::memmove(w.registers + in.operand[0] * LANES, source(w, in.operand[1]), LANES * sizeof(Word));
    return DONE;
  }
  return lanes<Word, Word>(w, in, [](Word a) { return a; });
}

// A register of its parts, first the lowest. Parts are words or halves of them.
template <class Whole, int Parts>
inline Outcome join(Warp& w, const Instruction& in) {
  constexpr int bits = sizeof(Whole) * 8 / Parts;
  Whole out[LANES] = {};
  for (int part = 0; part < Parts; ++part) {
    const uint32_t* from = source(w, in.operand[1 + part]);
    for (int lane = 0; lane < LANES; ++lane) out[lane] |= Whole(from[lane]) << bits * part;
  }
  put(w, in.operand[0], out);
  return DONE;
}

template <class Whole, int Parts>
inline Outcome split(Warp& w, const Instruction& in) {
  constexpr int bits = sizeof(Whole) * 8 / Parts;
  Whole whole[LANES];
  std::memcpy(whole, source(w, in.operand[Parts]), sizeof whole);
  for (int part = 0; part < Parts; ++part) {
    uint32_t out[LANES];
    for (int lane = 0; lane < LANES; ++lane)
      out[lane] = uint32_t(whole[lane] >> bits * part & ((Whole(1) << bits) - 1));
    put(w, in.operand[part], out);
  }
  return DONE;
}

inline void add_selections(Table& t) {
  comparisons<int16_t, uint16_t, int32_t, uint32_t, int64_t, uint64_t, half_t, bfloat_t, float,
              double>(t);
  t.add("selp.u32", select<uint32_t>);
  t.add("selp.u64", select<uint64_t>);
  t.add("mov.u32", move<uint32_t>);
  t.add("mov.u64", move<uint64_t>);
  t.add("join.u32.2", join<uint32_t, 2>);
  t.add("join.u64.2", join<uint64_t, 2>);
  t.add("join.u64.4", join<uint64_t, 4>);
  t.add("split.u32.2", split<uint32_t, 2>);
  t.add("split.u64.2", split<uint64_t, 2>);
  t.add("split.u64.4", split<uint64_t, 4>);
  t.add("mov.pred", [](Warp& w, const Instruction& in) {
    return put_predicate(w, in.operand[0], predicate(w, in.operand[1])), DONE;
  });
  t.add("not.pred", [](Warp& w, const Instruction& in) {
    return put_predicate(w, in.operand[0], ~predicate(w, in.operand[1])), DONE;
  });
  // modifier 0: and, or, xor, as in setp.
  t.add("logic.pred", [](Warp& w, const Instruction& in) {
    uint32_t a = predicate(w, in.operand[1]), b = predicate(w, in.operand[2]);
    return put_predicate(w, in.operand[0], combined(a, b, in.modifier[0])), DONE;
  });
}

}  // namespace ptx
