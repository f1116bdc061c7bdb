// SPDX-License-Identifier: Apache-2.0
// accept_policy: how a listening socket sheds connections and backs off when accept(2) fails for
// want of descriptors or memory. tcp_server and the listeners of coroutines share it.
#pragma once

#include <gyre/base/exponential_backoff.hpp>
#include <gyre/base/unique_fd.hpp>

#include <chrono>
#include <cstddef>

namespace gyre::net::detail {

/// Keeps a descriptor in reserve. Without a free descriptor accept(2) fails whether or not a
/// connection waits, so to try again at once would only burn the processor, and the peers that wait
/// would not learn of it: they are accepted with the reserve and closed, and accepting pauses.
///
/// | state     | accept succeeded | accept failed                             | pause over |
/// |-----------|------------------|-------------------------------------------|------------|
/// | accepting | accepting        | pausing, for the shortest pause           | -          |
/// | pausing   | -                | -                                         | retrying   |
/// | retrying  | accepting        | pausing, twice as long, up to the longest | -          |
///
/// Thread-safety: none; belongs to the loop's thread. The caller has the timer.
class accept_policy {
 public:
  struct pause {
    std::chrono::nanoseconds length;
    std::size_t refused;  ///< connections that were closed
    bool first;           ///< accepting has not paused since it last succeeded
  };

  static constexpr std::chrono::nanoseconds default_shortest = std::chrono::milliseconds{10};
  static constexpr std::chrono::nanoseconds default_longest = std::chrono::seconds{1};
  static constexpr std::size_t max_refused_at_once = 64;

  /// Pauses last at least 1 ms: without any, accepting would spin.
  explicit accept_policy(std::chrono::nanoseconds shortest = default_shortest,
                         std::chrono::nanoseconds longest = default_longest) noexcept;

  /// Whether `error` is a lack of descriptors or memory, which passes.
  static bool is_exhaustion(int error) noexcept;

  /// Begins a pause because accept(2) on `listening_fd` failed with `error`; refuses connections
  /// that wait if descriptors are short.
  pause begin_pause(int listening_fd, int error) noexcept;
  /// Notes that accept(2) succeeded: the next pause is a short one.
  void reset() noexcept { pauses_ = 0; }

 private:
  bool refuse_one(int listening_fd, std::size_t& refused) noexcept;

  unique_fd reserve_;
  exponential_backoff backoff_;
  std::size_t pauses_ = 0;  // in a row
};

}  // namespace gyre::net::detail
