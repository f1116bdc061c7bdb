// SPDX-License-Identifier: Apache-2.0
// Support for tests: time that passes on a loop in virtual time while a coroutine waits for it.
#pragma once

#include <gyre/task/sleep.hpp>
#include <gyre/task/task.hpp>
#include <gyre/task/when_all.hpp>
#include <tests/support/io_in_virtual_time.hpp>

#include <chrono>
#include <utility>

namespace gyre::test {

/// Advances the time of the loop, on which it must be awaited, by `length`, in steps of a second:
/// timers that became due fire after each of them.
inline task<> pass_time(io_in_virtual_time& time, std::chrono::seconds length) {
  constexpr std::chrono::seconds step{1};
  for (; length > length.zero(); length -= step) {
    auto advance = [](io_in_virtual_time& advanced, std::chrono::seconds elapsed) -> task<> {
      advanced.advance(elapsed);
      co_return;
    };
    auto both = when_all(sleep_for(step / 2), advance(time, step));
    co_await std::move(both);
  }
}

}  // namespace gyre::test
