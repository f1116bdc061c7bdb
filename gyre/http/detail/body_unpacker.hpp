// SPDX-License-Identifier: Apache-2.0
// body_unpacker: undoes the content codings of a body, one after the other, as its bytes come.
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

/// The codings in the fields Content-Encoding, which are one list (RFC 9110, 8.4), in the order in
/// which they were applied. Empty elements and "identity" are left out. Nothing if one is unknown,
/// or if there are more than body_unpacker::max_codings.
std::optional<std::vector<content_coding>> content_codings_of(field_list fields);

/// A pull parser: feed() gives it bytes, take() gives the unpacked form of them, piece by piece.
///
/// Thread-safety: none.
/// Complexity: a decompressor and 64 KiB for each coding.
class body_unpacker {
 public:
  /// A body that was packed more often is refused: each coding costs the peer little and us much.
  static constexpr std::size_t max_codings = 4;

  /// `codings`: at least one, in the order in which they were applied. `max_output`: bytes that
  /// each of them may unpack to.
  body_unpacker(const std::vector<content_coding>& codings, std::uint64_t max_output);

  /// The next bytes of the packed body, once take() has given nothing. Valid until then.
  void feed(std::span<const std::byte> packed) noexcept {
    stages_.front().input = packed;
    has_begun_ = true;
  }
  /// The next unpacked bytes, valid until the next call; nothing: more are needed. Errors:
  /// format_errc::bad_compression, output_limit.
  std::expected<std::optional<std::span<const std::byte>>, std::error_code> take();
  /// Whether the body may end here: all codings have, or it is empty, which needs none.
  bool is_complete() const noexcept;

 private:
  struct stage {
    decompressor coding;
    std::vector<std::byte> output = {};
    std::span<const std::byte> input = {};
    bool has_more = false;  // the last step has filled all of `output`
    bool has_begun = false;
  };

  std::expected<bool, std::error_code> unpack(stage& target, std::span<const std::byte>& produced);

  std::vector<stage> stages_;  // the first undoes the coding that was applied last
  bool has_begun_ = false;
};

}  // namespace gyre::http::detail
