// SPDX-License-Identifier: Apache-2.0
// shard_base: a thread's part of a sharded inbox, which outlives the first to end of the two.
#pragma once

#include <gyre/base/atomic.hpp>
#include <gyre/base/intrusive_queue.hpp>

#include <array>
#include <cstddef>
#include <cstdint>

namespace gyre::inbox::detail {

/// The part of a shard that does not depend on the size of its segments. Its thread and its inbox
/// each hold a reference; the last one frees it.
class shard_base : public intrusive_node {
 public:
  shard_base() noexcept = default;
  shard_base& operator=(shard_base&&) = delete;
  virtual ~shard_base() = default;

  /// Thread: releases the shard; no task will follow.
  void abandon() noexcept {
    return_reserve();
    // release: pairs with the acquire in abandoned(); the thread's last tasks come before.
    abandoned_.store(true, std::memory_order_release);
    release_reference();
  }
  /// Consumer: whether the thread is gone, so that no task will follow.
  bool abandoned() const noexcept { return abandoned_.load(std::memory_order_acquire); }
  /// Inbox: releases the shard; the thread may forget it.
  void close() noexcept {
    closed_.store(true, std::memory_order_relaxed);
    release_reference();
  }
  bool closed() const noexcept { return closed_.load(std::memory_order_relaxed); }

 private:
  /// Thread: gives back what it holds for tasks that it will not push. The inbox may be gone.
  virtual void return_reserve() noexcept {}
  void release_reference() noexcept {
    // acq_rel: the last one sees everything the other did before it frees the shard.
    if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }

  gyre::detail::atomic<int> references_{2};
  gyre::detail::atomic<bool> abandoned_{false};
  gyre::detail::atomic<bool> closed_{false};
};

/// An id that is unique in the process, so that a thread cannot mistake a new inbox for a dead one
/// of the same address. Not 0.
std::uint64_t next_inbox_id() noexcept;

/// The calling thread's most recent shards, by the low bits of the inbox's id.
struct shard_cache {
  static constexpr std::size_t size = 16;
  struct entry {
    std::uint64_t inbox = 0;
    shard_base* shard = nullptr;
  };
  std::array<entry, size> entries{};
};
// Visible, so that a program that hides its symbols uses the library's copy. Not inline: g++ makes
// one inline variable for the whole process, though each plug-in with gyre in it counts its inboxes
// by itself.
[[gnu::visibility("default")]] extern constinit thread_local shard_cache this_thread_shards;

/// The calling thread's shard of that inbox, or null when it has none yet. Looks beyond the cache.
shard_base* find_shard(std::uint64_t inbox) noexcept;

/// Enters a new shard for the calling thread; it is abandoned when the thread ends. False when the
/// thread is already past the end of its thread-locals: the caller must abandon it itself.
bool keep_shard(std::uint64_t inbox, shard_base* shard);

}  // namespace gyre::inbox::detail
