// SPDX-License-Identifier: Apache-2.0
// In what the pollers differ for a test that runs on both.
#pragma once

#include <gyre/exec/event_loop.hpp>

#include <string_view>

namespace gyre::test {

struct io_facts {
  const char* watch;  ///< the call without which a loop serves no handle, to let fail
  const char* wait;   ///< the call in which it waits without a deadline
  /// Whether it knows what there is to read before it was asked; then the first request of a handle
  /// is done at once, as later ones are.
  bool knows_unasked;
};

inline io_facts facts_of(const event_loop& loop) {
  if (std::string_view(loop.metrics().io) == "uring") {
    return {.watch = "fstat", .wait = "io_uring_submit_and_wait", .knows_unasked = false};
  }
  return {.watch = "epoll_ctl", .wait = "epoll_wait", .knows_unasked = true};
}

}  // namespace gyre::test
