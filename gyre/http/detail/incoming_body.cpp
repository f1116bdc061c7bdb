// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/detail/incoming_body.hpp>

#include <algorithm>
#include <utility>

namespace gyre::http::detail {

void incoming_body::begin_upgraded(bool receives) {
  is_streamed_ = true;
  if (!bytes_.empty()) body_before_upgrade_ = std::make_unique<io::buffer>(std::move(bytes_));
  keep_spare_buffer(bytes_);
  keep_spare_buffer(chunk_);
  if (receives) reader_.begin_upgraded();
}

errc incoming_body::receive(io::input& input, const head_limits& limits) {
  while (reader_.expects_body() && !input.empty() && !is_full()) {
    if (!is_streamed_ && bytes_.empty()) {
      // The reservation is hardly larger than what has come, as a client may announce a long body
      // and send nothing.
      bytes_.reserve(static_cast<std::size_t>(std::min<std::uint64_t>(
          reader_.remaining(), std::max<std::size_t>(input.size(), first_reservation))));
    }
    const auto piece = reader_.next(input, limits, is_streamed_ ? window : input.size());
    if (!piece) return piece.error();
    if (piece->empty()) break;
    bytes_.append(*piece);
  }
  return no_error;
}

errc incoming_body::end_input() noexcept { return reader_.end_input(); }

void incoming_body::fail(errc error) noexcept { reader_.fail(error); }

}  // namespace gyre::http::detail
