// SPDX-License-Identifier: Apache-2.0
// input: received bytes that are not consumed yet, as a message callback receives them.
//
//     server.on_message([](gyre::net::tcp_connection&, gyre::io::input& input) {
//       while (auto length = input.peek<std::uint16_t>()) {
//         if (input.size() < sizeof *length + *length) break;  // the rest is still to come
//         input.consume(sizeof *length);
//         handle(input.take(*length));
//       }
//     });
#pragma once

#include <gyre/base/endian.hpp>

#include <cassert>
#include <concepts>
#include <cstddef>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>

namespace gyre::io {

/// The integers that can be read from and written to the network: all but bool, char included.
template <class T>
concept network_integer = std::integral<T> && !std::same_as<std::remove_cv_t<T>, bool>;

/// A view of bytes that is consumed from the front: a reader consumes the complete messages, and
/// finds the remaining bytes again the next time, followed by more.
///
/// Pass it as an `input&`. A copy is another view: bytes that are consumed from it stay in the
/// original, and a connection delivers them again. A `buffer` is an input, too, so an `input&` may
/// be the view of a buffer's own memory: do not assign to it, which would make that buffer view
/// other bytes.
///
/// Thread-safety: none.
/// Lifetime: the bytes must outlive the input, and the spans and views that it returns. The bytes
/// of a message callback live until it returns.
/// Complexity: two pointers; all members but the searches cost an instruction or two.
class input {
 public:
  /// Returned by searches that find nothing.
  static constexpr std::size_t npos = static_cast<std::size_t>(-1);

  constexpr input() noexcept = default;
  constexpr explicit input(std::span<const std::byte> bytes) noexcept
      : begin_(bytes.data()), end_(bytes.data() + bytes.size()) {}
  explicit input(std::string_view text) noexcept
      : input(std::as_bytes(std::span(text.data(), text.size()))) {}

  [[nodiscard]] constexpr std::size_t size() const noexcept {
    return static_cast<std::size_t>(end_ - begin_);
  }
  [[nodiscard]] constexpr bool empty() const noexcept { return begin_ == end_; }
  /// Returns the address of the first byte; may be null if there is none.
  [[nodiscard]] constexpr const std::byte* data() const noexcept { return begin_; }
  /// Returns all bytes; valid until their owner changes or frees them.
  [[nodiscard]] constexpr std::span<const std::byte> bytes() const noexcept {
    return {begin_, size()};
  }
  /// Returns all bytes as text.
  [[nodiscard]] std::string_view text() const noexcept {
    return {reinterpret_cast<const char*>(begin_), size()};
  }

  /// Drops the first `count` bytes; `count` <= size() is asserted.
  constexpr void consume(std::size_t count) noexcept {
    assert(count <= size() && "consumes more bytes than there are");
    begin_ += count;
  }
  /// Consumes all bytes.
  constexpr void consume_all() noexcept { begin_ = end_; }
  /// Drops the first `count` bytes, and returns them. They are valid as long as bytes(), in a
  /// buffer only until prepend().
  [[nodiscard]] constexpr std::span<const std::byte> take(std::size_t count) noexcept {
    const std::byte* const data = begin_;
    consume(count);
    return {data, count};
  }

  /// Returns the offset of the first `value` at or after `offset`, or npos.
  [[nodiscard]] std::size_t find(std::byte value, std::size_t offset = 0) const noexcept {
    if (offset >= size()) return npos;
    return offset_of(std::memchr(begin_ + offset, std::to_integer<int>(value), size() - offset));
  }
  /// Returns the offset of the first `text` at or after `offset`, or npos. An empty text is found
  /// at `offset`, up to the end. O(n) for every text.
  [[nodiscard]] std::size_t find(std::string_view text, std::size_t offset = 0) const noexcept {
    if (offset > size() || text.size() > size() - offset) return npos;
    if (text.empty()) return offset;
    return offset_of(::memmem(begin_ + offset, size() - offset, text.data(), text.size()));
  }
  /// Returns the offset of the first "\r\n", or npos.
  [[nodiscard]] std::size_t find_crlf(std::size_t offset = 0) const noexcept {
    return find("\r\n", offset);
  }
  /// Returns the offset of the first '\n', or npos.
  [[nodiscard]] std::size_t find_eol(std::size_t offset = 0) const noexcept {
    return find(std::byte{'\n'}, offset);
  }

  /// Returns the integer in network order at `offset`; std::nullopt if its bytes have not all
  /// arrived.
  template <network_integer T>
  [[nodiscard]] std::optional<T> peek(std::size_t offset = 0) const noexcept {
    if (offset > size() || size() - offset < sizeof(T)) return std::nullopt;
    return static_cast<T>(load_be<std::make_unsigned_t<T>>(begin_ + offset));
  }
  /// Consumes the integer in network order at the front, and returns it; std::nullopt if its bytes
  /// have not all arrived.
  template <network_integer T>
  [[nodiscard]] std::optional<T> read() noexcept {
    const std::optional<T> value = peek<T>();
    if (value) consume(sizeof(T));
    return value;
  }

 protected:
  [[nodiscard]] std::size_t offset_of(const void* position) const noexcept {
    if (position == nullptr) return npos;
    return static_cast<std::size_t>(static_cast<const std::byte*>(position) - begin_);
  }

  const std::byte* begin_ = nullptr;
  const std::byte* end_ = nullptr;
};

static_assert(std::is_trivially_copyable_v<input> && sizeof(input) == 2 * sizeof(void*));

}  // namespace gyre::io
