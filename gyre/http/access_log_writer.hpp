// SPDX-License-Identifier: Apache-2.0
// access_log_writer: collects the lines of a server's access log from all its loops, and passes
// them to one function, which needs no lock.
//
//     std::ofstream file("access.log", std::ios::app);
//     gyre::http::access_log_writer log(gyre::io::blocking_pool(), [&](std::string_view lines) {
//       file << lines << std::flush;  // may block; never called twice at the same time
//     });
//     server.on_access(log);
#pragma once

#include <gyre/base/move_only_function.hpp>
#include <gyre/http/access_log.hpp>
#include <gyre/metrics/writable.hpp>
#include <gyre/task/executor.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace gyre::http {

/// Options of an access_log_writer.
struct access_log_writer_options {
  /// Returns a line without its end. The loops call it at the same time.
  std::function<std::string(const access_record& record)> format = to_combined_log;
  /// Maximum of the bytes that wait for the function, at least 1; further lines are dropped. The
  /// lines that the function has got are not counted.
  std::size_t max_pending = std::size_t{4} << 20;
};

/// Counters of an access_log_writer since its construction.
struct access_log_writer_metrics {
  std::uint64_t lines = 0;  ///< lines that were passed to the function, also if it has thrown
  std::uint64_t dropped =
      0;  ///< lines that were dropped, because max_pending or memory was reached
  std::uint64_t failures = 0;  ///< calls of the function that have thrown an exception
};
/// Adds the counts to an exposition: see metrics::registry.
void write_metrics(metrics::exposition& output, const access_log_writer_metrics& counts);

/// A function for server::on_access(). It formats a line on the loop of the connection, and adds
/// the line to the pending text of that loop. The function of the user gets all pending lines
/// together, each with its end of line, in calls that follow each other on `target`: with a busy
/// server many lines in each call. The lines of one loop are in their order.
///
/// Copies share everything. An exception of the function is counted, and its lines are lost.
///
/// Thread-safety: any thread.
/// Lifetime: `target` must outlive the last call. The objects that the function uses must live
/// until flush() has returned after server::stop_async(), or until `target` has run its operations.
/// Errors: the constructor throws std::invalid_argument for an empty function or a limit of 0.
/// Complexity: two short locks, which loops share only by chance, and for each batch of lines an
/// operation on `target` and a coroutine frame.
class access_log_writer {
 public:
  using write_function = move_only_function<void(std::string_view lines)>;

  access_log_writer(executor& target, write_function write, access_log_writer_options options = {});

  /// Adds the line of a record.
  void operator()(const access_record& record) const;
  /// Passes all pending lines to the function, on the calling thread, after a running call has
  /// ended.
  void flush() const;

  [[nodiscard]] access_log_writer_metrics metrics() const noexcept;

 private:
  class core;

  std::shared_ptr<core> core_;
};

}  // namespace gyre::http
