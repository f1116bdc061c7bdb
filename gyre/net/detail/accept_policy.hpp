// SPDX-License-Identifier: Apache-2.0
// accept_policy: how a listening socket sheds connections and backs off when accept(2) fails
// because descriptors or memory are short. Used by tcp_server and by the listeners of coroutines.
#pragma once

#include <gyre/base/exponential_backoff.hpp>
#include <gyre/base/unique_fd.hpp>

#include <chrono>
#include <cstddef>

namespace gyre::net::detail {

/// Keeps a descriptor in reserve. Without a free descriptor accept(2) fails whether or not a
/// connection waits: trying again at once would only burn the processor, and waiting peers would
/// not learn of the shortage. So the policy accepts the waiting connections with the reserve,
/// closes them, and pauses.
///
/// | state     | accept succeeded | accept failed                             | pause over |
/// |-----------|------------------|-------------------------------------------|------------|
/// | accepting | accepting        | pausing, for the initial pause            | -          |
/// | pausing   | -                | -                                         | retrying   |
/// | retrying  | accepting        | pausing, twice as long, up to the maximum | -          |
///
/// Thread-safety: none; belongs to the loop's thread. The caller runs the timer of the pauses.
class accept_policy {
 public:
  struct pause {
    std::chrono::nanoseconds length;
    std::size_t refused;  ///< connections that were closed
    bool is_first;        ///< whether this is the first pause since accept(2) last succeeded
  };

  static constexpr std::chrono::nanoseconds default_initial_pause = std::chrono::milliseconds{10};
  static constexpr std::chrono::nanoseconds default_max_pause = std::chrono::seconds{1};
  static constexpr std::size_t max_refused_at_once = 64;

  /// Pauses last at least 1 ms, so that accepting cannot spin.
  explicit accept_policy(std::chrono::nanoseconds initial_pause = default_initial_pause,
                         std::chrono::nanoseconds max_pause = default_max_pause) noexcept;

  /// Whether `error` reports a temporary shortage of descriptors or memory.
  static bool is_exhaustion(int error) noexcept;

  /// Begins a pause because accept(2) on `listening_fd` failed with `error`; refuses connections
  /// that wait if descriptors are short.
  pause begin_pause(int listening_fd, int error) noexcept;
  /// Makes the next pause a short one. Called after accept(2) has succeeded.
  void reset() noexcept { pauses_ = 0; }

 private:
  bool refuse_next(int listening_fd, std::size_t& refused_count) noexcept;

  unique_fd reserve_;
  exponential_backoff backoff_;
  std::size_t pauses_ = 0;  // the number of pauses since accept(2) last succeeded
};

}  // namespace gyre::net::detail
