// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/detail/message_reader.hpp>

#include <algorithm>
#include <string_view>
#include <utility>

namespace gyre::http::detail {

errc message_reader::begin(const message_framing& framing, std::uint64_t max_body,
                           bool awaits_continue) noexcept {
  kind_ = framing.body;
  const bool is_empty =
      kind_ == body_kind::none || (kind_ == body_kind::length && framing.length == 0);
  remaining_ = kind_ == body_kind::length ? framing.length : max_body;
  if (is_empty) {
    state_ = reading::ended;
    return no_error;
  }
  state_ = awaits_continue ? reading::awaiting_continue : reading::body;
  return remaining_ > max_body ? errc::body_too_large : no_error;
}

errc message_reader::skip_interim(unsigned status, std::size_t max_count) noexcept {
  return status == 101 || ++interim_count_ > max_count ? errc::unexpected_status : no_error;
}

void message_reader::begin_upgraded() noexcept {
  kind_ = body_kind::until_close;
  remaining_ = unlimited;
  state_ = reading::body;
}

bool message_reader::take_continue() noexcept {
  if (state_ != reading::awaiting_continue) return false;
  state_ = reading::body;
  return true;
}

std::expected<std::span<const std::byte>, errc> message_reader::next(io::input& input,
                                                                     const head_limits& limits,
                                                                     std::size_t max_piece) {
  std::span<const std::byte> piece;
  if (!expects_body() || input.empty()) return piece;
  state_ = reading::body;  // the peer has not waited for "100 Continue"
  if (kind_ == body_kind::chunked) {
    const auto decoded = decoder_.next(input, limits, trailers_);
    if (!decoded) return std::unexpected(decoded.error());
    piece = decoded->data;
    if (piece.size() > remaining_) return std::unexpected(errc::body_too_large);
    if (decoded->is_last) {
      keep_trailers();
      state_ = reading::ended;
    }
  } else {
    const std::uint64_t available = std::min(input.size(), max_piece);
    piece = input.take(static_cast<std::size_t>(std::min(remaining_, available)));
  }
  received_ += piece.size();
  remaining_ -= piece.size();
  if (kind_ == body_kind::length && remaining_ == 0) state_ = reading::ended;
  return piece;
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

// The decoder's trailers are views into the input's memory.
void message_reader::keep_trailers() {
  std::size_t size = 0;
  for (const field& each : trailers_) size += each.name.size() + each.value.size();
  trailer_text_.reserve(size);
  const auto keep = [this](std::string_view text) {
    const std::size_t begin = trailer_text_.size();
    trailer_text_ += text;
    return std::string_view(trailer_text_).substr(begin);
  };
  for (field& each : trailers_) each = {.name = keep(each.name), .value = keep(each.value)};
}

void message_reader::reset() noexcept {
  decoder_ = {};
  trailers_.clear();
  trailer_text_.clear();
  received_ = 0;
  interim_count_ = 0;
  kind_ = body_kind::none;
  state_ = reading::head;
  error_ = {};
}

}  // namespace gyre::http::detail
