// SPDX-License-Identifier: Apache-2.0
// add_fork_handlers: calls functions around each fork(2) of the program.
#pragma once

#include <pthread.h>

namespace gyre::detail {

/// The functions that a fork calls, on the thread that forks; null functions are not called.
struct fork_handlers {
  void (*before)() = nullptr;
  void (*in_parent)() = nullptr;
  void (*in_child)() = nullptr;
};

/// Registers handlers for the rest of the program. Returns false if there is no memory.
inline bool add_fork_handlers(fork_handlers handlers) noexcept {
  return ::pthread_atfork(handlers.before, handlers.in_parent, handlers.in_child) == 0;
}

}  // namespace gyre::detail
