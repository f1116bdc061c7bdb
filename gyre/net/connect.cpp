// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/connect.hpp>

#include <gyre/net/detail/connect_attempt.hpp>
#include <gyre/net/detail/connection_race.hpp>
#include <gyre/net/socket.hpp>
#include <gyre/task/as_expected.hpp>
#include <gyre/task/detail/this_context.hpp>
#include <gyre/task/scope.hpp>

#include <memory>
#include <system_error>
#include <utility>

namespace gyre::net {

task<tcp_stream> connect(event_loop& loop, endpoint to, connect_options options) {
  socket opened = detail::open_to_connect(to, options.local.value_or(endpoint()), options.socket);
  auto on = std::make_unique<io::detail::open_descriptor>(loop, opened.release(),
                                                          io::handle_kind::stream_socket);
  auto connecting = as_expected(io::detail::request_awaiter<detail::connect_operation>(
      std::in_place, on.get(), std::as_const(to).data(), to.size()));
  const auto connected = co_await std::move(connecting);
  if (!connected) detail::throw_not_connected(connected.error(), loop, to);
  if (const std::error_code error = detail::check_connected(socket_ref(on->fd()))) {
    detail::throw_not_connected(error, loop, to);
  }
  co_return detail::stream_maker::make<tcp_stream>(std::move(on));
}

task<tcp_stream> connect(endpoint to, connect_options options) {
  const task_context& context = co_await gyre::detail::this_context();
  task<tcp_stream> connecting = connect(detail::loop_of(context), to, std::move(options));
  co_return co_await std::move(connecting);
}

task<tcp_stream> connect(event_loop& loop, std::vector<endpoint> candidates, race_options options) {
  if (candidates.empty()) {
    throw std::system_error(std::make_error_code(std::errc::invalid_argument),
                            "connect, without an address");
  }
  detail::connection_race race(loop, std::move(options));
  race.add(candidates);
  race.end_of_candidates();
  auto run = [&](scope& within) { return race.run(within); };
  auto all = with_scope(std::move(run));
  co_await std::move(all);
  co_return race.result();
}

}  // namespace gyre::net
