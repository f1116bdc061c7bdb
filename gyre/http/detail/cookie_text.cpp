// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/detail/cookie_text.hpp>

#include <gyre/base/detail/parse_decimal.hpp>

#include <algorithm>
#include <cstddef>

namespace gyre::http::detail {
namespace {

struct cookie_date {
  std::optional<std::chrono::seconds> time;
  std::optional<unsigned> day, month, year;
};

// Returns the number at the beginning of `text`; nothing unless it has `min_digits` to `max_digits`
// digits.
std::optional<unsigned> leading_number(std::string_view text, std::size_t min_digits,
                                       std::size_t max_digits) {
  std::size_t digits = 0;
  while (digits < text.size() && is_digit(text[digits])) ++digits;
  if (digits < min_digits || digits > max_digits) return std::nullopt;
  return gyre::detail::parse_decimal<unsigned>(text.substr(0, digits));
}

std::optional<std::chrono::seconds> parse_time(std::string_view token) {
  const auto hours = leading_number(take_until(token, ':'), 1, 2);
  const auto minutes = leading_number(take_until(token, ':'), 1, 2);
  const auto seconds = leading_number(token, 1, 2);
  if (!hours || !minutes || !seconds) return std::nullopt;
  if (*hours > 23 || *minutes > 59 || *seconds > 59) return std::nullopt;
  return std::chrono::hours(*hours) + std::chrono::minutes(*minutes) +
         std::chrono::seconds(*seconds);
}

std::optional<unsigned> month_in(std::string_view token) {
  constexpr std::string_view names = "janfebmaraprmayjunjulaugsepoctnovdec";
  for (unsigned month = 1; month <= 12; ++month) {
    if (equals_ignoring_case(token.substr(0, 3), names.substr((month - 1) * 3, 3))) return month;
  }
  return std::nullopt;
}

bool is_delimiter(char character) noexcept {
  return !is_digit(character) && character != ':' && !is_letter(character) &&
         static_cast<unsigned char>(character) < 0x80;
}

void read_token(std::string_view token, cookie_date& date) {
  if (!date.time && token.contains(':')) {
    date.time = parse_time(token);
    if (date.time) return;
  }
  if (!date.day) {
    date.day = leading_number(token, 1, 2);
    if (date.day) return;
  }
  if (!date.month) {
    date.month = month_in(token);
    if (date.month) return;
  }
  if (!date.year) date.year = leading_number(token, 2, 4);
}

}  // namespace

std::optional<std::chrono::sys_seconds> parse_cookie_date(std::string_view text) noexcept {
  cookie_date date;
  while (!text.empty()) {
    const auto* const end = std::ranges::find_if(text, is_delimiter);
    const std::string_view token = text.substr(0, static_cast<std::size_t>(end - text.begin()));
    text.remove_prefix(std::min(token.size() + 1, text.size()));
    if (!token.empty()) read_token(token, date);
  }
  if (!date.time || !date.day || !date.month || !date.year) return std::nullopt;
  unsigned year = *date.year;
  if (year < 70) {
    year += 2000;
  } else if (year < 100) {
    year += 1900;
  }
  const std::chrono::year_month_day calendar(std::chrono::year(static_cast<int>(year)),
                                             std::chrono::month(*date.month),
                                             std::chrono::day(*date.day));
  if (year < 1601 || !calendar.ok()) return std::nullopt;
  return std::chrono::sys_days(calendar) + *date.time;
}

}  // namespace gyre::http::detail
