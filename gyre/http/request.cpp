// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/request.hpp>

#include <gyre/http/detail/exchange.hpp>
#include <gyre/io/error.hpp>
#include <gyre/net/tcp_connection.hpp>

#include <string_view>
#include <system_error>

namespace gyre::http {

http::query request::query() const noexcept {
  return http::query::parse(query_text_).value_or(http::query());
}

std::string request::param(std::string_view name) const {
  return owner_->match_.parameters.get(name).value_or(std::string());
}

std::string_view request::raw_param(std::string_view name) const noexcept {
  return owner_->match_.parameters.raw(name);
}

method_set request::allowed_methods() const noexcept { return owner_->match_.allowed; }

std::optional<std::uint64_t> request::content_length() const noexcept {
  const detail::message_framing& framing = owner_->head_.framing;
  if (framing.body == detail::body_kind::chunked) return std::nullopt;
  return framing.length;
}

task<std::optional<std::span<const std::byte>>> request::next_chunk() {
  return owner_->next_chunk();
}

net::tcp_connection* request::connection() const noexcept { return owner_->connection(); }

net::endpoint request::peer_endpoint() const {
  if (net::tcp_connection* const open_connection = connection())
    return open_connection->peer_endpoint();
  throw std::system_error(make_error_code(io::errc::closed), "http::request::peer_endpoint");
}

inplace_stop_token request::server_stop_token() const noexcept {
  return owner_->server_stop_token();
}

event_loop& request::loop() const noexcept { return owner_->loop(); }

}  // namespace gyre::http
