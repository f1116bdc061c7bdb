// SPDX-License-Identifier: Apache-2.0
// shard_set: the shards of a sharded queue. A producer looks its own up; the consumer has all of
// them in a line.
#pragma once

#include <gyre/base/cache_line.hpp>
#include <gyre/base/intrusive_list.hpp>
#include <gyre/base/intrusive_queue.hpp>
#include <gyre/base/intrusive_stack.hpp>
#include <gyre/exec/inbox/detail/shard.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

namespace gyre::inbox::detail {

/// The shards of one queue. `Shard` derives from shard_base and from intrusive_list_node, has a
/// default constructor, counts what was pushed() and what is pending(), and can free_segments().
///
/// Members marked "Consumer" are for one thread at a time. Before the set ends, the consumer takes
/// and discharges every shard.
template <class Shard>
class shard_set {
 public:
  shard_set() : id_(next_inbox_id()) {}
  shard_set(const shard_set&) = delete;
  shard_set& operator=(const shard_set&) = delete;

  /// The calling thread's shard if it was used lately, else null. A load and a comparison.
  Shard* cached() const noexcept {
    const auto& entry = this_thread_shards.entries[id_ % shard_cache::size];
    return entry.inbox == id_ ? static_cast<Shard*>(entry.shard) : nullptr;
  }

  /// A producer's hold on its shard, which ends at once where the thread is past its thread-locals:
  /// it then has a shard for one task.
  class hold {
   public:
    hold(Shard& held, bool kept) noexcept : shard_(held), kept_(kept) {}
    hold(const hold&) = delete;
    hold& operator=(const hold&) = delete;
    ~hold() {
      if (!kept_) shard_.abandon();
    }
    Shard& operator*() const noexcept { return shard_; }
    Shard* operator->() const noexcept { return &shard_; }

   private:
    Shard& shard_;
    bool kept_;
  };

  /// The calling thread's shard; a new one, known to the consumer, if it had none (which may throw
  /// std::bad_alloc).
  hold find_or_enter() {
    if (shard_base* known = find_shard(id_)) return hold(*static_cast<Shard*>(known), true);
    auto fresh = std::make_unique<Shard>();
    const bool kept = keep_shard(id_, fresh.get());
    Shard& entered = *fresh.release();
    {
      const std::lock_guard lock(census_mutex_);
      census_.push_back(entered);
    }
    arrivals_.push(entered);
    return hold(entered, kept);
  }

  /// Consumer: takes the new shards into the line.
  void admit_arrivals() noexcept {
    if (arrivals_.empty()) [[likely]]
      return;
    auto arrived = arrivals_.pop_all();
    while (Shard* each = arrived.pop_front()) put_back(*each);
  }

  /// Consumer: how many stand in the line; the first one, null if there is none.
  std::size_t size() const noexcept { return size_; }
  Shard* front() const noexcept { return line_.front(); }

  /// Consumer: takes the first one out of the line, null if there is none.
  Shard* take() noexcept {
    Shard* const first = line_.pop_front();
    if (first != nullptr) --size_;
    return first;
  }
  /// Consumer: puts one at the end of the line.
  void put_back(Shard& taken) noexcept {
    line_.push_back(taken);
    ++size_;
  }

  /// The thread that took `emptied`: removes a shard that is empty and will not be filled again.
  void discharge(Shard& emptied) noexcept {
    {
      const std::lock_guard lock(census_mutex_);
      static_cast<intrusive_list_node&>(emptied).unlink();
      pushed_to_discharged_ += emptied.pushed();
    }
    emptied.free_segments();
    emptied.close();
  }

  /// Any thread: the sum over all shards, in the line or not. O(shards), and a lock.
  std::size_t pending() const noexcept {
    const std::lock_guard lock(census_mutex_);
    std::size_t sum = 0;
    for (const Shard& each : census_) sum += each.pending();
    return sum;
  }
  /// The same of all that was ever pushed, also to shards that are gone.
  std::uint64_t pushed() const noexcept {
    const std::lock_guard lock(census_mutex_);
    std::uint64_t sum = pushed_to_discharged_;
    for (const Shard& each : census_) sum += each.pushed();
    return sum;
  }

 private:
  const std::uint64_t id_;
  intrusive_queue<Shard> line_;
  std::size_t size_ = 0;
  alignas(false_sharing_range) atomic_intrusive_stack<Shard> arrivals_;
  mutable std::mutex census_mutex_;
  mutable intrusive_list<Shard> census_;
  std::uint64_t pushed_to_discharged_ = 0;
};

}  // namespace gyre::inbox::detail
