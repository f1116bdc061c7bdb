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
    // release: pairs with the acquire in abandoned(); the thread's last tasks come before.
    abandoned_.store(true, std::memory_order_release);
    // release: pairs with the acquire in abandonments(); a thread that sees the count sees it
    // abandoned.
    abandonments_.fetch_add(1, std::memory_order_release);
    release_reference();
  }
  /// Consumer: whether the thread is gone, so that no task will follow.
  bool abandoned() const noexcept { return abandoned_.load(std::memory_order_acquire); }
  /// How many shards of the process were abandoned.
  static std::uint64_t abandonments() noexcept {
    return abandonments_.load(std::memory_order_acquire);
  }
  /// Inbox: releases the shard; the thread may forget it.
  void close() noexcept {
    closed_.store(true, std::memory_order_relaxed);
    release_reference();
  }
  bool closed() const noexcept { return closed_.load(std::memory_order_relaxed); }

 private:
  void release_reference() noexcept {
    // acq_rel: the last one sees everything the other did before it frees the shard.
    if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }

  gyre::detail::atomic<int> references_{2};
  gyre::detail::atomic<bool> abandoned_{false};
  gyre::detail::atomic<bool> closed_{false};
  // This and the next: one for the library and its users, even if those hide their symbols.
  [[gnu::visibility(
      "default")]] static inline constinit gyre::detail::atomic<std::uint64_t> abandonments_{0};
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
// Not inline: of inline variables g++ makes one for the process, though each plug-in with gyre in
// it counts its inboxes by itself.
[[gnu::visibility("default")]] extern constinit thread_local shard_cache this_thread_shards;

/// The calling thread's shard of that inbox, or null when it has none yet. Looks beyond the cache.
shard_base* find_shard(std::uint64_t inbox) noexcept;

/// Enters a new shard for the calling thread; it is abandoned when the thread ends. False when the
/// thread is already past the end of its thread-locals: the caller must abandon it itself.
bool keep_shard(std::uint64_t inbox, shard_base* shard);

}  // namespace gyre::inbox::detail
