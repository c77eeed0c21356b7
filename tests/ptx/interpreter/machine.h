// A launch that runs: its clusters, their blocks, their shared memory and barriers.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <unordered_set>

#include "core.h"

namespace ptx {

// Shared addresses of 32 bits have a block's rank in its cluster above RANK_SHIFT, and as generic
// addresses SHARED_BASE before them. The first bytes of shared memory are the system's.
constexpr uint64_t SHARED_BASE = 1ull << 56, LOCAL_BASE = 2ull << 56, PARAM_BASE = 3ull << 56;
constexpr int RANK_SHIFT = 24;
constexpr uint32_t SYSTEM_SHARED = 1024;
constexpr uint32_t GRANULE = 4;  // bytes whose last writer is known

// early: whether it may be used before the launches before this one are complete.
struct Range {
  uint64_t start, end;
  int64_t writable, early;
};

struct TensorMap {
  uint64_t base;
  int64_t rank, element_bytes, swizzle, im2col, fill;
  int64_t dims[5], strides[5], box[5], steps[5], lower[5], upper[5], channels, pixels;
};

// What a launch is given, and how it behaves: `late` lets everything asynchronous happen as late
// as what waits for it allows.
struct Settings {
  int32_t grid[3], block[3], cluster[3];
  int32_t shared_bytes, local_bytes, late, seed, residents, registers, predicates, programmatic,
      proxies;
};

struct Barrier {
  uint32_t arrived = 0, expected = 0, round = 0;
};

// Who used a granule of shared memory last through the generic proxy, and its fences until then.
struct Access {
  int32_t thread = -1;
  uint32_t fences = 0;
};

struct Cluster;
struct Launch;

struct Block {
  Launch* launch = nullptr;
  Cluster* cluster = nullptr;
  int rank = 0;
  int32_t index[3] = {}, cluster_index[3] = {};
  std::vector<uint8_t> shared;
  std::vector<Access> writes, reads;  // of each granule, the latter where `proxies` is set
  static constexpr uint64_t ZEROS = 1;
  std::vector<uint64_t> coming;  // of each granule, where what cp.async brings comes from, or 0
  std::vector<Warp> warps;
  Barrier barriers[16];
  std::unordered_set<uint32_t> mbarriers;  // offsets of those that are initialised
  uint32_t threads = 0;  // that have not exited
  bool waited = false;   // for the launches before, by griddepcontrol.wait
};

struct Cluster {
  std::vector<Block> blocks;
  Barrier barrier;
  uint32_t threads = 0;
  int pending = 0;  // asynchronous operations on its shared memory
};

struct PendingOperation {
  Cluster* cluster;
  int32_t instruction;
  std::function<void()> run;
};

// A bulk store: its thread waits first until its source was read, then until it is written.
struct BulkStore {
  int lane;
  uint32_t group;
  bool read;
  std::function<std::function<void()>()> fetch;  // reads the source, gives what writes it
  std::function<void()> write;
};

// A product of wgmma that is under way, with what it was issued with.
struct PendingProduct {
  struct Feed {
    int index, at;
    PendingProduct* into;
  };
  const Instruction* in = nullptr;
  uint32_t group = 0;
  uint64_t a_descriptor = 0, b_descriptor = 0;
  bool accumulate = false;
  std::vector<uint32_t> words;    // registers of A and of metadata
  int32_t metadata = 0;           // the register of metadata, which is read late too
  std::vector<uint32_t> initial;  // accumulators
  std::vector<int32_t> targets;   // registers that hold a result, as far as it still owns them
  std::vector<Feed> feeds;        // accumulators of later products
};

// Which product under way a register waits for, and which of its accumulators it is.
struct Owner {
  PendingProduct* product = nullptr;
  int32_t index = 0;
};

struct Launch {
  Settings settings;
  std::vector<Instruction> code;
  std::vector<int32_t> operands;
  std::vector<uint32_t> constants;
  std::vector<int32_t> specials;
  std::vector<uint8_t> parameters;
  std::vector<Range> ranges;
  std::vector<TensorMap> maps;
  std::vector<std::unique_ptr<Cluster>> clusters;
  std::deque<PendingOperation> pending;
  std::vector<BulkStore> left_stores;  // of threads that have exited
  uint64_t instructions = 0, events = 0, random = 0;

  uint32_t draw() {
    random = random * 6364136223846793005ull + 1442695040888963407ull;
    return uint32_t(random >> 33);
  }
};

inline Launch& launch_of(const Warp& w) { return *w.block->launch; }

inline Warp::Warp() = default;
inline Warp::Warp(Warp&&) = default;
inline Warp::~Warp() = default;

}  // namespace ptx
