// SPDX-License-Identifier: Apache-2.0
// event_stream: a response that sends server-sent events, for EventSource of browsers.
//
//     gyre::task<> send_ticks(gyre::http::event_writer& events, int tick) {
//       for (;; ++tick) {
//         const std::string number = std::to_string(tick);
//         co_await events.send({.data = number, .id = number});
//         co_await gyre::sleep_for(1s);
//       }
//     }
//
//     server.get("/ticks", [](gyre::http::request& request) {
//       const int first = first_tick(request);
//       return gyre::http::event_stream(
//           [first](gyre::http::event_writer& events) { return send_ticks(events, first); });
//     });
#pragma once

#include <gyre/base/duration.hpp>
#include <gyre/base/move_only_function.hpp>
#include <gyre/http/request.hpp>
#include <gyre/http/response.hpp>
#include <gyre/http/server_sent_event.hpp>
#include <gyre/sync/mutex.hpp>
#include <gyre/task/task.hpp>

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace gyre::http {

/// Sends events to one client.
///
/// Thread-safety: the connection's loop; several coroutines on it may write at the same time.
/// Lifetime: valid until the function to which it was passed has ended. Each call copies its texts.
/// Errors: the call throws what append_event() throws; awaiting it throws std::system_error with
/// io::errc::closed once the client has disconnected.
/// Complexity: a write waits while the client does not read, like body_writer::write().
class event_writer {
 public:
  explicit event_writer(body_writer& output) noexcept : output_(&output) {}
  event_writer(const event_writer&) = delete;
  event_writer& operator=(const event_writer&) = delete;

  [[nodiscard]] task<> send(const server_sent_event& event);
  /// Sends an event of the type "message".
  [[nodiscard]] task<> send(std::string_view data) { return send(server_sent_event{.data = data}); }
  /// Sends the text as comment lines, which clients ignore.
  [[nodiscard]] task<> comment(std::string_view text);

  /// Returns whether something was written since the last call. Used by event_stream().
  bool take_activity() noexcept;

 private:
  task<> write(std::string text);

  body_writer* output_;
  mutex mutex_;
  bool has_activity_ = false;
};

/// Options of an event_stream().
struct event_stream_options {
  /// The interval of keep-alive comments; zero disables them. After an interval without events, or
  /// at most two, a comment is sent, so that proxies do not close the connection as idle and a lost
  /// client is noticed.
  duration keep_alive = std::chrono::seconds{15};
};

/// Returns a response that `write` fills with events until it ends. The client then connects again,
/// unless it receives 204. A stop of `write` is requested when the client disconnects, and when the
/// server's stop() begins; in the second case the stream is ended properly once `write` has ended.
///
/// Errors: std::invalid_argument for a negative keep_alive. An exception of `write` is handled as
/// in response::stream().
[[nodiscard]] response event_stream(move_only_function<task<>(event_writer&)> write,
                                    event_stream_options options = {});

/// Returns the id of the last event that a reconnecting client has received, if it sends one.
[[nodiscard]] std::optional<std::string_view> last_event_id(const request& request) noexcept;

}  // namespace gyre::http
