// SPDX-License-Identifier: Apache-2.0
// Server-sent events (text/event-stream): written by servers, read by clients.
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

/// An event. Its texts are UTF-8.
struct server_sent_event {
  std::string_view data = {};   ///< of one line or several
  std::string_view event = {};  ///< its type; to readers of an empty one, "message"
  /// The identifier that a client sends as Last-Event-ID when it connects again.
  std::optional<std::string_view> id = std::nullopt;
  /// How long a client waits before it connects again; sent in whole milliseconds, rounded up.
  std::optional<duration> retry = std::nullopt;
};

/// Adds an event to the text of a stream. Each line end in its data, be it CR LF, CR or LF, begins
/// another line of data. An event without data and type has no line of data: clients take its id
/// and retry, and tell nobody of it.
///
/// Errors: std::invalid_argument, and nothing is added, for a line end in the type or id, a zero
/// byte in the id, and a negative time.
void append_event(std::string& output, const server_sent_event& event);
/// Adds a comment, which clients ignore: it keeps an idle connection open.
void append_comment(std::string& output, std::string_view text);

/// Reads a stream of events that comes in pieces, cut anywhere, as the HTML Standard says: unknown
/// fields and malformed times are ignored, and an event that the end of the stream cuts off is
/// dropped.
///
/// Thread-safety: none; may be handed from thread to thread.
/// Complexity: linear. Copies the data; its memory is reused from event to event.
class server_sent_event_reader {
 public:
  /// `max_size` limits the bytes of an event's data and of the line that follows.
  explicit server_sent_event_reader(std::size_t max_size = 1024 * 1024) noexcept
      : max_size_(max_size) {}

  /// Consumes bytes up to the end of an event, and returns whether one is complete: event(). If
  /// not, all bytes were consumed: call again with the next.
  ///
  /// Errors: format_errc::too_long; the same again in later calls.
  [[nodiscard]] std::expected<bool, std::error_code> next(io::input& piece);

  /// The last event, of which `event` is never empty and `id` is last_event_id(). Its views are
  /// valid until the next call of next().
  [[nodiscard]] const server_sent_event& event() const noexcept { return event_; }
  /// The last identifier that came, also by an event without data; empty if there was none.
  [[nodiscard]] std::string_view last_event_id() const noexcept { return id_; }
  /// The last time to wait that came.
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
  bool after_cr_ = false;        // a LF that follows belongs to the line before
  bool was_dispatched_ = false;  // data_ and type_ are those of event_
  bool is_too_long_ = false;
};

}  // namespace gyre::http
