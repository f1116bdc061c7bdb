// SPDX-License-Identifier: Apache-2.0
// key_value_watch: the changes of keys of a bucket, for one coroutine.
//
//     gyre::nats::key_value_watch changes = co_await settings.watch("limits.*");
//     while (auto entry = co_await changes.next_initial()) apply(*entry);
//     ready.set();  // all present values were applied
//     while (auto entry = co_await changes.next()) apply(*entry);
#pragma once

#include <gyre/engines/nats/key_value_entry.hpp>
#include <gyre/engines/nats/message.hpp>
#include <gyre/engines/nats/message_metadata.hpp>
#include <gyre/task/task.hpp>

#include <cstddef>
#include <memory>
#include <optional>

namespace gyre::nats {

namespace detail {
class ordered_reader;
}  // namespace detail

/// Settings of key_value::watch().
struct watch_options {
  bool has_history = false;    ///< begins with all values that are kept, not with the last ones
  bool updates_only = false;   ///< the watch begins with the next change
  bool skips_deletes = false;  ///< the watch leaves out deletions
  bool has_values = true;      ///< entries have values, which are empty otherwise
};

/// Changes of keys in their order, from key_value::watch(). It lasts over connections and failures
/// of servers, and then continues after the last change that it has returned: none is missing,
/// unless the bucket has no longer kept it, and none comes twice.
///
/// Thread-safety: the loop's thread; one coroutine waits at a time.
/// Lifetime: may outlive the key_value and the client. A watch must not be moved or destroyed while
/// a coroutine waits.
/// Errors: those of jetstream; jetstream_errc::stream_not_found when the bucket was deleted;
/// std::logic_error for one that was moved from.
class key_value_watch {
 public:
  key_value_watch(key_value_watch&&) noexcept;
  key_value_watch& operator=(key_value_watch&&) noexcept;
  ~key_value_watch();

  /// Returns the next of the values that the bucket has had before; std::nullopt once all were
  /// returned.
  [[nodiscard]] task<std::optional<key_value_entry>> next_initial();
  /// Waits for the next value, an initial one included; returns std::nullopt after the client was
  /// closed. A wait that is stopped loses nothing.
  [[nodiscard]] task<std::optional<key_value_entry>> next();

 private:
  friend class key_value;
  key_value_watch(std::unique_ptr<detail::ordered_reader> reader, std::size_t prefix_size,
                  bool skips_deletes) noexcept;

  key_value_entry entry_of(const message& content, const message_metadata& metadata) const;

  detail::ordered_reader& checked_reader() const;

  std::unique_ptr<detail::ordered_reader> reader_;
  std::size_t prefix_size_;  // the bytes of a subject before its key
  bool skips_deletes_;
};

}  // namespace gyre::nats
