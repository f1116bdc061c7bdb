// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/redis/detail/reply_scanner.hpp>

#include <gyre/engines/redis/detail/parse_node.hpp>

namespace gyre::redis::detail {

// Counts a complete value. Returns true if the value completes the reply.
bool reply_scanner::note_value() noexcept {
  while (depth_ > 0) {
    level& innermost = levels_[depth_ - 1];
    if (--innermost.missing_values > 0) return false;
    --depth_;
    if (innermost.is_attribute) return false;
  }
  return true;
}

std::expected<std::optional<std::size_t>, errc> reply_scanner::scan(
    std::string_view bytes) noexcept {
  for (;;) {
    const auto node = parse_node(bytes.substr(scanned_bytes_), max_size_);
    if (!node) return std::unexpected(node.error());
    if (!*node) {
      if (bytes.size() > max_size_) return std::unexpected(errc::reply_too_large);
      return std::nullopt;
    }
    const parsed_node& content = **node;
    scanned_bytes_ += content.size;
    if (scanned_bytes_ > max_size_) return std::unexpected(errc::reply_too_large);
    if (content.children() > 0) {
      // An attribute, or a push of the server, does not count as an element of the value around it.
      if (depth_ == max_depth) return std::unexpected(errc::bad_reply);
      levels_[depth_++] = {content.children(), content.is_attribute};
    } else if (!content.is_attribute && note_value()) {
      const std::size_t length = scanned_bytes_;
      scanned_bytes_ = 0;
      return length;
    }
  }
}

}  // namespace gyre::redis::detail
