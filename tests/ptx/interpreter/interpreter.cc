// The interpreter's entry points: the names of its instructions, and a launch.

#include <cstdio>

#include "atomics.h"
#include "conversions.h"
#include "copies.h"
#include "floats.h"
#include "integers.h"
#include "matrices.h"
#include "mma.h"
#include "schedule.h"
#include "selections.h"
#include "tensors.h"
#include "warp_operations.h"
#include "wgmma.h"

namespace ptx {

const Table& table() {
  static const Table all = [] {
    Table t;
    add_integers(t);
    add_floats(t);
    add_conversions(t);
    add_selections(t);
    add_memory(t);
    add_atomics(t);
    add_copies(t);
    add_asynchronous(t);
    add_warp_operations(t);
    add_barriers(t);
    add_matrices(t);
    add_mma(t);
    add_mbarriers(t);
    add_bulk(t);
    add_tensors(t);
    add_wgmma(t);
    add_control(t);
    return t;
  }();
  return all;
}

// Instructions as `Parser` writes them: handler, predicate, first operand, operands, modifiers.
constexpr int FIELDS = 10;

void load_program(Launch& launch, const int32_t* code, int64_t count) {
  launch.code.resize(count);
  for (int64_t i = 0; i < count; ++i) {
    const int32_t* field = code + i * FIELDS;
    Instruction& in = launch.code[i];
    const Entry& entry = table().entries.at(field[0]);
    in.run = entry.run;
    in.aligned = entry.aligned;
    in.predicate = field[1];
    in.operand = launch.operands.data() + field[2];
    in.count = field[3];
    std::memcpy(in.modifier, field + 4, sizeof in.modifier);
  }
}

}  // namespace ptx

using namespace ptx;

template <class T>
struct Span {
  const T* first;
  int64_t count;
  std::vector<T> copied() const { return std::vector<T>(first, first + count); }
};

extern "C" {

int ptx_names(char* text, int size) {
  std::string all;
  for (const Entry& entry : table().entries) all += entry.name + "\n";
  if (int(all.size()) >= size) return int(all.size()) + 1;
  std::memcpy(text, all.c_str(), all.size() + 1);
  return 0;
}

struct Input {
  Span<int32_t> code, operands;
  Span<uint32_t> constants;
  Span<int32_t> specials;
  Span<uint8_t> parameters;
  Span<Range> ranges;
  Span<TensorMap> maps;
  Settings settings;
  // What a run says: instructions of warps, and the place of a fault.
  int64_t executed;
  int32_t fault_at, fault_warp, fault_block[3];
  char message[4096];
};

int ptx_run(Input* input) {
  Launch launch;
  At at;
  launch.settings = input->settings;
  launch.random = input->settings.seed;
  launch.operands = input->operands.copied();
  launch.constants = input->constants.copied();
  launch.specials = input->specials.copied();
  launch.parameters = input->parameters.copied();
  launch.ranges = input->ranges.copied();
  launch.maps = input->maps.copied();
  load_program(launch, input->code.first, input->code.count);
  input->fault_at = input->fault_warp = -1;
  int failed = 0;
  try {
    run_launch(launch, at);
  } catch (const Fault& fault) {
    failed = 1;
    std::snprintf(input->message, sizeof input->message, "%s", fault.what());
    if (at.warp) {
      input->fault_at = at.warp->pc;
      input->fault_warp = at.warp->index;
      std::memcpy(input->fault_block, at.warp->block->index, sizeof input->fault_block);
    }
  }
  input->executed = launch.instructions;
  return failed;
}
}
