// SPDX-License-Identifier: Apache-2.0
// loop_of, require_loop: find and check the loop on which a coroutine runs.
#pragma once

namespace gyre {
class event_loop;
struct task_context;
}  // namespace gyre

namespace gyre::net::detail {

/// Returns the loop on which the coroutine of `context` runs. Throws std::system_error
/// (std::errc::operation_not_permitted) if there is none.
event_loop& loop_of(const task_context& context);

/// Throws std::system_error (io::errc::wrong_thread) unless the coroutine of `context` may use the
/// streams of `loop`.
void require_loop(event_loop& loop, const task_context& context, const char* class_name);

}  // namespace gyre::net::detail
