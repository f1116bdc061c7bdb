// SPDX-License-Identifier: Apache-2.0
// response: the response of a server: a status, fields and a body.
//
//     if (!known) return gyre::http::response(gyre::http::status::not_found);
//     return gyre::http::response::json(R"({"id":7})").set("Cache-Control", "no-store");
#pragma once

#include <gyre/base/move_only_function.hpp>
#include <gyre/base/unique_fd.hpp>
#include <gyre/http/fields.hpp>
#include <gyre/http/json_traits.hpp>
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
class upgrade_transport;
struct body_access;
struct body_source;
struct body_source_delete {
  void operator()(body_source* source) const noexcept;
};
}  // namespace detail

/// Writes a streamed body, or the bytes of an upgraded connection.
///
/// Thread-safety: the loop of the connection. Only one write() at a time.
/// Lifetime: valid until the coroutine of the function to which it was passed has ended, even if
/// the connection ends first.
class body_writer {
 public:
  body_writer(const body_writer&) = delete;
  body_writer& operator=(const body_writer&) = delete;

  /// Sends bytes, as a chunk if the body is chunked, and waits while more than high_water bytes of
  /// the connection are unsent. After each 256 KiB it yields to other connections, even if it need
  /// not wait. Does nothing if `bytes` is empty.
  ///
  /// Errors: std::system_error with io::errc::closed once the connection has ended.
  /// Complexity: one system call if no output is queued; a coroutine frame.
  [[nodiscard]] task<> write(std::span<const std::byte> bytes);
  [[nodiscard]] task<> write(std::string_view text) {
    return write(std::as_bytes(std::span(text)));
  }
  /// Adds a field to send after the body. Ignored if the body is not chunked (HTTP/1.0). Throws
  /// what fields::add() throws.
  void add_trailer(std::string_view name, std::string_view value) { trailers_.add(name, value); }
  /// A token whose stop is requested, on the loop's thread, when the server's stop() begins: a long
  /// body should end soon, because it is cut off at the time limit of stop(). Valid as long as the
  /// writer.
  [[nodiscard]] inplace_stop_token server_stop_token() const noexcept;

 protected:
  explicit body_writer(detail::exchange& owner) noexcept;

  detail::exchange* owner_;

 private:
  friend detail::body_access;
  friend detail::exchange;

  detail::byte_sink* sink_;  // the exchange, or a filter that writes to it
  http::fields trailers_;
};

/// The bytes of a connection after an upgrade: next() returns the client's bytes, and write() sends
/// bytes without framing.
///
/// Thread-safety: the loop of the connection. Two coroutines may await one next() and one write()
/// at the same time; a second call of the same function throws io::errc::busy.
/// Lifetime: valid until the coroutine of the function to which it was passed has ended. If the
/// connection ends first, that coroutine is requested to stop, next() fails, and write() throws
/// io::errc::closed.
/// Complexity: buffers at most 64 KiB of received bytes; then the client must wait for next().
class upgraded_connection : public body_writer {
 public:
  /// Reads the next bytes of the client, valid until the next call; nothing once the client has
  /// ended its side.
  /// Errors: std::system_error if the connection has failed.
  [[nodiscard]] task<std::optional<std::span<const std::byte>>> next();

  /// Called by servers only.
  explicit upgraded_connection(detail::exchange& owner) noexcept : body_writer(owner) {}

 private:
  friend detail::upgrade_transport;
};

/// A response of a server; by default 200 without a body. The server adds Date, Connection and the
/// framing of the body (Content-Length, Transfer-Encoding), and sends no body where HTTP forbids
/// it. `Connection: close` closes the connection after the response. Other connection options that
/// the handler sets are sent, too, and a response with Upgrade gets the option `upgrade` (RFC 9110,
/// 7.8). HTTP/2 has no connection options: there the field is left out, and the connection stays
/// open. A response to HEAD may set the Content-Length of the response to GET. If it does not, none
/// is sent, because zero would be wrong.
///
/// Thread-safety: none. Movable.
/// Errors: set(), add(), and the functions that take a content type, a location or a protocol,
/// throw what the functions of http::fields throw.
/// Complexity: a body is moved, not copied.
class response {
 public:
  response() noexcept = default;
  // NOLINTNEXTLINE(google-explicit-constructor): `return status::not_found;`
  response(http::status status) noexcept : status_(status) {}
  response(http::status status, std::string_view content_type, std::string body);

  /// Make responses of type "text/plain; charset=utf-8", "text/html; charset=utf-8" and
  /// "application/json".
  [[nodiscard]] static response text(std::string body, http::status status = http::status::ok);
  /// Makes a response of type "text/html; charset=utf-8".
  [[nodiscard]] static response html(std::string body, http::status status = http::status::ok);
  [[nodiscard]] static response json(std::string body, http::status status = http::status::ok);
  /// A response of type "application/json" whose body json_traits<T> writes. A text is taken as
  /// JSON already, by the function above. Throws exceptions of json_traits<T>::write().
  template <class T>
    requires(!detail::json_text<T> && json_writable<T>)
  [[nodiscard]] static response json(const T& value, http::status status = http::status::ok) {
    return json(std::string(json_traits<T>::write(value)), status);
  }
  /// A response whose body is not copied. The bytes must stay valid until they were sent, as
  /// constants and the bytes of the request do.
  [[nodiscard]] static response borrowed(std::string_view content_type, std::string_view body);
  /// A redirect to a URL reference, which the program must have encoded.
  [[nodiscard]] static response redirect(std::string_view location,
                                         http::status status = http::status::found);
  /// A response with `count` bytes of a regular file, beginning at `offset`, sent by sendfile(2):
  /// see tcp_connection::send_file(). If the file is shorter, the client gets 500 and on_error() is
  /// called; if it is truncated while it is sent, the connection is closed.
  [[nodiscard]] static response file(std::string_view content_type, unique_fd file,
                                     std::uint64_t offset, std::uint64_t count);
  /// A response whose body is written by `write` after the head has been sent: chunked, or, to
  /// HTTP/1.0, ended by closing the connection. If `write` throws, on_error() is called and the
  /// connection is closed, so that the client does not take a part for the whole. A stop of `write`
  /// is requested when the connection ends.
  [[nodiscard]] static response stream(std::string_view content_type,
                                       move_only_function<task<>(body_writer&)> write);
  /// A streamed body of `length` bytes, which are announced by Content-Length. A write beyond
  /// `length` throws std::length_error. If `write` ends before `length` bytes, the connection is
  /// closed and on_error() is called.
  [[nodiscard]] static response stream(std::string_view content_type, std::uint64_t length,
                                       move_only_function<task<>(body_writer&)> write);
  /// A response 101 that passes the connection to `run`; the connection is closed when `run` has
  /// ended. If the request's Upgrade field does not offer `protocol`, the client gets 426 instead.
  [[nodiscard]] static response upgrade(std::string_view protocol,
                                        move_only_function<task<>(upgraded_connection&)> run);

  /// Sets a field, in place of all fields of this name. Errors: those of fields::set().
  response& set(std::string_view name, std::string_view value) & {
    fields_.set(name, value);
    return *this;
  }
  response&& set(std::string_view name, std::string_view value) && {
    fields_.set(name, value);
    return std::move(*this);
  }
  /// Adds a field beside those of the same name. Errors: those of fields::add().
  response& add(std::string_view name, std::string_view value) & {
    fields_.add(name, value);
    return *this;
  }
  response&& add(std::string_view name, std::string_view value) && {
    fields_.add(name, value);
    return std::move(*this);
  }

  [[nodiscard]] http::status status() const noexcept { return status_; }
  /// Replaces the status.
  void set_status(http::status status) noexcept { status_ = status; }
  [[nodiscard]] http::fields& fields() noexcept { return fields_; }
  [[nodiscard]] const http::fields& fields() const noexcept { return fields_; }
  /// The body if it is in memory as a whole; empty for files and streams.
  [[nodiscard]] std::string_view body() const noexcept {
    return borrowed_body_.data() != nullptr ? borrowed_body_ : std::string_view(body_);
  }
  /// Replaces the body by one in memory.
  void set_body(std::string body);

 private:
  friend detail::body_access;
  friend detail::exchange;
  static response with_known_type(http::status status, std::string_view content_type,
                                  std::string body);

  http::status status_ = http::status::ok;
  http::fields fields_;
  std::string body_;
  std::string_view borrowed_body_;
  std::unique_ptr<detail::body_source, detail::body_source_delete>
      source_;  // the source of a file, a stream or an upgrade; otherwise null
};

/// An exception of a handler: the server responds with the status, and with the text as the body,
/// which the client thus sees.
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
