// SPDX-License-Identifier: Apache-2.0
// shard_set: the shards of a sharded queue, looked up by producers and queued for the consumer.
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

namespace gyre::inbox::detail {

/// The shards of one queue. `Shard` derives from shard_base and from intrusive_list_node, counts
/// what was pushed() and what is pending(), and can free_segments().
///
/// Members marked "Consumer" are for one thread at a time. Before the set ends, the consumer takes
/// and retires every shard.
template <class Shard>
class shard_set {
 public:
  shard_set() : id_(next_inbox_id()) {}
  shard_set& operator=(shard_set&&) = delete;

  /// The calling thread's shard if it was used lately, else null. A load and a comparison.
  Shard* cached() const noexcept {
    const auto& entry = this_thread_shards.entries[id_ % shard_cache::size];
    return entry.inbox == id_ ? static_cast<Shard*>(entry.shard) : nullptr;
  }
  /// Ends a producer's access to its shard: abandons it where the thread is past its thread-locals,
  /// which then has a shard for one task.
  struct end_access {
    bool kept;
    void operator()(Shard* shard) const noexcept {
      if (!kept) shard->abandon();
    }
  };
  using shard_access = std::unique_ptr<Shard, end_access>;
  /// The calling thread's shard; if it had none a new one, made from `arguments` (which may throw
  /// std::bad_alloc) and known to the consumer.
  template <class... Arguments>
  shard_access find_or_register(const Arguments&... arguments) {
    if (shard_base* known = find_shard(id_)) return {static_cast<Shard*>(known), end_access{true}};
    auto fresh = std::make_unique<Shard>(arguments...);
    const bool kept = keep_shard(id_, fresh.get());
    Shard& added = *fresh.release();
    {
      const std::lock_guard lock(mutex_);
      all_.push_back(added);
    }
    new_shards_.push(added);
    return {&added, end_access{kept}};
  }
  /// Consumer: queues the new shards.
  void admit_new_shards() noexcept {
    if (new_shards_.empty()) [[likely]]
      return;
    auto added = new_shards_.pop_all();
    while (Shard* each = added.pop_front()) put_back(*each);
  }
  /// Consumer: the count of queued shards; the first one, null if there is none.
  std::size_t size() const noexcept { return size_; }
  Shard* front() const noexcept { return queue_.front(); }
  /// Consumer: takes the first one out of the queue, null if there is none.
  Shard* take() noexcept {
    Shard* const first = queue_.pop_front();
    if (first != nullptr) --size_;
    return first;
  }
  /// Consumer: puts one at the end of the queue.
  void put_back(Shard& shard) noexcept {
    queue_.push_back(shard);
    ++size_;
  }
  /// The thread that took `empty_shard`: removes the shard, which will not be filled again.
  void retire(Shard& empty_shard) noexcept {
    {
      const std::lock_guard lock(mutex_);
      static_cast<intrusive_list_node&>(empty_shard).unlink();
      pushed_to_retired_ += empty_shard.pushed();
    }
    empty_shard.free_segments();
    empty_shard.close();
  }
  /// Counts the pending tasks of all shards, queued or not. Any thread. Complexity: O(shards), with
  /// the lock held.
  std::size_t pending() const noexcept {
    const std::lock_guard lock(mutex_);
    std::size_t sum = 0;
    for (const Shard& each : all_) sum += each.pending();
    return sum;
  }
  /// Counts all tasks that were ever pushed, even those of shards that are gone.
  std::uint64_t pushed() const noexcept {
    const std::lock_guard lock(mutex_);
    std::uint64_t sum = pushed_to_retired_;
    for (const Shard& each : all_) sum += each.pushed();
    return sum;
  }

 private:
  const std::uint64_t id_;
  intrusive_queue<Shard> queue_;
  std::size_t size_ = 0;
  alignas(false_sharing_range) atomic_intrusive_stack<Shard> new_shards_;
  mutable std::mutex mutex_;
  mutable intrusive_list<Shard> all_;
  std::uint64_t pushed_to_retired_ = 0;
};

}  // namespace gyre::inbox::detail
