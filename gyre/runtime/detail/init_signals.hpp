// SPDX-License-Identifier: Apache-2.0
// is_init_process, replace_default_action, let_signals_end_init: the signal actions of this
// process.
#pragma once

#include <span>

namespace gyre::detail {

/// Whether this is the first process of its PID namespace, such as the only program of a container.
bool is_init_process() noexcept;

/// Sets the action of `signal` to a handler, or SIG_IGN, if its action is the default one. Returns
/// whether it did.
///
/// Thread-safety: any thread, but only one thread at a time for one signal.
bool replace_default_action(int signal, void (*handler)(int)) noexcept;

/// Makes signals terminate the init process: the kernel drops each signal for it whose action is
/// the default one, so that SIGTERM would have no effect. Each of `signals` that terminates a
/// process by default gets a handler that exits with 128 + the signal, the status that a shell
/// reports for a process terminated by the signal. Signals that the program ignores or handles keep
/// their actions. No effect if `is_init` is false. The handlers stay until the process ends.
///
/// Thread-safety: any thread.
void let_signals_end_init(std::span<const int> signals, bool is_init = is_init_process()) noexcept;

}  // namespace gyre::detail
