// SPDX-License-Identifier: Apache-2.0
// message_parser: heads and chunked bodies of HTTP/1.1 and 1.0, parsed strictly (RFC 9110, 9112).
//
//     head_scanner scanner;
//     auto size = scanner.find_end(in.text(), limits);       // 0: the rest is still to come
//     request_head head;
//     errc error = parse_request_head(in.text().substr(0, *size), limits, head);
#pragma once

#include <gyre/http/error.hpp>
#include <gyre/http/fields.hpp>
#include <gyre/io/input.hpp>

#include <cstddef>
#include <cstdint>
#include <expected>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace gyre::http::detail {

inline constexpr errc no_error{};

/// Limits of a head or of a trailer section.
struct head_limits {
  std::size_t start_line = 8 * 1024;  ///< bytes, line end included
  std::size_t fields = 32 * 1024;     ///< bytes of all field lines, line ends included
  std::size_t field_count = 100;
};

/// A field line: views into the head. The value has no surrounding whitespace.
using field_view = http::field;

/// Memory for a body of which little has come: a peer may announce much, and send nothing.
inline constexpr std::size_t first_reservation = std::size_t{64} << 10;

/// How the end of a body is found.
enum class body_kind : std::uint8_t { none, length, chunked, until_close };

/// The framing of a body, and what the fields say of the connection.
struct message_framing {
  body_kind body = body_kind::none;
  std::uint64_t length = 0;        ///< bytes of a body of kind `length`
  std::uint8_t minor_version = 1;  ///< 0 or 1; later ones count as 1
  /// Whether the connection lasts: `Connection: close` is absent, and in 1.0 keep-alive is there.
  bool keep_alive = true;
  /// `Connection: upgrade` and an Upgrade field are there.
  bool upgrade = false;
};

/// A request head. All views are into the parsed bytes.
struct request_head {
  std::string_view method;
  std::string_view target;  ///< as it came: origin, absolute, authority or asterisk form
  std::string_view host;    ///< the value of Host; empty if HTTP/1.0 gave none
  message_framing framing;
  bool expect_continue = false;
  std::vector<field> fields;  ///< cleared, then filled: keeps its memory for the next head
};

/// A response head. All views are into the parsed bytes.
struct response_head {
  unsigned status = 0;
  std::string_view reason;
  message_framing framing;  ///< kind none where the request or the status forbids a body
  std::vector<field> fields;
};

/// Finds the end of a head in input that grows from call to call: a byte is looked at once.
class head_scanner {
 public:
  /// The size of the head with its empty line, or 0 while that has not come. `bytes` begins with
  /// the head, in each call with the same bytes and more. An empty line before the start line (one
  /// at most, RFC 9112 2.2) is part of the head. With `trailers`, no start line is expected. Starts
  /// anew after it returned a size or an error.
  ///
  /// Errors: as soon as the byte is seen, errc::bare_line_end; bad_start_line and bad_field for
  /// NUL; bad_start_line for a second empty line; target_too_long and fields_too_large.
  [[nodiscard]] std::expected<std::size_t, errc> find_end(std::string_view bytes,
                                                          const head_limits& limits,
                                                          bool trailers = false) noexcept;
  void reset() noexcept { *this = {}; }

 private:
  std::uint32_t line_ = 0;     // offset of the line that is not complete
  std::uint32_t scanned_ = 0;  // offset up to which there is no line end
  std::uint32_t fields_ = 0;   // offset of the first field line; 0 before it, and in trailers
  std::uint32_t lines_ = 0;    // complete field lines
};

/// Parses a whole head, as head_scanner found it, with the empty line before it, if there is one.
/// Returns errc{} when it is valid; after an error the contents of `parsed` are unspecified.
/// Allocates only when there are more fields than `parsed.fields` has capacity for.
[[nodiscard]] errc parse_request_head(std::string_view head, const head_limits& limits,
                                      request_head& parsed);
/// As above. `request_method` is the method that the response answers: responses to HEAD, 1xx, 204,
/// 304 and successful ones to CONNECT have no body, whatever their fields say; where these are
/// malformed, or contradict each other, keep_alive is false. So it is for a body of kind
/// until_close. Blanks replace line ends within fields (obs-fold) in `head`, which a request must
/// not have.
[[nodiscard]] errc parse_response_head(std::span<char> head, const head_limits& limits,
                                       std::string_view request_method, response_head& parsed);
/// Parses a trailer section with its empty line, and appends its fields, but not those that a
/// trailer must not have (framing, routing, authentication: RFC 9110 6.5.1).
[[nodiscard]] errc parse_trailers(std::string_view section, const head_limits& limits,
                                  std::vector<field>& fields);

/// Decodes a chunked body, without copies. Refuses chunk lines above 1 KiB, and bodies with more
/// than 16 KiB of chunk extensions, which would cost a peer little and us much.
class chunked_decoder {
 public:
  struct piece {
    std::span<const std::byte> data;  ///< empty: more input is needed, or `is_last`
    bool is_last = false;             ///< the body and its trailers have ended
  };

  /// Consumes the input up to the end of the next data, which stays valid as long as the input's
  /// memory. Bytes that are no whole line yet (sizes, trailers) are left in `in`: call again with
  /// the same bytes and more. Trailers are appended to `trailers` as views into the input's memory.
  /// After an error, the decoder is of no use.
  [[nodiscard]] std::expected<piece, errc> next(io::input& in, const head_limits& limits,
                                                std::vector<field>& trailers);

 private:
  enum class state : std::uint8_t { size, data, data_end, trailers, done };
  [[nodiscard]] errc read_size(io::input& in) noexcept;
  [[nodiscard]] errc read_data_end(io::input& in) noexcept;

  std::uint64_t remaining_ = 0;        // bytes of the chunk that are still to come
  std::uint32_t extension_bytes_ = 0;  // of all chunks
  head_scanner scanner_;
  state state_ = state::size;
};

}  // namespace gyre::http::detail
