// SPDX-License-Identifier: Apache-2.0
// request: a request that a server has received.
//
//     server.get("/users/{id}", [](gyre::http::request& request) {
//       const auto id = request.param<std::uint64_t>("id");  // 400 unless it is a number
//       const int page = request.query<int>("page", 1);
//       return gyre::http::response::text(find_user(id, page));
//     });
#pragma once

#include <gyre/base/move_only_any.hpp>
#include <gyre/http/detail/parse_parameter.hpp>
#include <gyre/http/detail/read_json.hpp>
#include <gyre/http/error.hpp>
#include <gyre/http/fields.hpp>
#include <gyre/http/json_traits.hpp>
#include <gyre/http/method.hpp>
#include <gyre/http/parameter_traits.hpp>
#include <gyre/http/query.hpp>
#include <gyre/http/trace_parent.hpp>
#include <gyre/net/address.hpp>
#include <gyre/net/endpoint.hpp>
#include <gyre/task/stop_token.hpp>
#include <gyre/task/task.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace gyre {
class event_loop;
}  // namespace gyre

namespace gyre::net {
class tcp_connection;
}  // namespace gyre::net

namespace gyre::http {

class next_handler;

namespace detail {
class exchange;
}  // namespace detail

/// A request as a handler receives it. The server owns it.
///
/// Thread-safety: the loop's thread only.
/// Lifetime: if the handler takes a responder, until the handler returns; otherwise until the
/// response is sent or, if the connection ends first, until the handler's task is done. All views
/// are valid for this time.
class request {
 public:
  request(const request&) = delete;
  request& operator=(const request&) = delete;

  [[nodiscard]] http::method method() const noexcept { return method_; }
  /// The method as it was sent, even if method() is method::other.
  [[nodiscard]] std::string_view method_text() const noexcept { return method_text_; }
  /// The request target as it was sent, such as "/users/7?page=2".
  [[nodiscard]] std::string_view target() const noexcept { return target_; }
  /// The path without the query, still encoded: see percent_decode(). "*" in an OPTIONS request for
  /// the server itself.
  [[nodiscard]] std::string_view path() const noexcept { return path_; }
  /// The pairs of the query; empty if the query is malformed. Each call parses the query again.
  [[nodiscard]] http::query query() const noexcept;
  /// The query as it was sent, without '?'.
  [[nodiscard]] std::string_view query_text() const noexcept { return query_text_; }
  /// The value of a parameter of the query, decoded with '+' as a blank. parameter_traits lists the
  /// types; a std::optional<T> may be missing, and a std::vector<T> has all values of that name.
  ///
  /// Errors: parameter_error, so the client gets 400, if the value is not a T, is missing, or is
  /// given more than once; http_error 400 if the query is malformed.
  template <class T>
    requires detail::query_reader<T>::is_possible
  [[nodiscard]] T query(std::string_view name) const {
    return detail::query_reader<T>::read(query_text_, name);
  }
  /// The value, or `fallback` if it is missing.
  template <readable_parameter T>
  [[nodiscard]] T query(std::string_view name, std::type_identity_t<T> fallback) const {
    const auto value = query<std::optional<T>>(name);
    return value ? *value : std::move(fallback);
  }
  /// The host, and port if any, that the client has named; empty in an HTTP/1.0 request without
  /// Host.
  [[nodiscard]] std::string_view host() const noexcept { return host_; }
  /// Returns 1 for HTTP/1.1 and 1.0, and 2 for HTTP/2.
  [[nodiscard]] unsigned major_version() const noexcept { return major_version_; }
  /// Returns 1 for HTTP/1.1, and 0 for HTTP/1.0 and HTTP/2.
  [[nodiscard]] unsigned minor_version() const noexcept {
    return major_version_ == 1 ? minor_version_ : 0U;
  }

  /// The protocol that a client of HTTP/2 wants to speak on the stream (an extended CONNECT, RFC
  /// 8441), such as "websocket"; otherwise empty. Such a request is routed as a GET.
  [[nodiscard]] std::string_view connect_protocol() const noexcept { return connect_protocol_; }

  /// The methods for which the path has handlers, if it has none for this method; otherwise empty.
  [[nodiscard]] method_set allowed_methods() const noexcept;

  [[nodiscard]] field_list fields() const noexcept { return fields_; }
  /// The value of the first field with this name.
  [[nodiscard]] std::optional<std::string_view> field(std::string_view name) const noexcept {
    return fields_.get(name);
  }

  /// The decoded value of a parameter of the route's pattern; empty if the pattern has no such
  /// parameter. Allocates for long values with encoded characters.
  [[nodiscard]] std::string param(std::string_view name) const;
  /// The decoded value as a T, a type of parameter_traits.
  ///
  /// Errors: parameter_error, so the client gets 400, if the value is not a T; std::logic_error if
  /// the pattern has no such parameter.
  template <readable_parameter T>
  [[nodiscard]] T param(std::string_view name) const {
    return detail::parse_parameter<T>(name, known_param(name));
  }
  /// Returns the parameter encoded as in path(). If the pattern has no such parameter, returns a
  /// view whose data() is null.
  [[nodiscard]] std::string_view raw_param(std::string_view name) const noexcept;

  /// The whole body; empty on a route with streamed bodies.
  [[nodiscard]] std::string_view body() const noexcept { return body_; }
  /// The whole body, read from JSON by json_traits<T>.
  ///
  /// Errors: http_error 415 unless Content-Type is application/json, or ends in +json, in UTF-8 and
  /// without a Content-Encoding; 400 and 422 as json_traits explains; std::logic_error on a route
  /// with streamed bodies.
  template <json_readable T>
  [[nodiscard]] T json() const {
    return detail::read_json<T>(checked_json());
  }
  /// The length of the body that the client has announced; nothing for a chunked body.
  [[nodiscard]] std::optional<std::uint64_t> content_length() const noexcept;
  /// Reads the next bytes of a streamed body, valid until the next call; nothing at the end of the
  /// body. The first call sends the "100 Continue" that a client may wait for. Until next_chunk()
  /// is called, at most 64 KiB are received and the peer must wait.
  ///
  /// Errors: std::system_error with errc::truncated if the connection ends within the body, with
  /// errc::body_too_large, with the errors of malformed chunks, and with io::errc::busy while
  /// another coroutine awaits next_chunk(); std::logic_error on a route without streamed bodies.
  [[nodiscard]] task<std::optional<std::span<const std::byte>>> next_chunk();
  /// The trailer fields of a chunked body, or of a body of HTTP/2; of a streamed body, once it has
  /// been read.
  [[nodiscard]] field_list trailers() const noexcept { return trailers_; }

  /// Attaches a value to the request, for the handlers and middleware that are called later; it
  /// replaces an attached value of the same type. Returns the attached value, which is destroyed
  /// with the request.
  template <class T>
  T& attach(T value) {
    auto owner = std::make_unique<T>(std::move(value));
    T& result = *owner;
    for (move_only_any& slot : attachments_) {
      if (slot.get_if<std::unique_ptr<T>>() == nullptr) continue;
      slot = std::move(owner);
      return result;
    }
    attachments_.emplace_back(std::move(owner));
    return result;
  }
  /// The attached value of this type; null if there is none.
  template <class T>
  [[nodiscard]] T* attachment() noexcept {
    for (move_only_any& slot : attachments_) {
      if (auto* const owner = slot.get_if<std::unique_ptr<T>>()) return owner->get();
    }
    return nullptr;
  }
  template <class T>
  [[nodiscard]] const T* attachment() const noexcept {
    return const_cast<request&>(*this).attachment<T>();  // the call does not change the object
  }

  /// The connection; null once it, or the stream of HTTP/2, has ended. Other requests of HTTP/2
  /// share it, so that nothing may be sent on it.
  [[nodiscard]] net::tcp_connection* connection() const noexcept;
  /// The address of the peer. Throws std::system_error once the connection has ended.
  [[nodiscard]] net::endpoint peer_endpoint() const;
  /// The address of the client: that of the peer, or the one that a trusted proxy has named (see
  /// forwarding_options). An IPv4-mapped address is returned as the IPv4 address. Nothing for a
  /// peer on a Unix socket, unless it is a trusted proxy that names a client. Unlike
  /// peer_endpoint(), available after the connection has ended. The first call costs some 50 ns
  /// and, behind a proxy, a search through the fields.
  [[nodiscard]] std::optional<net::ip_address> client_address() const noexcept;
  /// "https" or "http": how the client has sent the request, to the server itself or to a trusted
  /// proxy that tells it.
  [[nodiscard]] std::string_view client_scheme() const noexcept;
  /// The host, and port if any, that the client has named to a trusted proxy that tells it;
  /// otherwise host().
  [[nodiscard]] std::string_view client_host() const noexcept;
  /// The id of the request: 32 hexadecimal digits, or an id from a trusted proxy. The response has
  /// it in the field request_id_options::field, unless the handler sets that field. Empty if the
  /// server makes no ids. Ids are unique, but not secret.
  [[nodiscard]] std::string_view id() const noexcept { return id_; }
  /// The place of the request in a trace over several programs, by its field `traceparent`; nothing
  /// if there is none, it is malformed, or it is there more than once. Each call parses it again.
  [[nodiscard]] std::optional<http::trace_parent> trace_parent() const noexcept;
  [[nodiscard]] event_loop& loop() const noexcept;
  /// A token whose stop is requested, on the loop's thread, when the server's stop() begins.
  /// Handlers that wait long pass it to stop_when(). Valid as long as the request.
  [[nodiscard]] inplace_stop_token server_stop_token() const noexcept;

 private:
  friend detail::exchange;
  friend next_handler;
  [[nodiscard]] std::string known_param(std::string_view name) const;
  [[nodiscard]] std::string_view checked_json() const;
  explicit request(detail::exchange& owner) noexcept : owner_(&owner) {}

  detail::exchange* owner_;
  http::method method_ = http::method::get;
  std::uint8_t major_version_ = 1;
  std::uint8_t minor_version_ = 1;  // also 1 for HTTP/2, whose bodies may have any length
  std::string_view method_text_;
  std::string_view connect_protocol_;
  std::string_view target_;
  std::string_view path_;
  std::string_view query_text_;
  std::string_view host_;
  std::string_view id_;
  std::string_view body_;
  field_list fields_;
  field_list trailers_;
  std::vector<move_only_any> attachments_;  // each value is in a std::unique_ptr
};

}  // namespace gyre::http
