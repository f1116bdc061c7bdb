// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/request.hpp>

#include <gyre/http/detail/characters.hpp>
#include <gyre/http/detail/exchange.hpp>
#include <gyre/http/detail/field_lookup.hpp>
#include <gyre/http/media_type.hpp>
#include <gyre/io/error.hpp>
#include <gyre/net/tcp_connection.hpp>

#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace gyre::http {

http::query request::query() const noexcept {
  return http::query::parse(query_text_).value_or(http::query());
}

std::string request::param(std::string_view name) const {
  return owner_->state_->match.parameters.get(name).value_or(std::string());
}

std::string_view request::raw_param(std::string_view name) const noexcept {
  return owner_->state_->match.parameters.raw(name);
}

std::string request::known_param(std::string_view name) const {
  std::optional<std::string> value = owner_->state_->match.parameters.get(name);
  if (!value) {
    throw std::logic_error("http::request::param: the pattern of the route has no '" +
                           std::string(name) + '\'');
  }
  return *std::move(value);
}

std::string_view request::checked_json() const {
  if (owner_->body_.is_streamed()) {
    throw std::logic_error("http::request::json: the route has streamed_body: see route_options");
  }
  const auto type = media_type::parse(field("Content-Type").value_or(""));
  const bool is_json = type && (type->is("application/json") || type->has_suffix("json"));
  if (!is_json) {
    throw http_error(status::unsupported_media_type, "The body must be of type application/json.");
  }
  const auto charset = type->parameter("charset");
  if (charset && !detail::equals_lower(*charset, "utf-8")) {
    throw http_error(status::unsupported_media_type, "The body must be in UTF-8.");
  }
  const auto coding = field("Content-Encoding");
  if (coding && !detail::equals_lower(*coding, "identity")) {
    throw http_error(status::unsupported_media_type, "The body must not be compressed.");
  }
  return body_;
}

std::optional<http::trace_parent> request::trace_parent() const noexcept {
  const auto value = detail::only_field(fields_, "traceparent");
  return value ? http::trace_parent::parse(*value) : std::nullopt;
}

method_set request::allowed_methods() const noexcept { return owner_->state_->match.allowed; }

std::optional<std::uint64_t> request::content_length() const noexcept {
  const detail::message_framing& framing = owner_->state_->head.framing;
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

std::optional<net::ip_address> request::client_address() const noexcept {
  return owner_->origin().address;
}

std::string_view request::client_scheme() const noexcept {
  const std::string_view named_scheme = owner_->origin().scheme;
  if (!named_scheme.empty()) return named_scheme;
  return owner_->is_secure() ? "https" : "http";
}

std::string_view request::client_host() const noexcept {
  const std::string_view named_host = owner_->origin().host;
  return named_host.empty() ? host_ : named_host;
}

inplace_stop_token request::server_stop_token() const noexcept {
  return owner_->server_stop_token();
}

event_loop& request::loop() const noexcept { return owner_->loop(); }

}  // namespace gyre::http
