// SPDX-License-Identifier: Apache-2.0
// dump_writer: writes what the flight recorder has kept into a file when a request or a span has
// taken too long.
//
//     gyre::trace::dump_writer writer({.folder = "/var/lib/shop", .max_request = 500ms});
#pragma once

#include <gyre/base/detail/named_thread.hpp>
#include <gyre/base/duration.hpp>
#include <gyre/base/move_only_function.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>

namespace gyre::trace {

/// A dump that a dump_writer has written, or could not write.
struct slow_dump {
  /// The reason, such as "request GET /report took 812 ms". Valid during the call, as is `path`.
  std::string_view cause;
  std::string_view path;
  std::error_code error;  ///< std::errc::file_too_large: not even a short dump had room
};

/// Settings of a dump_writer.
struct dump_writer_options {
  /// The folder of the files, which must exist: gyre-trace-0.json, gyre-trace-1.json and so on. The
  /// files name functions, routes and hosts, so only the user of the program can read them (mode
  /// 0600).
  std::string folder;
  /// The longest time of a request of an HTTP server, and of a span, that is not reported: at least
  /// 1 ms. `max()`: no limit.
  duration max_request = duration::max();
  duration max_span = duration::max();
  /// The number of files, at least 1: a further dump replaces the oldest one.
  std::size_t max_files = 10;
  /// The size of a file, at least 64 KiB. A dump with more events lacks the oldest of them.
  std::size_t max_file_bytes = std::size_t{16} << 20;
  /// The time from a dump until the next one may be written; slow requests and spans are only
  /// counted meanwhile.
  duration min_interval = std::chrono::minutes{1};
  /// How far back a dump goes.
  duration last = std::chrono::seconds{30};
  /// Called on the writer's thread after each dump; must not throw. If empty, the writer prints a
  /// line to stderr.
  move_only_function<void(const slow_dump&)> on_dump = {};
};

/// Writes a dump_json() shortly after a request or a span has ended that took longer than its
/// limit, so that the reason is on the disk before somebody asks. One writer exists at a time.
///
/// Thread-safety: every member may be called from any thread.
/// Errors: the constructor throws std::invalid_argument for options out of their ranges,
/// std::logic_error if another writer exists, std::system_error (EAGAIN) for too many threads.
/// Complexity: a thread that sleeps. Recording costs no more, except that of events of at least
/// 1 ms, by two comparisons. A dump takes milliseconds of the writer's thread.
class dump_writer {
 public:
  using options = dump_writer_options;

  explicit dump_writer(options settings);
  dump_writer& operator=(dump_writer&&) = delete;
  /// Waits for a dump that is being written.
  ~dump_writer();

  /// Returns the number of dumps that were written, including those that failed.
  [[nodiscard]] std::uint64_t written() const noexcept;
  /// Returns the number of slow requests and spans that came too soon after a dump.
  [[nodiscard]] std::uint64_t skipped() const noexcept;

 private:
  class core;

  std::unique_ptr<core> core_;
  gyre::detail::named_thread thread_;
};

}  // namespace gyre::trace
