// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/detail/message_reader.hpp>

#include <gyre/http/detail/message_parser.hpp>

#include <string_view>

namespace gyre::http::detail {

errc message_reader::skip_interim(unsigned status, std::size_t max_count) noexcept {
  return status == 101 || ++interim_count_ > max_count ? errc::unexpected_status : no_error;
}

void message_reader::begin_upgraded() noexcept {
  kind_ = body_kind::until_close;
  remaining_bytes_ = unlimited;
  state_ = reading::body;
}

bool message_reader::take_continue() noexcept {
  if (state_ != reading::awaiting_continue) return false;
  state_ = reading::body;
  return true;
}

std::expected<std::span<const std::byte>, errc> message_reader::next_of_chunks(
    io::input& input, const head_limits& limits) {
  const auto chunk_piece = decoder_.next(input, limits, trailers_);
  if (!chunk_piece) return std::unexpected(chunk_piece.error());
  if (chunk_piece->data.size() > remaining_bytes_) return std::unexpected(errc::body_too_large);
  if (chunk_piece->is_last) {
    if (!trailers_.empty()) keep_trailers();
    state_ = reading::ended;
  }
  received_bytes_ += chunk_piece->data.size();
  remaining_bytes_ -= chunk_piece->data.size();
  return chunk_piece->data;
}

void message_reader::end(const header_block& trailers) {
  state_ = reading::ended;
  for (std::size_t i = 0; i < trailers.size(); ++i) {
    if (may_be_trailer(trailers[i].name)) trailers_.push_back(trailers[i]);
  }
  if (!trailers_.empty()) keep_trailers();
}

errc message_reader::end_input() noexcept {
  if (state_ == reading::ended) return no_error;
  if (kind_ == body_kind::until_close) {
    state_ = reading::ended;
    return no_error;
  }
  fail(errc::truncated);
  return errc::truncated;
}

// Copies the text of the trailers, which the decoder returns as views into the input's memory.
void message_reader::keep_trailers() {
  std::size_t size = 0;
  for (const field& field : trailers_) size += field.name.size() + field.value.size();
  trailer_text_.reserve(size);
  const auto keep_text = [this](std::string_view text) {
    const std::size_t begin = trailer_text_.size();
    trailer_text_ += text;
    return std::string_view(trailer_text_).substr(begin);
  };
  for (field& field : trailers_)
    field = {.name = keep_text(field.name), .value = keep_text(field.value)};
}

}  // namespace gyre::http::detail
