// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/range.hpp>

#include <gyre/base/detail/parse_decimal.hpp>
#include <gyre/http/detail/characters.hpp>

#include <algorithm>
#include <limits>
#include <optional>

namespace gyre::http {
namespace {

// Numbers that are too large lie behind every end.
std::optional<std::uint64_t> parse_position(std::string_view text) noexcept {
  if (text.empty() || !std::ranges::all_of(text, detail::is_digit)) return std::nullopt;
  return gyre::detail::parse_decimal<std::uint64_t>(text).value_or(
      std::numeric_limits<std::uint64_t>::max());
}

struct parsed_range {
  bool is_malformed = true;
  byte_range range = {};  // of size 0: behind the end
};

parsed_range parse_range(std::string_view text, std::uint64_t size) noexcept {
  const std::size_t dash = text.find('-');
  if (dash == text.npos) return {};
  const std::string_view before = text.substr(0, dash), behind = text.substr(dash + 1);
  if (before.empty()) {
    const auto suffix = parse_position(behind);
    if (!suffix) return {};
    const std::uint64_t count = std::min(*suffix, size);
    return {.is_malformed = false, .range = {.first = size - count, .size = count}};
  }
  const auto first = parse_position(before);
  if (!first) return {};
  std::uint64_t last = std::numeric_limits<std::uint64_t>::max();
  if (!behind.empty()) {
    const auto given = parse_position(behind);
    if (!given || *given < *first) return {};
    last = *given;
  }
  if (*first >= size) return {.is_malformed = false};
  last = std::min(last, size - 1);
  return {.is_malformed = false, .range = {.first = *first, .size = last - *first + 1}};
}

bool is_near(const byte_range& left, const byte_range& right) noexcept {
  return left.first <= right.first + right.size && right.first <= left.first + left.size;
}

}  // namespace

// A joined range takes the place of the first range that it was made of.
void byte_ranges::add(byte_range added) noexcept {
  std::size_t place = count_;
  for (std::size_t i = 0; i < count_;) {
    if (!is_near(ranges_[i], added)) {
      ++i;
      continue;
    }
    const std::uint64_t end = std::max(ranges_[i].last(), added.last());
    added.first = std::min(ranges_[i].first, added.first);
    added.size = end - added.first + 1;
    place = std::min(place, i);
    std::copy(ranges_.begin() + static_cast<std::ptrdiff_t>(i) + 1,
              ranges_.begin() + static_cast<std::ptrdiff_t>(count_),
              ranges_.begin() + static_cast<std::ptrdiff_t>(i));
    --count_;
    i = 0;  // the larger range may touch an earlier one
  }
  place = std::min(place, count_);
  std::copy_backward(ranges_.begin() + static_cast<std::ptrdiff_t>(place),
                     ranges_.begin() + static_cast<std::ptrdiff_t>(count_),
                     ranges_.begin() + static_cast<std::ptrdiff_t>(count_) + 1);
  ranges_[place] = added;
  ++count_;
}

byte_ranges byte_ranges::parse(std::string_view header, std::uint64_t size) noexcept {
  header = detail::trim(header);
  constexpr std::string_view unit = "bytes=";
  if (!detail::equals_ignoring_case(header.substr(0, unit.size()), unit)) return {};
  header.remove_prefix(unit.size());
  byte_ranges parsed;
  std::size_t given = 0;
  while (!header.empty()) {
    const std::string_view text = detail::trim(detail::take_until(header, ','));
    if (text.empty()) continue;
    const parsed_range next = parse_range(text, size);
    if (next.is_malformed || ++given > max_count) return {};
    if (next.range.size != 0) parsed.add(next.range);
  }
  // Nothing of an empty resource can be sent as a part, and nothing is behind its end.
  if (given == 0 || size == 0) return {};
  parsed.outcome_ = parsed.count_ == 0 ? range_outcome::not_satisfiable : range_outcome::partial;
  return parsed;
}

std::string content_range(byte_range part, std::uint64_t size) {
  std::string text = "bytes ";
  text += std::to_string(part.first);
  text += '-';
  text += std::to_string(part.last());
  text += '/';
  text += std::to_string(size);
  return text;
}

std::string unsatisfied_content_range(std::uint64_t size) {
  return "bytes */" + std::to_string(size);
}

}  // namespace gyre::http
