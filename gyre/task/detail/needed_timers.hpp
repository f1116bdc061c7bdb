// SPDX-License-Identifier: Apache-2.0
// needed_timers: the timers of a coroutine's executor, or the error of an operation without them.
#pragma once

#include <gyre/task/context.hpp>
#include <gyre/task/executor.hpp>

namespace gyre::detail {

/// Throws std::system_error (std::errc::operation_not_supported) for the operation `name`.
[[noreturn, gnu::cold]] void throw_no_timers(const char* name);

/// The timers of the executor of `context`; without them throws as throw_no_timers().
timer_service& needed_timers(const task_context& context, const char* name);

}  // namespace gyre::detail
