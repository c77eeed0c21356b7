// What every instruction works on: registers of 32 lanes, a decoded instruction, a warp.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace ptx {

constexpr int LANES = 32;
constexpr uint32_t ALL = 0xffffffffu;
constexpr int32_t SINK = INT32_MIN;     // the operand `_`
constexpr int32_t NEGATED = 1 << 30;    // of a predicate operand

// What ends a run, told with the instruction that did it.
struct Fault : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// What a handler says: the instruction is done; it has to be tried again; it is done, others first.
enum Outcome { DONE, BLOCKED, YIELDED };

struct Warp;
struct Instruction;
using Handler = Outcome (*)(Warp&, const Instruction&);

// operand: registers and constants by their place, predicates by number, plain numbers; `Parser`
// in Python and a handler agree on what comes where.
struct Instruction {
  Handler run;
  int32_t predicate;  // -1 for none
  const int32_t* operand;
  int32_t count;
  int32_t modifier[6];
  bool aligned;  // all lanes of the warp execute it together
};

struct Group {
  int32_t pc;
  uint32_t lanes;
  bool parked;
};

struct Block;

// A copy of cp.async, which arrives when its lane waits for `group`.
struct Copy {
  uint64_t from;
  uint32_t to, bytes, read;
  int lane;
  uint32_t group;
};

struct PendingProduct;
struct Owner;
struct BulkStore;
struct MBarrier;

// What blocks a warp, for the report of a deadlock, which makes words of it: a barrier's number, or
// an mbarrier and its address. A warp asks many times before it goes on.
inline constexpr char BARRIER[] = "barrier ";
struct Awaited {
  const char* what = "";
  uint32_t number = 0;
  const MBarrier* mbarrier = nullptr;
};

struct Warp {
  Block* block = nullptr;
  uint32_t* registers = nullptr;
  const uint32_t* constants = nullptr;
  std::vector<uint32_t> predicates;
  int32_t pc = 0, next = 0;
  uint32_t active = 0;  // lanes at pc
  uint32_t alive = 0;   // lanes that have not exited
  uint32_t exec = 0;    // active lanes whose predicate holds
  std::vector<Group> others;
  int index = 0;        // in its block
  // Where it stands at a barrier: the barrier's round that it waits to see end.
  bool at_barrier = false;
  uint32_t barrier_round = 0, cluster_round = 0;
  std::vector<Copy> copies;
  uint32_t copy_groups[LANES] = {};
  uint32_t store_groups[LANES] = {};
  uint32_t fences[LANES] = {};  // fence.proxy.async that each lane has executed
  std::vector<std::unique_ptr<PendingProduct>> products;
  std::vector<Owner> owners;  // of registers, while products are under way
  uint32_t product_groups = 0;
  std::vector<BulkStore> stores;
  std::vector<uint32_t> storage;
  std::vector<uint8_t> local;
  Awaited awaits;

  Warp();
  Warp(Warp&&);
  ~Warp();
};

// 16-bit floats are kept apart from integers.
struct half_t { uint16_t bits; };
struct bfloat_t { uint16_t bits; };

template <class T>
using Raw = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;

template <class T>
inline T from_raw(Raw<T> raw) {
  if constexpr (std::is_same_v<T, half_t> || std::is_same_v<T, bfloat_t>) {
    return T{uint16_t(raw)};
  } else if constexpr (std::is_floating_point_v<T>) {
    return std::bit_cast<T>(raw);
  } else {
    return T(raw);
  }
}

template <class T>
inline Raw<T> to_raw(T value) {
  if constexpr (std::is_same_v<T, half_t> || std::is_same_v<T, bfloat_t>) {
    return value.bits;
  } else if constexpr (std::is_floating_point_v<T>) {
    return std::bit_cast<Raw<T>>(value);
  } else {
    return std::make_unsigned_t<T>(value);
  }
}

inline const uint32_t* source(const Warp& w, int32_t operand) {
  return operand >= 0 ? w.registers + operand * LANES : w.constants + ~operand * LANES;
}

template <class T>
inline const Raw<T>* source_of(const Warp& w, int32_t operand) {
  return reinterpret_cast<const Raw<T>*>(source(w, operand));
}

// Write a register in the lanes that execute.
template <class Word>
inline void put(Warp& w, int32_t operand, const Word* values) {
  if (operand == SINK) return;
  Word* to = reinterpret_cast<Word*>(w.registers + operand * LANES);
  if (w.exec == ALL) {
    std::memcpy(to, values, LANES * sizeof(Word));
  } else {
    for (int lane = 0; lane < LANES; ++lane) to[lane] = w.exec >> lane & 1 ? values[lane] : to[lane];
  }
}

inline uint32_t predicate(const Warp& w, int32_t operand) {
  uint32_t bits = w.predicates[operand & ~NEGATED];
  return operand & NEGATED ? ~bits : bits;
}

inline void put_predicate(Warp& w, int32_t operand, uint32_t bits) {
  if (operand == SINK) return;
  uint32_t& to = w.predicates[operand];
  to = (to & ~w.exec) | (bits & w.exec);
}

// f over each lane: operand 0 becomes what f gives for those behind it, of types S.
template <class D, class... S, class F, size_t... I>
inline Outcome lanes_of(Warp& w, const Instruction& in, F f, std::index_sequence<I...>) {
  Raw<D> out[LANES];
  [&](const Raw<S>*... from) {
    for (int lane = 0; lane < LANES; ++lane) out[lane] = to_raw<D>(f(from_raw<S>(from[lane])...));
  }(source_of<S>(w, in.operand[1 + I])...);
  put(w, in.operand[0], out);
  return DONE;
}

template <class D, class... S, class F>
inline Outcome lanes(Warp& w, const Instruction& in, F f) {
  return lanes_of<D, S...>(w, in, f, std::index_sequence_for<S...>{});
}

template <class F>
inline void each_lane(uint32_t mask, F f) {
  for (; mask; mask &= mask - 1) f(std::countr_zero(mask));
}

// Handlers by the name that `Parser` looks up.
struct Entry {
  std::string name;
  Handler run;
  bool aligned;
};

struct Table {
  std::vector<Entry> entries;
  void add(const std::string& name, Handler run, bool aligned = false) {
    entries.push_back({name, run, aligned});
  }
};

template <class T> struct Name;
template <> struct Name<int16_t> { static constexpr const char* text = "s16"; };
template <> struct Name<uint16_t> { static constexpr const char* text = "u16"; };
template <> struct Name<int32_t> { static constexpr const char* text = "s32"; };
template <> struct Name<uint32_t> { static constexpr const char* text = "u32"; };
template <> struct Name<int64_t> { static constexpr const char* text = "s64"; };
template <> struct Name<uint64_t> { static constexpr const char* text = "u64"; };
template <> struct Name<float> { static constexpr const char* text = "f32"; };
template <> struct Name<double> { static constexpr const char* text = "f64"; };
template <> struct Name<half_t> { static constexpr const char* text = "f16"; };
template <> struct Name<bfloat_t> { static constexpr const char* text = "bf16"; };

// Instructions "name.type" of one, two or three operands of the result's type.
template <class... T, class F>
void unary(Table& t, const std::string& name, F) {
  (t.add(name + "." + Name<T>::text,
         [](Warp& w, const Instruction& in) {
           return lanes<T, T>(w, in, [](T a) -> T { return F{}(a); });
         }), ...);
}

template <class... T, class F>
void binary(Table& t, const std::string& name, F) {
  (t.add(name + "." + Name<T>::text,
         [](Warp& w, const Instruction& in) {
           return lanes<T, T, T>(w, in, [](T a, T b) -> T { return F{}(a, b); });
         }), ...);
}

template <class... T, class F>
void ternary(Table& t, const std::string& name, F) {
  (t.add(name + "." + Name<T>::text,
         [](Warp& w, const Instruction& in) {
           return lanes<T, T, T, T>(w, in, [](T a, T b, T c) -> T { return F{}(a, b, c); });
         }), ...);
}

}  // namespace ptx
