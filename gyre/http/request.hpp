// SPDX-License-Identifier: Apache-2.0
// request: a request that a server has received.
//
//     server.get("/users/{id}", [](gyre::http::request& request) {
//       auto page = request.query().get("page").value_or("1");
//       return gyre::http::response::text(find_user(request.param("id"), page));
//     });
#pragma once

#include <gyre/http/error.hpp>
#include <gyre/http/fields.hpp>
#include <gyre/http/method.hpp>
#include <gyre/http/query.hpp>
#include <gyre/net/endpoint.hpp>
#include <gyre/task/stop_token.hpp>
#include <gyre/task/task.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace gyre {
class event_loop;
}  // namespace gyre

namespace gyre::net {
class tcp_connection;
}  // namespace gyre::net

namespace gyre::http {

namespace detail {
class exchange;
}  // namespace detail

/// A request, as handlers get it. The server owns it.
///
/// Thread-safety: the loop's thread only.
/// Lifetime: if the handler takes a responder, until the handler returns; otherwise until the
/// response is sent, or, if the connection ends before, until the task is done. All views live as
/// long.
class request {
 public:
  request(const request&) = delete;
  request& operator=(const request&) = delete;

  [[nodiscard]] http::method method() const noexcept { return method_; }
  /// The method as it was sent, also that of method::other.
  [[nodiscard]] std::string_view method_text() const noexcept { return method_text_; }
  /// The target as it was sent: "/users/7?page=2".
  [[nodiscard]] std::string_view target() const noexcept { return target_; }
  /// Without the query, encoded: see percent_decode(). "*" where OPTIONS asks for the server
  /// itself.
  [[nodiscard]] std::string_view path() const noexcept { return path_; }
  /// The pairs of the query; none if it is malformed.
  [[nodiscard]] http::query query() const noexcept;
  /// The query as it was sent, without '?'.
  [[nodiscard]] std::string_view query_text() const noexcept { return query_text_; }
  /// The host, and port, that the client has named; empty in HTTP/1.0 without one.
  [[nodiscard]] std::string_view host() const noexcept { return host_; }
  /// 1 for HTTP/1.1, 0 for HTTP/1.0.
  [[nodiscard]] unsigned minor_version() const noexcept { return minor_version_; }

  /// The methods that the path has handlers for, where it has none for this one; else empty.
  [[nodiscard]] method_set allowed_methods() const noexcept;

  [[nodiscard]] field_list fields() const noexcept { return fields_; }
  /// The value of the first field of that name.
  [[nodiscard]] std::optional<std::string_view> field(std::string_view name) const noexcept {
    return fields_.get(name);
  }

  /// The decoded value of a segment of the route's pattern; empty if the pattern has none of that
  /// name. Allocates if it is long and has encoded characters.
  [[nodiscard]] std::string param(std::string_view name) const;
  /// As param(), but encoded, as it stands in path(): of a pattern without that name, a view whose
  /// data() is null.
  [[nodiscard]] std::string_view raw_param(std::string_view name) const noexcept;

  /// The whole body; empty for a route with streamed bodies.
  [[nodiscard]] std::string_view body() const noexcept { return body_; }
  /// The length of the body that the client has announced; nothing for a chunked one.
  [[nodiscard]] std::optional<std::uint64_t> content_length() const noexcept;
  /// The next bytes of a streamed body, valid until the next call; nothing at its end. Reading the
  /// first bytes sends the "100 Continue" that a client waits for. While they are not asked for,
  /// the peer must wait when 64 KiB have come.
  ///
  /// Errors: std::system_error with errc::truncated when the connection ends within the body,
  /// errc::body_too_large, those of malformed chunks; std::logic_error for a route without streamed
  /// bodies.
  [[nodiscard]] task<std::optional<std::span<const std::byte>>> next_chunk();
  /// The fields that follow a chunked body; of a streamed body, once that has ended.
  [[nodiscard]] field_list trailers() const noexcept { return trailers_; }

  /// The connection; null once it has ended.
  [[nodiscard]] net::tcp_connection* connection() const noexcept;
  /// The other end's address. Throws std::system_error once the connection has ended.
  [[nodiscard]] net::endpoint peer_endpoint() const;
  [[nodiscard]] event_loop& loop() const noexcept;
  /// A token whose stop is requested, on the loop's thread, when the server's stop() begins: for
  /// handlers that wait long, by stop_when(). It lives as long as the request.
  [[nodiscard]] inplace_stop_token server_stop_token() const noexcept;

 private:
  friend detail::exchange;
  explicit request(detail::exchange& owner) noexcept : owner_(&owner) {}

  detail::exchange* owner_;
  http::method method_ = http::method::get;
  std::uint8_t minor_version_ = 1;
  std::string_view method_text_;
  std::string_view target_;
  std::string_view path_;
  std::string_view query_text_;
  std::string_view host_;
  std::string_view body_;
  field_list fields_;
  field_list trailers_;
};

}  // namespace gyre::http
