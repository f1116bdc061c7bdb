// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/detail/client_stream.hpp>

#include <gyre/io/received.hpp>

#include <utility>

namespace gyre::http::detail {

task<std::size_t> tcp_client_stream::read(io::buffer& into) {
  const io::received bytes = co_await stream_.receive();
  into.append(bytes.bytes());
  co_return bytes.size();
}

task<std::size_t> tcp_client_stream::write_some(std::span<const std::byte> bytes) {
  const std::size_t count = co_await stream_.write_some(bytes);
  co_return count;
}

bool tcp_client_stream::is_idle() noexcept { return stream_.is_quiet(); }

task<std::size_t> tls_client_stream::read(io::buffer& into) {
  auto receiving = stream_.receive();
  const io::received bytes = co_await std::move(receiving);
  keep_session();
  into.append(bytes.bytes());
  co_return bytes.size();
}

void tls_client_stream::keep_session() noexcept {
  tls::session newest = stream_.session();
  if (!newest || std::exchange(kept_, newest.native()) == newest.native()) return;
  *newest_session_ = std::move(newest);
}

task<std::size_t> tls_client_stream::write_some(std::span<const std::byte> bytes) {
  return stream_.write_some(bytes);
}

bool tls_client_stream::is_idle() noexcept {
  const bool is_quiet = stream_.is_quiet();
  keep_session();
  return is_quiet;
}

}  // namespace gyre::http::detail
