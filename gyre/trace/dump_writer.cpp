// SPDX-License-Identifier: Apache-2.0
#include <gyre/trace/dump_writer.hpp>

#include <gyre/base/detail/duration_check.hpp>
#include <gyre/base/detail/log.hpp>
#include <gyre/base/detail/replace_file.hpp>
#include <gyre/base/detail/ticks.hpp>
#include <gyre/trace/detail/event.hpp>
#include <gyre/trace/detail/event_limits.hpp>
#include <gyre/trace/detail/function_names.hpp>
#include <gyre/trace/detail/json_report.hpp>
#include <gyre/trace/detail/slow_event_mailbox.hpp>
#include <gyre/trace/detail/snapshot.hpp>
#include <gyre/trace/detail/text_report.hpp>

#include <atomic>
#include <exception>
#include <new>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

namespace gyre::trace {
namespace {

using detail::slow_event_mailbox;

constexpr std::chrono::milliseconds min_limit{1};
constexpr std::size_t min_file_bytes = std::size_t{64} << 10;

void print(const slow_dump& dump) {
  if (dump.error) {
    gyre::detail::log(log_level::error, "gyre: ", dump.cause,
                      "; the trace could not be written to ", dump.path, ": ",
                      dump.error.message());
  } else {
    gyre::detail::log(log_level::info, "gyre: ", dump.cause, "; the trace is in ", dump.path);
  }
}

dump_writer_options validate(dump_writer_options settings) {
  const auto refuse = [](const char* problem) {
    throw std::invalid_argument(std::string("gyre::trace::dump_writer: ") + problem);
  };
  if (settings.folder.empty()) refuse("a folder is needed");
  if (settings.max_request < min_limit) refuse("max_request must be at least 1 ms");
  if (settings.max_span < min_limit) refuse("max_span must be at least 1 ms");
  if (settings.max_files == 0) refuse("max_files must be at least 1");
  if (settings.max_file_bytes < min_file_bytes) refuse("max_file_bytes must be at least 64 KiB");
  gyre::detail::require_not_negative(settings.min_interval,
                                     "gyre::trace::dump_writer: min_interval");
  gyre::detail::require_positive(settings.last, "gyre::trace::dump_writer: last");
  if (!settings.on_dump) settings.on_dump = &print;
  return settings;
}

// Returns the events as JSON, without the oldest ones if they are too many; nothing if even the
// latest millisecond has too many.
std::optional<std::string> make_json(std::size_t max_bytes, detail::snapshot records,
                                     duration period, detail::function_names& names) {
  for (;;) {
    std::string json = detail::report_as_json(records, names);
    if (json.size() <= max_bytes) return json;
    if (period < min_limit) return std::nullopt;
    period = period / 2;
    for (detail::thread_snapshot& thread : records.threads) {
      std::erase_if(thread.events, [&](const detail::timed_event& event) {
        return records.time - event.end() > period;
      });
    }
  }
}

}  // namespace

/// The options and counts of a writer, and the work of its thread.
class dump_writer::core {
 public:
  explicit core(options settings) : options_(validate(std::move(settings))) {
    if (!slow_event_mailbox::instance().acquire()) {
      throw std::logic_error("gyre::trace::dump_writer: another one exists");
    }
    detail::set_event_limits(options_.max_span, options_.max_request);
  }
  core& operator=(core&&) = delete;
  ~core() {
    detail::set_event_limits(duration::max(), duration::max());
    slow_event_mailbox::instance().release();
  }

  void run() {
    slow_event_mailbox& mailbox = slow_event_mailbox::instance();
    while (const std::optional<detail::event> slow_event = mailbox.wait()) {
      try {
        write(*slow_event);
      } catch (const std::bad_alloc&) {
        finish({.cause = "a request or span took too long",
                .path = options_.folder,
                .error = std::make_error_code(std::errc::not_enough_memory)});
      }
      mailbox.reopen_after(options_.min_interval);
    }
  }

  [[nodiscard]] std::uint64_t written() const noexcept {
    return written_dumps_.load(std::memory_order_relaxed);
  }

 private:
  void write(const detail::event& slow_event) {
    detail::function_names names;
    const std::string cause =
        detail::describe_activity(slow_event.kind, slow_event.object, names) + " took " +
        detail::describe_duration(
            gyre::detail::measured_tick_rate().to_duration(slow_event.length));
    const std::string path = next_path();
    const auto json = make_json(options_.max_file_bytes, detail::snapshot::take(options_.last),
                                options_.last, names);
    const std::error_code error =
        json ? std::error_code(gyre::detail::replace_file(path, *json), std::system_category())
             : std::make_error_code(std::errc::file_too_large);
    finish({.cause = cause, .path = path, .error = error});
  }

  void finish(const slow_dump& dump) {
    written_dumps_.fetch_add(1, std::memory_order_relaxed);
    options_.on_dump(dump);
  }

  // Returns the first name without a file, or that of the oldest file.
  [[nodiscard]] std::string next_path() const {
    std::string oldest_path;
    std::optional<std::chrono::system_clock::time_point> oldest_time;
    for (std::size_t number = 0; number < options_.max_files; ++number) {
      std::string path = options_.folder + "/gyre-trace-" + std::to_string(number) + ".json";
      const auto time = gyre::detail::last_write_time(path.c_str());
      if (!time) return path;
      if (oldest_time && *time >= *oldest_time) continue;
      oldest_time = time;
      oldest_path = std::move(path);
    }
    return oldest_path;
  }

  options options_;
  std::atomic<std::uint64_t> written_dumps_{0};
};

dump_writer::dump_writer(options settings)
    : core_(std::make_unique<core>(std::move(settings))),
      thread_("trace dumps", {}, [this] { core_->run(); }) {}

dump_writer::~dump_writer() {
  slow_event_mailbox::instance().stop();
  thread_.join();
}

std::uint64_t dump_writer::written() const noexcept { return core_->written(); }
std::uint64_t dump_writer::skipped() const noexcept {
  return slow_event_mailbox::instance().skipped();
}

}  // namespace gyre::trace
