// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/work/cron_expression.hpp>

#include <gyre/base/detail/ascii.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>

namespace gyre::work {
namespace {

constexpr std::size_t max_length = 1000;

constexpr std::array<std::string_view, 12> month_names = {"jan", "feb", "mar", "apr", "may", "jun",
                                                          "jul", "aug", "sep", "oct", "nov", "dec"};
constexpr std::array<std::string_view, 7> weekday_names = {"sun", "mon", "tue", "wed",
                                                           "thu", "fri", "sat"};

struct field {
  const char* name;
  unsigned lowest;
  unsigned highest;
  std::span<const std::string_view> names;  // names of the values, beginning with `lowest`
};

constexpr std::array<field, 5> fields = {{{"minute", 0, 59, {}},
                                          {"hour", 0, 23, {}},
                                          {"day of the month", 1, 31, {}},
                                          {"month", 1, 12, month_names},
                                          {"day of the week", 0, 7, weekday_names}}};

constexpr std::array<std::pair<std::string_view, std::string_view>, 7> macros = {{
    {"@yearly", "0 0 1 1 *"},
    {"@annually", "0 0 1 1 *"},
    {"@monthly", "0 0 1 * *"},
    {"@weekly", "0 0 * * 0"},
    {"@daily", "0 0 * * *"},
    {"@midnight", "0 0 * * *"},
    {"@hourly", "0 * * * *"},
}};

[[noreturn]] void refuse(std::string_view text, const std::string& reason) {
  throw std::invalid_argument("cron_expression: \"" +
                              std::string(text.substr(0, std::min(text.size(), max_length))) +
                              "\": " + reason);
}

class field_reader {
 public:
  field_reader(std::string_view expression, std::string_view text, const field& range)
      : expression_(expression), text_(text), range_(range) {}

  std::uint64_t read() const {
    std::uint64_t values = 0;
    std::string_view rest = text_;
    while (true) {
      const std::size_t comma = rest.find(',');
      values |= read_range(rest.substr(0, comma));
      if (comma == std::string_view::npos) return values;
      rest.remove_prefix(comma + 1);
    }
  }

 private:
  std::uint64_t read_range(std::string_view text) const {
    unsigned step = 1;
    const std::size_t slash = text.find('/');
    if (slash != std::string_view::npos) {
      step = read_number(text.substr(slash + 1));
      text = text.substr(0, slash);
      if (step == 0) fail("a step of 0");
    }
    unsigned first = range_.lowest;
    unsigned last = range_.highest;
    if (text != "*") {
      const std::size_t dash = text.find('-');
      first = read_value(text.substr(0, dash));
      if (dash != std::string_view::npos) {
        last = read_value(text.substr(dash + 1));
      } else if (slash == std::string_view::npos) {
        last = first;
      } else {
        fail("a step after a single value: write a range before it");
      }
      if (last < first) fail("a range that ends before it begins");
    }
    std::uint64_t values = 0;
    for (unsigned value = first; value <= last; value += std::min(step, 64U)) {
      values |= std::uint64_t{1} << value;
    }
    return values;
  }

  unsigned read_value(std::string_view text) const {
    for (std::size_t n = 0; n != range_.names.size(); ++n) {
      if (gyre::detail::equals_ignoring_case(text, range_.names[n])) {
        return range_.lowest + static_cast<unsigned>(n);
      }
    }
    const unsigned value = read_number(text);
    if (value < range_.lowest || value > range_.highest) {
      fail("a value out of " + std::to_string(range_.lowest) + " to " +
           std::to_string(range_.highest));
    }
    return value;
  }

  unsigned read_number(std::string_view text) const {
    unsigned number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (text.empty() || error != std::errc() || end != text.data() + text.size()) {
      std::string reason = "\"";
      fail(reason.append(text.substr(0, 20)).append("\" is not a number"));
    }
    return number;
  }

  [[noreturn]] void fail(const std::string& reason) const {
    refuse(expression_, "the " + std::string(range_.name) + ": " + reason);
  }

  std::string_view expression_;
  std::string_view text_;
  const field& range_;
};

std::array<std::string_view, 5> split_fields(std::string_view expression, std::string_view text) {
  constexpr std::string_view blanks = " \t";
  std::array<std::string_view, 5> parts;
  for (std::string_view& part : parts) {
    text.remove_prefix(std::min(text.find_first_not_of(blanks), text.size()));
    part = text.substr(0, text.find_first_of(blanks));
    text.remove_prefix(part.size());
    if (part.empty()) refuse(expression, "five fields are needed, or a macro such as @daily");
  }
  if (text.find_first_not_of(blanks) != std::string_view::npos) {
    refuse(expression, "more than five fields: there is none for seconds or years");
  }
  return parts;
}

template <class Bits>
bool has_bit(Bits bits, unsigned index) {
  return (std::uint64_t{bits} >> index & 1) != 0;
}

}  // namespace

cron_expression::cron_expression(std::string_view text) {
  if (text.size() > max_length) refuse(text, "longer than 1000 characters");
  std::string_view fields_text = text;
  for (const auto& [name, meaning] : macros) {
    if (gyre::detail::equals_ignoring_case(text, name)) fields_text = meaning;
  }
  const std::array<std::string_view, 5> parts = split_fields(text, fields_text);
  const auto parse_field = [&](std::size_t index) {
    return field_reader(text, parts[index], fields[index]).read();
  };
  minutes_ = parse_field(0);
  hours_ = static_cast<std::uint32_t>(parse_field(1));
  days_ = static_cast<std::uint32_t>(parse_field(2));
  months_ = static_cast<std::uint16_t>(parse_field(3));
  const std::uint64_t weekdays = parse_field(4);
  // In a cron expression, 0 and 7 both mean Sunday.
  weekdays_ = static_cast<std::uint8_t>((weekdays | weekdays >> 7) & 0x7f);
  needs_both_ = parts[2].starts_with('*') || parts[4].starts_with('*');
}

std::optional<std::chrono::local_seconds> cron_expression::next(
    std::chrono::local_seconds instant) const noexcept {
  using namespace std::chrono;
  constexpr days search_limit{50 * 366};
  const local_days first_day = floor<days>(instant);
  auto minute_of_day = static_cast<unsigned>(floor<minutes>(instant - first_day).count()) + 1;
  for (local_days day = first_day; day - first_day <= search_limit;
       day += days{1}, minute_of_day = 0) {
    if (!has_day(day)) continue;
    for (unsigned hour = minute_of_day / 60; hour < 24; ++hour) {
      if (!has_bit(hours_, hour)) continue;
      const unsigned begin = hour == minute_of_day / 60 ? minute_of_day % 60 : 0;
      const std::uint64_t rest = minutes_ >> begin;
      if (rest == 0) continue;
      const unsigned minute = begin + static_cast<unsigned>(std::countr_zero(rest));
      return day + hours{hour} + minutes{minute};
    }
  }
  return std::nullopt;
}

bool cron_expression::has_day(std::chrono::local_days day) const noexcept {
  const std::chrono::year_month_day date(day);
  if (!has_bit(months_, static_cast<unsigned>(date.month()))) return false;
  const bool has_date = has_bit(days_, static_cast<unsigned>(date.day()));
  const bool has_weekday = has_bit(weekdays_, std::chrono::weekday(day).c_encoding());
  return needs_both_ ? has_date && has_weekday : has_date || has_weekday;
}

}  // namespace gyre::work
