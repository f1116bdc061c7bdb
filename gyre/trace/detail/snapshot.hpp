// SPDX-License-Identifier: Apache-2.0
// snapshot: a copy of the records of all threads, with their times as steady_time.
#pragma once

#include <gyre/base/clock.hpp>
#include <gyre/base/duration.hpp>
#include <gyre/trace/detail/event.hpp>

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace gyre::trace::detail {

/// An event whose times are known.
struct timed_event {
  steady_time begin{};
  std::chrono::nanoseconds length{0};
  event_kind kind = event_kind::none;
  std::uint64_t object = 0;
  std::uint64_t value = 0;

  [[nodiscard]] steady_time end() const noexcept { return begin + length; }
};

/// The events of one thread.
struct thread_snapshot {
  ::pid_t thread = 0;
  std::string name;
  bool has_ended = false;
  std::optional<timed_event> activity;  ///< the function or handler that the thread runs
  std::vector<timed_event> events;      ///< in the order of their beginnings
};

/// The records of all threads at one moment.
struct snapshot {
  ::pid_t process = 0;
  std::string name;  ///< the name of the process
  steady_time time{};
  std::vector<thread_snapshot> threads;

  /// Takes the events that ended at most `last` ago. Throws std::bad_alloc.
  static snapshot take(duration last);
};

}  // namespace gyre::trace::detail
