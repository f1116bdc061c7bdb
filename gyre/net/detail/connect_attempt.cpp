// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/detail/connect_attempt.hpp>

#include <string>
#include <system_error>

namespace gyre::net::detail {

socket open_to_connect(const endpoint& to, const endpoint& local, const socket_options& options) {
  socket opened = socket::open(to.family(), socket_type::stream);
  opened.apply(options);
  if (local.family() != address_family::none) {
    if (!options.reuse_address) opened.set_reuse_address(true);
    opened.bind(local);
  }
  return opened;
}

std::error_code check_connected(socket_ref connected) noexcept try {
  const endpoint local = connected.local_endpoint();
  if (!local.is_ip() || local != connected.peer_endpoint()) return {};
  return std::make_error_code(std::errc::connection_refused);
} catch (const std::system_error& error) {
  return error.code();
}

void throw_not_connected(std::error_code error, const event_loop& loop, const endpoint& to) {
  std::string what = "connect " + to.to_string();
  if (error == std::errc::operation_not_permitted && !loop.in_loop_thread()) {
    what += ", not on the thread of its loop";
  }
  throw std::system_error(error, what);
}

event_loop& loop_of(const task_context& context) {
  // Before the thread runs a loop, that may be the executor already: see sync_wait().
  if (auto* const loop = dynamic_cast<event_loop*>(context.where)) return *loop;
  if (event_loop* const loop = event_loop::current()) return *loop;
  throw std::system_error(std::make_error_code(std::errc::operation_not_permitted),
                          "gyre::net::connect: the coroutine runs on no loop");
}

}  // namespace gyre::net::detail
