// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/nats/detail/timestamp.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>

namespace gyre::nats::detail {
namespace {

// Reads a text from its front, and remembers whether every part has matched.
class time_reader {
 public:
  explicit time_reader(std::string_view text) noexcept : text_(text) {}

  bool is_good() const noexcept { return is_good_; }
  bool is_at_end() const noexcept { return text_.empty(); }
  char next() noexcept {
    if (text_.empty()) {
      is_good_ = false;
      return '\0';
    }
    const char first = text_.front();
    text_.remove_prefix(1);
    return first;
  }
  bool skip(std::string_view literal) noexcept {
    if (!text_.starts_with(literal)) return false;
    text_.remove_prefix(literal.size());
    return true;
  }
  void require(std::string_view literal) noexcept { is_good_ &= skip(literal); }
  int digits(int count) noexcept {
    int value = 0;
    for (; count > 0; --count) {
      const char digit = next();
      if (digit < '0' || digit > '9') is_good_ = false;
      value = value * 10 + (digit - '0');
    }
    return value;
  }
  // Reads the digits after the point as nanoseconds; further digits are dropped.
  std::chrono::nanoseconds fraction() noexcept {
    std::int64_t value = 0;
    int count = 0;
    for (; !text_.empty() && text_.front() >= '0' && text_.front() <= '9'; ++count) {
      const char digit = next();
      if (count < 9) value = value * 10 + (digit - '0');
    }
    is_good_ &= count > 0;
    for (; count < 9; ++count) value *= 10;
    return std::chrono::nanoseconds{value};
  }
  std::chrono::minutes offset() noexcept {
    if (skip("Z")) return std::chrono::minutes{0};
    const char sign = next();
    is_good_ &= sign == '+' || sign == '-';
    const int hours = digits(2);
    skip(":");
    const int minutes = digits(2);
    const std::chrono::minutes distance{hours * 60 + minutes};
    return sign == '-' ? -distance : distance;
  }

 private:
  std::string_view text_;
  bool is_good_ = true;
};

}  // namespace

std::optional<timestamp> parse_timestamp(std::string_view text) noexcept {
  using namespace std::chrono;
  time_reader rest(text);
  const int year_number = rest.digits(4);
  rest.require("-");
  const auto month_number = static_cast<unsigned>(rest.digits(2));
  rest.require("-");
  const auto day_number = static_cast<unsigned>(rest.digits(2));
  // Servers before 2.9 write "2022-08-06 00:29:27.587 +0000 UTC" in headers.
  if (!rest.skip("T")) rest.require(" ");
  const int hour = rest.digits(2);
  rest.require(":");
  const int minute = rest.digits(2);
  rest.require(":");
  const int second = rest.digits(2);
  const nanoseconds fraction = rest.skip(".") ? rest.fraction() : nanoseconds{0};
  rest.skip(" ");
  const minutes offset = rest.offset();
  rest.skip(" UTC");
  if (!rest.is_good() || !rest.is_at_end()) return std::nullopt;

  const year_month_day date{year{year_number}, month{month_number}, day{day_number}};
  const bool is_time = hour < 24 && minute < 60 && second <= 60;
  if (!date.ok() || !is_time || year_number < 1900 || year_number > 2200) return std::nullopt;
  return timestamp(sys_days(date)) + hours{hour} + minutes{minute} + seconds{second} + fraction -
         offset;
}

std::string format_timestamp(timestamp time) {
  using namespace std::chrono;
  const sys_days midnight = floor<days>(time);
  const year_month_day date(midnight);
  const hh_mm_ss clock(time - midnight);
  std::array<char, 64> memory{};
  const int size = std::snprintf(
      memory.data(), memory.size(), "%04d-%02u-%02uT%02d:%02d:%02d.%09dZ",
      static_cast<int>(date.year()), static_cast<unsigned>(date.month()),
      static_cast<unsigned>(date.day()), static_cast<int>(clock.hours().count()),
      static_cast<int>(clock.minutes().count()), static_cast<int>(clock.seconds().count()),
      static_cast<int>(clock.subseconds().count()));
  return {memory.data(), static_cast<std::size_t>(size)};
}

}  // namespace gyre::nats::detail
