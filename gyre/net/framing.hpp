// SPDX-License-Identifier: Apache-2.0
// framing: message boundaries in a stream, by a length prefix, a delimiter or a fixed size.
//
//     server.on_connection([](gyre::net::tcp_connection& connection) {
//       connection.context() = gyre::net::delimited("\r\n");  // each connection has its own
//     });
//     server.on_message([](gyre::net::tcp_connection& connection, gyre::io::input& input) {
//       const std::error_code error = gyre::net::for_each_frame(
//           *connection.context<gyre::net::delimited>(), input,
//           [](std::span<const std::byte> line) { handle(line); });
//       if (error) connection.close();  // a line is too long
//     });
//
//     gyre::net::length_prefixed packets({.width = 2, .maximum = 1200});
//     gyre::io::buffer out;
//     packets.encode(out, payload);
//
// A framing is a small object for one direction of one connection and one thread (length_prefixed
// and fixed have no state, so that one object serves all). Each has two functions:
// - decode(input) takes the next frame from the front of `input`, if all of it is there;
// - encode(buffer, payload) appends a frame to `buffer`.
#pragma once

#include <gyre/io/buffer.hpp>
#include <gyre/io/input.hpp>

#include <bit>
#include <concepts>
#include <cstddef>
#include <expected>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>

namespace gyre::net {

/// The result of decode(), one of three:
/// - the payload of the next frame;
/// - nothing, while the frame is incomplete; nothing is consumed then;
/// - the error that ends the stream; each further call returns it again.
///
/// The frame is consumed, but its bytes stay in place, uncopied: the payload is valid until the
/// input's memory changes; in on_message, until that returns.
using decoded_frame = std::expected<std::optional<std::span<const std::byte>>, std::error_code>;

/// The requirements of a framing. An io::buffer is an io::input, too.
template <class T>
concept framing = requires(T& object, io::input& input, io::buffer& output) {
  { object.decode(input) } -> std::same_as<decoded_frame>;
  { object.encode(output, std::span<const std::byte>()) };
};

/// Calls `handle` with the payload of each complete frame, and leaves the beginning of the next
/// one. Returns the error of decode() that ends the stream, if there is one. Only an exception of
/// `handle` ends it early, after the present frame; closing the connection does not.
template <framing Framing, std::invocable<std::span<const std::byte>> Handle>
std::error_code for_each_frame(Framing& format, io::input& input, Handle&& handle) {
  for (;;) {
    const decoded_frame frame = format.decode(input);
    if (!frame) return frame.error();
    if (!*frame) return {};
    std::invoke(handle, **frame);
  }
}

/// The format of length-prefixed messages.
struct length_prefix_options {
  /// The number of bytes of the length: 1, 2, 4 or 8.
  std::size_t width = 4;
  /// The order of the bytes of the length.
  std::endian order = std::endian::big;
  /// Whether the length counts its own bytes, too.
  bool counts_itself = false;
  /// The longest payload, in bytes.
  std::size_t maximum = std::size_t{2} << 20;
};

/// The framing by length prefix: each message comes after its length.
///
/// Thread-safety: any thread; it has no state.
class length_prefixed {
 public:
  using options = length_prefix_options;

  /// Throws std::invalid_argument for another width.
  explicit length_prefixed(options format = {});

  /// Errors: io::errc::frame_too_long for a payload beyond the maximum, once its length is there;
  /// bad_frame_length for a length that counts itself and is less than `width`. Complexity: O(1).
  [[nodiscard]] decoded_frame decode(io::input& input) const noexcept;

  /// Appends the length and the payload, which may be a part of `output`. Throws std::system_error
  /// (io::errc::frame_too_long) for a payload beyond the maximum, or too long for `width` bytes of
  /// length, and the exceptions of io::buffer; `output` is then as it was.
  void encode(io::buffer& output, std::span<const std::byte> payload) const;
  void encode(io::buffer& output, std::string_view payload) const {
    encode(output, std::as_bytes(std::span(payload)));
  }
  /// Makes one frame of all bytes in `payload`: puts the length in front, into the buffer's
  /// headroom (buffer_options::prepend) if it fits, which moves no byte. Throws the exceptions of
  /// encode().
  void encode_in_place(io::buffer& payload) const;

  /// The longest payload, in bytes.
  [[nodiscard]] std::size_t maximum() const noexcept { return format_.maximum; }

 private:
  options format_;
};

/// The framing by delimiter: each message ends with a delimiter, which does not belong to it.
///
/// Thread-safety: none, as decode() remembers how far it has looked: one object per connection.
class delimited {
 public:
  static constexpr std::size_t default_maximum = std::size_t{64} << 10;

  /// `maximum`: the longest payload, in bytes. Throws std::invalid_argument for an empty delimiter.
  explicit delimited(std::string delimiter, std::size_t maximum = default_maximum);

  /// Errors: io::errc::frame_too_long once no delimiter can come within the maximum. Looks at each
  /// byte once, however many calls it takes to complete a frame: it remembers how far it has
  /// looked. So between two calls bytes may only be added at the end of `input`; for other changes,
  /// and for another connection, call restart().
  [[nodiscard]] decoded_frame decode(io::input& input) noexcept;
  /// Looks for the delimiter from the front of the input again.
  void restart() noexcept { searched_bytes_ = 0; }

  /// Appends the payload, which may be a part of `output`, and the delimiter. Throws
  /// std::system_error: io::errc::frame_too_long for a payload beyond the maximum,
  /// std::errc::invalid_argument for one in which the delimiter occurs, or at whose end it begins;
  /// and the exceptions of io::buffer. `output` is then as it was.
  void encode(io::buffer& output, std::span<const std::byte> payload) const;
  void encode(io::buffer& output, std::string_view payload) const {
    encode(output, std::as_bytes(std::span(payload)));
  }

  [[nodiscard]] std::string_view delimiter() const noexcept { return delimiter_; }
  [[nodiscard]] std::size_t maximum() const noexcept { return maximum_; }

 private:
  std::string delimiter_;
  std::size_t maximum_;
  std::size_t searched_bytes_ = 0;  // the number of leading bytes in which no delimiter begins
};

/// The framing by fixed size: all messages have one size, and nothing stands between them.
///
/// Thread-safety: any thread; it has no state.
class fixed {
 public:
  /// `size`: the size of each message, in bytes. Throws std::invalid_argument for zero.
  explicit fixed(std::size_t size);

  /// Returns the next message once it is complete. Never fails. Complexity: O(1).
  [[nodiscard]] decoded_frame decode(io::input& input) const noexcept;

  /// Appends the payload. Throws std::system_error (io::errc::wrong_frame_size) for another size,
  /// and the exceptions of io::buffer; `output` is then as it was.
  void encode(io::buffer& output, std::span<const std::byte> payload) const;
  void encode(io::buffer& output, std::string_view payload) const {
    encode(output, std::as_bytes(std::span(payload)));
  }

  [[nodiscard]] std::size_t size() const noexcept { return size_; }

 private:
  std::size_t size_;
};

static_assert(framing<length_prefixed> && framing<delimited> && framing<fixed>);

}  // namespace gyre::net
