// Operations that end some time after their instruction: at once, or as late as anyone waits.
#pragma once

#include "memory.h"

namespace ptx {

// Let an operation happen: at once, or when no warp can go on without one.
inline void submit(Warp& w, Cluster* cluster, const Instruction& in, std::function<void()> operation) {
  Launch& launch = launch_of(w);
  if (!launch.settings.late) return operation();
  if (cluster) ++cluster->pending;
  launch.pending.push_back({cluster, int32_t(&in - launch.code.data()), std::move(operation)});
}

// One of the operations that are under way, any of them.
inline bool run_pending(Launch& launch) {
  if (launch.pending.empty()) return false;
  const size_t chosen = launch.draw() % launch.pending.size();
  PendingOperation operation = std::move(launch.pending[chosen]);
  launch.pending.erase(launch.pending.begin() + chosen);
  if (operation.cluster) --operation.cluster->pending;
  try {
    operation.run();
  } catch (const Fault& fault) {
    throw Fault(std::string(fault.what()) + "\n  in the operation of @" + std::to_string(operation.instruction));
  }
  ++launch.events;
  return true;
}

// operands none; the stores that a thread has issued since its last group are one.
inline Outcome commit_stores(Warp& w, const Instruction&) {
  each_lane(w.exec, [&](int lane) { ++w.store_groups[lane]; });
  return DONE;
}

inline void read_source(BulkStore& store) {
  if (!store.read) store.write = store.fetch();
  store.read = true;
}

// modifier: groups that may be left, whether only their sources have to be read.
inline Outcome wait_for_stores(Warp& w, const Instruction& in) {
  std::vector<BulkStore> later;
  for (BulkStore& store : w.stores) {
    const bool waits = w.exec >> store.lane & 1;
    if (waits && int32_t(w.store_groups[store.lane] - store.group) > in.modifier[0]) {
      read_source(store);
      if (!in.modifier[1]) {
        store.write();
        continue;
      }
    }
    later.push_back(std::move(store));
  }
  w.stores.swap(later);
  return DONE;
}

// A thread's stores, when it ends, have been read from shared memory, which others get.
inline void end_warp(Warp& w) {
  Launch& launch = launch_of(w);
  for (BulkStore& store : w.stores) {
    if (!store.read) throw Fault("a thread ends while its bulk store still reads shared memory");
    launch.left_stores.push_back(std::move(store));
  }
  w.stores.clear();
}

// All stores are written when a launch ends.
inline void finish_stores(Launch& launch) {
  for (BulkStore& store : launch.left_stores) store.write();
  launch.left_stores.clear();
}

inline void add_asynchronous(Table& t) {
  t.add("cp.async.bulk.commit_group", commit_stores);
  t.add("cp.async.bulk.wait_group", wait_for_stores);
}

}  // namespace ptx
