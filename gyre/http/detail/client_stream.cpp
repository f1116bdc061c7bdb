// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/detail/client_stream.hpp>

#include <gyre/io/received.hpp>

#include <poll.h>

namespace gyre::http::detail {
namespace {

bool is_quiet(int fd) noexcept {
  pollfd idle{.fd = fd, .events = POLLIN | POLLRDHUP, .revents = 0};
  return ::poll(&idle, 1, 0) == 0;
}

}  // namespace

task<std::size_t> tcp_client_stream::read(io::buffer& into) {
  const io::received bytes = co_await stream_.receive();
  into.append(bytes.bytes());
  co_return bytes.size();
}

task<std::size_t> tcp_client_stream::write_some(std::span<const std::byte> bytes) {
  const std::size_t count = co_await stream_.write_some(bytes);
  co_return count;
}

bool tcp_client_stream::is_idle() const { return stream_.is_open() && is_quiet(stream_.fd()); }

task<std::size_t> tls_client_stream::read(io::buffer& into) {
  auto receiving = stream_.receive();
  const io::received bytes = co_await std::move(receiving);
  keep_session();
  into.append(bytes.bytes());
  co_return bytes.size();
}

void tls_client_stream::keep_session() {
  if (tls::session newest = stream_.session()) *newest_session_ = std::move(newest);
}

task<std::size_t> tls_client_stream::write_some(std::span<const std::byte> bytes) {
  return stream_.write_some(bytes);
}

bool tls_client_stream::is_idle() const { return stream_.is_open() && is_quiet(stream_.fd()); }

}  // namespace gyre::http::detail
