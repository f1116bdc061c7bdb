// SPDX-License-Identifier: Apache-2.0
// response: a server's answer to a request: a status, fields and a body.
//
//     if (!known) return gyre::http::response(gyre::http::status::not_found);
//     return gyre::http::response::json(R"({"id":7})").set("Cache-Control", "no-store");
#pragma once

#include <gyre/base/move_only_function.hpp>
#include <gyre/base/unique_fd.hpp>
#include <gyre/http/fields.hpp>
#include <gyre/http/status.hpp>
#include <gyre/task/stop_token.hpp>
#include <gyre/task/task.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace gyre::http {

class request;

namespace detail {
class byte_sink;
class exchange;
struct body_access;
struct body_source;
struct body_source_delete {
  void operator()(body_source* source) const noexcept;
};
}  // namespace detail

/// Writes a streamed body, or the bytes of an upgraded connection.
///
/// Thread-safety: the loop of the connection. One write() at a time.
/// Lifetime: until the coroutine of the function that got it has ended, even if the connection ends
/// before.
class body_writer {
 public:
  body_writer(const body_writer&) = delete;
  body_writer& operator=(const body_writer&) = delete;

  /// Sends bytes, as a chunk where the body is chunked, and waits while more than the connection's
  /// high_water wait to be sent. Once in 256 KiB it gives way to other connections also when it
  /// need not wait. No bytes: does nothing.
  ///
  /// Errors: std::system_error, io::errc::closed, once the connection has ended.
  /// Complexity: one system call if no output waits; a coroutine frame.
  [[nodiscard]] task<> write(std::span<const std::byte> bytes);
  [[nodiscard]] task<> write(std::string_view text) {
    return write(std::as_bytes(std::span(text)));
  }
  /// Adds a field that follows the body. Ignored where the body is not chunked (HTTP/1.0).
  void add_trailer(std::string_view name, std::string_view value) { trailers_.add(name, value); }
  /// A token whose stop is requested, on the loop's thread, when the server's stop() begins: a long
  /// body should end then, or it is cut off at the time limit. It lives as long as the writer.
  [[nodiscard]] inplace_stop_token server_stop_token() const noexcept;

 protected:
  explicit body_writer(detail::exchange& owner) noexcept;

  detail::exchange* owner_;

 private:
  friend detail::body_access;
  friend detail::exchange;

  detail::byte_sink* sink_;  // the exchange, or a filter before it
  http::fields trailers_;
};

/// The bytes of a connection after an upgrade: next() reads the bytes of the client, and written
/// bytes are sent as they are.
///
/// Thread-safety: the loop of the connection. One next() and one write() may be awaited at the same
/// time, by two coroutines; a second one of the same kind throws io::errc::busy.
/// Lifetime: until the coroutine of the function that got it has ended. If the connection ends
/// before, that coroutine is asked to stop, next() fails, and write() throws io::errc::closed.
/// Complexity: the client must wait while 64 KiB have come that next() has not given.
class upgraded_connection : public body_writer {
 public:
  /// The next bytes of the client, valid until the next call; nothing when it has ended its side.
  /// Errors: std::system_error when the connection has failed.
  [[nodiscard]] task<std::optional<std::span<const std::byte>>> next();

  /// Only servers construct one.
  explicit upgraded_connection(detail::exchange& owner) noexcept : body_writer(owner) {}
};

/// A response of a server: by default 200 without a body. The server adds Date, the framing of the
/// body (Content-Length, Transfer-Encoding) and Connection, and sends no body where HTTP allows
/// none. `Connection: close` ends the connection after the response. Other connection options of
/// the handler are sent, too, and a response with Upgrade has the option `upgrade` (RFC 9110, 7.8).
/// A response to HEAD may set the Content-Length that GET would have. If it does not, none is sent,
/// as zero would be wrong.
///
/// Thread-safety: none. Movable.
/// Errors: set() and add() throw as those of http::fields.
/// Complexity: a body of the program's is moved, not copied.
class response {
 public:
  response() noexcept = default;
  // NOLINTNEXTLINE(google-explicit-constructor): `return status::not_found;`
  response(http::status status) noexcept : status_(status) {}
  response(http::status status, std::string_view content_type, std::string body);

  /// "text/plain; charset=utf-8", "text/html; charset=utf-8", "application/json".
  [[nodiscard]] static response text(std::string body, http::status status = http::status::ok);
  [[nodiscard]] static response html(std::string body, http::status status = http::status::ok);
  [[nodiscard]] static response json(std::string body, http::status status = http::status::ok);
  /// With bytes that are not copied. They must outlive the sending, as constants do, and the bytes
  /// of the request.
  [[nodiscard]] static response borrowed(std::string_view content_type, std::string_view body);
  /// A redirect to a URL reference, which the program has encoded.
  [[nodiscard]] static response redirect(std::string_view location,
                                         http::status status = http::status::found);
  /// `count` bytes of a regular file from `offset` on, sent by sendfile(2): see
  /// tcp_connection::send_file(). A file that ends earlier is answered by 500, and reported by
  /// on_error(); one that becomes shorter while it is sent ends the connection.
  [[nodiscard]] static response file(std::string_view content_type, unique_fd file,
                                     std::uint64_t offset, std::uint64_t count);
  /// A body that `write` writes when the head has been sent: chunked; to HTTP/1.0 until the
  /// connection ends. Its exception ends the connection, so that the client does not take a part
  /// for the whole. A stop is requested when the connection ends.
  [[nodiscard]] static response stream(std::string_view content_type,
                                       move_only_function<task<>(body_writer&)> write);
  /// A streamed body of `length` bytes, which the client learns from Content-Length. A write
  /// that exceeds them throws std::length_error; a `write` that ends before them ends the
  /// connection, and is reported by on_error().
  [[nodiscard]] static response stream(std::string_view content_type, std::uint64_t length,
                                       move_only_function<task<>(body_writer&)> write);
  /// 101: hands the connection to `run`; it is closed when that ends. A request that has not
  /// offered `protocol` in its Upgrade field is answered by 426 instead.
  [[nodiscard]] static response upgrade(std::string_view protocol,
                                        move_only_function<task<>(upgraded_connection&)> run);

  response& set(std::string_view name, std::string_view value) & {
    fields_.set(name, value);
    return *this;
  }
  response&& set(std::string_view name, std::string_view value) && {
    fields_.set(name, value);
    return std::move(*this);
  }
  response& add(std::string_view name, std::string_view value) & {
    fields_.add(name, value);
    return *this;
  }
  response&& add(std::string_view name, std::string_view value) && {
    fields_.add(name, value);
    return std::move(*this);
  }

  [[nodiscard]] http::status status() const noexcept { return status_; }
  void set_status(http::status status) noexcept { status_ = status; }
  [[nodiscard]] http::fields& fields() noexcept { return fields_; }
  [[nodiscard]] const http::fields& fields() const noexcept { return fields_; }
  /// A body that is whole; empty for files and streams.
  [[nodiscard]] std::string_view body() const noexcept {
    return borrowed_.data() != nullptr ? borrowed_ : std::string_view(body_);
  }
  void set_body(std::string body);

 private:
  friend detail::body_access;
  friend detail::exchange;
  static response with_known_type(http::status status, std::string_view content_type,
                                  std::string body);

  http::status status_ = http::status::ok;
  http::fields fields_;
  std::string body_;
  std::string_view borrowed_;
  std::unique_ptr<detail::body_source, detail::body_source_delete>
      source_;  // a file, a stream or an upgrade
};

/// Thrown by a handler: the server responds with the status, and the text as its body. The client
/// sees the text.
///
/// Thread-safety: as a value.
class http_error : public std::runtime_error {
 public:
  explicit http_error(http::status status)
      : http_error(status, std::string(reason_phrase(status))) {}
  http_error(http::status status, const std::string& text)
      : std::runtime_error(text), status_(status) {}
  [[nodiscard]] http::status status() const noexcept { return status_; }

 private:
  http::status status_;
};

}  // namespace gyre::http
