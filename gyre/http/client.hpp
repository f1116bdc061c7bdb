// SPDX-License-Identifier: Apache-2.0
// client: a client of HTTP/1.1 and HTTP/2 with a pool of connections per host. get(): sends a
// single request without a client.
//
//     gyre::http::client client(loop);
//     auto answer = co_await client.get(url);  // such as "http://localhost:8080/users/7"
//     print(answer.status(), answer.body());
#pragma once

#include <gyre/base/detail/awaited_value.hpp>
#include <gyre/base/move_only_function.hpp>
#include <gyre/exec/event_loop.hpp>
#include <gyre/http/client_options.hpp>
#include <gyre/http/client_request.hpp>
#include <gyre/http/client_response.hpp>
#include <gyre/http/cookie_jar.hpp>
#include <gyre/http/error.hpp>
#include <gyre/task/task.hpp>

#include <expected>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace gyre::http {

class client;

namespace detail {
class client_core;
/// Returns the state of a client; null if it was moved from.
std::shared_ptr<client_core> core_of(const client& owner) noexcept;
}  // namespace detail

/// A client of HTTP/1.1 and HTTP/2. It keeps connections open for further requests to the same
/// scheme, host and port; an https server that supports HTTP/2 gets concurrent requests on one
/// connection. A response of any status is a result, not an error.
///
/// | the client also | unless |
/// |---|---|
/// | follows redirects, up to a limit; drops the program's Authorization, Cookie and Host at another origin | follow_redirects is off |
/// | continues to send the request's body after the response has begun | the status is 400 or above: see client_response |
/// | unpacks gzip, br and zstd | decompress is off, or the request sets Accept-Encoding or Range |
/// | sends a second attempt of a slow request, and uses the first response | client_options::hedging is empty, as by default |
/// | refuses requests to servers that fail | client_options::breaker is empty, as by default |
/// | repeats a request that the server of HTTP/2 has refused unprocessed | the body is streamed, and was begun |
/// | repeats an idempotent request once, on a new connection, if a reused connection ended before any byte of the response, or the server sent 408 with `Connection: close` | the body is streamed |
///
/// Thread-safety: the loop's thread, except for send() with a callback; while no thread runs the
/// loop, one thread at a time. A program with several loops needs a client for each loop.
/// Lifetime: the loop must outlive the client. The destructor calls close() and drops callbacks
/// that were not called yet; requests that a coroutine awaits, and responses, may outlive the
/// client. On a moved-from client, send() and stream() fail with io::errc::not_open; send() with a
/// callback and cookies() throw std::logic_error.
/// Errors: std::system_error, whose message names the request and its phase:
/// - http::errc;
/// - errors of connecting (std::errc::connection_refused, net::resolve_errc, …);
/// - errors of a broken connection (connection_reset, …);
/// - io::errc::waiting_limit, closed, not_open, wrong_thread.
///
/// A stop of the awaiting coroutine ends the request, in HTTP/2 by a reset of its stream, and
/// throws gyre::operation_cancelled.
/// Complexity: a request allocates some coroutine frames and a block for its response; an idle
/// connection holds no buffer. The client buffers the head of a response, and at most 1 MiB of
/// received and 64 KiB of unpacked bytes of a streamed body. The first lookup of a name constructs
/// a resolver, which reads files (see net::resolver). The first https request constructs
/// tls_context::default_client(), if the options have no context. Both block.
class client {
 public:
  using callback = move_only_function<void(std::expected<client_response, std::error_code>)>;

  /// Throws std::invalid_argument for invalid options.
  explicit client(event_loop& loop, client_options options = {});
  client(client&& other) noexcept;
  client& operator=(client&& other) noexcept;
  ~client();

  /// Sends the request. The task returns the response with its whole body, up to
  /// client_limits::body.
  [[nodiscard]] task<client_response> send(client_request request);
  /// Sends the request. The task returns the response once its head was received; read its body
  /// with client_response::next_chunk().
  [[nodiscard]] task<client_response> stream(client_request request);
  /// Sends the request, and calls `done` on the loop's thread with the response, which has its
  /// whole body, or with the error. An exception thrown by `done` ends the program, as with
  /// spawn(). After close(), requests in progress fail with io::errc::closed. An exception that has
  /// no code, such as one of the body's function, is reported as std::errc::state_not_recoverable,
  /// and std::bad_alloc as std::errc::not_enough_memory.
  ///
  /// Thread-safety: any thread.
  void send(client_request request, callback function);

  /// If client_request rejects the URL or the content type, the call itself throws, not the await.
  [[nodiscard]] task<client_response> get(std::string_view url) {
    return send(client_request(method::get, url));
  }
  /// Sends a request with a body of this type, and returns the response.
  [[nodiscard]] task<client_response> post(std::string_view url, std::string_view content_type,
                                           std::string body) {
    return send(client_request(method::post, url).set_body(content_type, std::move(body)));
  }

  /// Returns the cookies of this client, which it stores and sends if client_options::cookies is
  /// set.
  [[nodiscard]] cookie_jar& cookies();
  [[nodiscard]] client_metrics metrics() const noexcept;

  /// Closes idle connections, cancels waits for connections and requests with callbacks, and
  /// refuses further requests. Idempotent.
  void close() noexcept;

 private:
  friend std::shared_ptr<detail::client_core> detail::core_of(const client& owner) noexcept;

  std::shared_ptr<detail::client_core> core_;
};

namespace detail {
task<client_response> get_alone(client_request request, client_options options);
}  // namespace detail

/// Sends one GET request on a connection of its own, on the loop that runs the coroutine. Use a
/// client to send several requests.
///
/// Errors: those of client; io::errc::wrong_thread if no loop runs the coroutine. If client_request
/// rejects the URL, the call itself throws, not the await.
/// Complexity: constructs a client for each call. A lookup reads resolv.conf and the hosts file,
/// which blocks, and its result is not cached.
[[nodiscard]] inline task<client_response> get(std::string_view url) {
  return detail::get_alone(client_request(method::get, url), client_options{});
}
/// With GCC 12, `options` must be a variable, not a temporary: see channel::send().
[[nodiscard]] inline task<client_response> get(
    std::string_view url, gyre::detail::awaited_value<client_options> options) {
  return detail::get_alone(client_request(method::get, url), std::move(options));
}

}  // namespace gyre::http
