// SPDX-License-Identifier: Apache-2.0
// session: a connection to Redis of one's own, for commands that wait in the server or change the
// state of their connection.
//
//     gyre::redis::session session = co_await cache.open_session();
//     auto job = co_await session.call<std::optional<std::pair<std::string, std::string>>>(
//         "BLPOP", "jobs", 30);  // waits for up to 30 seconds
#pragma once

#include <gyre/engines/redis/argument_traits.hpp>
#include <gyre/engines/redis/command.hpp>
#include <gyre/engines/redis/detail/client_core.hpp>
#include <gyre/engines/redis/reply.hpp>
#include <gyre/engines/redis/script.hpp>
#include <gyre/task/task.hpp>

#include <memory>
#include <string_view>
#include <utility>

namespace gyre::redis {

/// A connection of its own, opened by client::open_session(). It takes also commands that wait
/// (BLPOP, XREAD with BLOCK, WAIT), and commands whose effect belongs to the connection (SELECT,
/// WATCH, MULTI). Calls are carried out one after the other.
///
/// The session ends with its connection: the server has then forgotten what WATCH and MULTI have
/// begun, so that no call connects again. Further calls fail with the error of the first one that
/// was lost; open another session. A call that is stopped while its command is under way ends the
/// session, too, because the server might wait much longer.
///
/// The reply to a command that waits has no time limit of client_options: give the command a limit
/// of its own, and use with_timeout() to notice a network that is gone.
///
/// A session sends nothing but the program's commands, and no PING, which would become a part of a
/// transaction after MULTI. If the network breaks while a session is idle, the next call fails with
/// errc::no_reply, unless the keepalive probes of TCP, with the system's times, notice it earlier.
/// A server whose configuration has a `timeout` ends sessions that are idle for longer.
///
/// Thread-safety: the loop's thread.
/// Lifetime: may outlive the client; the loop must outlive it. The destructor is close().
/// Errors, Complexity: as client.
class session {
 public:
  /// Makes a session that has ended.
  session() noexcept = default;
  session(session&&) noexcept = default;
  session& operator=(session&& other) noexcept {
    session replacement(std::move(other));
    std::swap(core_, replacement.core_);
    std::swap(slot_, replacement.slot_);
    return *this;
  }
  ~session() { close(); }

  /// Sends a command as client::call() does.
  template <class Result = reply, command_argument... Arguments>
  [[nodiscard]] task<Result> call(std::string_view name, Arguments&&... arguments) {
    return detail::client_core::run<Result>(
        core_, command<Result>(name, std::forward<Arguments>(arguments)...), 1);
  }
  /// Carries out a script as client::evaluate() does.
  template <class Result = reply, command_argument Keys, command_argument... Arguments>
  [[nodiscard]] task<Result> evaluate(const script& code, Keys&& keys, Arguments&&... arguments) {
    return detail::client_core::evaluate<Result>(core_, code, std::forward<Keys>(keys),
                                                 std::forward<Arguments>(arguments)...);
  }
  /// Sends a transaction as client::transaction() does. After WATCH it fails with
  /// errc::transaction_aborted, and has no effect, if a watched key has changed.
  template <class... Commands>
    requires(sizeof...(Commands) > 0)
  [[nodiscard]] auto transaction(Commands... commands) {
    return detail::client_core::transact(core_, std::move(commands)...);
  }

  /// Whether the connection has not ended, as far as this end knows.
  [[nodiscard]] bool is_open() const noexcept { return core_ != nullptr && core_->is_ready(); }
  /// Ends running and waiting calls with io::errc::closed, and closes the connection. Idempotent.
  void close() noexcept {
    if (core_ != nullptr) core_->end();
    slot_ = {};
  }

 private:
  friend detail::client_core;
  session(std::shared_ptr<detail::client_core> core, detail::session_slot slot) noexcept
      : core_(std::move(core)), slot_(std::move(slot)) {}

  std::shared_ptr<detail::client_core> core_;
  detail::session_slot slot_;
};

}  // namespace gyre::redis
