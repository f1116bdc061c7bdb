// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/percent_encoding.hpp>

#include <gyre/http/detail/characters.hpp>

#include <stdexcept>

namespace gyre::http {
namespace {

// Removes the next character from `text` and returns it decoded; -1 if its '%' is malformed.
int take_decoded(std::string_view& text, plus_sign plus) noexcept {
  const char first = text.front();
  if (first != '%') {
    text.remove_prefix(1);
    return first == '+' && plus == plus_sign::is_blank ? ' ' : static_cast<unsigned char>(first);
  }
  if (text.size() < 3) return -1;
  const int high = detail::hex_value(text[1]), low = detail::hex_value(text[2]);
  if (high < 0 || low < 0) return -1;
  text.remove_prefix(3);
  return high * 16 + low;
}

// Decodes `text` to `output`, which may be the memory of `text` itself: the write position never
// passes the read position.
std::optional<std::size_t> decode_to(std::string_view text, char* output, plus_sign plus) noexcept {
  std::size_t size = 0;
  while (!text.empty()) {
    const int byte = take_decoded(text, plus);
    if (byte < 0) return std::nullopt;
    output[size++] = static_cast<char>(byte);
  }
  return size;
}

void append_encoded(std::string& output, std::string_view text, detail::character_class plain) {
  constexpr std::string_view digits = "0123456789ABCDEF";
  for (const char character : text) {
    if (detail::is(plain, character)) {
      output += character;
    } else {
      const auto byte = static_cast<unsigned char>(character);
      output += '%';
      output += digits[byte >> 4];
      output += digits[byte & 15];
    }
  }
}

}  // namespace

std::optional<std::string> percent_decode(std::string_view text, plus_sign plus) {
  std::string result(text);
  const auto size = decode_to(text, result.data(), plus);
  if (!size) return std::nullopt;
  result.resize(*size);
  return result;
}

std::optional<std::string_view> percent_decode(std::string_view text, std::span<char> memory,
                                               plus_sign plus) {
  if (memory.size() < text.size()) {
    throw std::length_error("gyre::http::percent_decode: the memory is smaller than the text");
  }
  const auto size = decode_to(text, memory.data(), plus);
  if (!size) return std::nullopt;
  return std::string_view(memory.data(), *size);
}

bool is_percent_encoded(std::string_view text) noexcept {
  for (std::size_t position = text.find('%'); position != text.npos;
       position = text.find('%', position + 3)) {
    if (text.size() - position < 3) return false;
    if (detail::hex_value(text[position + 1]) < 0 || detail::hex_value(text[position + 2]) < 0)
      return false;
  }
  return true;
}

bool decodes_to(std::string_view encoded_text, std::string_view plain, plus_sign plus) noexcept {
  for (const char character : plain) {
    if (encoded_text.empty()) return false;
    if (take_decoded(encoded_text, plus) != static_cast<unsigned char>(character)) return false;
  }
  return encoded_text.empty();
}

void append_encoded_component(std::string& output, std::string_view text) {
  append_encoded(output, text, detail::is_unreserved);
}

void append_encoded_path(std::string& output, std::string_view path) {
  append_encoded(output, path, detail::in_path);
}

}  // namespace gyre::http
