// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/date.hpp>

#include <gyre/base/detail/parse_decimal.hpp>
#include <gyre/base/detail/system_clocks.hpp>
#include <gyre/http/detail/characters.hpp>

#include <algorithm>
#include <array>
#include <cstring>

namespace gyre::http {
namespace {

using std::chrono::days;
using std::chrono::sys_days;
using std::chrono::sys_seconds;
using std::chrono::weekday;
using std::chrono::year;
using std::chrono::year_month_day;

constexpr std::array<std::string_view, 7> day_names{"Sunday",   "Monday", "Tuesday", "Wednesday",
                                                    "Thursday", "Friday", "Saturday"};
constexpr std::string_view month_names = "JanFebMarAprMayJunJulAugSepOctNovDec";

// Reads a date from left to right; after the first error, is_done() stays false.
class reader {
 public:
  explicit reader(std::string_view text) noexcept : rest_(text) {}

  bool skip(std::string_view text) noexcept {
    if (!rest_.starts_with(text)) return fail();
    rest_.remove_prefix(text.size());
    return true;
  }
  unsigned read_number(std::size_t digits) noexcept {
    if (rest_.size() < digits) return fail();
    const auto value = gyre::detail::parse_decimal<unsigned>(rest_.substr(0, digits));
    if (!value) return fail();
    rest_.remove_prefix(digits);
    return *value;
  }
  unsigned read_month() noexcept {
    if (rest_.size() < 3) return fail();
    const std::size_t position = month_names.find(rest_.substr(0, 3));
    if (position == month_names.npos || position % 3 != 0) return fail();
    rest_.remove_prefix(3);
    return static_cast<unsigned>(position / 3 + 1);
  }
  // Reads "HH:MM:SS". A leap second may be the second 60.
  std::chrono::seconds read_time() noexcept {
    const unsigned hours = read_number(2);
    skip(":");
    const unsigned minutes = read_number(2);
    skip(":");
    const unsigned seconds = read_number(2);
    if (hours > 23 || minutes > 59 || seconds > 60) fail();
    return std::chrono::hours(hours) + std::chrono::minutes(minutes) +
           std::chrono::seconds(seconds);
  }
  bool is_done() const noexcept { return is_good_ && rest_.empty(); }

 private:
  bool fail() noexcept { return is_good_ = false; }

  std::string_view rest_;
  bool is_good_ = true;
};

struct date {
  unsigned years = 0, month = 0, day = 0;
  std::chrono::seconds time = {};
};

std::optional<sys_seconds> time_of(const date& parts, unsigned day_of_week) {
  const year_month_day calendar(year(static_cast<int>(parts.years)),
                                std::chrono::month(parts.month), std::chrono::day(parts.day));
  if (!calendar.ok() || weekday(sys_days(calendar)).c_encoding() != day_of_week) {
    return std::nullopt;
  }
  return sys_days(calendar) + parts.time;
}

std::optional<sys_seconds> parse_fixdate(std::string_view text, unsigned day_of_week) {
  date parts;
  reader input(text);
  input.skip(", ");
  parts.day = input.read_number(2);
  input.skip(" ");
  parts.month = input.read_month();
  input.skip(" ");
  parts.years = input.read_number(4);
  input.skip(" ");
  parts.time = input.read_time();
  input.skip(" GMT");
  return input.is_done() ? time_of(parts, day_of_week) : std::nullopt;
}

std::optional<sys_seconds> parse_rfc850(std::string_view text, unsigned day_of_week,
                                        const sys_seconds* reference_time) {
  date parts;
  reader input(text);
  input.skip(", ");
  parts.day = input.read_number(2);
  input.skip("-");
  parts.month = input.read_month();
  input.skip("-");
  const unsigned year_of_century = input.read_number(2);
  input.skip(" ");
  parts.time = input.read_time();
  input.skip(" GMT");
  if (!input.is_done()) return std::nullopt;
  const sys_seconds clock =
      reference_time != nullptr
          ? *reference_time
          : std::chrono::floor<std::chrono::seconds>(gyre::detail::wall_now());
  const year_month_day today(std::chrono::floor<days>(clock));
  const int max_year = std::clamp(static_cast<int>(today.year()), 0, 9900) + 50;
  parts.years = static_cast<unsigned>(max_year / 100 * 100) + year_of_century;
  if (static_cast<int>(parts.years) > max_year && parts.years >= 100) parts.years -= 100;
  return time_of(parts, day_of_week);
}

std::optional<sys_seconds> parse_asctime(std::string_view text, unsigned day_of_week) {
  date parts;
  reader input(text);
  input.skip(" ");
  parts.month = input.read_month();
  input.skip(" ");
  const bool has_one_digit = text.size() > 5 && text[5] == ' ';
  if (has_one_digit) input.skip(" ");
  parts.day = input.read_number(has_one_digit ? 1 : 2);
  input.skip(" ");
  parts.time = input.read_time();
  input.skip(" ");
  parts.years = input.read_number(4);
  return input.is_done() ? time_of(parts, day_of_week) : std::nullopt;
}

std::optional<sys_seconds> parse(std::string_view text, const sys_seconds* reference_time) {
  for (unsigned day = 0; day != day_names.size(); ++day) {
    const std::string_view name = day_names[day];
    if (!text.starts_with(name.substr(0, 3))) continue;
    if (text.starts_with(name)) return parse_rfc850(text.substr(name.size()), day, reference_time);
    text.remove_prefix(3);
    return text.starts_with(',') ? parse_fixdate(text, day) : parse_asctime(text, day);
  }
  return std::nullopt;
}

void write(char*& output, std::string_view text) noexcept {
  std::memcpy(output, text.data(), text.size());
  output += text.size();
}

void write_number(char*& output, unsigned number, std::size_t digits) noexcept {
  for (std::size_t i = digits; i-- > 0; number /= 10)
    output[i] = static_cast<char>('0' + number % 10);
  output += digits;
}

}  // namespace

std::string_view format_date(std::chrono::sys_seconds time,
                             std::span<char, date_size> memory) noexcept {
  constexpr sys_seconds first = sys_days(year(0) / 1 / 1), end = sys_days(year(10000) / 1 / 1);
  time = std::clamp(time, first, end - std::chrono::seconds(1));
  const sys_days day = std::chrono::floor<days>(time);
  const year_month_day calendar(day);
  const auto second_of_day = static_cast<unsigned>((time - day).count());
  char* output = memory.data();
  write(output, day_names[weekday(day).c_encoding()].substr(0, 3));
  write(output, ", ");
  write_number(output, static_cast<unsigned>(calendar.day()), 2);
  write(output, " ");
  write(output, month_names.substr(static_cast<unsigned>(calendar.month()) * 3 - 3, 3));
  write(output, " ");
  write_number(output, static_cast<unsigned>(static_cast<int>(calendar.year())), 4);
  write(output, " ");
  write_number(output, second_of_day / 3600, 2);
  write(output, ":");
  write_number(output, second_of_day / 60 % 60, 2);
  write(output, ":");
  write_number(output, second_of_day % 60, 2);
  write(output, " GMT");
  return {memory.data(), memory.size()};
}

std::string format_date(std::chrono::sys_seconds time) {
  std::array<char, date_size> memory;
  return std::string(format_date(time, memory));
}

std::optional<std::chrono::sys_seconds> parse_date(std::string_view text,
                                                   std::chrono::sys_seconds reference_time) {
  return parse(text, &reference_time);
}

std::optional<std::chrono::sys_seconds> parse_date(std::string_view text) {
  return parse(text, nullptr);
}

}  // namespace gyre::http
