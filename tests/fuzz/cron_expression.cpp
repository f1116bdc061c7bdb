// SPDX-License-Identifier: Apache-2.0
// Fuzz target: cron expressions. A reference looks at each minute.
#include <tests/fuzz/fuzz.hpp>

#include <gyre/engines/work/cron_expression.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using namespace std::chrono;
using gyre::work::cron_expression;

/// A field's text, and the values that it names.
struct field {
  std::string text;
  std::vector<bool> values = std::vector<bool>(64);
  bool has_star = false;
};

field make_field(gyre::fuzz::decisions& decide, std::size_t lowest, std::size_t highest) {
  field made;
  const std::size_t ranges = 1 + decide.below(3);
  for (std::size_t n = 0; n != ranges; ++n) {
    if (n != 0) made.text += ',';
    std::size_t first = lowest, last = highest, step = 1;
    if (decide.below(3) == 0) {
      made.text += '*';
      if (n == 0) made.has_star = true;
    } else {
      first = lowest + decide.below(highest - lowest + 1);
      last = first + decide.below(highest - first + 1);
      made.text += std::to_string(first);
      if (last != first) made.text += '-' + std::to_string(last);
    }
    if (last != first && decide.flip()) {
      step = 1 + decide.below(70);
      made.text += '/' + std::to_string(step);
    }
    for (std::size_t value = first; value <= last; value += step) made.values[value] = true;
  }
  return made;
}

void try_any_text(const std::string& text) {
  try {
    const cron_expression any(text);
    const local_seconds instant{seconds{1'000'000'007}};
    const auto next = any.next(instant);
    gyre::fuzz::require(!next || (*next > instant && floor<minutes>(*next) == *next));
  } catch (const std::invalid_argument&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  gyre::fuzz::decisions decide(data, size);
  if (decide.flip()) {
    try_any_text(std::string(decide.rest()));
    return 0;
  }
  const std::array<field, 5> fields = {make_field(decide, 0, 59), make_field(decide, 0, 23),
                                       make_field(decide, 1, 31), make_field(decide, 1, 12),
                                       make_field(decide, 0, 7)};
  std::string text;
  for (const field& each : fields) text += each.text + ' ';
  const cron_expression expression(text);

  const auto has = [&](local_seconds instant) {
    const local_days day = floor<days>(instant);
    const year_month_day date(day);
    const auto minute = static_cast<std::size_t>(floor<minutes>(instant - day).count());
    const unsigned weekday_number = weekday(day).c_encoding();
    const bool has_date = fields[2].values[unsigned{date.day()}];
    const bool has_weekday =
        fields[4].values[weekday_number] || (weekday_number == 0 && fields[4].values[7]);
    const bool has_day = fields[2].has_star || fields[4].has_star ? has_date && has_weekday
                                                                  : has_date || has_weekday;
    return has_day && fields[3].values[unsigned{date.month()}] && fields[1].values[minute / 60] &&
           fields[0].values[minute % 60];
  };
  const local_seconds instant{seconds{1'800'000'000} + hours{decide.below(20'000)} +
                              seconds{decide.below(7200)}};
  const auto next = expression.next(instant);
  local_seconds minute = floor<minutes>(instant) + minutes{1};
  const local_seconds end = minute + days{3};
  while (minute < end && !has(minute)) minute += minutes{1};
  if (minute < end) {
    gyre::fuzz::require(next == minute);
  } else {
    gyre::fuzz::require(!next || (*next >= end && has(*next)));
  }
  return 0;
}
