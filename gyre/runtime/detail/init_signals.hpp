// SPDX-License-Identifier: Apache-2.0
// let_signals_end_init, replace_default_action: the actions of signals of this process.
#pragma once

#include <span>

namespace gyre::detail {

/// Whether this is the first process of its PID namespace, as a container's only program is.
bool is_init_process() noexcept;

/// Gives `signal` a handler, or SIG_IGN, if its action is the default one. Returns whether it did.
///
/// Thread-safety: any thread, one at a time for one signal.
bool replace_default_action(int signal, void (*handler)(int)) noexcept;

/// The kernel drops each signal for the init process whose action is the default one, so that
/// SIGTERM does not end it. Gives those of `signals` whose default action is to end a process a
/// handler that exits with 128 + the signal, the status that a shell reports for a process that the
/// signal has ended. Signals that the program ignores or handles keep their actions. No effect if
/// not `is_init`. The handlers stay until the process ends.
///
/// Thread-safety: any thread.
void let_signals_end_init(std::span<const int> signals, bool is_init = is_init_process()) noexcept;

}  // namespace gyre::detail
