// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/event_stream.hpp>

#include <gyre/base/detail/duration_check.hpp>
#include <gyre/task/sleep.hpp>
#include <gyre/task/stop_token.hpp>
#include <gyre/task/stop_when.hpp>
#include <gyre/task/when_any.hpp>

#include <system_error>
#include <utility>

namespace gyre::http {
namespace {

task<> send_pings(event_writer& events, duration period) {
  for (;;) {
    co_await gyre::sleep_for(period);
    if (events.take_activity()) continue;
    co_await events.comment("");
    events.take_activity();
  }
}

task<> write_events(event_writer& events, move_only_function<task<>(event_writer&)>& write,
                    event_stream_options options) {
  task<> write_task = write(events);
  if (options.keep_alive.count() == 0) {
    co_await std::move(write_task);
    co_return;
  }
  auto first = gyre::when_any(std::move(write_task), send_pings(events, options.keep_alive));
  co_await std::move(first);
}

task<> run_events(body_writer& output, move_only_function<task<>(event_writer&)>& write,
                  event_stream_options options) {
  event_writer events(output);
  const inplace_stop_token stop = output.server_stop_token();
  auto write_task = stop_when(write_events(events, write, options), stop);
  try {
    co_await std::move(write_task);
  } catch (const std::system_error& error) {
    if (!stop.stop_requested() || error.code() != std::errc::operation_canceled) throw;
  }
}

}  // namespace

task<> event_writer::send(const server_sent_event& event) {
  std::string text;
  append_event(text, event);
  return write(std::move(text));
}

task<> event_writer::comment(std::string_view text) {
  std::string lines;
  append_comment(lines, text);
  return write(std::move(lines));
}

bool event_writer::take_activity() noexcept { return std::exchange(has_activity_, false); }

task<> event_writer::write(std::string text) {
  const auto guard = co_await mutex_.lock();
  has_activity_ = true;
  co_await output_->write(text);
}

response event_stream(move_only_function<task<>(event_writer&)> write,
                      event_stream_options options) {
  gyre::detail::require_not_negative(options.keep_alive, "http::event_stream: keep_alive");
  return response::stream("text/event-stream",
                          [write = std::move(write), options](body_writer& output) mutable {
                            return run_events(output, write, options);
                          })
      .set("Cache-Control", "no-cache");
}

std::optional<std::string_view> last_event_id(const request& request) noexcept {
  return request.field("Last-Event-ID");
}

}  // namespace gyre::http
