// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/detail/chunked_decoder.hpp>

#include <gyre/http/detail/characters.hpp>
#include <gyre/http/detail/message_parser.hpp>

#include <algorithm>

namespace gyre::http::detail {
namespace {

constexpr std::size_t max_line_size = 1024;
constexpr std::uint32_t max_extension_bytes = 16 * 1024;
constexpr std::size_t max_digits = 16;
constexpr std::uint64_t max_chunk_size = ~std::uint64_t{0} >> 1U;

// Parses the first line of a chunk (RFC 9112 7.1), which may be incomplete. Checks the bytes in
// their order, so that the result does not depend on how reads split them.
class chunk_line {
 public:
  explicit chunk_line(std::string_view text) noexcept
      : begin_(text.data()), position_(begin_), end_(begin_ + text.size()) {}

  // Parses the line as far as it has come. Returns the error of the first forbidden byte.
  errc read() noexcept {
    if (const errc error = read_size(); error != no_error || position_ == end_) return error;
    while (position_ != end_ && *position_ != '\r') {
      if (const errc error = read_extension(); error != no_error || position_ == end_) return error;
    }
    if (end_ - position_ < 2) return no_error;
    if (position_[1] != '\n') return errc::bare_line_end;
    position_ += 2;
    is_whole_ = true;
    return no_error;
  }

  [[nodiscard]] bool is_whole() const noexcept { return is_whole_; }
  [[nodiscard]] std::uint64_t chunk_size() const noexcept { return chunk_size_; }
  [[nodiscard]] std::size_t size() const noexcept {
    return static_cast<std::size_t>(position_ - begin_);
  }
  [[nodiscard]] std::size_t digits() const noexcept { return digits_; }

 private:
  errc read_size() noexcept {
    for (; position_ != end_ && is(is_hex, *position_); ++position_) {
      const auto code = static_cast<unsigned char>(*position_);
      const unsigned digit =
          is_digit(*position_) ? code - unsigned{'0'} : (code | 0x20U) - 'a' + 10;
      if (++digits_ > max_digits || chunk_size_ > max_chunk_size >> 4U) return errc::bad_chunk;
      chunk_size_ = chunk_size_ << 4U | digit;
    }
    return position_ != end_ && digits_ == 0 ? bad_byte() : no_error;
  }

  // Parses one extension: BWS ";" BWS name [ BWS "=" BWS value ]. Whitespace after the extension is
  // left to the next call.
  errc read_extension() noexcept {
    skip_blanks();
    if (position_ == end_) return no_error;
    if (*position_ != ';') return bad_byte();
    ++position_;
    skip_blanks();
    if (const errc error = read_token(); error != no_error || position_ == end_) return error;
    const char* const after_name = position_;
    skip_blanks();
    if (position_ == end_) return no_error;
    if (*position_ != '=') {
      position_ = after_name;
      return no_error;
    }
    ++position_;
    skip_blanks();
    if (position_ != end_ && *position_ == '"') return read_quoted();
    return read_token();
  }

  errc read_token() noexcept {
    const char* const begin = position_;
    while (position_ != end_ && is(in_token, *position_)) ++position_;
    return position_ == begin && position_ != end_ ? bad_byte() : no_error;
  }

  errc read_quoted() noexcept {
    for (++position_; position_ != end_; ++position_) {
      if (*position_ == '"') {
        ++position_;
        return no_error;
      }
      if (*position_ == '\\') ++position_;
      if (position_ == end_) return no_error;
      if (!is_value_character(*position_)) return bad_byte();
    }
    return no_error;
  }

  void skip_blanks() noexcept {
    while (position_ != end_ && (*position_ == ' ' || *position_ == '\t')) ++position_;
  }

  [[nodiscard]] errc bad_byte() const noexcept {
    return *position_ == '\n' ? errc::bare_line_end : errc::bad_chunk;
  }

  const char* begin_;
  const char* position_;
  const char* end_;
  std::uint64_t chunk_size_ = 0;
  std::size_t digits_ = 0;
  bool is_whole_ = false;
};

}  // namespace

errc chunked_decoder::read_size(io::input& input) noexcept {
  chunk_line line(input.text().substr(0, max_line_size));
  if (const errc error = line.read(); error != no_error) return error;
  if (!line.is_whole()) return input.size() < max_line_size ? no_error : errc::bad_chunk;
  extension_bytes_ += static_cast<std::uint32_t>(line.size() - line.digits() - 2);
  if (extension_bytes_ > max_extension_bytes) return errc::bad_chunk;
  input.consume(line.size());
  chunk_rest_ = line.chunk_size();
  state_ = chunk_rest_ != 0 ? state::data : state::trailers;
  return no_error;
}

errc chunked_decoder::read_data_end(io::input& input) noexcept {
  const std::string_view text = input.text();
  if (text.empty()) return no_error;
  if (text[0] != '\r') return text[0] == '\n' ? errc::bare_line_end : errc::bad_chunk;
  if (text.size() == 1) return no_error;
  if (text[1] != '\n') return errc::bare_line_end;
  input.consume(2);
  state_ = state::size;
  return no_error;
}

std::expected<chunked_decoder::piece, errc> chunked_decoder::next(io::input& input,
                                                                  const head_limits& limits,
                                                                  std::vector<field>& trailers) {
  // Each iteration changes the state, or returns.
  while (true) {
    const state old_state = state_;
    switch (state_) {
      case state::size:
        if (const errc error = read_size(input); error != no_error) return std::unexpected(error);
        break;
      case state::data: {
        const std::size_t count = static_cast<std::size_t>(
            std::min(chunk_rest_, static_cast<std::uint64_t>(input.size())));
        chunk_rest_ -= count;
        if (chunk_rest_ == 0) state_ = state::data_end;
        return piece{.data = input.take(count)};
      }
      case state::data_end:
        if (const errc error = read_data_end(input); error != no_error)
          return std::unexpected(error);
        break;
      case state::trailers: {
        const auto size = scanner_.find_end(input.text(), limits, true);
        if (!size) return std::unexpected(size.error());
        if (*size == 0) return piece{};
        const std::string_view section = input.text().substr(0, *size);
        const errc error = parse_trailers(section, limits, trailers);
        if (error != no_error) return std::unexpected(error);
        input.consume(*size);
        state_ = state::done;
        break;
      }
      case state::done: return piece{.data = {}, .is_last = true};
    }
    if (state_ == old_state) return piece{};
  }
}

}  // namespace gyre::http::detail
