// SPDX-License-Identifier: Apache-2.0
#include <gyre/io/blocking_pool.hpp>

#include <gyre/base/detail/fork_handlers.hpp>
#include <gyre/io/detail/blocking_call.hpp>

#include <atomic>
#include <memory>

namespace gyre::io {
namespace {

// The pool; null until blocking_pool() is called, and in a forked child, where the pool's threads
// do not exist.
constinit std::atomic<thread_pool*> shared_pool{nullptr};

// The pool is not destroyed: threads may use it when static objects are destroyed.
[[gnu::cold, gnu::noinline]] thread_pool& start_pool() {
  // relaxed: a forked child has one thread.
  [[maybe_unused]] static const bool is_registered = gyre::detail::add_fork_handlers(
      {.in_child = [] { shared_pool.store(nullptr, std::memory_order_relaxed); }});
  auto pool = std::make_unique<thread_pool>(thread_pool_options{
      .workers = blocking_pool_workers, .scheduler = scheduler::blocking, .name = "blocking"});
  thread_pool* winner = nullptr;
  // release: pairs with the acquire in blocking_pool(); makes the pool visible to its users.
  // acquire: makes the pool of a thread that was first visible to this one.
  if (shared_pool.compare_exchange_strong(winner, pool.get(), std::memory_order_acq_rel,
                                          std::memory_order_acquire)) {
    return *pool.release();
  }
  return *winner;  // another thread has set its pool first
}

}  // namespace

thread_pool& blocking_pool() {
  // acquire: pairs with the release in start_pool(); makes the pool visible.
  thread_pool* const pool = shared_pool.load(std::memory_order_acquire);
  return pool != nullptr ? *pool : start_pool();
}

bool detail::is_blocking_pool_busy() {
  // acquire: pairs with the release in start_pool(); makes the pool visible.
  const thread_pool* const pool = shared_pool.load(std::memory_order_acquire);
  if (pool == nullptr) return false;
  const thread_pool_metrics counts = pool->metrics();
  return counts.submitted > counts.finished + counts.dropped;
}

executor& detail::default_pool() { return blocking_pool(); }

}  // namespace gyre::io
