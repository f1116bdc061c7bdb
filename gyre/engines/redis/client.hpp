// SPDX-License-Identifier: Apache-2.0
// client: commands to a Redis server, which all coroutines of a loop send over one connection.
//
//     gyre::redis::client cache(loop, server);  // such as "localhost:6379"
//
//     co_await cache.call<void>("SET", "visits", 41);
//     auto visits = co_await cache.call<std::int64_t>("INCR", "visits");
//     auto name = co_await cache.call<std::optional<std::string>>("GET", "name");
#pragma once

#include <gyre/engines/redis/argument_traits.hpp>
#include <gyre/engines/redis/client_options.hpp>
#include <gyre/engines/redis/command.hpp>
#include <gyre/engines/redis/detail/client_core.hpp>
#include <gyre/engines/redis/reply.hpp>
#include <gyre/engines/redis/reply_traits.hpp>
#include <gyre/engines/redis/script.hpp>
#include <gyre/engines/redis/session.hpp>
#include <gyre/engines/redis/subscription.hpp>
#include <gyre/engines/redis/subscription_options.hpp>
#include <gyre/exec/event_loop.hpp>
#include <gyre/net/host_port.hpp>
#include <gyre/task/task.hpp>

#include <concepts>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace gyre::redis {

/// Sends commands over one connection, and replaces it when it breaks. Coroutines do not wait for
/// each other: commands of one turn of the loop leave with one send ("pipelining"), and a pool of
/// connections would be slower. Arguments are those of argument_traits, results of reply_traits.
///
/// Connecting: the first call connects; calls wait meanwhile. When `max_connect_attempts` have
/// failed, the calls that wait fail, and the next call tries again. After a refused login, such as
/// for a wrong password, calls fail with its error for a second, without another attempt.
///
/// Retries: a command of which no byte has left the process when the connection breaks is sent over
/// the next one. A command that the server may have got fails with errc::connection_lost, and may
/// have been carried out; call_idempotent() sends it again.
///
/// Commands that wait in the server (BLPOP), or change the state of the connection (WATCH, SELECT),
/// are refused with errc::needs_session: they would keep it from other coroutines. Call
/// open_session() for them.
///
/// Thread-safety: the loop's thread; make a client for each loop.
/// Lifetime: the loop must outlive the client. The destructor is close(); calls that it ends may
/// outlive the client.
/// Errors: of calls: server_error; std::system_error (redis::errc; errors of net::connect(), with
/// the server's name; io::errc::waiting_limit, closed, not_open, wrong_thread);
/// gyre::operation_cancelled after a stop. The constructor throws std::invalid_argument for options
/// that make no sense, and the exceptions of host_port.
/// Complexity: a call is a coroutine frame; it allocates only for its result.
class client {
 public:
  /// `server`: an endpoint, or a text as host_port reads it: "localhost:6379", "unix:/run/redis".
  template <std::convertible_to<net::host_port> Server>
  client(event_loop& loop, const Server& server, const client_options& options = {})
      : core_(std::make_shared<detail::client_core>(loop, net::host_port(server), options)) {}
  client(client&&) noexcept = default;
  client& operator=(client&& other) noexcept {
    client replacement(std::move(other));
    std::swap(core_, replacement.core_);
    return *this;
  }
  ~client() { close(); }

  /// Sends a command, and returns its reply as a Result. `name`, and arguments that are neither
  /// temporaries nor numbers, must outlive the call.
  ///
  /// A call that is stopped, or destroyed, waits no more; its command may be carried out.
  template <class Result = reply, command_argument... Arguments>
  [[nodiscard]] task<Result> call(std::string_view name, Arguments&&... arguments) {
    return run(command<Result>(name, std::forward<Arguments>(arguments)...), 1);
  }
  /// Sends a command that may be carried out twice: after a lost connection it is sent again,
  /// `client_options::max_attempts` times in all.
  template <class Result = reply, command_argument... Arguments>
  [[nodiscard]] task<Result> call_idempotent(std::string_view name, Arguments&&... arguments) {
    return run(command<Result>(name, std::forward<Arguments>(arguments)...),
               core_ != nullptr ? core_->max_attempts() : 1);
  }
  /// Carries out a script (EVALSHA, or EVAL if the server does not know the script). `keys`: a key,
  /// or a range or tuple of them (KEYS in the script); the other arguments are ARGV. `code`, and
  /// keys and arguments that are neither temporaries nor numbers, must outlive the call.
  ///
  /// A script must not return an error that begins with "NOSCRIPT No matching script", which is how
  /// the server replies to an unknown hash: the script would be carried out twice.
  template <class Result = reply, command_argument Keys, command_argument... Arguments>
  [[nodiscard]] task<Result> evaluate(const script& code, Keys&& keys, Arguments&&... arguments) {
    return detail::client_core::evaluate<Result>(core_, code, std::forward<Keys>(keys),
                                                 std::forward<Arguments>(arguments)...);
  }
  /// Sends commands as one transaction (MULTI, EXEC), and returns their results as a tuple, with a
  /// std::monostate for a void. The server carries out all of them with nothing between them, or
  /// refuses all. An error of one throws, although the others were carried out.
  template <class... Commands>
    requires(sizeof...(Commands) > 0)
  [[nodiscard]] auto transaction(Commands... commands) {
    return detail::client_core::transact(core_, std::move(commands)...);
  }

  /// Subscribes to the messages of a channel, and waits until the server has confirmed it. Needs
  /// Redis 6.
  [[nodiscard]] task<subscription> subscribe(std::string channel,
                                             subscription_options options = {}) {
    return detail::client_core::subscribe(core_, std::move(channel), options);
  }

  /// Opens a connection of its own, which takes commands that the client refuses with
  /// errc::needs_session.
  [[nodiscard]] task<session> open_session() { return detail::client_core::open_session(core_); }

  /// Ends running and waiting calls with io::errc::closed, and closes the connection. Idempotent.
  void close() noexcept {
    if (core_ != nullptr) core_->end();
  }
  [[nodiscard]] client_metrics metrics() const noexcept {
    return core_ != nullptr ? core_->metrics() : client_metrics();
  }

 private:
  friend class cached_client;
  explicit client(std::shared_ptr<detail::client_core> core) noexcept : core_(std::move(core)) {}

  template <class Command>
  auto run(Command command, std::size_t attempts) {
    return detail::client_core::run<typename Command::result_type>(core_, std::move(command),
                                                                   attempts);
  }

  std::shared_ptr<detail::client_core> core_;
};

}  // namespace gyre::redis
