// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/nats/detail/parser.hpp>

#include <gyre/base/detail/ascii.hpp>
#include <gyre/base/detail/parse_decimal.hpp>

#include <array>
#include <utility>

namespace gyre::nats::detail {
namespace {

using found_operation = std::expected<std::optional<operation>, errc>;

constexpr std::string_view line_end = "\r\n";

bool is_word(std::string_view text, std::string_view word) noexcept {
  return gyre::detail::equals_ignoring_case(text, word);
}

std::string_view without_quotes(std::string_view text) noexcept {
  if (text.size() >= 2 && text.front() == '\'' && text.back() == '\'') {
    return text.substr(1, text.size() - 2);
  }
  return text;
}

}  // namespace

found_operation parser::parse(std::string_view bytes) noexcept {
  if (line_size_ > 0) return read_message(bytes);
  const auto has_line = find_line(bytes);
  if (!has_line) return std::unexpected(has_line.error());
  if (!*has_line) return std::nullopt;
  return read_line(bytes);
}

// Searches the end of the line. Returns true if scanned_bytes_ now counts the bytes of a whole
// line.
std::expected<bool, errc> parser::find_line(std::string_view bytes) noexcept {
  const std::size_t end = bytes.find('\n', scanned_bytes_);
  const bool is_found = end != std::string_view::npos;
  scanned_bytes_ = is_found ? end + 1 : bytes.size();
  if (scanned_bytes_ > max_line_size &&
      (scanned_bytes_ > max_info_size || !is_word(bytes.substr(0, 4), "INFO"))) {
    return std::unexpected(errc::bad_message);
  }
  if (is_found && (end == 0 || bytes[end - 1] != '\r')) return std::unexpected(errc::bad_message);
  return is_found;
}

found_operation parser::read_line(std::string_view bytes) noexcept {
  const std::size_t size = std::exchange(scanned_bytes_, 0);
  const std::string_view line = bytes.substr(0, size - line_end.size());
  const std::string_view word = line.substr(0, line.find_first_of(" \t"));
  const std::string_view rest = gyre::detail::trim(line.substr(word.size()));
  const bool has_headers = is_word(word, "HMSG");
  if (has_headers || is_word(word, "MSG")) {
    if (!read_message_line(line, has_headers)) return std::unexpected(errc::bad_message);
    if (body_size_ > max_message_) return std::unexpected(errc::message_too_large);
    line_size_ = size;
    return read_message(bytes);
  }
  operation result{.size = size};
  if (is_word(word, "PING") && rest.empty()) {
    result.kind = operation_kind::ping;
  } else if (is_word(word, "PONG") && rest.empty()) {
    result.kind = operation_kind::pong;
  } else if (is_word(word, "+OK") && rest.empty()) {
    result.kind = operation_kind::ok;
  } else if (is_word(word, "INFO")) {
    result.kind = operation_kind::info;
    result.text = rest;
  } else if (is_word(word, "-ERR")) {
    result.kind = operation_kind::error;
    result.text = without_quotes(rest);
  } else {
    return std::unexpected(errc::bad_message);
  }
  return result;
}

// Reads "MSG subject sid [reply] size" or "HMSG subject sid [reply] size-of-headers size".
bool parser::read_message_line(std::string_view line, bool has_headers) noexcept {
  constexpr std::size_t max_words = 6;
  std::array<std::string_view, max_words> words;
  std::size_t count = 0;
  using gyre::detail::is_blank;
  for (std::size_t position = 0; position < line.size();) {
    while (position < line.size() && is_blank(line[position])) ++position;
    const std::size_t first = position;
    while (position < line.size() && !is_blank(line[position])) ++position;
    if (position == first) break;
    if (count == max_words) return false;
    words[count++] = line.substr(first, position - first);
  }
  const std::size_t min_words = has_headers ? 5 : 4;
  if (count != min_words && count != min_words + 1) return false;
  const auto sid = gyre::detail::parse_decimal<std::uint64_t>(words[2]);
  const auto size = gyre::detail::parse_decimal<std::size_t>(words[count - 1]);
  const auto headers_size =
      has_headers ? gyre::detail::parse_decimal<std::size_t>(words[count - 2]) : 0;
  if (!sid || !size || !headers_size || *headers_size > *size) return false;
  const auto part_of = [line](std::string_view word) {
    return part{static_cast<std::size_t>(word.data() - line.data()), word.size()};
  };
  sid_ = *sid;
  subject_ = part_of(words[1]);
  reply_ = count == min_words ? part() : part_of(words[3]);
  headers_size_ = *headers_size;
  body_size_ = *size;
  return true;
}

found_operation parser::read_message(std::string_view bytes) noexcept {
  const std::size_t size = line_size_ + body_size_ + line_end.size();
  if (bytes.size() < size) return std::nullopt;
  if (bytes.substr(line_size_ + body_size_, line_end.size()) != line_end) {
    return std::unexpected(errc::bad_message);
  }
  const std::string_view body = bytes.substr(line_size_, body_size_);
  line_size_ = 0;
  return operation{.kind = operation_kind::message,
                   .size = size,
                   .sid = sid_,
                   .subject = bytes.substr(subject_.offset, subject_.size),
                   .reply = bytes.substr(reply_.offset, reply_.size),
                   .headers = body.substr(0, headers_size_),
                   .payload = body.substr(headers_size_)};
}

}  // namespace gyre::nats::detail
