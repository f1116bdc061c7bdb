// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/detail/client_connection.hpp>

#include <gyre/io/received.hpp>

namespace gyre::http::detail {

task<std::size_t> client_connection::read() {
  if (auto* const tcp = std::get_if<net::tcp_stream>(&stream_)) {
    const io::received bytes = co_await tcp->receive();
    input.append(bytes.bytes());
    co_return bytes.size();
  }
  auto receiving = std::get<tls::tls_stream>(stream_).receive();
  const io::received bytes = co_await std::move(receiving);
  keep_session();
  input.append(bytes.bytes());
  co_return bytes.size();
}

task<std::size_t> client_connection::write_some(std::span<const std::byte> bytes) {
  if (auto* const tcp = std::get_if<net::tcp_stream>(&stream_)) return write_tcp(*tcp, bytes);
  return std::get<tls::tls_stream>(stream_).write_some(bytes);
}

task<std::size_t> client_connection::write_tcp(net::tcp_stream& stream,
                                               std::span<const std::byte> bytes) {
  const std::size_t count = co_await stream.write_some(bytes);
  co_return count;
}

bool client_connection::is_reusable() const {
  if (!input.empty()) return false;
  const bool is_quiet = std::visit([](auto& stream) { return stream.is_quiet(); }, stream_);
  keep_session();
  return is_quiet;
}

void client_connection::keep_session() const noexcept {
  const auto* const tls = std::get_if<tls::tls_stream>(&stream_);
  if (tls == nullptr) return;
  tls::session newest = tls->session();
  if (!newest || std::exchange(kept_session_, newest.native()) == newest.native()) return;
  *newest_session_ = std::move(newest);
}

}  // namespace gyre::http::detail
