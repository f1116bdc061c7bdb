// SPDX-License-Identifier: Apache-2.0
// client_response: the response that a client has got: a status, fields and a body.
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

/// Stops a body of a request that is still being sent, whose end then destroys the exchange.
struct exchange_deleter {
  void operator()(client_exchange* exchange) const noexcept;
};
using exchange_pointer = std::unique_ptr<client_exchange, exchange_deleter>;
}  // namespace detail

/// A response. client::send() gives one with its whole body. One of client::stream() holds its
/// connection until the body has been read, and closes it if destroyed before.
///
/// A server may answer while it still receives the body of the request. Unless its status is 400 or
/// above, the client continues to send, and next_chunk() reports the end only when the request has
/// been sent completely, too. So read the response to its end: destroyed before, it stops the
/// request; see is_request_complete().
///
/// Thread-safety: the loop's thread; a response with its whole body may be handed from thread to
/// thread.
/// Lifetime: views are valid as long as the response, or what it was moved into. May outlive the
/// client, but while its body is streamed not the loop. One that was moved from may only be
/// assigned to and destroyed.
class client_response {
 public:
  client_response(client_response&& other) noexcept;
  client_response& operator=(client_response&& other) noexcept;
  ~client_response();

  [[nodiscard]] http::status status() const noexcept;
  /// Whether the status is 2xx.
  [[nodiscard]] bool is_success() const noexcept;
  /// The text after the status, which servers choose freely.
  [[nodiscard]] std::string_view reason() const noexcept;
  /// 1 for HTTP/1.1, 0 for HTTP/1.0.
  [[nodiscard]] unsigned minor_version() const noexcept;
  /// The fields, without Content-Encoding and Content-Length if the body was unpacked.
  [[nodiscard]] field_list fields() const noexcept;
  /// The value of the first field of that name.
  [[nodiscard]] std::optional<std::string_view> field(std::string_view name) const noexcept {
    return fields().get(name);
  }
  /// The URL that has answered, after redirects.
  [[nodiscard]] const http::url& url() const noexcept;

  /// The body, as far as it was read whole.
  [[nodiscard]] std::string_view body() const noexcept;
  [[nodiscard]] std::string take_body() noexcept;
  /// The length that the server has announced, of the bytes as they are sent.
  [[nodiscard]] std::optional<std::uint64_t> content_length() const noexcept;
  /// The next bytes of a streamed body, unpacked, valid until the next call; nothing at its end,
  /// and not before the request has been sent. While they are not asked for, the server must wait.
  /// One that then reads no more of the request makes it fail after client_timeouts::send, so ask
  /// for them while a long request is sent.
  ///
  /// Errors: std::system_error: errc::truncated, bad_chunk, bad_content_coding, timed_out,
  /// body_too_large for one that unpacks to more than client_limits::decompressed; the exception of
  /// the function that writes the body of the request, if it fails now.
  [[nodiscard]] task<std::optional<std::span<const std::byte>>> next_chunk();
  /// Reads the rest of a streamed body into body(). Errors: those of next_chunk(), and
  /// errc::body_too_large for more than client_limits::body.
  [[nodiscard]] task<> read_body();
  /// Awaited, ends the exchange where it is: stops the body of the request, waits until its
  /// function has ended, and closes the connection, unless the response was read to its end. After
  /// it, what the function refers to may be destroyed. Of use after client::stream() with
  /// client_request::set_stream(), as a destructor cannot wait. Not while next_chunk() or
  /// read_body() is awaited.
  [[nodiscard]] task<> stop();
  /// Whether the whole request was sent, with its body. False while the body is sent beside a
  /// streamed response, and if the server refused the rest: by a status of 400 or above, by closing
  /// the connection, or by a response in place of "100 Continue". After a refusal, even a response
  /// 2xx may not mean that the server has the body. A refusal before a redirect that has turned the
  /// request into a GET counts, too.
  [[nodiscard]] bool is_request_complete() const noexcept;
  /// The fields that follow a chunked body, once it has been read.
  [[nodiscard]] field_list trailers() const noexcept;

 private:
  friend detail::client_call;
  explicit client_response(detail::exchange_pointer exchange) noexcept;

  detail::exchange_pointer exchange_;
};

}  // namespace gyre::http
