// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/redis/stream_entry.hpp>

#include <algorithm>
#include <cstddef>

namespace gyre::redis {

const std::string* stream_entry::find(std::string_view name) const noexcept {
  const auto match = std::ranges::find(fields, name, &std::pair<std::string, std::string>::first);
  return match != fields.end() ? &match->second : nullptr;
}

stream_entry reply_traits<stream_entry>::read(reply_cursor& values) {
  const reply_node node = values.next();
  const std::size_t count = detail::to_count(node);
  if (count != 2) detail::throw_wrong_count(count, 2);
  stream_entry entry;
  entry.id = read_reply<std::string>(values);
  const reply_node fields = values.next();
  entry.is_deleted = fields.kind == reply_kind::null;
  if (entry.is_deleted) return entry;
  const std::size_t texts = detail::to_count(fields);
  if (texts % 2 != 0) detail::throw_wrong_count(texts, texts + 1);
  entry.fields.reserve(texts / 2);
  for (std::size_t pairs_left = texts / 2; pairs_left > 0; --pairs_left) {
    std::string name = read_reply<std::string>(values);
    entry.fields.emplace_back(std::move(name), read_reply<std::string>(values));
  }
  return entry;
}

}  // namespace gyre::redis
