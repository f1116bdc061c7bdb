// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/unix_stream.hpp>

#include <gyre/base/error.hpp>
#include <gyre/net/detail/connect_attempt.hpp>
#include <gyre/net/detail/system_sockets.hpp>
#include <gyre/task/as_expected.hpp>
#include <gyre/task/detail/this_context.hpp>

#include <cerrno>

namespace gyre::net {
namespace {

/// sendmsg(2) or recvmsg(2) as an Operation of request_awaiter. The message must stay in place.
template <class Request, class Message>
struct message_operation : io::detail::counting_request<Request> {
  static constexpr const char* name = "gyre::net: message";

  message_operation(io::detail::open_descriptor* socket, Message& header) noexcept
      : io::detail::counting_request<Request>(socket, header, nullptr) {}
};

using send_message_operation = message_operation<io::send_message_request, const msghdr>;
using receive_message_operation = message_operation<io::receive_message_request, msghdr>;

task<std::size_t> send_with_fds(io::detail::open_descriptor* socket,
                                std::span<const std::byte> bytes, std::span<const int> fds) {
  if (bytes.empty() || fds.size() > unix_stream::max_fds) {
    gyre::detail::throw_system_error(EINVAL, "gyre::net::unix_stream::send_fds");
  }
  const iovec piece{const_cast<std::byte*>(bytes.data()), bytes.size()};
  detail::message_with_fds message({&piece, 1});
  message.attach(fds);
  io::detail::request_awaiter<send_message_operation> operation(std::in_place, socket,
                                                                message.header);
  co_return co_await operation;
}

task<bytes_and_fds> receive_with_fds(io::detail::open_descriptor* socket,
                                     std::span<std::byte> buffer) {
  const iovec piece{buffer.data(), buffer.size()};
  detail::message_with_fds message({&piece, 1});
  message.make_room();
  io::detail::request_awaiter<receive_message_operation> operation(std::in_place, socket,
                                                                   message.header);
  const std::size_t size = co_await operation;
  std::vector<unique_fd> fds = message.take();
  if (message.is_truncated()) {
    gyre::detail::throw_system_error(EMFILE, "gyre::net::unix_stream::receive_fds");
  }
  co_return bytes_and_fds{size, std::move(fds)};
}

socket open_listener(const endpoint& local, const unix_listener_options& options) {
  socket result = socket::open(address_family::local, socket_type::stream);
  detail::bind_listener(result, local, options.replace_stale);
  result.listen(options.backlog);
  return result;
}

}  // namespace

task<std::size_t> unix_stream::send_fds(std::span<const std::byte> bytes,
                                        std::span<const int> fds) {
  return send_with_fds(descriptor().get(), bytes, fds);
}

task<bytes_and_fds> unix_stream::receive_fds(std::span<std::byte> buffer) {
  return receive_with_fds(descriptor().get(), buffer);
}

peer_credentials unix_stream::credentials() const {
  const auto peer =
      detail::system::get_option<::ucred>(options().fd(), detail::system::so_peercred);
  return {peer.pid, peer.uid, peer.gid};
}

std::pair<unix_stream, unix_stream> stream_pair(event_loop& loop) {
  auto [first, other] = socket_pair();
  return {unix_stream(loop, std::move(first)), unix_stream(loop, std::move(other))};
}

unix_listener::unix_listener(event_loop& loop, const endpoint& local,
                             const unix_listener_options& options)
    : listener(loop, open_listener(local, options)) {}

task<unix_stream> connect_unix(event_loop& loop, endpoint remote) {
  socket result = socket::open(address_family::local, socket_type::stream);
  auto descriptor = std::make_unique<io::detail::open_descriptor>(loop, result.release(),
                                                                  io::handle_kind::socket);
  auto connect_task = as_expected(io::detail::request_awaiter<detail::connect_operation>(
      std::in_place, descriptor.get(), std::as_const(remote).data(), remote.size()));
  const auto outcome = co_await std::move(connect_task);
  if (!outcome) detail::throw_not_connected(outcome.error(), remote);
  co_return detail::stream_maker::make<unix_stream>(std::move(descriptor));
}

task<unix_stream> connect_unix(endpoint remote) {
  const task_context& context = co_await gyre::detail::this_context();
  task<unix_stream> connect_task = connect_unix(detail::loop_of(context), remote);
  co_return co_await std::move(connect_task);
}

}  // namespace gyre::net
