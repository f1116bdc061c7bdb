// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/nats/key_value_watch.hpp>

#include <gyre/engines/nats/detail/key_value_names.hpp>
#include <gyre/engines/nats/detail/ordered_reader.hpp>
#include <gyre/engines/nats/detail/require_content.hpp>

#include <algorithm>
#include <utility>

namespace gyre::nats {

using detail::ordered_reader;

key_value_watch::key_value_watch(std::unique_ptr<ordered_reader> reader, std::size_t prefix_size,
                                 bool skips_deletes) noexcept
    : reader_(std::move(reader)), prefix_size_(prefix_size), skips_deletes_(skips_deletes) {}
key_value_watch::key_value_watch(key_value_watch&&) noexcept = default;
key_value_watch& key_value_watch::operator=(key_value_watch&&) noexcept = default;
key_value_watch::~key_value_watch() = default;

ordered_reader& key_value_watch::checked_reader() const {
  detail::require_content(reader_, "key_value_watch");
  return *reader_;
}

key_value_entry key_value_watch::entry_of(const message& content,
                                          const message_metadata& metadata) const {
  const std::string_view subject = content.subject();
  return {.key = std::string(subject.substr(std::min(prefix_size_, subject.size()))),
          .value = std::string(content.text()),
          .revision = metadata.stream_sequence,
          .created = metadata.stored,
          .operation = detail::operation_of(content.headers())};
}

task<std::optional<key_value_entry>> key_value_watch::next_initial() {
  ordered_reader& reader = checked_reader();
  for (;;) {
    task<std::optional<ordered_reader::ordered_message>> read_task = reader.next_initial();
    const auto message = co_await std::move(read_task);
    if (!message) co_return std::nullopt;
    key_value_entry entry = entry_of(message->content, message->metadata);
    if (!skips_deletes_ || entry.operation == key_value_operation::put) co_return std::move(entry);
  }
}

task<std::optional<key_value_entry>> key_value_watch::next() {
  ordered_reader& reader = checked_reader();
  for (;;) {
    task<std::optional<ordered_reader::ordered_message>> read_task = reader.next();
    const auto message = co_await std::move(read_task);
    if (!message) co_return std::nullopt;
    key_value_entry entry = entry_of(message->content, message->metadata);
    if (!skips_deletes_ || entry.operation == key_value_operation::put) co_return std::move(entry);
  }
}

}  // namespace gyre::nats
