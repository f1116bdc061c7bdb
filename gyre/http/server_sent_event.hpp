// SPDX-License-Identifier: Apache-2.0
// Server-sent events (text/event-stream): written by servers with append_event(), read by clients
// with server_sent_event_reader.
//
//     std::string text;
//     gyre::http::append_event(text, {.data = "{\"price\":7}", .event = "tick", .id = "42"});
//     gyre::io::input piece(text);
//     gyre::http::server_sent_event_reader reader;
//     while (reader.next(piece).value()) show(reader.event().data);
#pragma once

#include <gyre/base/duration.hpp>
#include <gyre/io/input.hpp>

#include <chrono>
#include <cstddef>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

namespace gyre::http {

/// A server-sent event. Its texts are UTF-8.
struct server_sent_event {
  std::string_view data = {};   ///< may have several lines
  std::string_view event = {};  ///< the type; readers replace an empty one by "message"
  /// The identifier that a client sends as Last-Event-ID when it reconnects.
  std::optional<std::string_view> id = std::nullopt;
  /// How long a client waits before it reconnects; sent in whole milliseconds, rounded up.
  std::optional<duration> retry = std::nullopt;
};

/// Appends an event to the text of a stream. Each line end in the data (CR LF, CR or LF) begins
/// another data line. An event without data and type has no data line: clients store its id and
/// retry, but do not dispatch it.
///
/// Errors: std::invalid_argument for a line end in the type or id, a zero byte in the id, and a
/// negative time; nothing is appended then.
void append_event(std::string& output, const server_sent_event& event);
/// Appends a comment, which clients ignore; it can keep an idle connection open.
void append_comment(std::string& output, std::string_view text);

/// Reads a stream of events that is received in pieces, cut anywhere, as the HTML Standard
/// specifies: unknown fields and malformed times are ignored, and an incomplete event at the end of
/// the stream is dropped.
///
/// Thread-safety: none; may be handed from thread to thread.
/// Complexity: linear. Copies the data; its memory is reused from event to event.
class server_sent_event_reader {
 public:
  /// `max_size` limits the bytes of an event's data together with the line being read.
  explicit server_sent_event_reader(std::size_t max_size = 1024 * 1024) noexcept
      : max_size_(max_size) {}

  /// Consumes bytes up to the end of an event, and returns whether event() is complete. If not, all
  /// bytes were consumed: call next() again with further bytes.
  ///
  /// Errors: format_errc::too_long. Later calls return the same error.
  [[nodiscard]] std::expected<bool, std::error_code> next(io::input& piece);

  /// The last event. Its `event` is never empty, and its `id` is last_event_id(). Its views are
  /// valid until the next call of next().
  [[nodiscard]] const server_sent_event& event() const noexcept { return event_; }
  /// The last identifier received, even in an event without data; empty if there was none.
  [[nodiscard]] std::string_view last_event_id() const noexcept { return id_; }
  /// The last reconnection time received; nothing if there was none.
  [[nodiscard]] std::optional<std::chrono::milliseconds> retry() const noexcept { return retry_; }

 private:
  bool read_line();
  void read_field(std::string_view name, std::string_view value);
  bool dispatch();

  std::size_t max_size_;
  std::string line_;
  std::string data_;
  std::string type_;
  std::string pending_id_;
  std::string id_;
  std::optional<std::chrono::milliseconds> retry_;
  std::optional<std::chrono::milliseconds> retry_of_event_;
  server_sent_event event_;
  bool is_first_line_ = true;
  bool is_after_cr_ = false;     // whether a LF that follows belongs to the same line end
  bool was_dispatched_ = false;  // whether data_ and type_ belong to event_ and must be cleared
  bool is_too_long_ = false;
};

}  // namespace gyre::http
