// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/postgres/detail/text_array.hpp>

#include <cstddef>
#include <utility>

namespace gyre::postgres::detail {
namespace {

// Reads characters up to one of `ends`, and resolves escapes.
class scanner {
 public:
  explicit scanner(std::string_view text) noexcept : rest_(text) {}

  bool has_ended() const noexcept { return rest_.empty(); }
  char peek() const noexcept { return rest_.empty() ? '\0' : rest_.front(); }
  bool consume(char character) noexcept {
    if (peek() != character || rest_.empty()) return false;
    rest_.remove_prefix(1);
    return true;
  }
  // Reads an element. Returns false if it does not end, or is an array itself.
  bool read_element(std::optional<std::string>& element) {
    std::string text;
    if (consume('"')) {
      while (!consume('"')) {
        if (!read_character(text)) return false;
      }
      element = std::move(text);
      return true;
    }
    bool has_escape = false;
    while (peek() != ',' && peek() != '}') {
      if (peek() == '{' || peek() == '"') return false;
      has_escape = has_escape || peek() == '\\';
      if (!read_character(text)) return false;
    }
    if (text.empty()) return false;
    if (text == "NULL" && !has_escape) {
      element.reset();
    } else {
      element = std::move(text);
    }
    return true;
  }

 private:
  bool read_character(std::string& text) {
    consume('\\');
    if (rest_.empty()) return false;
    text += rest_.front();
    rest_.remove_prefix(1);
    return true;
  }

  std::string_view rest_;
};

}  // namespace

std::optional<text_array> parse_text_array(std::string_view text) {
  // Skips the bounds of an array whose first index is not 1, as in "[0:1]={a,b}".
  if (text.starts_with('[')) {
    const std::size_t equals = text.find('=');
    if (equals == std::string_view::npos) return std::nullopt;
    text.remove_prefix(equals + 1);
  }
  scanner characters(text);
  text_array elements;
  if (!characters.consume('{')) return std::nullopt;
  if (characters.consume('}')) {
    return characters.has_ended() ? std::optional(std::move(elements)) : std::nullopt;
  }
  do {
    if (!characters.read_element(elements.emplace_back())) return std::nullopt;
  } while (characters.consume(','));
  if (!characters.consume('}') || !characters.has_ended()) return std::nullopt;
  return elements;
}

}  // namespace gyre::postgres::detail
