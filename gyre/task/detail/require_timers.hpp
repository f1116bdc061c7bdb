// SPDX-License-Identifier: Apache-2.0
// require_timers: the timers of a coroutine's executor, or an error for an executor without timers.
#pragma once

#include <gyre/task/context.hpp>
#include <gyre/task/executor.hpp>

namespace gyre::detail {

/// Throws std::system_error (std::errc::operation_not_supported) with a message that names the
/// operation `name`.
[[noreturn, gnu::cold]] void throw_no_timers(const char* name);

/// Returns the timers of the executor of `context`. Throws as throw_no_timers() does if the
/// executor has none.
timer_service& require_timers(const task_context& context, const char* name);

}  // namespace gyre::detail
