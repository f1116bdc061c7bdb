// SPDX-License-Identifier: Apache-2.0
// body_reader: reads the fields of a PostgreSQL message, and never beyond its end.
#pragma once

#include <gyre/base/endian.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>

namespace gyre::postgres::detail {

/// Fields in their order. After a field that is not all there, every further one is zero or empty,
/// and is_good() is false: so that a caller checks once.
class body_reader {
 public:
  explicit body_reader(std::span<const std::byte> body) noexcept : rest_(body) {}

  bool is_good() const noexcept { return is_good_; }
  /// Whether all bytes were read, and no more than those.
  bool is_complete() const noexcept { return is_good_ && rest_.empty(); }
  std::span<const std::byte> left() const noexcept { return rest_; }

  template <std::integral T>
  T read() noexcept {
    if (rest_.size() < sizeof(T)) return static_cast<T>(fail());
    const T value = static_cast<T>(load_be<std::make_unsigned_t<T>>(rest_.data()));
    rest_ = rest_.subspan(sizeof(T));
    return value;
  }
  std::span<const std::byte> bytes(std::size_t count) noexcept {
    if (rest_.size() < count) {
      fail();
      return {};
    }
    const auto result = rest_.first(count);
    rest_ = rest_.subspan(count);
    return result;
  }
  /// A text up to its zero byte, which is consumed.
  std::string_view text() noexcept {
    const void* const end = rest_.empty() ? nullptr : std::memchr(rest_.data(), 0, rest_.size());
    if (end == nullptr) {
      fail();
      return {};
    }
    const auto size = static_cast<std::size_t>(static_cast<const std::byte*>(end) - rest_.data());
    const std::string_view result(reinterpret_cast<const char*>(rest_.data()), size);
    rest_ = rest_.subspan(size + 1);
    return result;
  }
  /// Returns all bytes that are left, as text.
  std::string_view rest() noexcept {
    const std::string_view result(reinterpret_cast<const char*>(rest_.data()), rest_.size());
    rest_ = {};
    return result;
  }

 private:
  int fail() noexcept {
    is_good_ = false;
    rest_ = {};
    return 0;
  }

  std::span<const std::byte> rest_;
  bool is_good_ = true;
};

}  // namespace gyre::postgres::detail
