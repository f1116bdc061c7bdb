// SPDX-License-Identifier: Apache-2.0
// Differences between the pollers, for tests that run on both.
#pragma once

#include <gyre/exec/event_loop.hpp>

#include <string_view>

namespace gyre::test {

struct io_facts {
  const char* watch;  ///< the call without which a loop serves no socket; null if there is none
  const char* wait;   ///< the call in which the loop waits without a deadline
  /// Whether the loop knows that a handle is readable before the first request; then the first
  /// request completes at once, as later ones do.
  bool knows_readiness;
};

inline io_facts facts_of(const event_loop& loop) {
  if (std::string_view(loop.metrics().io) == "uring") {
    return {.watch = nullptr, .wait = "io_uring_submit_and_wait", .knows_readiness = false};
  }
  return {.watch = "epoll_ctl", .wait = "epoll_wait", .knows_readiness = true};
}

}  // namespace gyre::test
