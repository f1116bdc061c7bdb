// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/redis/detail/parse_node.hpp>

#include <charconv>
#include <limits>
#include <system_error>

namespace gyre::redis::detail {
namespace {

using parse_result = std::expected<std::optional<parsed_node>, errc>;

constexpr std::string_view line_end = "\r\n";
// The limit of one-line texts and big numbers. A server's error texts are much shorter.
constexpr std::size_t max_line_size = 64 * 1024;
// The limit of a line with a real number, in bytes.
constexpr std::size_t max_real_line_size = 64;

/// A line with a number, after its first byte.
struct number_line {
  std::int64_t number = 0;
  std::size_t size = 0;  // with the first byte and the line's end; 0: the line is incomplete
  bool is_bad = false;
};

number_line parse_number(std::string_view bytes) noexcept {
  constexpr std::int64_t max_value = std::numeric_limits<std::int64_t>::max();
  number_line result;
  std::size_t position = 1;
  if (position == bytes.size()) return result;
  const bool is_negative = bytes[position] == '-';
  if (is_negative || bytes[position] == '+') ++position;
  const std::size_t first_digit = position;
  std::uint64_t number = 0;
  for (; position < bytes.size() && bytes[position] >= '0' && bytes[position] <= '9'; ++position) {
    const auto digit = static_cast<std::uint64_t>(bytes[position] - '0');
    if (number > (static_cast<std::uint64_t>(max_value) + 1 - digit) / 10) {
      result.is_bad = true;  // the number does not fit into 64 bits
      return result;
    }
    number = 10 * number + digit;
  }
  if (position == bytes.size()) return result;
  const bool is_too_large = !is_negative && number > static_cast<std::uint64_t>(max_value);
  if (bytes[position] != '\r' || position == first_digit || is_too_large) {
    result.is_bad = true;
    return result;
  }
  if (++position == bytes.size()) return result;
  result.is_bad = bytes[position] != '\n';
  result.number = static_cast<std::int64_t>(is_negative ? 0 - number : number);
  result.size = position + 1;
  return result;
}

bool is_decimal(std::string_view text) noexcept {
  if (text.starts_with('-') || text.starts_with('+')) text.remove_prefix(1);
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

bool is_real(std::string_view text) noexcept {
  if (text.starts_with('+')) text.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error != std::errc::invalid_argument && end == text.data() + text.size();
}

// Parses a node of one line that is neither a number nor a length: a simple string, an error, a
// real or a big number.
parse_result parse_line(std::string_view bytes) noexcept {
  const std::size_t limit = bytes.front() == ',' ? max_real_line_size : max_line_size;
  const std::size_t line_size = bytes.substr(0, limit).find(line_end);
  if (line_size == std::string_view::npos) {
    if (bytes.size() >= limit) return std::unexpected(errc::bad_reply);
    return std::nullopt;
  }
  parsed_node node;
  node.text = bytes.substr(1, line_size - 1);
  node.size = line_size + line_end.size();
  switch (bytes.front()) {
    case '+': node.kind = reply_kind::status; return node;
    case '-': node.kind = reply_kind::error; return node;
    case ',':
      if (!is_real(node.text)) return std::unexpected(errc::bad_reply);
      node.kind = reply_kind::real;
      return node;
    default:
      if (!is_decimal(node.text)) return std::unexpected(errc::bad_reply);
      node.kind = reply_kind::big_number;
      return node;
  }
}

// Parses a node whose only form is `line`: null, true or false.
parse_result parse_word(std::string_view bytes, std::string_view line) noexcept {
  if (!line.starts_with(bytes.substr(0, line.size()))) return std::unexpected(errc::bad_reply);
  if (bytes.size() < line.size()) return std::nullopt;
  parsed_node node;
  node.size = line.size();
  return node;
}

parse_result parse_boolean(std::string_view bytes) noexcept {
  const bool is_true = bytes.size() > 1 && bytes[1] == 't';
  parse_result result = parse_word(bytes, is_true ? "#t\r\n" : "#f\r\n");
  if (!result || !*result) return result;
  (*result)->kind = reply_kind::boolean;
  (*result)->integer = is_true ? 1 : 0;
  return result;
}

// Parses a text of a stated length, whose first line is `header`.
parse_result parse_text(std::string_view bytes, const number_line& header,
                        std::size_t max_size) noexcept {
  if (static_cast<std::uint64_t>(header.number) > max_size) {
    return std::unexpected(errc::reply_too_large);
  }
  const auto length = static_cast<std::size_t>(header.number);
  const std::string_view rest = bytes.substr(header.size);
  if (rest.size() < length + line_end.size()) return std::nullopt;
  if (rest.substr(length, line_end.size()) != line_end) return std::unexpected(errc::bad_reply);
  parsed_node node;
  node.kind = bytes.front() == '!' ? reply_kind::error : reply_kind::text;
  node.text = rest.substr(0, length);
  if (bytes.front() == '=') {
    // Removes the format ("txt:" or "mkd:") in front of a text, which is meant for people.
    if (length < 4 || node.text[3] != ':') return std::unexpected(errc::bad_reply);
    node.text.remove_prefix(4);
  }
  node.size = header.size + length + line_end.size();
  return node;
}

// Parses the header of an aggregate (array, set, map, push or attribute), which states the number
// of its elements.
parse_result parse_header(char first, const number_line& header, std::size_t max_size) noexcept {
  if (static_cast<std::uint64_t>(header.number) > max_size) {
    return std::unexpected(errc::reply_too_large);
  }
  parsed_node node;
  node.count = static_cast<std::size_t>(header.number);
  node.size = header.size;
  switch (first) {
    case '*': node.kind = reply_kind::array; break;
    case '~': node.kind = reply_kind::set; break;
    case '>': node.kind = reply_kind::push; break;
    case '|': node.is_attribute = true; [[fallthrough]];
    default: node.kind = reply_kind::map; break;
  }
  return node;
}

}  // namespace

parse_result parse_node(std::string_view bytes, std::size_t max_size) noexcept {
  if (bytes.empty()) return std::nullopt;
  const char first = bytes.front();
  switch (first) {
    case '+':
    case '-':
    case ',':
    case '(': return parse_line(bytes);
    case '_': return parse_word(bytes, "_\r\n");
    case '#': return parse_boolean(bytes);
    case '$':
    case ':':
    case '*':
    case '!':
    case '=':
    case '%':
    case '~':
    case '>':
    case '|': break;
    default: return std::unexpected(errc::bad_reply);
  }
  const number_line header = parse_number(bytes);
  if (header.is_bad) return std::unexpected(errc::bad_reply);
  if (header.size == 0) return std::nullopt;
  if (first == ':') {
    parsed_node node;
    node.kind = reply_kind::integer;
    node.integer = header.number;
    node.size = header.size;
    return node;
  }
  if (header.number < 0) {
    // Only the length -1 is valid: the null of RESP2.
    if (header.number != -1 || (first != '$' && first != '*')) {
      return std::unexpected(errc::bad_reply);
    }
    parsed_node node;
    node.size = header.size;
    return node;
  }
  const bool is_text = first == '$' || first == '!' || first == '=';
  return is_text ? parse_text(bytes, header, max_size) : parse_header(first, header, max_size);
}

}  // namespace gyre::redis::detail
