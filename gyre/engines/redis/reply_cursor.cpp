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
    const detail::parsed_node node = parse_complete(rest_);
    rest_.remove_prefix(node.size);
    if (!node.is_attribute) return static_cast<const reply_node&>(node);
    for (std::size_t values_left = node.children(); values_left > 0; --values_left) skip();
  }
}

void reply_cursor::skip() noexcept {
  for (std::size_t values_left = 1; values_left > 0; --values_left)
    values_left += next().children();
}

}  // namespace gyre::redis
