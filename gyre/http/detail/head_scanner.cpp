// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/detail/head_scanner.hpp>

#include <gyre/http/detail/find_control.hpp>

namespace gyre::http::detail {

// Finds the end of a head. Bytes and limits are checked in the order of the bytes, so that the
// result does not depend on how reads split them.
std::expected<std::size_t, errc> head_scanner::find_end(std::string_view bytes,
                                                        const head_limits& limits,
                                                        bool trailers) noexcept {
  const char* const begin = bytes.data();
  const char* const end = begin + bytes.size();
  // Returns the offset of the first byte that exceeds the limit of the current line. An empty line
  // has none.
  const auto limit_of_line = [&, max = limits.bounded()]() -> std::size_t {
    if (!trailers && fields_ == 0) return line_ + max.start_line;
    return fields_ + max.fields;
  };
  const auto fail = [&](errc start_line_error, errc field_error) {
    const errc error = !trailers && fields_ == 0 ? start_line_error : field_error;
    reset();
    return std::unexpected(error);
  };
  const auto too_large = [&] { return fail(errc::target_too_long, errc::fields_too_large); };
  const auto bare_line_end = [&] { return fail(errc::bare_line_end, errc::bare_line_end); };

  std::size_t limit = limit_of_line();
  const char* position = begin + scanned_size_;
  while (true) {
    position = find_control(position, end);
    const auto offset = static_cast<std::size_t>(position - begin);
    if (end - position >= 2 && position[0] == '\r' && position[1] == '\n' && offset != line_)
        [[likely]] {
      if (offset + 1 >= limit) return too_large();
      line_ = scanned_size_ = static_cast<std::uint32_t>(offset + 2);
      position += 2;
      if (!trailers && fields_ == 0) {
        fields_ = line_;
        limit = limit_of_line();
      } else if (++lines_ > limits.field_count) {
        return too_large();
      }
      continue;
    }
    if (position == end) {
      if (offset > limit) return too_large();
      scanned_size_ = static_cast<std::uint32_t>(offset);
      return 0;
    }
    const bool is_empty_line = offset == line_ && *position == '\r';
    if (!is_empty_line && offset >= limit) return too_large();
    if (*position != '\r') {
      if (*position == '\n') return bare_line_end();
      if (*position == '\0') return fail(errc::bad_start_line, errc::bad_field);
      ++position;  // the parser refuses the other control characters
      continue;
    }
    if (position + 1 == end) {
      scanned_size_ = static_cast<std::uint32_t>(offset);
      return 0;
    }
    if (position[1] != '\n') return bare_line_end();

    const auto next_line = static_cast<std::uint32_t>(offset + 2);
    if (trailers || fields_ != 0) {
      reset();
      return next_line;
    }
    // This is the second empty line.
    if (line_ != 0) return fail(errc::bad_start_line, errc::bad_start_line);
    line_ = scanned_size_ = next_line;
    limit = limit_of_line();
    position += 2;
  }
}

}  // namespace gyre::http::detail
