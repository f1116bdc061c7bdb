// SPDX-License-Identifier: Apache-2.0
// load_be, load_le, store_be, store_le: read and write unsigned integers in a given byte order, at
// any alignment, in one or two machine instructions.
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstring>

namespace gyre {

namespace detail {

static_assert(std::endian::native == std::endian::little ||
              std::endian::native == std::endian::big);

template <std::endian Order, std::unsigned_integral T>
T load(const std::byte* bytes) noexcept {
  T value;
  std::memcpy(&value, bytes, sizeof(value));
  if constexpr (Order != std::endian::native) value = std::byteswap(value);
  return value;
}

template <std::endian Order, std::unsigned_integral T>
void store(std::byte* bytes, T value) noexcept {
  if constexpr (Order != std::endian::native) value = std::byteswap(value);
  std::memcpy(bytes, &value, sizeof(value));
}

}  // namespace detail

/// Reads a T from the sizeof(T) bytes at `bytes`, most significant byte first (network order).
template <std::unsigned_integral T>
[[nodiscard]] T load_be(const std::byte* bytes) noexcept {
  return detail::load<std::endian::big, T>(bytes);
}

/// Reads a T from the sizeof(T) bytes at `bytes`, least significant byte first.
template <std::unsigned_integral T>
[[nodiscard]] T load_le(const std::byte* bytes) noexcept {
  return detail::load<std::endian::little, T>(bytes);
}

/// Writes `value` to the sizeof(T) bytes at `bytes`, most significant byte first (network order).
template <std::unsigned_integral T>
void store_be(std::byte* bytes, T value) noexcept {
  detail::store<std::endian::big>(bytes, value);
}

/// Writes `value` to the sizeof(T) bytes at `bytes`, least significant byte first.
template <std::unsigned_integral T>
void store_le(std::byte* bytes, T value) noexcept {
  detail::store<std::endian::little>(bytes, value);
}

}  // namespace gyre
