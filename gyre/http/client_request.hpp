// SPDX-License-Identifier: Apache-2.0
// client_request: a request that a client sends: a method, a URL, fields and a body.
//
//     gyre::http::client_request request(gyre::http::method::put, url);  // "http://…"
//     request.set("If-Match", tag).set_body("application/json", R"({"name":"Ada"})");
//     auto answer = co_await client.send(std::move(request));
#pragma once

#include <gyre/base/duration.hpp>
#include <gyre/base/move_only_function.hpp>
#include <gyre/http/fields.hpp>
#include <gyre/http/method.hpp>
#include <gyre/http/url.hpp>
#include <gyre/task/task.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace gyre::http {

class multipart_writer;

namespace detail {
class byte_sink;
class client_call;
class client_exchange;
}  // namespace detail

/// Writes the streamed body of a request.
///
/// Thread-safety: the loop's thread only.
/// Lifetime: until the function that got it has ended.
class request_body_writer {
 public:
  request_body_writer(const request_body_writer&) = delete;
  request_body_writer& operator=(const request_body_writer&) = delete;

  /// Sends bytes, as a chunk where the length is not known, and waits until the kernel has them. No
  /// bytes: does nothing. Throws gyre::operation_cancelled when the server refuses the rest, or the
  /// request or its response was given up: let it pass.
  ///
  /// Errors: std::system_error: errc::timed_out, errc::body_mismatch for more than the announced
  /// length, those of the connection.
  [[nodiscard]] task<> write(std::span<const std::byte> bytes);
  [[nodiscard]] task<> write(std::string_view text) {
    return write(std::as_bytes(std::span(text)));
  }
  /// Adds a field that follows the body. Ignored where the length was announced.
  void add_trailer(std::string_view name, std::string_view value) { trailers_.add(name, value); }

 private:
  friend detail::client_exchange;
  explicit request_body_writer(detail::byte_sink& sink) noexcept : sink_(&sink) {}

  detail::byte_sink* sink_;
  http::fields trailers_;
};

/// A request. The client adds Host, the framing of the body (Content-Length, Transfer-Encoding),
/// Accept-Encoding, and Authorization for a URL with a user; it replaces what a program sets for
/// the framing. `Connection: close` ends the connection after the response.
///
/// Thread-safety: none. Movable.
/// Errors: the constructors throw std::system_error with the text for a URL that url::parse()
/// refuses, errc::unsupported_scheme for a scheme other than http and https, and
/// std::invalid_argument for a method that is no token, and for CONNECT. set() and add() throw as
/// those of http::fields.
class client_request {
 public:
  using body_function = move_only_function<task<>(request_body_writer&)>;

  client_request(http::method method, std::string_view url);
  client_request(http::method method, http::url url);
  /// A request of a method without a name here: "PROPFIND".
  client_request(std::string_view method, std::string_view url);

  client_request& set(std::string_view name, std::string_view value) & {
    fields_.set(name, value);
    return *this;
  }
  client_request&& set(std::string_view name, std::string_view value) && {
    fields_.set(name, value);
    return std::move(*this);
  }
  client_request& add(std::string_view name, std::string_view value) & {
    fields_.add(name, value);
    return *this;
  }
  client_request&& add(std::string_view name, std::string_view value) && {
    fields_.add(name, value);
    return std::move(*this);
  }

  /// A body that is whole.
  client_request& set_body(std::string_view content_type, std::string body) &;
  client_request&& set_body(std::string_view content_type, std::string body) && {
    return std::move(set_body(content_type, std::move(body)));
  }
  /// A body of "multipart/form-data", such as a form with files.
  client_request& set_form(multipart_writer form) &;
  /// A body that `write` writes when the head has been sent: chunked, or of an announced length. It
  /// is written once, so such a request is neither repeated nor redirected by 307 and 308.
  ///
  /// The result of `write` runs as a coroutine of its own on the executor of the coroutine that
  /// sends the request, without its task-local values. client::send() waits for its end in any
  /// case. Beside a response of client::stream() the coroutine continues. If that response is
  /// destroyed first, the coroutine is asked to stop, and may end a little later: where it refers
  /// to objects that the program destroys with the response, await client_response::stop() before.
  client_request& set_stream(std::string_view content_type, body_function write,
                             std::optional<std::uint64_t> length = {}) &;

  /// Sends "Expect: 100-continue", and the body when the server agrees, or after a while: see
  /// client_timeouts. Without a body it does nothing.
  client_request& expect_continue(bool expect = true) & {
    expects_continue_ = expect;
    return *this;
  }
  /// Whether it may be sent twice: see is_idempotent(method), which is the default.
  client_request& set_idempotent(bool idempotent) & {
    idempotent_ = idempotent;
    return *this;
  }
  /// Replaces client_timeouts::total; zero: none.
  client_request& set_total_timeout(duration total) & {
    total_timeout_ = total;
    return *this;
  }

  [[nodiscard]] http::method method() const noexcept { return method_; }
  /// The method as it is sent, also that of method::other.
  [[nodiscard]] std::string_view method_text() const noexcept { return method_text_; }
  [[nodiscard]] const http::url& url() const noexcept { return url_; }
  [[nodiscard]] http::fields& fields() noexcept { return fields_; }
  [[nodiscard]] const http::fields& fields() const noexcept { return fields_; }
  /// A body that is whole; empty for streams.
  [[nodiscard]] std::string_view body() const noexcept { return body_; }
  [[nodiscard]] bool is_streamed() const noexcept { return static_cast<bool>(stream_); }
  [[nodiscard]] bool is_idempotent() const noexcept { return idempotent_; }

 private:
  friend detail::client_call;
  friend detail::client_exchange;

  http::method method_;
  bool idempotent_;
  bool expects_continue_ = false;
  bool has_body_ = false;
  std::string method_text_;
  http::url url_;
  http::fields fields_;
  std::string body_;
  body_function stream_;
  std::optional<std::uint64_t> stream_length_;
  std::optional<std::chrono::nanoseconds> total_timeout_;
};

}  // namespace gyre::http
