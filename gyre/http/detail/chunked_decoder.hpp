// SPDX-License-Identifier: Apache-2.0
// chunked_decoder: decodes a chunked body of HTTP/1.1 (RFC 9112, 7.1), and its trailers.
#pragma once

#include <gyre/http/detail/head_scanner.hpp>
#include <gyre/http/error.hpp>
#include <gyre/http/fields.hpp>
#include <gyre/io/input.hpp>

#include <cstddef>
#include <cstdint>
#include <expected>
#include <span>
#include <vector>

namespace gyre::http::detail {

/// Decodes a chunked body without copying it. Refuses chunk lines above 1 KiB, and bodies with more
/// than 16 KiB of chunk extensions, because extensions cost a peer little and the receiver much.
class chunked_decoder {
 public:
  struct piece {
    std::span<const std::byte> data;  ///< empty if more input is needed, or if `is_last`
    bool is_last = false;             ///< whether the body and its trailers have ended
  };

  /// Consumes the input up to the end of the next data, and returns the data, which stay valid as
  /// long as the input's memory. Incomplete lines (chunk sizes, trailers) stay in `input`: call
  /// next() again with the same bytes and more. Appends the trailers to `trailers`, as views into
  /// the input's memory. The decoder must not be used after an error.
  [[nodiscard]] std::expected<piece, errc> next(io::input& input, const head_limits& limits,
                                                std::vector<field>& trailers);

 private:
  enum class state : std::uint8_t { size, data, data_end, trailers, done };
  [[nodiscard]] errc read_size(io::input& input) noexcept;
  [[nodiscard]] errc read_data_end(io::input& input) noexcept;

  std::uint64_t chunk_rest_ = 0;       // how many bytes of the chunk have yet to come
  std::uint32_t extension_bytes_ = 0;  // the bytes of extensions in all chunks so far
  head_scanner scanner_;
  state state_ = state::size;
};

}  // namespace gyre::http::detail
