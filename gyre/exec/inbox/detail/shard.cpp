// SPDX-License-Identifier: Apache-2.0
#include <gyre/exec/inbox/detail/shard.hpp>

#include <algorithm>
#include <vector>

namespace gyre::inbox::detail {

constinit thread_local shard_cache this_thread_shards;

namespace {

// The flag stays valid after the destruction of the thread's `thread_shards`, because a bool has no
// destructor.
constinit thread_local bool thread_is_ending = false;

// The shards of a thread. A thread posts to few inboxes, so a linear search is short.
class thread_shards {
 public:
  ~thread_shards() {
    thread_is_ending = true;
    this_thread_shards = {};
    for (const shard_cache::entry& entry : entries_) entry.shard->abandon();
  }

  shard_base* find(std::uint64_t inbox) const noexcept {
    const auto match = std::ranges::find(entries_, inbox, &shard_cache::entry::inbox);
    return match == entries_.end() ? nullptr : match->shard;
  }

  void add(shard_cache::entry entry) {
    std::erase_if(entries_, [](const shard_cache::entry& old_entry) {
      if (!old_entry.shard->closed()) return false;
      shard_cache::entry& cache_entry =
          this_thread_shards.entries[old_entry.inbox % shard_cache::size];
      if (cache_entry.inbox == old_entry.inbox) cache_entry = {};
      old_entry.shard->abandon();
      return true;
    });
    entries_.push_back(entry);
  }

 private:
  std::vector<shard_cache::entry> entries_;
};

thread_shards& shards_of_this_thread() {
  thread_local thread_shards shards;
  return shards;
}

}  // namespace

std::uint64_t next_inbox_id() noexcept {
  static gyre::detail::atomic<std::uint64_t> last{0};
  // relaxed: only uniqueness matters.
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

shard_base* find_shard(std::uint64_t inbox) noexcept {
  if (thread_is_ending) return nullptr;
  shard_base* shard = shards_of_this_thread().find(inbox);
  if (shard != nullptr) this_thread_shards.entries[inbox % shard_cache::size] = {inbox, shard};
  return shard;
}

bool keep_shard(std::uint64_t inbox, shard_base* shard) {
  if (thread_is_ending) return false;
  shards_of_this_thread().add({inbox, shard});
  this_thread_shards.entries[inbox % shard_cache::size] = {inbox, shard};
  return true;
}

}  // namespace gyre::inbox::detail
