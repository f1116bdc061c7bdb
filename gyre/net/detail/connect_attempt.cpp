// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/detail/connect_attempt.hpp>

#include <gyre/base/detail/ticks.hpp>
#include <gyre/io/error.hpp>
#include <gyre/io/stream.hpp>
#include <gyre/task/as_expected.hpp>
#include <gyre/trace/detail/event.hpp>
#include <gyre/trace/detail/recorder.hpp>

#include <memory>
#include <new>
#include <system_error>
#include <utility>

namespace gyre::net::detail {
namespace {

// Returns the error that makes a connected socket useless. io::errc::connected_to_itself: a TCP
// socket is its own peer, because the kernel chose the local port to which the socket connects (RFC
// 793, simultaneous open). Another error: the peer has reset the connection.
std::error_code check_connected(socket_ref client) noexcept try {
  const endpoint local = client.local_endpoint();
  if (!local.is_ip() || local != client.peer_endpoint()) return {};
  return io::errc::connected_to_itself;
} catch (const std::system_error& error) {
  return error.code();
}

// A connection attempt in the flight recorder.
class recorded_connect {
 public:
  explicit recorded_connect(const endpoint& server) noexcept : server_(server) {}
  recorded_connect& operator=(recorded_connect&&) = delete;
  ~recorded_connect() {
    try {
      trace::detail::record_wait(begin_, trace::detail::event_kind::connect, server_.to_string());
    } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch): the attempt is not recorded
    }
  }

 private:
  const endpoint& server_;
  const gyre::detail::tick_count begin_ = trace::detail::begin_now();
};

}  // namespace

socket open_to_connect(const endpoint& server, const endpoint& local,
                       const socket_options& options) {
  socket result = socket::open(server.family(), socket_type::stream);
  result.apply(options);
  if (local.family() != address_family::none) {
    if (!options.reuse_address) result.set_reuse_address(true);
    // With this option connect() chooses a port that need only be free for this peer.
    if (local.is_ip() && local.port() == 0) result.set_bind_address_no_port(true);
    result.bind(local);
  }
  return result;
}

void throw_not_connected(std::error_code error, const endpoint& server) {
  throw std::system_error(error, "connect " + server.to_string());
}

task<tcp_stream> connect_to(event_loop& loop, endpoint server, connect_options options) {
  const recorded_connect record(server);
  socket result = open_to_connect(server, options.local.value_or(endpoint()), options.socket);
  auto descriptor = std::make_unique<io::detail::open_descriptor>(loop, result.release(),
                                                                  io::handle_kind::stream_socket);
  auto connect_task = as_expected(io::detail::request_awaiter<connect_operation>(
      std::in_place, descriptor.get(), std::as_const(server).data(), server.size()));
  const auto outcome = co_await std::move(connect_task);
  if (!outcome) throw_not_connected(outcome.error(), server);
  if (const std::error_code error = check_connected(socket_ref(descriptor->fd()))) {
    throw_not_connected(error, server);
  }
  co_return stream_maker::make<tcp_stream>(std::move(descriptor));
}

}  // namespace gyre::net::detail
