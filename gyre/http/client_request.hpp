// SPDX-License-Identifier: Apache-2.0
// client_request: the request that a client sends: a method, a URL, fields and a body.
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
/// Thread-safety: the loop's thread only. One write() at a time.
/// Lifetime: valid until the body function to which it was passed has ended.
class request_body_writer {
 public:
  request_body_writer(const request_body_writer&) = delete;
  request_body_writer& operator=(const request_body_writer&) = delete;

  /// Sends bytes of the body, as a chunk if its length was not announced, and waits until they are
  /// in the kernel's send buffer; in HTTP/2, until the server's windows have let them into the
  /// output of the connection. Does nothing if `bytes` is empty.
  ///
  /// Throws gyre::operation_cancelled, which the body function should not catch, when the server
  /// refuses the rest of the body, or when a stop of the request is requested or its response
  /// destroyed.
  ///
  /// Errors: std::system_error: errc::timed_out; errc::body_mismatch for more bytes than announced;
  /// errors of the connection.
  [[nodiscard]] task<> write(std::span<const std::byte> bytes);
  [[nodiscard]] task<> write(std::string_view text) {
    return write(std::as_bytes(std::span(text)));
  }
  /// Adds a field to send after the body. Ignored if the length of the body was announced. Throws
  /// what fields::add() throws.
  void add_trailer(std::string_view name, std::string_view value) { trailers_.add(name, value); }

 private:
  friend detail::client_exchange;
  explicit request_body_writer(detail::byte_sink& sink) noexcept : sink_(&sink) {}

  detail::byte_sink* sink_;
  http::fields trailers_;
};

/// A request for a client. The client adds Host, the framing of the body (Content-Length,
/// Transfer-Encoding), Accept-Encoding, and Authorization for a URL with a user; framing fields
/// that a program sets are replaced. `Connection: close` closes the connection after the response.
///
/// Thread-safety: none. Movable.
/// Errors: the constructors throw std::system_error with the URL in its message if url::parse()
/// rejects the URL; std::system_error with errc::unsupported_scheme for a scheme other than http
/// and https; and std::invalid_argument for CONNECT and for a method that is not a token. set(),
/// add() and the setters of bodies throw what the functions of http::fields throw; set_stream()
/// also throws std::invalid_argument for an empty function.
class client_request {
 public:
  using body_function = move_only_function<task<>(request_body_writer&)>;

  client_request(http::method method, std::string_view url);
  client_request(http::method method, http::url url);
  /// A request with a method that http::method does not list, such as "PROPFIND".
  client_request(std::string_view method, std::string_view url);

  /// Sets a field, in place of all fields of this name.
  client_request& set(std::string_view name, std::string_view value) & {
    fields_.set(name, value);
    return *this;
  }
  client_request&& set(std::string_view name, std::string_view value) && {
    fields_.set(name, value);
    return std::move(*this);
  }
  /// Adds a field beside those of the same name.
  client_request& add(std::string_view name, std::string_view value) & {
    fields_.add(name, value);
    return *this;
  }
  client_request&& add(std::string_view name, std::string_view value) && {
    fields_.add(name, value);
    return std::move(*this);
  }

  /// Sets a body that is in memory as a whole.
  client_request& set_body(std::string_view content_type, std::string body) &;
  client_request&& set_body(std::string_view content_type, std::string body) && {
    return std::move(set_body(content_type, std::move(body)));
  }
  /// Sets a body of type "multipart/form-data", such as a form with files. Finishes the form.
  client_request& set_form(multipart_writer form) &;
  /// Sets a body that `write` writes after the head has been sent: in chunks, or with the announced
  /// `length`. Because `write` is called only once, the client does not repeat such a request and
  /// does not follow a 307 or 308 redirect with it.
  ///
  /// The task returned by `write` runs as a separate coroutine on the executor of the coroutine
  /// that sends the request, without its task-local values. client::send() always waits for its
  /// end. With client::stream() the task continues while the response is read. If the response is
  /// destroyed first, a stop of the task is requested, but it may end later: if it refers to
  /// objects that the program destroys together with the response, await client_response::stop()
  /// first.
  client_request& set_stream(std::string_view content_type, body_function write,
                             std::optional<std::uint64_t> length = {}) &;

  /// Sends "Expect: 100-continue", and the body once the server agrees or
  /// client_timeouts::expect_continue has passed. Has no effect on a request without a body.
  client_request& expect_continue(bool expect = true) & {
    expects_continue_ = expect;
    return *this;
  }
  /// Sets whether the request may be sent twice. The default depends on the method: see
  /// http::is_idempotent().
  client_request& set_idempotent(bool idempotent) & {
    is_idempotent_ = idempotent;
    return *this;
  }
  /// Replaces client_timeouts::total for this request; zero means no limit.
  client_request& set_total_timeout(duration total) & {
    total_timeout_ = total;
    return *this;
  }

  [[nodiscard]] http::method method() const noexcept { return method_; }
  /// The method as it is sent, even if method() is method::other.
  [[nodiscard]] std::string_view method_text() const noexcept { return method_text_; }
  [[nodiscard]] const http::url& url() const noexcept { return url_; }
  [[nodiscard]] http::fields& fields() noexcept { return fields_; }
  [[nodiscard]] const http::fields& fields() const noexcept { return fields_; }
  /// The body set by set_body() or set_form(); empty for a streamed body.
  [[nodiscard]] std::string_view body() const noexcept { return body_; }
  [[nodiscard]] bool is_streamed() const noexcept { return static_cast<bool>(stream_); }
  [[nodiscard]] bool is_idempotent() const noexcept { return is_idempotent_; }

 private:
  friend detail::client_call;
  friend detail::client_exchange;

  http::method method_;
  bool is_idempotent_;
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
