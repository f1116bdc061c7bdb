// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/detail/coroutine_loop.hpp>

#include <gyre/exec/event_loop.hpp>
#include <gyre/io/error.hpp>
#include <gyre/net/detail/errors.hpp>
#include <gyre/task/context.hpp>

namespace gyre::net::detail {

event_loop& loop_of(const task_context& context) {
  // sync_wait() sets the loop as the executor before a thread runs the loop.
  if (auto* const loop = dynamic_cast<event_loop*>(context.where)) return *loop;
  if (event_loop* const loop = event_loop::current()) return *loop;
  fail(std::errc::operation_not_permitted, "gyre::net::connect: the coroutine runs on no loop");
}

void require_loop(event_loop& loop, const task_context& context, const char* class_name) {
  if (context.where == &loop || loop.in_loop_thread()) return;
  fail(make_error_code(io::errc::wrong_thread), class_name);
}

}  // namespace gyre::net::detail
