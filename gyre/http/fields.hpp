// SPDX-License-Identifier: Apache-2.0
// fields: the header fields of a message that a program sends. field_list: a view of the fields of
// a received message.
//
//     gyre::http::fields fields;
//     fields.set("Content-Type", "text/plain").add("Vary", "Accept");
//     auto type = fields.get("content-type");  // "text/plain"
//     for (const auto& [name, value] : fields) print(name, value);
#pragma once

#include <gyre/io/buffer.hpp>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <span>
#include <string_view>

namespace gyre::http {
namespace detail {
class head_writer;
}  // namespace detail

/// The name and the value of a field. Names are compared without regard to case.
struct field {
  std::string_view name;
  std::string_view value;
};

/// Owned header fields, in the order in which they were added, stored in their wire format.
///
/// Thread-safety: none.
/// Lifetime: views of names and values are valid until the fields change.
/// Errors: add() and set() throw std::invalid_argument, and change nothing, for a name that is not
/// a token, and for a value with CR, LF, NUL or another control character, which could end the
/// field early (response splitting).
/// Complexity: up to 4 KiB are stored in a block of the slab. A search reads all names.
class fields {
 public:
  class iterator;

  fields() noexcept = default;
  fields(const fields& other);
  fields& operator=(const fields& other);
  fields(fields&& other) noexcept = default;
  fields& operator=(fields&& other) noexcept = default;
  ~fields() = default;

  /// Adds a field after the others. Blanks around the value are dropped.
  fields& add(std::string_view name, std::string_view value);
  /// Replaces all fields with this name by one field after the others. `name` and `value` may be
  /// views into these fields.
  fields& set(std::string_view name, std::string_view value);
  /// Removes all fields with this name and returns their number.
  std::size_t erase(std::string_view name) noexcept;
  void clear() noexcept {
    text_.clear();
    name_sizes_ = 0;
  }

  /// The value of the first field with this name.
  [[nodiscard]] std::optional<std::string_view> get(std::string_view name) const noexcept;
  [[nodiscard]] bool contains(std::string_view name) const noexcept {
    return get(name).has_value();
  }
  [[nodiscard]] bool empty() const noexcept { return text_.empty(); }
  /// The wire format: "Name: value\r\n" for each field.
  [[nodiscard]] std::string_view text() const noexcept { return text_.text(); }

  [[nodiscard]] iterator begin() const noexcept;
  [[nodiscard]] iterator end() const noexcept;

 private:
  friend class response;
  friend class detail::head_writer;
  // Adds a field whose `name` is known to be a token. Neither `name` nor `value` may be a view into
  // these fields.
  fields& add_to_known_name(std::string_view name, std::string_view value);
  fields& add_checked(std::string_view name, std::string_view value);
  bool has_within(std::string_view text) const noexcept;
  // Whether a field may have a name of one of the sizes. A false positive is possible.
  bool may_have_names_of(std::initializer_list<std::size_t> sizes) const noexcept {
    std::uint32_t size_bits = 0;
    for (const std::size_t size : sizes) size_bits |= bit_of_size(size);
    return (name_sizes_ & size_bits) != 0;
  }
  static constexpr std::uint32_t bit_of_size(std::size_t size) noexcept {
    return std::uint32_t{1} << (size % 32);
  }

  io::buffer text_{{.prepend = 0}};
  std::uint32_t name_sizes_ = 0;  // a set of the sizes of names since clear(), one bit each
};

/// A forward iterator over the fields.
class fields::iterator {
 public:
  using value_type = field;
  using difference_type = std::ptrdiff_t;
  using iterator_concept = std::forward_iterator_tag;

  iterator() noexcept = default;
  const field& operator*() const noexcept { return current_; }
  const field* operator->() const noexcept { return &current_; }
  iterator& operator++() noexcept {
    read_next();
    return *this;
  }
  iterator operator++(int) noexcept {
    const iterator old_position = *this;
    read_next();
    return old_position;
  }
  friend bool operator==(const iterator& left, const iterator& right) noexcept {
    return left.current_.name.data() == right.current_.name.data();
  }

 private:
  friend fields;
  explicit iterator(std::string_view rest) noexcept : rest_(rest) { read_next(); }
  void read_next() noexcept;

  std::string_view rest_;
  field current_;
};

inline fields::iterator fields::begin() const noexcept { return iterator(text_.text()); }
inline fields::iterator fields::end() const noexcept { return {}; }

/// A view of the fields of a received message, in the order in which they were sent.
///
/// Thread-safety: as a value.
/// Lifetime: the message must outlive the view.
class field_list {
 public:
  constexpr field_list() noexcept = default;
  constexpr explicit field_list(std::span<const field> fields) noexcept : fields_(fields) {}

  /// The value of the first field with this name. Reads all names.
  [[nodiscard]] std::optional<std::string_view> get(std::string_view name) const noexcept;
  [[nodiscard]] bool contains(std::string_view name) const noexcept {
    return get(name).has_value();
  }
  [[nodiscard]] std::size_t size() const noexcept { return fields_.size(); }
  [[nodiscard]] bool empty() const noexcept { return fields_.empty(); }
  [[nodiscard]] const field& operator[](std::size_t index) const noexcept { return fields_[index]; }
  [[nodiscard]] auto begin() const noexcept { return fields_.begin(); }
  [[nodiscard]] auto end() const noexcept { return fields_.end(); }

 private:
  std::span<const field> fields_;
};

}  // namespace gyre::http
