// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/postgres/detail/cancel_request.hpp>

#include <gyre/io/input.hpp>
#include <gyre/net/tcp_connection.hpp>

#include <cstddef>
#include <system_error>
#include <utility>

namespace gyre::postgres::detail {
namespace {

net::tcp_client_options options_of(std::shared_ptr<const net::transport> transport,
                                   duration connect_timeout) {
  net::tcp_client_options options;
  options.name = "gyre::postgres: cancel request";
  options.connect_timeout = connect_timeout;
  options.transport = std::move(transport);
  return options;
}

}  // namespace

cancel_request::cancel_request(event_loop& loop, const net::host_port& server,
                               std::shared_ptr<const net::transport> transport,
                               duration connect_timeout, io::buffer request,
                               move_only_function<void(bool was_delivered)> on_end)
    : request_(std::move(request)),
      on_end_(std::move(on_end)),
      client_(loop, server, options_of(std::move(transport), connect_timeout)) {
  client_.on_connection(
      [this](net::tcp_connection& connection) { is_sent_ = connection.send(request_.bytes()); });
  client_.on_message([](net::tcp_connection&, io::input& input) { input.consume_all(); });
  client_.on_close([this](net::tcp_connection&, std::error_code) { end(is_sent_); });
  client_.on_connect_failed([this](std::error_code, std::size_t, bool) { end(false); });
  client_.connect();
}

void cancel_request::end(bool was_delivered) {
  if (!std::exchange(has_ended_, true)) on_end_(was_delivered);
}

}  // namespace gyre::postgres::detail
