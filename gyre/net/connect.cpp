// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/connect.hpp>

#include <memory>
#include <system_error>
#include <utility>

#include <gyre/net/detail/connecting.hpp>
#include <gyre/net/socket.hpp>
#include <gyre/task/as_expected.hpp>
#include <gyre/task/detail/this_context.hpp>

namespace gyre::net {
task<tcp_stream> connect(event_loop& loop, endpoint to, connect_options options) {
  socket made = socket::open(to.family(), socket_type::stream);
  made.apply(options.socket);
  if (options.local) made.bind(*options.local);
  auto on = std::make_unique<io::detail::open_descriptor>(loop, made.release(),
                                                          io::handle_kind::stream_socket);
  auto connecting = as_expected(io::detail::request_awaiter<detail::connecting>(
      std::in_place, on.get(), std::as_const(to).data(), to.size()));
  const auto connected = co_await std::move(connecting);
  if (!connected) detail::throw_not_connected(connected.error(), loop, to);
  if (detail::is_connected_to_itself(socket_ref(on->fd()))) {
    throw std::system_error(std::make_error_code(std::errc::connection_refused),
                            "connect " + to.to_string() + ", to itself");
  }
  co_return detail::stream_maker::make<tcp_stream>(std::move(on));
}

task<tcp_stream> connect(endpoint to, connect_options options) {
  const task_context& context = co_await gyre::detail::this_context();
  task<tcp_stream> connecting = connect(detail::loop_of(context), to, std::move(options));
  co_return co_await std::move(connecting);
}

}  // namespace gyre::net
