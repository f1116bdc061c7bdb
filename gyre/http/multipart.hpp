// SPDX-License-Identifier: Apache-2.0
// multipart_reader: reads bodies of multipart/form-data, such as file uploads, as a stream.
//
//     gyre::http::multipart_reader reader(boundary);
//     while (!piece.empty()) {  // an input with bytes of the body, as they came
//       const auto event = reader.next(piece);
//       if (!event) throw std::system_error(event.error());
//       if (event->kind == gyre::http::multipart_event::part) file = open_for(reader.part().name);
//       if (event->kind == gyre::http::multipart_event::data) file.append(event->bytes);
//     }
#pragma once

#include <gyre/io/input.hpp>

#include <cstddef>
#include <cstdint>
#include <expected>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>

namespace gyre::http {

/// Limits of a multipart body. The reader buffers at most max_head bytes and a boundary, but no
/// data of parts.
struct multipart_limits {
  std::size_t max_parts = 1000;         ///< the parts of a body
  std::size_t max_head = 8 * 1024;      ///< bytes of the headers of a part
  std::size_t max_preamble = 4 * 1024;  ///< bytes before the first boundary, which are ignored
  std::size_t max_epilogue = 4 * 1024;  ///< bytes after the last boundary, which are ignored
};

/// The decoded headers of a part.
struct multipart_part {
  std::string name;  ///< the name of the form's field
  /// The name of an uploaded file as the client sends it. It may hold any bytes, such as "../".
  /// Nothing for other fields.
  std::optional<std::string> file_name;
  std::string content_type = "text/plain";  ///< the default also replaces a malformed type

  friend bool operator==(const multipart_part&, const multipart_part&) = default;
};

/// The result of one step of a multipart_reader.
struct multipart_event {
  /// The kinds of steps.
  enum kinds : std::uint8_t {
    need_more,  ///< all bytes were consumed: call next() again with further bytes
    part,       ///< a part begins; multipart_reader::part() returns its headers
    data,       ///< bytes of the part; never empty
    part_end,   ///< the part is complete
    end,        ///< the last boundary was received
  };

  kinds kind = need_more;
  std::span<const std::byte> bytes = {};
};

/// Returns the boundary in a Content-Type of multipart/form-data.
///
/// Errors: format_errc::bad_boundary, also for another media type.
[[nodiscard]] std::expected<std::string, std::error_code> multipart_boundary(
    std::string_view content_type);

/// Reads a body of multipart/form-data (RFC 7578) that is received in pieces, cut anywhere.
///
/// The reader is strict: lines end in CR LF, and only blanks may stand between a boundary and its
/// line end. Lines after the last boundary are ignored (RFC 2046, 5.1.1). A part has one
/// Content-Disposition of form-data, with one name. In quoted names `\"` and `\\` are decoded, and
/// so are %22, %0D and %0A, which browsers send for a quote and for line ends. The parameter
/// `filename*` is ignored, as RFC 7578 requires. Content-Transfer-Encoding must be 7bit, 8bit or
/// binary; headers other than this one, Content-Disposition and Content-Type are ignored.
///
/// Thread-safety: none; may be handed from thread to thread.
/// Complexity: linear; searches data with memmem(3). Only the headers of parts are copied; their
/// memory is reused.
class multipart_reader {
 public:
  /// Errors: std::invalid_argument for a boundary that multipart_boundary() would not return.
  explicit multipart_reader(std::string_view boundary, multipart_limits limits = {});

  /// Consumes bytes up to the next event. The bytes of a data event are a view into the memory of
  /// `piece`, or into the reader if an earlier piece ended like the beginning of a boundary. They
  /// are valid until the next call.
  ///
  /// Errors: format_errc::bad_part, too_many_parts, part_headers_too_long (blanks after a boundary
  /// count, too), preamble_too_long, epilogue_too_long. Later calls return the same error.
  [[nodiscard]] std::expected<multipart_event, std::error_code> next(io::input& piece);

  /// The headers of the current part, valid from its `part` event to the next one.
  [[nodiscard]] const multipart_part& part() const noexcept { return part_; }

  /// Ends the reading. Called at the end of the body. Returns the error of next(), if there was
  /// one, or format_errc::incomplete if the last boundary is missing.
  [[nodiscard]] std::error_code finish() const noexcept;

 private:
  enum class state : std::uint8_t { preamble, boundary_end, head, data, epilogue, failed };

  multipart_event advance(io::input& piece);
  multipart_event fail(std::error_code error) noexcept;
  bool find_delimiter(io::input& piece, std::span<const std::byte>& content) noexcept;
  multipart_event read_boundary_end(io::input& piece) noexcept;
  multipart_event read_head(io::input& piece);
  void read_epilogue(io::input& piece) noexcept;
  bool skip_blanks(io::input& piece, std::size_t limit, std::error_code error) noexcept;

  std::string delimiter_;  // consists of CR LF, "--" and the boundary
  multipart_limits limits_;
  std::string head_;
  multipart_part part_;
  std::error_code error_;
  // How many bytes of the delimiter were matched, and how many of these were not received but
  // implied: the CR LF before the first boundary, because a body begins with "--".
  std::size_t match_size_ = 2;
  std::size_t implied_size_ = 2;
  // Counts the bytes of the preamble, of blanks after a boundary, or of the epilogue.
  std::size_t ignored_size_ = 0;
  std::size_t part_count_ = 0;
  char last_byte_ = '\0';  // the last byte after a boundary; ' ' stands for any blank
  state state_ = state::preamble;
};

}  // namespace gyre::http
