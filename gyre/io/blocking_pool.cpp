// SPDX-License-Identifier: Apache-2.0
#include <gyre/io/blocking_pool.hpp>

#include <gyre/base/detail/fork_handlers.hpp>
#include <gyre/io/detail/blocking_call.hpp>

#include <atomic>
#include <memory>

namespace gyre::io {
namespace {

// Null until it is used, and in a forked child, which has none of its threads.
constinit std::atomic<thread_pool*> current{nullptr};

// The pool is not destroyed: threads may use it when static objects are destroyed.
[[gnu::cold, gnu::noinline]] thread_pool& start_pool() {
  [[maybe_unused]] static const bool is_registered = gyre::detail::add_fork_handlers(
      {.in_child = [] { current.store(nullptr, std::memory_order_relaxed); }});  // one thread
  auto pool = std::make_unique<thread_pool>(thread_pool_options{
      .workers = blocking_pool_workers, .scheduler = scheduler::blocking, .name = "blocking"});
  thread_pool* found = nullptr;
  // release and acquire: pair with each other, and with the acquire below.
  if (current.compare_exchange_strong(found, pool.get(), std::memory_order_acq_rel,
                                      std::memory_order_acquire)) {
    return *pool.release();
  }
  return *found;  // another thread was first
}

}  // namespace

thread_pool& blocking_pool() {
  // acquire: pairs with the release in start_pool().
  thread_pool* const there = current.load(std::memory_order_acquire);
  return there != nullptr ? *there : start_pool();
}

executor& detail::default_pool() { return blocking_pool(); }

}  // namespace gyre::io
