// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/multipart.hpp>

#include <gyre/http/detail/boundary.hpp>
#include <gyre/http/detail/characters.hpp>
#include <gyre/http/detail/parameters.hpp>
#include <gyre/http/format_error.hpp>
#include <gyre/http/media_type.hpp>

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace gyre::http {
namespace {

using detail::equals_lower;

// Decodes a name as browsers write it ("%22", "%0D" and "%0A" for '"', CR and LF, see Fetch) and
// with the backslash escapes of other clients. Other backslashes, as in Windows paths, are kept.
std::string decode_name(const detail::parameter& parameter) {
  std::string name;
  std::string_view rest = parameter.raw;
  while (!rest.empty()) {
    std::size_t size = 1;
    char byte = rest.front();
    if (parameter.has_escapes && (rest.starts_with("\\\"") || rest.starts_with("\\\\"))) {
      byte = rest[1];
      size = 2;
    } else if (rest.starts_with("%22") || rest.starts_with("%0D") || rest.starts_with("%0A")) {
      byte = static_cast<char>(detail::hex_value(rest[1]) * 16 + detail::hex_value(rest[2]));
      size = 3;
    }
    name += byte;
    rest.remove_prefix(size);
  }
  return name;
}

// Parses the value of Content-Disposition: "form-data", one name and at most one file name.
bool read_disposition(std::string_view value, detail::backslash backslash_meaning,
                      multipart_part& part) {
  std::string_view rest = value;
  part.file_name.reset();
  if (!equals_lower(detail::take_while(detail::in_token, rest), "form-data")) return false;
  rest = detail::without_empty_parameters(rest);
  bool has_name = false;
  while (!rest.empty()) {
    const auto parameter = detail::take_parameter(rest, backslash_meaning);
    if (!parameter) return false;
    if (equals_lower(parameter->name, "name")) {
      if (std::exchange(has_name, true)) return false;
      part.name = decode_name(*parameter);
    } else if (equals_lower(parameter->name, "filename")) {
      if (part.file_name) return false;
      part.file_name = decode_name(*parameter);
    }
  }
  return has_name;
}

// Retries with plain backslashes: browsers do not escape them, so one may stand before a closing
// quote.
bool read_disposition(std::string_view value, multipart_part& part) {
  return read_disposition(value, detail::backslash::escapes, part) ||
         read_disposition(value, detail::backslash::is_ordinary, part);
}

bool is_identity_encoding(std::string_view value) noexcept {
  return equals_lower(value, "7bit") || equals_lower(value, "8bit") ||
         equals_lower(value, "binary");
}

// Parses the headers of a part. `head` ends with the empty line after them; its line ends are CR
// LF. Returns false if a header is malformed or Content-Disposition is missing.
bool read_part_head(std::string_view head, multipart_part& part) {
  bool has_disposition = false;
  bool has_type = false;
  while (head != "\r\n") {
    const std::string_view line = head.substr(0, head.find("\r\n"));
    head.remove_prefix(line.size() + 2);
    std::string_view value = line;
    const std::string_view name = detail::take_until(value, ':');
    if (!detail::is_token(name) || name.size() == line.size()) return false;
    if (!std::ranges::all_of(value, detail::is_value_character)) return false;
    value = detail::trim(value);
    if (equals_lower(name, "content-disposition")) {
      if (std::exchange(has_disposition, true) || !read_disposition(value, part)) return false;
    } else if (equals_lower(name, "content-type")) {
      if (std::exchange(has_type, true)) return false;
      // A malformed type counts as the default type (RFC 2045, 5.2); some senders leave it empty.
      if (media_type::parse(value)) part.content_type = value;
    } else if (equals_lower(name, "content-transfer-encoding")) {
      if (!is_identity_encoding(value)) return false;
    }
  }
  return has_disposition;
}

}  // namespace

std::expected<std::string, std::error_code> multipart_boundary(std::string_view content_type) {
  const auto type = media_type::parse(content_type);
  if (type && type->is("multipart/form-data")) {
    std::optional<std::string> boundary = type->parameter("boundary");
    if (boundary && detail::is_boundary(*boundary)) return *std::move(boundary);
  }
  return std::unexpected(make_error_code(format_errc::bad_boundary));
}

multipart_reader::multipart_reader(std::string_view boundary, multipart_limits limits)
    : delimiter_("\r\n--" + std::string(boundary)), limits_(limits) {
  if (!detail::is_boundary(boundary)) {
    throw std::invalid_argument(
        "gyre::http::multipart_reader: the boundary is empty, longer than 70 characters, or has "
        "characters that are not allowed");
  }
}

// Searches for the next delimiter. Returns true after consuming all of it. Otherwise consumes bytes
// that may belong to it, or sets `content` to consumed bytes that do not. A CR occurs only at the
// front of a delimiter, so bytes that began like a delimiter and turn out to be data cannot contain
// the beginning of another one.
bool multipart_reader::find_delimiter(io::input& piece,
                                      std::span<const std::byte>& content) noexcept {
  if (match_size_ == 0) {
    std::size_t position = piece.find(delimiter_);
    if (position == io::input::npos) {
      const std::string_view text = piece.text();
      const std::size_t tail = text.size() - std::min(text.size(), delimiter_.size() - 1);
      const std::size_t begin = std::min(text.substr(tail).rfind('\r'), text.size() - tail) + tail;
      position = delimiter_.starts_with(text.substr(begin)) ? begin : text.size();
    }
    content = piece.take(position);
    if (!content.empty()) return false;
  }
  while (!piece.empty() && match_size_ < delimiter_.size() &&
         piece.text().front() == delimiter_[match_size_]) {
    piece.consume(1);
    ++match_size_;
  }
  if (match_size_ == delimiter_.size()) {
    match_size_ = 0;
    implied_size_ = 0;
    return true;
  }
  if (!piece.empty()) {
    const std::string_view delimiter = delimiter_;
    content = io::input(delimiter.substr(implied_size_, match_size_ - implied_size_)).bytes();
    match_size_ = 0;
    implied_size_ = 0;
  }
  return false;
}

multipart_event multipart_reader::fail(std::error_code error) noexcept {
  error_ = error;
  state_ = state::failed;
  return {};
}

// Skips the blanks that transports may add after a boundary (RFC 2046, 5.1.1). Returns true if
// another byte follows. Fails with `error` after more than `limit` ignored bytes.
bool multipart_reader::skip_blanks(io::input& piece, std::size_t limit,
                                   std::error_code error) noexcept {
  const std::string_view text = piece.text();
  const std::size_t blanks = std::min(text.find_first_not_of(" \t"), text.size());
  if (blanks != 0) last_byte_ = ' ';
  piece.consume(blanks);
  ignored_size_ += blanks;
  if (ignored_size_ > limit) {
    fail(error);
    return false;
  }
  return !piece.empty();
}

// Reads the end of a boundary line: blanks and CR LF before the headers of the next part, or "--"
// after the last part.
multipart_event multipart_reader::read_boundary_end(io::input& piece) noexcept {
  const bool is_first_byte = last_byte_ == '\0' || last_byte_ == ' ';
  if (is_first_byte && !skip_blanks(piece, limits_.max_head, format_errc::part_headers_too_long)) {
    return {};
  }
  const char byte = piece.text().front();
  piece.consume(1);
  if (is_first_byte) {
    if (byte != '\r' && (byte != '-' || last_byte_ == ' ')) return fail(format_errc::bad_part);
    last_byte_ = byte;
    return {};
  }
  if (byte != (last_byte_ == '\r' ? '\n' : '-')) return fail(format_errc::bad_part);
  last_byte_ = '\0';
  ignored_size_ = 0;
  if (byte == '-') {
    state_ = state::epilogue;
    return {.kind = multipart_event::end};
  }
  if (++part_count_ > limits_.max_parts) return fail(format_errc::too_many_parts);
  head_.clear();
  state_ = state::head;
  return {};
}

// Reads the headers of a part up to the next line end; an incomplete line is kept in head_.
multipart_event multipart_reader::read_head(io::input& piece) {
  const std::size_t line_end = piece.find_eol();
  const std::size_t size = line_end == io::input::npos ? piece.size() : line_end + 1;
  if (size > limits_.max_head - head_.size()) return fail(format_errc::part_headers_too_long);
  head_ += piece.text().substr(0, size);
  piece.consume(size);
  if (line_end == io::input::npos) return {};
  if (!head_.ends_with("\r\n")) return fail(format_errc::bad_part);
  if (head_ != "\r\n" && !head_.ends_with("\r\n\r\n")) return {};
  part_ = {};
  if (!read_part_head(head_, part_)) return fail(format_errc::bad_part);
  state_ = state::data;
  return {.kind = multipart_event::part};
}

// Reads the epilogue: blanks after the last boundary, then optionally CR LF and any bytes.
void multipart_reader::read_epilogue(io::input& piece) noexcept {
  if (last_byte_ == '\n') {
    ignored_size_ += piece.size();
    piece.consume_all();
    if (ignored_size_ > limits_.max_epilogue) fail(format_errc::epilogue_too_long);
    return;
  }
  if (last_byte_ != '\r' &&
      !skip_blanks(piece, limits_.max_epilogue, format_errc::epilogue_too_long)) {
    return;
  }
  const char byte = piece.text().front();
  piece.consume(1);
  if (byte != (last_byte_ == '\r' ? '\n' : '\r')) {
    fail(format_errc::bad_part);
  } else {
    last_byte_ = byte;
  }
}

// Makes one step; the event is need_more if the step made none.
multipart_event multipart_reader::advance(io::input& piece) {
  std::span<const std::byte> preamble;
  switch (state_) {
    case state::preamble:
      if (find_delimiter(piece, preamble)) state_ = state::boundary_end;
      ignored_size_ += preamble.size();
      if (ignored_size_ > limits_.max_preamble) return fail(format_errc::preamble_too_long);
      if (state_ == state::boundary_end) ignored_size_ = 0;
      return {};
    case state::data:
      if (find_delimiter(piece, preamble)) {
        state_ = state::boundary_end;
        return {.kind = multipart_event::part_end};
      }
      if (preamble.empty()) return {};
      return {.kind = multipart_event::data, .bytes = preamble};
    case state::boundary_end: return read_boundary_end(piece);
    case state::head: return read_head(piece);
    case state::epilogue: read_epilogue(piece); return {};
    case state::failed: break;
  }
  return {};
}

std::expected<multipart_event, std::error_code> multipart_reader::next(io::input& piece) {
  multipart_event event;
  while (!piece.empty() && state_ != state::failed && event.kind == multipart_event::need_more) {
    event = advance(piece);
  }
  if (state_ == state::failed) return std::unexpected(error_);
  return event;
}

std::error_code multipart_reader::finish() const noexcept {
  if (state_ == state::failed) return error_;
  const bool is_complete = state_ == state::epilogue && last_byte_ != '\r';
  return is_complete ? std::error_code() : make_error_code(format_errc::incomplete);
}

}  // namespace gyre::http
