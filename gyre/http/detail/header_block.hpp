// SPDX-License-Identifier: Apache-2.0
// header_block: the fields of one message of HTTP/2, pseudo-header fields included, in one block of
// memory.
#pragma once

#include <gyre/http/detail/characters.hpp>
#include <gyre/http/fields.hpp>
#include <gyre/io/buffer.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace gyre::http::detail {

/// Thread-safety: none.
/// Lifetime: views of fields are valid until the next add() or clear().
class header_block {
 public:
  /// The bytes that RFC 9113 (6.5.2) and this library charge for a field besides its text.
  static constexpr std::size_t cost_of_field = 32;

  void add(std::string_view name, std::string_view value) {
    begin_field(name.size(), value.size());
    text_.append(name);
    text_.append(value);
  }
  /// Adds a field with its name in lower case, as HTTP/2 requires.
  void add_lowered(std::string_view name, std::string_view value) {
    begin_field(name.size(), value.size());
    const std::span<std::byte> room = text_.prepare(name.size());
    for (std::size_t i = 0; i < name.size(); ++i) room[i] = static_cast<std::byte>(lower(name[i]));
    text_.commit(name.size());
    text_.append(value);
  }
  /// Removes all fields. Keeps memory that is not large.
  void clear() noexcept {
    constexpr std::size_t max_kept_bytes = std::size_t{4} << 10;
    constexpr std::size_t max_kept_fields = 64;
    if (text_.capacity() > max_kept_bytes) {
      text_ = io::buffer({.prepend = 0});
    } else {
      text_.clear();
    }
    if (positions_.capacity() > max_kept_fields) {
      positions_ = {};
    } else {
      positions_.clear();
    }
  }

  std::size_t size() const noexcept { return positions_.size(); }
  /// Returns the bytes that the fields are charged.
  std::size_t cost() const noexcept { return text_.size() + size() * cost_of_field; }
  bool empty() const noexcept { return positions_.empty(); }
  field operator[](std::size_t index) const noexcept { return field_in(text_.text(), index); }
  /// Returns a field as views into `text`, a copy of text().
  field field_in(std::string_view text, std::size_t index) const noexcept {
    const position& place = positions_[index];
    return {.name = text.substr(place.begin, place.name_size),
            .value = text.substr(place.begin + place.name_size, place.value_size)};
  }
  /// Returns the names and values, without separators.
  std::string_view text() const noexcept { return text_.text(); }

 private:
  struct position {
    std::uint32_t begin;
    std::uint32_t name_size;
    std::uint32_t value_size;
  };

  void begin_field(std::size_t name_size, std::size_t value_size) {
    positions_.push_back({.begin = static_cast<std::uint32_t>(text_.size()),
                          .name_size = static_cast<std::uint32_t>(name_size),
                          .value_size = static_cast<std::uint32_t>(value_size)});
  }

  io::buffer text_{{.prepend = 0}};
  std::vector<position> positions_;
};

}  // namespace gyre::http::detail
