// SPDX-License-Identifier: Apache-2.0
// cron_expression: the times of a schedule, in the notation of crontab(5).
//
//     const gyre::work::cron_expression workdays("30 7 * * mon-fri");
//     auto next = workdays.next(std::chrono::local_days(2026y / 11 / 28));  // a Saturday
//     assert(next == std::chrono::local_days(2026y / 11 / 30) + 7h + 30min);
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

namespace gyre::work {

/// A set of minutes, of five fields: minute (0-59), hour (0-23), day of the month (1-31), month
/// (1-12 or jan-dec) and day of the week (0-7 or sun-sat; 0 and 7 are Sunday). A field is `*`, or a
/// list of numbers and ranges with commas between them; `/n` after `*` or a range takes every n-th.
/// Names and macros may be in any case.
///
/// A day must match the fields of the day of the month and of the week, but one of the two is
/// enough if neither field begins with `*`, as in Vixie's cron.
///
/// The macros are @yearly, @annually, @monthly, @weekly, @daily, @midnight and @hourly. There are
/// no seconds, and not the `L`, `W`, `#` and `?` of other notations.
///
/// Thread-safety: const members may be called from any thread.
/// Errors: the constructor throws std::invalid_argument, which names the field and what is wrong.
class cron_expression {
 public:
  explicit cron_expression(std::string_view text);

  /// Returns the first time after `instant` that belongs to the set, in the same time zone; none if
  /// no day within the next 50 years does, such as the 30th of February.
  ///
  /// Complexity: O(days between); no allocation.
  [[nodiscard]] std::optional<std::chrono::local_seconds> next(
      std::chrono::local_seconds instant) const noexcept;

  friend bool operator==(const cron_expression&, const cron_expression&) = default;

 private:
  [[nodiscard]] bool has_day(std::chrono::local_days day) const noexcept;

  std::uint64_t minutes_ = 0;
  std::uint32_t hours_ = 0;
  std::uint32_t days_ = 0;
  std::uint16_t months_ = 0;
  std::uint8_t weekdays_ = 0;
  bool needs_both_ = true;  // whether the day of the month and of the week must both match
};

}  // namespace gyre::work
