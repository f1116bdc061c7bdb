// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/redis/reply_cursor.hpp>

#include <gyre/engines/redis/detail/parse_node.hpp>

#include <cstddef>

namespace gyre::redis {
namespace {

detail::parsed_node parse_complete(std::string_view bytes) noexcept {
  return **detail::parse_node(bytes, bytes.size());
}

}  // namespace

reply_node reply_cursor::peek() const noexcept {
  reply_cursor copy = *this;
  return copy.next();
}

reply_node reply_cursor::next() noexcept {
  for (;;) {
    const detail::parsed_node node = parse_complete(unread_);
    unread_.remove_prefix(node.size);
    if (!node.is_attribute) return static_cast<const reply_node&>(node);
    for (std::size_t remaining = node.children(); remaining > 0; --remaining) skip();
  }
}

void reply_cursor::skip() noexcept {
  for (std::size_t remaining = 1; remaining > 0; --remaining) remaining += next().children();
}

}  // namespace gyre::redis
