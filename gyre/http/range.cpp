// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/range.hpp>

#include <gyre/base/detail/parse_decimal.hpp>
#include <gyre/http/detail/characters.hpp>

#include <algorithm>
#include <limits>
#include <optional>

namespace gyre::http {
namespace {

// Reads a decimal number. A number that does not fit is replaced by the maximum, which lies after
// every end.
std::optional<std::uint64_t> parse_position(std::string_view text) noexcept {
  if (text.empty() || !std::ranges::all_of(text, detail::is_digit)) return std::nullopt;
  return gyre::detail::parse_decimal<std::uint64_t>(text).value_or(
      std::numeric_limits<std::uint64_t>::max());
}

struct parsed_range {
  bool is_malformed = true;
  byte_range range = {};  // a size of 0 means that the range lies after the end
};

parsed_range parse_range(std::string_view text, std::uint64_t size) noexcept {
  const std::size_t dash = text.find('-');
  if (dash == text.npos) return {};
  const std::string_view first_text = text.substr(0, dash), last_text = text.substr(dash + 1);
  if (first_text.empty()) {
    const auto suffix = parse_position(last_text);
    if (!suffix) return {};
    const std::uint64_t count = std::min(*suffix, size);
    return {.is_malformed = false, .range = {.first = size - count, .size = count}};
  }
  const auto first = parse_position(first_text);
  if (!first) return {};
  std::uint64_t last = std::numeric_limits<std::uint64_t>::max();
  if (!last_text.empty()) {
    const auto end = parse_position(last_text);
    if (!end || *end < *first) return {};
    last = *end;
  }
  if (*first >= size) return {.is_malformed = false};
  last = std::min(last, size - 1);
  return {.is_malformed = false, .range = {.first = *first, .size = last - *first + 1}};
}

bool is_near(const byte_range& left, const byte_range& right) noexcept {
  return left.first <= right.first + right.size && right.first <= left.first + left.size;
}

}  // namespace

// Adds a range and joins it with the ranges that it overlaps or touches. The joined range takes the
// position of the first of them.
void byte_ranges::add(byte_range range) noexcept {
  std::size_t index = count_;
  for (std::size_t i = 0; i < count_;) {
    if (!is_near(ranges_[i], range)) {
      ++i;
      continue;
    }
    const std::uint64_t end = std::max(ranges_[i].last(), range.last());
    range.first = std::min(ranges_[i].first, range.first);
    range.size = end - range.first + 1;
    index = std::min(index, i);
    std::copy(ranges_.begin() + static_cast<std::ptrdiff_t>(i) + 1,
              ranges_.begin() + static_cast<std::ptrdiff_t>(count_),
              ranges_.begin() + static_cast<std::ptrdiff_t>(i));
    --count_;
    i = 0;  // the joined range may touch an earlier one
  }
  index = std::min(index, count_);
  std::copy_backward(ranges_.begin() + static_cast<std::ptrdiff_t>(index),
                     ranges_.begin() + static_cast<std::ptrdiff_t>(count_),
                     ranges_.begin() + static_cast<std::ptrdiff_t>(count_) + 1);
  ranges_[index] = range;
  ++count_;
}

byte_ranges byte_ranges::parse(std::string_view header, std::uint64_t size) noexcept {
  header = detail::trim(header);
  constexpr std::string_view unit = "bytes=";
  if (!detail::equals_ignoring_case(header.substr(0, unit.size()), unit)) return {};
  header.remove_prefix(unit.size());
  byte_ranges result;
  std::size_t count = 0;
  while (!header.empty()) {
    const std::string_view text = detail::trim(detail::take_until(header, ','));
    if (text.empty()) continue;
    const parsed_range range = parse_range(text, size);
    if (range.is_malformed || ++count > max_count) return {};
    if (range.range.size != 0) result.add(range.range);
  }
  // An empty resource has no byte for a part, so it is sent as a whole.
  if (count == 0 || size == 0) return {};
  result.outcome_ = result.count_ == 0 ? range_outcome::not_satisfiable : range_outcome::partial;
  return result;
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
