// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/redis/detail/parse_node.hpp>

#include <charconv>
#include <system_error>

namespace gyre::redis::detail {
namespace {

constexpr std::string_view line_end = "\r\n";
// The limit of one-line texts and big numbers. The server cuts the texts of errors much earlier.
constexpr std::size_t max_line = 64 * 1024;
// The limit of other lines, which hold a number or a length.
constexpr std::size_t max_number_line = 64;

std::optional<std::int64_t> parse_integer(std::string_view text) noexcept {
  if (text.starts_with('+')) text.remove_prefix(1);
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
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

}  // namespace

std::expected<std::optional<parsed_node>, errc> parse_node(std::string_view bytes,
                                                           std::size_t max_size) noexcept {
  if (bytes.empty()) return std::nullopt;
  // The first byte tells at once that another protocol is spoken.
  const bool is_text_line = std::string_view("+-(").contains(bytes.front());
  if (!is_text_line && !std::string_view(":$*_#,!=%~>|").contains(bytes.front())) {
    return std::unexpected(errc::bad_reply);
  }
  const std::size_t limit = is_text_line ? max_line : max_number_line;
  const std::size_t line_size = bytes.substr(0, limit).find(line_end);
  if (line_size == std::string_view::npos) {
    if (bytes.size() >= limit) return std::unexpected(errc::bad_reply);
    return std::nullopt;
  }
  const std::string_view line = bytes.substr(1, line_size - 1);
  parsed_node node;
  node.size = line_size + line_end.size();

  switch (bytes.front()) {
    case '+':
    case '-':
      node.kind = bytes.front() == '+' ? reply_kind::status : reply_kind::error;
      node.text = line;
      return node;
    case '_':
      if (!line.empty()) return std::unexpected(errc::bad_reply);
      return node;
    case '#':
      if (line != "t" && line != "f") return std::unexpected(errc::bad_reply);
      node.kind = reply_kind::boolean;
      node.integer = line == "t" ? 1 : 0;
      return node;
    case ',':
      if (!is_real(line)) return std::unexpected(errc::bad_reply);
      node.kind = reply_kind::real;
      node.text = line;
      return node;
    case '(':
      if (!is_decimal(line)) return std::unexpected(errc::bad_reply);
      node.kind = reply_kind::big_number;
      node.text = line;
      return node;
    default: break;
  }

  const std::optional<std::int64_t> number = parse_integer(line);
  if (!number) return std::unexpected(errc::bad_reply);
  if (bytes.front() == ':') {
    node.kind = reply_kind::integer;
    node.integer = *number;
    return node;
  }
  const bool is_text = bytes.front() == '$' || bytes.front() == '!' || bytes.front() == '=';
  if (*number == -1 && (bytes.front() == '$' || bytes.front() == '*')) return node;  // RESP2's nil
  if (*number < 0) return std::unexpected(errc::bad_reply);
  const auto count = static_cast<std::uint64_t>(*number);
  if (count > max_size) return std::unexpected(errc::reply_too_large);
  if (!is_text) {
    node.count = static_cast<std::size_t>(count);
    switch (bytes.front()) {
      case '*': node.kind = reply_kind::array; break;
      case '~': node.kind = reply_kind::set; break;
      case '>': node.kind = reply_kind::push; break;
      case '%': node.kind = reply_kind::map; break;
      case '|':
        node.kind = reply_kind::map;
        node.is_attribute = true;
        break;
      default: return std::unexpected(errc::bad_reply);
    }
    return node;
  }

  const auto length = static_cast<std::size_t>(count);
  if (bytes.size() < node.size + length + line_end.size()) return std::nullopt;
  if (bytes.substr(node.size + length, line_end.size()) != line_end) {
    return std::unexpected(errc::bad_reply);
  }
  node.kind = bytes.front() == '!' ? reply_kind::error : reply_kind::text;
  node.text = bytes.substr(node.size, length);
  if (bytes.front() == '=') {
    // "txt:" or "mkd:", the format of a text that is for people.
    if (length < 4 || node.text[3] != ':') return std::unexpected(errc::bad_reply);
    node.text.remove_prefix(4);
  }
  node.size += length + line_end.size();
  return node;
}

}  // namespace gyre::redis::detail
