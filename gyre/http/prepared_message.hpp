// SPDX-License-Identifier: Apache-2.0
// prepared_message: a message that is encoded once, to be sent to many WebSockets.
//
//     const auto news = gyre::http::prepared_message::text("score 3:1");
//     for (gyre::http::websocket* each : guests) co_await each->send(news);
#pragma once

#include <gyre/http/websocket_message.hpp>
#include <gyre/http/websocket_options.hpp>

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

namespace gyre::http {

namespace detail {
struct encoded_message;
class websocket_driver;
}  // namespace detail

/// An encoded message. Copies share it.
///
/// With compression enabled, it holds a compressed form as well. That form goes to sockets whose
/// side does not keep its context (websocket_compression::keeps_context) and whose window is not
/// smaller than `compression.window_bits`; the others get the message as it is.
///
/// Thread-safety: as a shared_ptr to a constant.
/// Errors: text() throws std::invalid_argument for a text that is not UTF-8; std::bad_alloc.
class prepared_message {
 public:
  /// Encodes a text, which must be UTF-8.
  [[nodiscard]] static prepared_message text(std::string_view text,
                                             const websocket_compression& compression = {});
  /// Encodes bytes.
  [[nodiscard]] static prepared_message binary(std::span<const std::byte> bytes,
                                               const websocket_compression& compression = {});

  [[nodiscard]] websocket_kind kind() const noexcept;
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept;

 private:
  friend detail::websocket_driver;
  explicit prepared_message(std::shared_ptr<const detail::encoded_message> encoded) noexcept;
  static prepared_message make(websocket_kind kind, std::span<const std::byte> bytes,
                               const websocket_compression& compression);

  std::shared_ptr<const detail::encoded_message> encoded_;
};

}  // namespace gyre::http
