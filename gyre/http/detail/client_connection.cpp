// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/detail/client_connection.hpp>

namespace gyre::http::detail {

task<> client_connection::write_all(std::span<const std::byte> bytes, const request_clock& clock,
                                    std::chrono::nanoseconds limit, const char* phase) {
  while (!bytes.empty()) {
    auto write_task = write_some(bytes, clock, clock.expiry_of(limit), phase);
    const std::size_t count = co_await std::move(write_task);
    bytes = bytes.subspan(count);
  }
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
  tls::session newest_session = tls->session();
  if (!newest_session ||
      std::exchange(kept_session_, newest_session.native()) == newest_session.native())
    return;
  *newest_session_ = std::move(newest_session);
}

}  // namespace gyre::http::detail
