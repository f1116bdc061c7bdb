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
  explicit body_reader(std::span<const std::byte> body) noexcept : left_(body) {}

  bool is_good() const noexcept { return is_good_; }
  /// Whether all bytes were read, and no more than those.
  bool is_complete() const noexcept { return is_good_ && left_.empty(); }
  std::span<const std::byte> left() const noexcept { return left_; }

  template <std::integral T>
  T read() noexcept {
    if (left_.size() < sizeof(T)) return static_cast<T>(fail());
    const T value = static_cast<T>(load_be<std::make_unsigned_t<T>>(left_.data()));
    left_ = left_.subspan(sizeof(T));
    return value;
  }
  std::span<const std::byte> bytes(std::size_t count) noexcept {
    if (left_.size() < count) {
      fail();
      return {};
    }
    const auto taken = left_.first(count);
    left_ = left_.subspan(count);
    return taken;
  }
  /// A text up to its zero byte, which is consumed.
  std::string_view text() noexcept {
    const void* const end = left_.empty() ? nullptr : std::memchr(left_.data(), 0, left_.size());
    if (end == nullptr) {
      fail();
      return {};
    }
    const auto size = static_cast<std::size_t>(static_cast<const std::byte*>(end) - left_.data());
    const std::string_view read(reinterpret_cast<const char*>(left_.data()), size);
    left_ = left_.subspan(size + 1);
    return read;
  }
  /// Returns all bytes that are left, as text.
  std::string_view rest() noexcept {
    const std::string_view read(reinterpret_cast<const char*>(left_.data()), left_.size());
    left_ = {};
    return read;
  }

 private:
  int fail() noexcept {
    is_good_ = false;
    left_ = {};
    return 0;
  }

  std::span<const std::byte> left_;
  bool is_good_ = true;
};

}  // namespace gyre::postgres::detail
