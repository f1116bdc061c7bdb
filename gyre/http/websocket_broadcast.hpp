// SPDX-License-Identifier: Apache-2.0
// websocket_broadcast: sends each message to many WebSockets, encoded once.
//
//     gyre::http::websocket_broadcast news;
//
//     gyre::task<> follow(gyre::http::websocket& socket) {
//       auto ending = gyre::when_any(drop_messages(socket), news.forward_to(socket));
//       co_await std::move(ending);
//     }
//
//     news.send_text("score 3:1");  // on any thread
#pragma once

#include <gyre/http/prepared_message.hpp>
#include <gyre/http/websocket.hpp>
#include <gyre/http/websocket_options.hpp>
#include <gyre/metrics/writable.hpp>
#include <gyre/task/task.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

namespace gyre::http {

namespace detail {
class broadcast_target;
class websocket_broadcast_core;
class websocket_driver;
}  // namespace detail

/// The fate of a subscriber that is slower than the messages.
enum class slow_subscriber : std::uint8_t {
  disconnected,    ///< its socket is closed with close_code::policy_violation
  loses_messages,  ///< it does not get the messages that were overwritten
};

/// Options of a websocket_broadcast.
struct websocket_broadcast_options {
  /// Number of the newest messages that are kept, for all subscribers together; at least 1.
  std::size_t capacity = 64;
  slow_subscriber policy = slow_subscriber::disconnected;
  /// How messages are compressed, if that is enabled: see prepared_message.
  websocket_compression compression = {};
};

/// Counters of a websocket_broadcast: the present subscribers, and totals.
struct websocket_broadcast_metrics {
  std::size_t subscribers = 0;
  std::uint64_t messages = 0;      ///< messages that the program has sent
  std::uint64_t deliveries = 0;    ///< messages passed to the connections of subscribers
  std::uint64_t lost = 0;          ///< messages that slow subscribers have lost
  std::uint64_t disconnected = 0;  ///< slow subscribers that were disconnected
};
/// Adds the counts to an exposition: see metrics::registry.
void write_metrics(metrics::exposition& output, const websocket_broadcast_metrics& counts);

/// Sends messages to all its subscribers. Sending never waits, and holds `capacity` messages: a
/// subscriber whose peer does not read them in time is slow.
///
/// Thread-safety: any thread, but forward_to() belongs to the loop of its socket.
/// Lifetime: the destructor calls close(). Tasks of forward_to() may outlive the broadcast.
/// Errors: sends throw std::system_error with channel_errc::closed after close(), and what the
/// functions of prepared_message throw.
/// Complexity: a message is encoded and allocated once; a send is O(waiting subscribers).
class websocket_broadcast {
 public:
  /// Throws std::invalid_argument for compression options out of range.
  explicit websocket_broadcast(websocket_broadcast_options options = {});
  websocket_broadcast(const websocket_broadcast&) = delete;
  websocket_broadcast& operator=(const websocket_broadcast&) = delete;
  ~websocket_broadcast();

  /// Sends a text to all subscribers.
  void send_text(std::string_view text);
  /// Sends a message of bytes to all subscribers.
  void send_binary(std::span<const std::byte> bytes);
  /// Sends an encoded message to all subscribers.
  void send(prepared_message message);

  /// Subscribes `socket`, and sends it the messages that follow the call. Ends when the broadcast
  /// is closed, the subscriber is disconnected, or a message comes after the socket was closed.
  /// Another coroutine must receive from the socket, which must outlive the task.
  /// Errors: those of websocket::send(), except for websocket_errc::closed.
  [[nodiscard]] task<> forward_to(websocket& socket);

  /// Ends all forward_to() after the messages that were sent. Idempotent.
  void close() noexcept;
  [[nodiscard]] websocket_broadcast_metrics metrics() const noexcept;

 private:
  friend detail::websocket_driver;
  task<> forward_to(std::shared_ptr<detail::broadcast_target> target);

  std::shared_ptr<detail::websocket_broadcast_core> core_;
};

}  // namespace gyre::http
