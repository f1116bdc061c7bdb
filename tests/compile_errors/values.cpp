// SPDX-License-Identifier: Apache-2.0
// Types of values that channels, watches and task_locals cannot hold.
#include <gyre/sync/broadcast.hpp>
#include <gyre/sync/channel.hpp>
#include <gyre/sync/watch.hpp>
#include <gyre/task/task_local.hpp>

namespace {

struct fails_to_move {
  fails_to_move() = default;
  fails_to_move(const fails_to_move&) = default;
  fails_to_move(fails_to_move&&) noexcept(false) {}
  fails_to_move& operator=(const fails_to_move&) = default;
};

// expect: declare T(T&&) noexcept, or send a std::unique_ptr<T>
gyre::channel<fails_to_move> bounded(3);

// expect: declare T(T&&) noexcept, or send a std::unique_ptr<T>
gyre::unbounded_channel<fails_to_move> unbounded;

// expect: declare T(T&&) noexcept, or send a std::shared_ptr<const T>
gyre::broadcast<fails_to_move> broadcast(3);

// expect: declare T(T&&) noexcept, or use a std::shared_ptr<const T>
gyre::watch<fails_to_move> watch;

// expect: use a pointer for a reference, and no const
const gyre::task_local<const int> constant(3);

}  // namespace
