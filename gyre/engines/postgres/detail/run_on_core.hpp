// SPDX-License-Identifier: Apache-2.0
// Checks and texts that statements on shared and on own connections need.
#pragma once

#include <gyre/base/duration.hpp>
#include <gyre/exec/event_loop.hpp>
#include <gyre/task/context.hpp>

#include <cstdint>
#include <optional>
#include <string>

namespace gyre::postgres::detail {

/// Throws operation_cancelled if the coroutine was stopped, and std::system_error
/// (io::errc::wrong_thread) if it does not run on the loop.
void require_caller(const task_context& context, event_loop& loop);

/// A limit as the server counts it, in milliseconds from 1 up; 0: no limit; none: that of the
/// connection.
std::optional<std::int64_t> server_limit(std::optional<duration> limit) noexcept;
/// The statement that sets a server_limit() until the end of the transaction.
std::string limit_text(std::optional<std::int64_t> limit);

}  // namespace gyre::postgres::detail
