// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/redis/reply.hpp>

#include <cstddef>

namespace gyre::redis {

// The recursion is not deep, as reply_scanner limits the depth of a reply.
reply reply_traits<reply>::read(reply_cursor& values) {
  const reply_node node = values.next();
  reply result{
      .kind = node.kind, .text = std::string(node.text), .integer = node.integer, .values = {}};
  result.values.reserve(node.children());
  for (std::size_t children_left = node.children(); children_left > 0; --children_left) {
    result.values.push_back(reply_traits<reply>::read(values));
  }
  return result;
}

}  // namespace gyre::redis
