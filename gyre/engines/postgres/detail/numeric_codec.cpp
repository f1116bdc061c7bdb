// SPDX-License-Identifier: Apache-2.0
// The binary format is a header of four 16-bit numbers and groups of four decimal digits:
//
// | number | meaning |
// |---|---|
// | count | of groups |
// | weight | of the first group: its value is multiplied by 10000^weight |
// | sign | positive, negative, not_a_number, infinity, negative_infinity |
// | scale | digits after the point that are shown |
#include <gyre/engines/postgres/detail/numeric_codec.hpp>

#include <gyre/engines/postgres/detail/body_reader.hpp>

#include <algorithm>
#include <charconv>
#include <limits>
#include <system_error>
#include <vector>

namespace gyre::postgres::detail {
namespace {

constexpr std::size_t group_size = 4;
constexpr std::size_t max_scale = 0x3fff;
constexpr std::size_t max_whole_digits = 131072;

enum sign : std::uint16_t {
  positive = 0x0000,
  negative = 0x4000,
  not_a_number = 0xc000,
  infinity = 0xd000,
  negative_infinity = 0xf000,
};

bool is_digit(char character) noexcept { return character >= '0' && character <= '9'; }

// The digits of a number before and after the point, and its sign.
struct digits {
  bool is_negative = false;
  std::string_view whole;
  std::string_view fraction;
};

digits split(std::string_view text) noexcept {
  digits parts;
  if (text.starts_with('-') || text.starts_with('+')) {
    parts.is_negative = text.front() == '-';
    text.remove_prefix(1);
  }
  const std::size_t point = std::min(text.find('.'), text.size());
  parts.whole = text.substr(0, point);
  if (point < text.size()) parts.fraction = text.substr(point + 1);
  parts.whole.remove_prefix(std::min(parts.whole.find_first_not_of('0'), parts.whole.size()));
  return parts;
}

std::optional<sign> special_sign(std::string_view text) noexcept {
  if (text == "NaN") return not_a_number;
  if (text == "Infinity") return infinity;
  if (text == "-Infinity") return negative_infinity;
  return std::nullopt;
}

void append_header(io::buffer& output, std::size_t count, std::ptrdiff_t weight, sign sign,
                   std::size_t scale) {
  output.append(static_cast<std::uint16_t>(count));
  output.append(static_cast<std::int16_t>(weight));
  output.append(static_cast<std::uint16_t>(sign));
  output.append(static_cast<std::uint16_t>(scale));
}

}  // namespace

bool is_numeric(std::string_view text) noexcept {
  if (special_sign(text)) return true;
  if (text.starts_with('-') || text.starts_with('+')) text.remove_prefix(1);
  std::size_t digit_count = 0;
  bool has_point = false;
  for (const char character : text) {
    if (is_digit(character)) {
      ++digit_count;
    } else if (character == '.' && !has_point) {
      has_point = true;
    } else {
      return false;
    }
  }
  return digit_count > 0;
}

bool append_numeric(io::buffer& output, std::string_view text) {
  if (const std::optional<sign> sign_of_special = special_sign(text)) {
    append_header(output, 0, 0, *sign_of_special, 0);
    return true;
  }
  const digits parts = split(text);
  if (parts.whole.size() > max_whole_digits || parts.fraction.size() > max_scale) return false;
  // The first group may have fewer digits, and zeros fill up the last group.
  const std::size_t whole_groups = (parts.whole.size() + group_size - 1) / group_size;
  std::vector<std::uint16_t> groups;
  groups.reserve(whole_groups + parts.fraction.size() / group_size + 1);
  std::size_t digits_left = parts.whole.size();
  std::uint16_t group = 0;
  for (const char digit : parts.whole) {
    group = static_cast<std::uint16_t>(group * 10 + (digit - '0'));
    if (--digits_left % group_size == 0) groups.push_back(std::exchange(group, std::uint16_t{0}));
  }
  for (std::size_t index = 0; index < parts.fraction.size(); index += group_size) {
    for (std::size_t i = index; i < index + group_size; ++i) {
      const int digit = i < parts.fraction.size() ? parts.fraction[i] - '0' : 0;
      group = static_cast<std::uint16_t>(group * 10 + digit);
    }
    groups.push_back(std::exchange(group, std::uint16_t{0}));
  }
  auto weight = static_cast<std::ptrdiff_t>(whole_groups) - 1;
  const auto first = std::ranges::find_if(groups, [](std::uint16_t number) { return number != 0; });
  weight -= first - groups.begin();
  groups.erase(groups.begin(), first);
  while (!groups.empty() && groups.back() == 0) groups.pop_back();
  if (groups.empty()) weight = 0;
  const bool is_negative = parts.is_negative && !groups.empty();
  append_header(output, groups.size(), weight, is_negative ? negative : positive,
                parts.fraction.size());
  for (const std::uint16_t number : groups) output.append(number);
  return true;
}

std::optional<std::string> read_numeric(std::span<const std::byte> bytes) {
  body_reader body(bytes);
  const auto count = body.read<std::uint16_t>();
  const auto weight = static_cast<std::ptrdiff_t>(body.read<std::int16_t>());
  const auto sign = body.read<std::uint16_t>();
  const std::size_t scale = body.read<std::uint16_t>();
  if (!body.is_good() || body.left().size() != std::size_t{2} * count) return std::nullopt;
  switch (sign) {
    case not_a_number: return std::string("NaN");
    case infinity: return std::string("Infinity");
    case negative_infinity: return std::string("-Infinity");
    case positive:
    case negative: break;
    default: return std::nullopt;
  }
  if (scale > max_scale) return std::nullopt;
  std::vector<std::uint16_t> groups(count);
  for (std::uint16_t& group : groups) {
    group = body.read<std::uint16_t>();
    if (group > 9999) return std::nullopt;
  }
  // Returns the digits of the groups, with zeros for groups that the server leaves out.
  const auto append_group = [&](std::string& text, std::ptrdiff_t index) {
    const bool is_sent = index >= 0 && index < static_cast<std::ptrdiff_t>(groups.size());
    const unsigned group = is_sent ? groups[static_cast<std::size_t>(index)] : 0U;
    for (const unsigned unit : {1000U, 100U, 10U, 1U}) {
      text += static_cast<char>('0' + group / unit % 10);
    }
  };
  std::string text;
  for (std::ptrdiff_t index = 0; index <= weight; ++index) append_group(text, index);
  text.erase(0, std::min(text.find_first_not_of('0'), text.size()));
  if (text.empty()) text += '0';
  if (scale > 0) {
    text += '.';
    const std::size_t whole = text.size();
    // The groups after the point begin at weight + 1, which is negative for a small fraction.
    for (std::ptrdiff_t index = weight + 1; text.size() < whole + scale; ++index) {
      append_group(text, index);
    }
    text.resize(whole + scale);
  }
  if (sign == negative) text.insert(text.begin(), '-');
  return text;
}

std::optional<whole_number> to_whole_number(std::string_view text) noexcept {
  if (special_sign(text)) return std::nullopt;
  const digits parts = split(text);
  if (parts.fraction.find_first_not_of('0') != std::string_view::npos) return std::nullopt;
  whole_number number;
  const char* const end = parts.whole.data() + parts.whole.size();
  if (!parts.whole.empty() &&
      std::from_chars(parts.whole.data(), end, number.magnitude).ec != std::errc{}) {
    return std::nullopt;
  }
  number.is_negative = parts.is_negative && number.magnitude != 0;
  return number;
}

double to_double(std::string_view text) noexcept {
  using limits = std::numeric_limits<double>;
  if (text.starts_with('+')) text.remove_prefix(1);
  double number = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), number);
  if (result.ec != std::errc::result_out_of_range) return number;
  // The number is beyond the range of a double, or nearer to zero than the least double.
  const digits parts = split(text);
  if (parts.whole.empty()) return parts.is_negative ? -0.0 : 0.0;
  return parts.is_negative ? -limits::infinity() : limits::infinity();
}

}  // namespace gyre::postgres::detail
