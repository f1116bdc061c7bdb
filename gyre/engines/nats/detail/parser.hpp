// SPDX-License-Identifier: Apache-2.0
// parser: finds the operations of a NATS server in its bytes, without I/O.
#pragma once

#include <gyre/engines/nats/error.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <limits>
#include <optional>
#include <string_view>

namespace gyre::nats::detail {

enum class operation_kind : std::uint8_t { info, message, ping, pong, ok, error };

/// An operation. Its views are of the bytes in which it was found.
struct operation {
  operation_kind kind = operation_kind::ok;
  std::size_t size = 0;        ///< the bytes of the whole operation
  std::string_view text = {};  ///< the JSON of INFO; the text of -ERR, without quotes

  // The members below are the parts of MSG and HMSG.
  std::uint64_t sid = 0;  ///< the subscription's number
  std::string_view subject = {};
  std::string_view reply = {};
  std::string_view headers = {};  ///< as they came; other clients may have sent any bytes
  std::string_view payload = {};
};

/// Finds the first operation, in bytes that come in parts.
///
///     parser input(max_message);
///     auto found = input.parse(bytes);  // from the operation's first byte on, each time
///
/// Errors: bad_message; message_too_large.
/// Complexity: passes over each byte of a line once, and over none of a payload.
class parser {
 public:
  /// Lines other than INFO. A client's line may have 4 KiB; the server adds a number to those it
  /// passes on, and words to those that it refuses.
  static constexpr std::size_t max_line_size = std::size_t{8} << 10;
  /// INFO names the servers of a cluster.
  static constexpr std::size_t max_info_size = std::size_t{64} << 10;

  explicit parser(std::size_t max_message) noexcept
      : max_message_(std::min(max_message, largest_message)) {}

  /// Parses the operation at the front of `bytes`; std::nullopt if more bytes are needed. After an
  /// operation the next call begins a new one.
  std::expected<std::optional<operation>, errc> parse(std::string_view bytes) noexcept;

 private:
  // A part of the line. It is kept as a position, because the bytes may move until the payload has
  // come.
  struct part {
    std::size_t offset = 0;
    std::size_t size = 0;
  };

  // The limit of max_message, below which sums of sizes do not overflow.
  static constexpr std::size_t largest_message = std::numeric_limits<std::size_t>::max() / 2;

  std::expected<bool, errc> find_line(std::string_view bytes) noexcept;
  std::expected<std::optional<operation>, errc> read_line(std::string_view bytes) noexcept;
  bool read_message_line(std::string_view line, bool has_headers) noexcept;
  std::expected<std::optional<operation>, errc> read_message(std::string_view bytes) noexcept;

  std::size_t max_message_;
  std::size_t scanned_bytes_ = 0;  // bytes that were searched for the line's end
  std::size_t line_size_ = 0;      // of the message whose payload is awaited; 0: none
  std::uint64_t sid_ = 0;
  part subject_;
  part reply_;
  std::size_t headers_size_ = 0;
  std::size_t body_size_ = 0;  // the size of headers and payload together
};

}  // namespace gyre::nats::detail
