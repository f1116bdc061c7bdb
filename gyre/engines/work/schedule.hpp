// SPDX-License-Identifier: Apache-2.0
// schedule: a job that is submitted again and again.
#pragma once

#include <gyre/base/duration.hpp>

#include <cstdint>
#include <optional>
#include <string_view>

namespace gyre::work {

/// Submits a job at each time of a cron_expression. All workers share the schedules; each time
/// leads to exactly one job, even if workers die. The times that passed while no worker ran lead to
/// one job together. The precision is a second or two.
///
/// Lifetime: texts must outlive the call that takes them.
struct schedule {
  std::string_view kind;
  std::string_view payload = {};
  /// A text as cron_expression reads it.
  std::string_view cron;
  /// A name of the server's time zones. A time that the clocks skip comes later that day; while
  /// they repeat an hour, its times come once.
  std::string_view zone = "UTC";
  std::int16_t priority = 0;
  std::int32_t max_attempts = 20;
  std::optional<duration> time_limit = std::nullopt;
};

}  // namespace gyre::work
