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

/// The shards of one queue. `Shard` derives from shard_base and from intrusive_list_node, has
/// pushed(), pending() and free_segments().
///
/// Members marked "Consumer" are called by one thread at a time. Before the set is destroyed, the
/// consumer must take and retire every shard.
template <class Shard>
class shard_set {
 public:
  shard_set() : id_(next_inbox_id()) {}
  shard_set& operator=(shard_set&&) = delete;

  /// Returns the calling thread's shard if that is in the cache, else null. Complexity: a load and
  /// a comparison.
  Shard* cached() const noexcept {
    const auto& entry = this_thread_shards.entries[id_ % shard_cache::size];
    return entry.inbox == id_ ? static_cast<Shard*>(entry.shard) : nullptr;
  }
  /// Returns the calling thread's shard, even if it is not in the cache; null if there is none.
  Shard* find() const noexcept { return static_cast<Shard*>(find_shard(id_)); }
  /// Ends a producer's access to its shard: abandons the shard if it was not `kept`, because the
  /// thread has destroyed its thread-locals and makes a shard for each task.
  struct end_access {
    bool kept = false;
    void operator()(Shard* shard) const noexcept {
      if (!kept) shard->abandon();
    }
  };
  using shard_access = std::unique_ptr<Shard, end_access>;
  /// Returns the calling thread's shard or, if there was none, a new one, made from `arguments` and
  /// registered for the consumer. Throws std::bad_alloc.
  template <class... Arguments>
  shard_access find_or_register(const Arguments&... arguments) {
    if (Shard* const own_shard = find()) return {own_shard, end_access{true}};
    auto owner = std::make_unique<Shard>(arguments...);
    const bool is_kept = keep_shard(id_, owner.get());
    Shard& new_shard = *owner.release();
    {
      const std::lock_guard lock(mutex_);
      all_.push_back(new_shard);
    }
    new_shards_.push(new_shard);
    return {&new_shard, end_access{is_kept}};
  }
  /// Consumer: adds the shards registered by producers to the queue.
  void admit_new_shards() noexcept {
    if (new_shards_.empty()) [[likely]]
      return;
    auto new_ones = new_shards_.pop_all();
    while (Shard* shard = new_ones.pop_front()) put_back(*shard);
  }
  /// Consumer: size() returns the number of queued shards, front() the first one, or null.
  std::size_t size() const noexcept { return size_; }
  Shard* front() const noexcept { return queue_.front(); }
  /// Consumer: removes and returns the first shard of the queue; returns null if there is none.
  Shard* take() noexcept {
    Shard* const first = queue_.pop_front();
    if (first != nullptr) --size_;
    return first;
  }
  /// Consumer: puts `shard` at the end of the queue.
  void put_back(Shard& shard) noexcept {
    queue_.push_back(shard);
    ++size_;
  }
  /// Called by the thread that took `empty_shard`: removes the shard, which will get no more tasks.
  void retire(Shard& empty_shard) noexcept {
    {
      const std::lock_guard lock(mutex_);
      static_cast<intrusive_list_node&>(empty_shard).unlink();
      retired_task_count_ += empty_shard.pushed();
    }
    empty_shard.free_segments();
    empty_shard.close();
  }
  /// Counts the pending tasks of all shards, queued or not. Any thread. Complexity: O(shards), with
  /// the lock held.
  std::size_t pending() const noexcept {
    const std::lock_guard lock(mutex_);
    std::size_t sum = 0;
    for (const Shard& shard : all_) sum += shard.pending();
    return sum;
  }
  /// Counts all tasks that were ever pushed, even those of shards that are gone.
  std::uint64_t pushed() const noexcept {
    const std::lock_guard lock(mutex_);
    std::uint64_t sum = retired_task_count_;
    for (const Shard& shard : all_) sum += shard.pushed();
    return sum;
  }

 private:
  const std::uint64_t id_;
  intrusive_queue<Shard> queue_;
  std::size_t size_ = 0;
  alignas(false_sharing_range) atomic_intrusive_stack<Shard> new_shards_;
  mutable std::mutex mutex_;
  mutable intrusive_list<Shard> all_;
  std::uint64_t retired_task_count_ = 0;  // the tasks that were pushed to retired shards
};

}  // namespace gyre::inbox::detail
