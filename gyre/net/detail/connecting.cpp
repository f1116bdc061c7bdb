// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/detail/connecting.hpp>

#include <string>
#include <system_error>

namespace gyre::net::detail {

void throw_not_connected(std::error_code why, const event_loop& loop, const endpoint& to) {
  std::string what = "connect " + to.to_string();
  if (why == std::errc::operation_not_permitted && !loop.in_loop_thread()) {
    what += ", not on the thread of its loop";
  }
  throw std::system_error(why, what);
}

bool is_connected_to_itself(socket_ref connected) {
  const endpoint local = connected.local_endpoint();
  return local.is_ip() && local == connected.peer_endpoint();
}

event_loop& loop_of(const task_context& context) {
  // Before the thread runs a loop, it may be the executor already: see sync_wait().
  if (auto* const loop = dynamic_cast<event_loop*>(context.where)) return *loop;
  if (event_loop* const loop = event_loop::current()) return *loop;
  throw std::system_error(std::make_error_code(std::errc::operation_not_permitted),
                          "gyre::net::connect: the coroutine runs on no loop");
}

}  // namespace gyre::net::detail
