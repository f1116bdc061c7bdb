// SPDX-License-Identifier: Apache-2.0
// body_unpacker: incremental decompression of a body that has one or more content codings.
#pragma once

#include <gyre/http/compression.hpp>
#include <gyre/http/content_coding.hpp>
#include <gyre/http/fields.hpp>

#include <cstddef>
#include <cstdint>
#include <expected>
#include <optional>
#include <span>
#include <system_error>
#include <vector>

namespace gyre::http::detail {

/// Returns the codings of all Content-Encoding fields, which form one list (RFC 9110, 8.4), in the
/// order in which they were applied, without empty elements and "identity". Returns nothing if a
/// coding is unknown, or if there are more than body_unpacker::max_codings.
std::optional<std::vector<content_coding>> content_codings_of(field_list fields);

/// A pull decoder: feed() supplies packed bytes, and take() returns the unpacked bytes piece by
/// piece.
///
/// Thread-safety: none.
/// Complexity: a decompressor and 64 KiB of output for each coding.
class body_unpacker {
 public:
  /// Bodies with more codings are refused, because each one costs the sender little and the
  /// receiver a decompressor.
  static constexpr std::size_t max_codings = 4;

  /// `codings`: at least one, in the order in which they were applied. `max_output`: the maximum
  /// number of bytes that each coding may unpack to.
  body_unpacker(const std::vector<content_coding>& codings, std::uint64_t max_output);

  /// Supplies the next bytes of the packed body. Call it when take() has returned nothing; the
  /// bytes must stay valid until take() returns nothing again.
  void feed(std::span<const std::byte> packed_bytes) noexcept {
    stages_.front().input = packed_bytes;
    has_begun_ = true;
  }
  /// Returns the next unpacked bytes, which are valid until the next call; nothing if feed() must
  /// supply more. Errors: format_errc::bad_compression, output_limit.
  std::expected<std::optional<std::span<const std::byte>>, std::error_code> take();
  /// Whether the body may end here: each coding that has had input has ended, or the body is empty.
  bool is_complete() const noexcept;

 private:
  struct stage {
    decompressor coding;
    std::vector<std::byte> output = {};
    std::span<const std::byte> input = {};
    bool has_more = false;   // whether the last step filled `output`, so that more may follow
    bool has_begun = false;  // whether the stage has had input
  };

  std::expected<bool, std::error_code> unpack(stage& target,
                                              std::span<const std::byte>& unpacked_bytes);

  std::vector<stage> stages_;  // the first stage undoes the coding that was applied last
  bool has_begun_ = false;     // whether feed() was called
};

}  // namespace gyre::http::detail
