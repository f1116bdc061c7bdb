// SPDX-License-Identifier: Apache-2.0
#include <gyre/runtime/detail/init_signals.hpp>

#include <unistd.h>

#include <csignal>

namespace gyre::detail {
namespace {

bool ends_a_process(int signal) noexcept {
  switch (signal) {
    case SIGCHLD:
    case SIGCONT:
    case SIGURG:
    case SIGWINCH:
    case SIGTSTP:
    case SIGTTIN:
    case SIGTTOU: return false;
    default: return true;
  }
}

void exit_as_ended_by(int signal) noexcept { ::_exit(128 + signal); }

}  // namespace

bool is_init_process() noexcept { return ::getpid() == 1; }

void let_signals_end_init(std::span<const int> signals, bool is_init) noexcept {
  if (!is_init) return;
  for (const int signal : signals) {
    struct sigaction action{};
    if (!ends_a_process(signal) || ::sigaction(signal, nullptr, &action) != 0) continue;
    if ((action.sa_flags & SA_SIGINFO) != 0 || action.sa_handler != SIG_DFL) continue;
    action.sa_handler = &exit_as_ended_by;
    ::sigaction(signal, &action, nullptr);
  }
}

}  // namespace gyre::detail
