// SPDX-License-Identifier: Apache-2.0
// shard_base: the tasks of one thread in a sharded inbox; reference-counted by the thread and the
// inbox.
#pragma once

#include <gyre/base/atomic.hpp>
#include <gyre/base/intrusive_queue.hpp>

#include <array>
#include <cstddef>
#include <cstdint>

namespace gyre::inbox::detail {

/// The part of a shard that does not depend on the size of its segments. Its thread and its inbox
/// each hold a reference; the last one to release it frees the shard.
class shard_base : public intrusive_node {
 public:
  shard_base() noexcept = default;
  shard_base& operator=(shard_base&&) = delete;
  virtual ~shard_base() = default;

  /// Called by the thread: releases the shard; no task will follow.
  void abandon() noexcept {
    return_reserve();
    // release: pairs with the acquire in abandoned(); makes the thread's last tasks visible.
    is_abandoned_.store(true, std::memory_order_release);
    release_reference();
  }
  /// Called by the consumer: returns whether the thread has abandoned the shard, so that no task
  /// will follow. acquire: pairs with the release in abandon().
  bool abandoned() const noexcept { return is_abandoned_.load(std::memory_order_acquire); }
  /// Called by the inbox: releases the shard; the thread may then drop it from its list.
  void close() noexcept {
    is_closed_.store(true, std::memory_order_relaxed);
    release_reference();
  }
  bool closed() const noexcept { return is_closed_.load(std::memory_order_relaxed); }

 private:
  /// Called by the thread: returns resources that it holds for tasks that it will not push. The
  /// inbox may be gone.
  virtual void return_reserve() noexcept {}
  void release_reference() noexcept {
    // acq_rel: the release of the first owner pairs with the acquire of the last, which frees the
    // shard.
    if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }

  gyre::detail::atomic<int> references_{2};
  gyre::detail::atomic<bool> is_abandoned_{false};
  gyre::detail::atomic<bool> is_closed_{false};
};

/// Returns an id that is unique in the process and not 0, so that a thread cannot mistake a new
/// inbox for a destroyed one of the same address.
std::uint64_t next_inbox_id() noexcept;

/// The calling thread's most recently used shards, indexed by the low bits of the inbox's id.
struct shard_cache {
  static constexpr std::size_t size = 16;
  struct entry {
    std::uint64_t inbox = 0;
    shard_base* shard = nullptr;
  };
  std::array<entry, size> entries{};
};
// Visible, so that a program that hides its symbols uses the library's copy. Not inline: g++ merges
// an inline variable over the whole process, although each plug-in that contains gyre has its own
// inbox ids.
[[gnu::visibility("default")]] extern constinit thread_local shard_cache this_thread_shards;

/// Returns the calling thread's shard of the inbox with the id `inbox`, even if it is not in the
/// cache; null if there is none.
shard_base* find_shard(std::uint64_t inbox) noexcept;

/// Registers a new shard for the calling thread, whose end abandons the shard. Returns false if the
/// thread has already destroyed its thread-locals: the caller must abandon the shard itself.
bool keep_shard(std::uint64_t inbox, shard_base* shard);

}  // namespace gyre::inbox::detail
