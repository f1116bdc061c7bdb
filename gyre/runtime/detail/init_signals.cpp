// SPDX-License-Identifier: Apache-2.0
#include <gyre/runtime/detail/init_signals.hpp>

#include <gyre/io/detail/system_processes.hpp>

#include <unistd.h>

#include <csignal>

namespace gyre::detail {
namespace {

namespace system = io::detail::system;

bool terminates_by_default(int signal) noexcept {
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

void exit_with_signal_status(int signal) noexcept { ::_exit(128 + signal); }

}  // namespace

bool is_init_process() noexcept { return system::process_id() == 1; }

bool replace_default_action(int signal, void (*handler)(int)) noexcept {
  auto action = system::signal_action(signal);
  if (!action || (action->sa_flags & SA_SIGINFO) != 0 || action->sa_handler != SIG_DFL)
    return false;
  action->sa_handler = handler;
  return system::set_signal_action(signal, *action).has_value();
}

void let_signals_end_init(std::span<const int> signals, bool is_init) noexcept {
  if (!is_init) return;
  for (const int signal : signals) {
    if (terminates_by_default(signal)) replace_default_action(signal, &exit_with_signal_status);
  }
}

}  // namespace gyre::detail
