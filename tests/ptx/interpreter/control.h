// How a warp goes through a program: branches, lanes apart, waiting.
#pragma once

#include <algorithm>

#include "barriers.h"

namespace ptx {

// Lanes that go another way wait as a group of their own. The group that is furthest behind runs,
// and takes those with it whose place it comes to.
inline void join_others(Warp& w) {
  for (size_t i = 0; i < w.others.size();) {
    if (w.others[i].pc == w.pc) {
      w.active |= w.others[i].lanes;
      w.others.erase(w.others.begin() + i);
    } else {
      ++i;
    }
  }
}

// Go on with the group furthest behind that is not parked; false where there is none.
inline bool take_group(Warp& w) {
  int best = -1;
  for (size_t i = 0; i < w.others.size(); ++i)
    if (!w.others[i].parked && (best < 0 || w.others[i].pc < w.others[best].pc)) best = i;
  if (best < 0) return false;
  const Group group = w.others[best];
  w.others.erase(w.others.begin() + best);
  w.pc = group.pc;
  w.active = group.lanes;
  join_others(w);
  return true;
}

inline void put_aside(Warp& w, int32_t pc, uint32_t lanes, bool parked) {
  w.others.push_back({pc, lanes, parked});
}

// operands: the instruction's number to go to.
inline Outcome branch(Warp& w, const Instruction& in) {
  const int32_t to = in.operand[0];
  if (w.exec == w.active) {
    w.next = to;
    return DONE;
  }
  const uint32_t rest = w.active & ~w.exec;
  if (to < w.next) {
    put_aside(w, w.next, rest, false);
    w.active = w.exec;
    w.next = to;
  } else {
    put_aside(w, to, w.exec, false);
    w.active = rest;
  }
  return DONE;
}

// operands: a register with the place in the list that follows.
inline Outcome branch_to_one(Warp& w, const Instruction& in) {
  const uint32_t* index = source(w, in.operand[0]);
  uint32_t left = w.active & ~w.exec;
  if (left) put_aside(w, w.next, left, false);
  left = w.exec;
  while (left) {
    const uint32_t which = index[std::countr_zero(left)];
    if (int32_t(which) >= in.count - 1) throw Fault("brx.idx: there is no such target");
    uint32_t lanes = 0;
    each_lane(left, [&](int lane) { lanes |= uint32_t(index[lane] == which) << lane; });
    put_aside(w, in.operand[1 + which], lanes, false);
    left &= ~lanes;
  }
  w.active = 0;
  return DONE;
}

inline Outcome leave_program(Warp& w, const Instruction&) {
  w.active &= ~w.exec;
  leave(w, w.exec);
  return DONE;
}

inline bool reads_unfinished_product(Warp& w, const Instruction& in);

enum Pause { SLICE_OVER, WAITS, ENDED };

// Run until the slice is over or no lane can go on. `moved` says whether any instruction ran.
inline Pause run(Warp& w, int64_t slice, bool& moved) {
  Launch& launch = launch_of(w);
  const Instruction* code = launch.code.data();
  for (Group& group : w.others) group.parked = false;
  for (int64_t left = slice; left > 0; --left) {
    if (!w.others.empty()) join_others(w);
    const Instruction& in = code[w.pc];
    w.next = w.pc + 1;
    w.exec = w.active & (in.predicate < 0 ? ALL : predicate(w, in.predicate));
    Outcome outcome = DONE;
    if (in.aligned && w.active != w.alive) {
      outcome = BLOCKED;
      w.awaits = {"its other lanes"};
    } else if (w.exec) {
      if (in.aligned && w.exec != w.alive) throw Fault("only some lanes of the warp execute it");
      ++launch.instructions;
      outcome = in.run(w, in);
    }
    if (outcome != BLOCKED) {
      moved = true;
      w.pc = w.next;
      if (!w.active) {
        if (!w.alive) return ENDED;
        // Lanes that wait for others of the warp may find them now.
        for (Group& group : w.others) group.parked = false;
        take_group(w);
      } else if (!w.others.empty()) {
        // The group furthest behind goes on.
        const int32_t pc = w.pc;
        if (std::any_of(w.others.begin(), w.others.end(), [pc](const Group& g) { return !g.parked && g.pc < pc; })) {
          put_aside(w, w.pc, w.active, false);
          take_group(w);
        }
      }
      if (outcome == YIELDED) return SLICE_OVER;
      continue;
    }
    if (w.others.empty()) return WAITS;
    put_aside(w, w.pc, w.active, true);
    if (!take_group(w)) {
      for (Group& group : w.others) group.parked = false;
      take_group(w);
      return WAITS;
    }
  }
  return SLICE_OVER;
}

inline void add_control(Table& t) {
  t.add("bra", branch);
  t.add("brx.idx", branch_to_one);
  t.add("exit", leave_program);
  t.add("nop", [](Warp&, const Instruction&) { return DONE; });
  t.add("nanosleep", [](Warp&, const Instruction&) { return YIELDED; });
  t.add("trap", [](Warp&, const Instruction&) -> Outcome { throw Fault("trap"); });
}

}  // namespace ptx
