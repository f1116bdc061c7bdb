// SPDX-License-Identifier: Apache-2.0
// connector: makes and checks the connections of a connection_pool or a reconnecting_client.
#pragma once

#include <gyre/base/clock.hpp>
#include <gyre/base/move_only_function.hpp>
#include <gyre/exec/event_loop.hpp>
#include <gyre/io/error.hpp>
#include <gyre/net/connect.hpp>
#include <gyre/net/detail/coroutine_loop.hpp>
#include <gyre/net/host_port.hpp>
#include <gyre/net/resolver.hpp>
#include <gyre/net/tcp_stream.hpp>
#include <gyre/task/as_task.hpp>
#include <gyre/task/task.hpp>
#include <gyre/task/with_timeout.hpp>

#include <chrono>
#include <concepts>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <type_traits>
#include <utility>

namespace gyre::net::detail {

/// A connection whose is_reusable() returns whether another use is possible.
template <class Connection>
concept tells_reusable = requires(const Connection& connection) {
  { connection.is_reusable() } -> std::same_as<bool>;
};

/// A stream, also an encrypted one, whose is_quiet() returns whether nothing has come from the
/// peer.
template <class Connection>
concept tells_quiet = requires(Connection& connection) {
  { connection.is_quiet() } -> std::same_as<bool>;
};

/// Whether an unused connection can serve another use: if its is_reusable() returns true, or,
/// without that function, if the connection is open, its buffers hold no part of a message, and
/// nothing has come from the peer.
template <class Connection>
bool is_reusable(Connection& connection) {
  if constexpr (tells_reusable<Connection>) {
    return std::as_const(connection).is_reusable();
  } else if constexpr (tells_quiet<Connection>) {
    return connection.is_quiet();
  } else if constexpr (requires { connection.pending_output(), connection.received().empty(); }) {
    return connection.pending_output() == 0 && connection.received().empty() &&
           is_reusable(connection.stream());
  } else {
    static_assert(tells_reusable<Connection>,
                  "a connection is a stream, a framed, or a class with `bool is_reusable() const`, "
                  "which says whether another use is possible");
    return false;
  }
}

/// A stream, or a connection over one, that can wait until something can be read.
template <class Connection>
concept waits_for_input = requires(Connection& connection) {
  { connection.wait_readable() } -> awaitable;
} || requires(Connection& connection) {
  { connection.stream().wait_readable() } -> awaitable;
};

/// Waits until something can be read from a connection that nobody uses.
template <waits_for_input Connection>
task<> wait_for_input(Connection& connection) {
  if constexpr (requires { connection.wait_readable(); }) {
    auto wait = connection.wait_readable();
    co_await std::move(wait);
  } else {
    auto wait = connection.stream().wait_readable();
    co_await std::move(wait);
  }
}

/// The type of the connections that a function makes; the function may return them in a unique_ptr.
template <class Made>
struct made_connection {
  using type = Made;
};
template <class Connection>
struct made_connection<std::unique_ptr<Connection>> {
  using type = Connection;
};
template <class F, class... Arguments>
using connection_from =
    typename made_connection<task_result_t<std::invoke_result_t<F&, Arguments...>>>::type;

/// A function of a connected stream whose awaited result is a Connection that is ready for use.
template <class F>
concept handshake_function =
    std::invocable<F&, tcp_stream> && awaitable<std::invoke_result_t<F&, tcp_stream>>;
/// A function whose awaited result is a new Connection.
template <class F>
concept connect_function = std::invocable<F&> && awaitable<std::invoke_result_t<F&>>;

/// A server, and the resolver for its name if one is needed.
class server_address {
 public:
  server_address(event_loop& loop, host_port server, race_options options)
      : loop_(loop), server_(std::move(server)), options_(std::move(options)) {}

  task<tcp_stream> connect();

 private:
  event_loop& loop_;
  const host_port server_;
  const race_options options_;
  std::optional<resolver> names_;
};

/// Returns the text of `server`; throws std::invalid_argument if `server` is a Unix socket.
std::string text_of_tcp(const host_port& server);
/// Throws std::logic_error because a user's function returned a null pointer.
[[noreturn, gnu::cold]] void throw_no_connection();
/// Throws std::system_error (io::errc::not_open) because `class_name` was moved from.
[[noreturn, gnu::cold]] void throw_moved_from(const char* class_name);

/// Makes connections to one server.
///
/// Thread-safety: none; belongs to the loop's thread.
/// Lifetime: must outlive its calls.
template <class Connection>
class connector {
 public:
  using pointer = std::unique_ptr<Connection>;

  /// Makes connections to `server`, and prepares each with `handshake`.
  template <class Handshake>
  connector(event_loop& loop, const host_port& server, Handshake handshake, race_options options)
      : loop_(loop),
        server_(text_of_tcp(server)),
        connect_([address = std::make_unique<server_address>(loop, server, std::move(options)),
                  handshake = std::move(handshake)]() mutable {
          return connect_and_prepare(*address, handshake);
        }) {}
  /// Makes connections with `connect`.
  template <connect_function Connect>
  connector(event_loop& loop, Connect connect)
      : loop_(loop),
        connect_([connect = std::move(connect)]() mutable { return connect_by(connect); }) {}

  event_loop& loop() const noexcept { return loop_; }
  /// Returns `class_name`, followed by the server if it is known.
  std::string describe(const char* class_name) const {
    return server_.empty() ? class_name : class_name + (' ' + server_);
  }

  /// Throws std::system_error for `error`, with `class_name` and the server.
  [[noreturn, gnu::cold]] void fail(io::errc error, const char* class_name) const {
    throw std::system_error(make_error_code(error), describe(class_name));
  }

  /// Makes a new connection that is ready for use. Errors also: io::errc::connect_timeout after
  /// `limit`.
  task<pointer> connect(std::chrono::nanoseconds limit) {
    const steady_time expiry = loop_.deadline_after(limit);
    auto connect_task = with_timeout(connect_(), limit);
    try {
      co_return co_await std::move(connect_task);
    } catch (const std::system_error& error) {
      const bool has_expired = error.code() == time_limit_errc::expired;
      if (!has_expired || loop_.now() < expiry) throw;
    }
    fail(io::errc::connect_timeout, "connect");
  }

 private:
  static pointer boxed(Connection&& connection) {
    return std::make_unique<Connection>(std::move(connection));
  }
  static pointer boxed(pointer&& connection) {
    if (connection == nullptr) throw_no_connection();
    return std::move(connection);
  }

  template <class Handshake>
  static task<pointer> connect_and_prepare(server_address& server, Handshake& handshake) {
    task<tcp_stream> connect_task = server.connect();
    tcp_stream connection = co_await std::move(connect_task);
    auto handshake_task = std::invoke(handshake, std::move(connection));
    auto stream = co_await std::move(handshake_task);
    co_return boxed(std::move(stream));
  }
  template <class Connect>
  static task<pointer> connect_by(Connect& connect) {
    auto connect_task = std::invoke(connect);
    auto connection = co_await std::move(connect_task);
    co_return boxed(std::move(connection));
  }

  event_loop& loop_;
  const std::string server_;
  move_only_function<task<pointer>()> connect_;
};

/// A handshake that does nothing.
struct no_handshake {
  task<tcp_stream> operator()(tcp_stream connection) const { co_return connection; }
};

/// Returns std::system_error (io::errc::closed) if `error` is that of a wait which the end of
/// an object of `class_name` stopped; otherwise `error`.
std::exception_ptr error_of_closed(std::exception_ptr error,
                                   const std::string& class_name) noexcept;

}  // namespace gyre::net::detail
