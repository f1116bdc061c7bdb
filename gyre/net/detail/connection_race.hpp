// SPDX-License-Identifier: Apache-2.0
// connection_race: connects to several addresses; the first that succeeds wins (Happy Eyeballs: RFC
// 8305, Schinazi and Pauly, 2017).
#pragma once

#include <gyre/base/duration.hpp>
#include <gyre/base/move_only_function.hpp>
#include <gyre/exec/event_loop.hpp>
#include <gyre/exec/timer.hpp>
#include <gyre/net/connect_options.hpp>
#include <gyre/net/detail/candidate_list.hpp>
#include <gyre/net/endpoint.hpp>
#include <gyre/net/layer.hpp>
#include <gyre/net/tcp_stream.hpp>

#include <expected>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <system_error>

namespace gyre::net::detail {

/// A connection that is ready for use.
struct opened_connection {
  tcp_stream stream;
  endpoint peer;
  // The layer after its handshake; null without a transport.
  std::unique_ptr<layer> protocol = nullptr;
};

/// Settings of the attempts of a race.
struct attempt_settings {
  connect_options connecting = {};
  /// The delay before the next attempt starts; see race_options::attempt_delay.
  duration delay;
  /// The time limit of connecting to one address. Without a value there is no limit.
  std::optional<duration> time_limit = {};
  /// Makes the layer of each attempt, which includes the handshake; null: no layer. Must outlive
  /// the race.
  const net::transport* transport = nullptr;
  /// The server's name for the layer. If it is empty, the layer gets the address. Must outlive the
  /// race.
  std::string_view host = {};
};

/// Attempts to connect, each started when the previous one has failed or has taken too long. While
/// the handshake of a layer is under way no other attempt starts, because a slow handshake is no
/// reason to make the servers compute another one.
///
/// | event               | waiting for candidates | attempts under way         |
/// |---------------------|------------------------|----------------------------|
/// | a candidate comes   | starts its attempt     | waits for the delay        |
/// | the delay expires   | -                      | starts the next attempt    |
/// | an attempt fails    | -                      | starts the next attempt    |
/// | an attempt succeeds | -                      | the end: closes all others |
/// | no more candidates  | the end                | the end after the last one |
///
/// Used by both interfaces: connect() awaits the end, and tcp_client gets a callback.
///
/// Thread-safety: belongs to the loop's thread.
/// Lifetime: the destructor closes all connections that were not taken.
class connection_race {
 public:
  /// Calls `callback` once at the end, in a turn of the loop; the callback may destroy the race,
  /// and may throw.
  connection_race(event_loop& loop, const attempt_settings& settings,
                  move_only_function<void()> callback) noexcept;
  connection_race(const connection_race&) = delete;
  connection_race& operator=(const connection_race&) = delete;
  ~connection_race();

  /// Adds the candidates that no earlier call has added.
  void add(std::span<const endpoint> candidates) noexcept;
  /// Called when no more candidates will come. `error`: the error of the race if there were none at
  /// all.
  void end_of_candidates(std::error_code error = {}) noexcept;
  /// Whether any candidate was added.
  bool has_candidates() const noexcept { return candidates_.has_known(); }

  /// Returns the connection, or the error of the attempt that failed last. Called after the end.
  std::expected<opened_connection, std::error_code> take_result() noexcept;
  /// Returns the address of the attempt that failed last, if any.
  const endpoint& last_failed_endpoint() const noexcept { return last_failed_endpoint_; }

 private:
  class attempt;

  bool is_over() const noexcept { return !end_callback_; }
  void wake() noexcept;
  void advance();
  void collect_ended() noexcept;
  bool may_start() const noexcept;
  void start_next() noexcept;
  void note_failure(std::error_code error, const endpoint& peer) noexcept;

  event_loop& loop_;
  const attempt_settings settings_;
  move_only_function<void()> end_callback_;  // called once; empty afterwards
  candidate_list candidates_;
  bool is_complete_ = false;     // whether no more candidates will come
  std::list<attempt> attempts_;  // attempts under way, or ended and not collected
  timer step_;                   // calls advance(), at once or after the delay
  std::optional<opened_connection> winner_;
  std::error_code error_;
  endpoint last_failed_endpoint_;
};

}  // namespace gyre::net::detail
