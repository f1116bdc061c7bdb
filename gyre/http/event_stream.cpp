// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/event_stream.hpp>

#include <gyre/task/sleep.hpp>
#include <gyre/task/when_any.hpp>

#include <stdexcept>
#include <utility>

namespace gyre::http {
namespace {

// Adds each line of the text behind `prefix`. Lines end with CR, LF or CR LF, as clients read them.
void append_lines(std::string& to, std::string_view prefix, std::string_view text) {
  for (;;) {
    const std::size_t end = text.find_first_of("\r\n");
    to += prefix;
    to += text.substr(0, end);
    to += '\n';
    if (end == std::string_view::npos) return;
    text.remove_prefix(end + (text.substr(end).starts_with("\r\n") ? 2 : 1));
  }
}

void append_field(std::string& to, std::string_view name, std::string_view line) {
  if (line.find_first_of(std::string_view("\r\n\0", 3)) != std::string_view::npos) {
    throw std::invalid_argument("http::event_writer: " + std::string(name) +
                                " with a line end or a zero byte");
  }
  to += name;
  to += ": ";
  to += line;
  to += '\n';
}

std::string to_text(const stream_event& event) {
  std::string text;
  if (!event.type.empty()) append_field(text, "event", event.type);
  if (event.id) append_field(text, "id", *event.id);
  if (event.retry) {
    if (event.retry->count() < 0) {
      throw std::invalid_argument("http::event_writer: a negative time of retry");
    }
    append_field(text, "retry", std::to_string(event.retry->count()));
  }
  append_lines(text, "data: ", event.data);
  text += '\n';
  return text;
}

task<> send_pings(event_writer& events, std::chrono::nanoseconds period) {
  for (;;) {
    co_await gyre::sleep_for(period);
    if (events.take_activity()) continue;
    co_await events.comment("");
    events.take_activity();
  }
}

task<> run_events(body_writer& out, move_only_function<task<>(event_writer&)>& write,
                  event_stream_options options) {
  event_writer events(out);
  task<> writing = write(events);
  if (options.keep_alive.count() == 0) {
    co_await std::move(writing);
    co_return;
  }
  auto first = gyre::when_any(std::move(writing), send_pings(events, options.keep_alive));
  co_await std::move(first);
}

}  // namespace

task<> event_writer::send(const stream_event& event) { return write(to_text(event)); }

task<> event_writer::comment(std::string_view text) {
  std::string lines;
  append_lines(lines, ": ", text);
  lines += '\n';
  return write(std::move(lines));
}

bool event_writer::take_activity() noexcept { return std::exchange(active_, false); }

task<> event_writer::write(std::string text) {
  const auto guard = co_await mutex_.lock();
  active_ = true;
  co_await out_->write(text);
}

response event_stream(move_only_function<task<>(event_writer&)> write,
                      event_stream_options options) {
  if (options.keep_alive.count() < 0) {
    throw std::invalid_argument("http::event_stream: a negative keep_alive");
  }
  return response::stream("text/event-stream",
                          [write = std::move(write), options](body_writer& out) mutable {
                            return run_events(out, write, options);
                          })
      .set("Cache-Control", "no-cache");
}

std::optional<std::string_view> last_event_id(const request& from) noexcept {
  return from.field("Last-Event-ID");
}

}  // namespace gyre::http
