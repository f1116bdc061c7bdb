// SPDX-License-Identifier: Apache-2.0
// client_response: the response that a client has received: a status, fields and a body.
//
//     auto answer = co_await client.get(url);
//     if (!answer.is_success()) co_return report(answer.status());
//     print(answer.field("Content-Type").value_or("?"), answer.body());
#pragma once

#include <gyre/http/fields.hpp>
#include <gyre/http/status.hpp>
#include <gyre/http/url.hpp>
#include <gyre/task/task.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace gyre::http {

namespace detail {
class client_call;
class client_exchange;

/// Destroys the exchange of a response. If the body of the request is still being sent, stops it;
/// the exchange is then destroyed when the body function has ended.
struct exchange_deleter {
  void operator()(client_exchange* exchange) const noexcept;
};
using exchange_pointer = std::unique_ptr<client_exchange, exchange_deleter>;
}  // namespace detail

/// A response. A response of client::send() has its whole body. A response of client::stream()
/// holds its connection, or its stream of HTTP/2, until the body has been read; its destructor
/// closes a connection that it holds, and resets a stream.
///
/// A server may respond before it has received the whole body of the request. Unless the status is
/// 400 or above, the client then continues to send, and next_chunk() reports the end of the
/// response only when the request has been sent completely. Read such a response to its end: its
/// destructor stops the request. See is_request_complete().
///
/// Thread-safety: the loop's thread; only one next_chunk(), read_body() or stop() at a time. A
/// response with its whole body may be handed from thread to thread.
/// Lifetime: views are valid as long as the response, or the response that it was moved to. It may
/// outlive the client, but while its body is streamed it must not outlive the loop. A moved-from
/// response may only be assigned to and destroyed.
class client_response {
 public:
  client_response(client_response&& other) noexcept;
  client_response& operator=(client_response&& other) noexcept;
  ~client_response();

  [[nodiscard]] http::status status() const noexcept;
  /// Whether the status is 2xx.
  [[nodiscard]] bool is_success() const noexcept;
  /// The reason phrase of the status line, which servers choose freely; empty in HTTP/2.
  [[nodiscard]] std::string_view reason() const noexcept;
  /// Returns 1 for HTTP/1.1 and 1.0, and 2 for HTTP/2.
  [[nodiscard]] unsigned major_version() const noexcept;
  /// Returns 1 for HTTP/1.1, and 0 for HTTP/1.0 and HTTP/2.
  [[nodiscard]] unsigned minor_version() const noexcept;
  /// The fields; without Content-Encoding and Content-Length if the client has unpacked the body.
  [[nodiscard]] field_list fields() const noexcept;
  /// The value of the first field with this name.
  [[nodiscard]] std::optional<std::string_view> field(std::string_view name) const noexcept {
    return fields().get(name);
  }
  /// The URL that sent this response, after redirects.
  [[nodiscard]] const http::url& url() const noexcept;

  /// The body as far as it was read by client::send() or read_body().
  [[nodiscard]] std::string_view body() const noexcept;
  [[nodiscard]] std::string take_body() noexcept;
  /// The length that the server announced, in bytes before unpacking.
  [[nodiscard]] std::optional<std::uint64_t> content_length() const noexcept;
  /// Reads the next bytes of a streamed body, unpacked, valid until the next call. Returns nothing
  /// at the end of the body, once the request has been sent completely.
  ///
  /// The server must wait while the program does not call next_chunk(). If the server then stops
  /// reading the request, the request fails after client_timeouts::send; so read the response while
  /// a long request is being sent.
  ///
  /// Errors: std::system_error: errc::truncated, bad_chunk, bad_content_coding, timed_out;
  /// body_too_large for a body that unpacks to more than client_limits::decompressed; the exception
  /// of the function that writes the body of the request, if it fails during the call.
  [[nodiscard]] task<std::optional<std::span<const std::byte>>> next_chunk();
  /// Reads the rest of a streamed body into body().
  /// Errors: those of next_chunk(), and errc::body_too_large for more than client_limits::body.
  [[nodiscard]] task<> read_body();
  /// Ends the exchange early: stops the body of the request, waits until its function has ended,
  /// and closes the connection, or resets the stream of HTTP/2, unless the response was read to its
  /// end. Afterwards, objects that
  /// the body function refers to may be destroyed. Needed after client::stream() with
  /// client_request::set_stream(), because a destructor cannot wait. Must not be called while
  /// next_chunk() or read_body() is awaited.
  [[nodiscard]] task<> stop();
  /// Whether the whole request was sent, including its body. False while the body is still being
  /// sent, and false if the server refused the rest of the body: by a status of 400 or above, by
  /// closing the connection, or by a final response in place of "100 Continue". After a refusal,
  /// even a 2xx response may not mean that the server has received the body. A refusal before a
  /// redirect that changed the request to a GET counts, too.
  [[nodiscard]] bool is_request_complete() const noexcept;
  /// The trailer fields of a chunked body, or of a body of HTTP/2; empty until the body has been
  /// read.
  [[nodiscard]] field_list trailers() const noexcept;

 private:
  friend detail::client_call;
  explicit client_response(detail::exchange_pointer exchange) noexcept;

  detail::exchange_pointer exchange_;
};

}  // namespace gyre::http
