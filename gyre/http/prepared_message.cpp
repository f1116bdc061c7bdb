// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/prepared_message.hpp>

#include <gyre/http/detail/encoded_message.hpp>
#include <gyre/http/detail/utf8_validator.hpp>
#include <gyre/http/detail/websocket_session.hpp>

#include <stdexcept>
#include <utility>
#include <vector>

namespace gyre::http {
namespace {

// Returns the frames of a server that send the message.
std::vector<std::byte> encode(websocket_kind kind, std::span<const std::byte> bytes,
                              const websocket_compression& compression,
                              const std::optional<detail::deflate_agreement>& deflate) {
  detail::websocket_session session(detail::websocket_role::server, {}, compression,
                                    {.deflate = deflate});
  io::buffer output({.prepend = 0});
  session.begin_message(kind, bytes.size());
  while (!session.append_data(bytes, output)) {
  }
  const std::span<const std::byte> frames = output.bytes();
  return {frames.begin(), frames.end()};
}

}  // namespace

prepared_message::prepared_message(std::shared_ptr<const detail::encoded_message> encoded) noexcept
    : encoded_(std::move(encoded)) {}

prepared_message prepared_message::make(websocket_kind kind, std::span<const std::byte> bytes,
                                        const websocket_compression& compression) {
  auto encoded = std::make_shared<detail::encoded_message>(
      detail::encoded_message{.kind = kind, .frame = encode(kind, bytes, compression, {})});
  encoded->payload_offset = encoded->frame.size() - bytes.size();
  if (compression.enabled.value_or(false) && !bytes.empty() &&
      bytes.size() >= compression.min_size) {
    const detail::deflate_agreement alone{.window_bits = compression.window_bits,
                                          .keeps_context = false};
    encoded->packed = encode(kind, bytes, compression, alone);
    encoded->packed_window_bits = compression.window_bits;
  }
  return prepared_message(std::move(encoded));
}

prepared_message prepared_message::text(std::string_view text,
                                        const websocket_compression& compression) {
  const auto bytes = std::as_bytes(std::span(text));
  if (!detail::is_utf8(bytes)) {
    throw std::invalid_argument("http::prepared_message: the text is not UTF-8");
  }
  return make(websocket_kind::text, bytes, compression);
}

prepared_message prepared_message::binary(std::span<const std::byte> bytes,
                                          const websocket_compression& compression) {
  return make(websocket_kind::binary, bytes, compression);
}

websocket_kind prepared_message::kind() const noexcept { return encoded_->kind; }
std::span<const std::byte> prepared_message::bytes() const noexcept { return encoded_->payload(); }

}  // namespace gyre::http
