// SPDX-License-Identifier: Apache-2.0
// key_value: keys and values in a bucket of NATS servers, with revisions, history and watches.
//
//     const gyre::nats::key_value_config config{.bucket = "settings", .history = 5};
//     auto settings = co_await gyre::nats::key_value::create(streams, config);
//
//     co_await settings.put("limits.upload", "10M");
//     auto limit = co_await settings.get("limits.upload");
//     co_await settings.update("limits.upload", "20M", limit->revision);
#pragma once

#include <gyre/base/detail/awaited_value.hpp>
#include <gyre/base/duration.hpp>
#include <gyre/engines/nats/jetstream.hpp>
#include <gyre/engines/nats/key_value_config.hpp>
#include <gyre/engines/nats/key_value_entry.hpp>
#include <gyre/engines/nats/key_value_watch.hpp>
#include <gyre/engines/nats/payload_view.hpp>
#include <gyre/task/task.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gyre::nats {

namespace detail {
struct bucket;
}  // namespace detail

/// Settings of a key_value.
struct key_value_options {
  /// Whether get() asks the leader, and so sees every acknowledged change. If not, any server of
  /// the bucket replies, which is quicker, but may return an older value.
  bool reads_from_leader = false;
};

/// A bucket: a handle, which may be copied. A key consists of letters, digits and "-/_=.", with a
/// '.' neither at its beginning or end nor beside another one. In patterns, '*' stands for a part
/// between dots, and '>' for all that follows.
///
/// Thread-safety: the loop's thread.
/// Lifetime: as jetstream. Keys and values that are arguments must outlive the await.
/// Errors: as jetstream; std::invalid_argument for invalid keys. An acknowledged change is as safe
/// as an acknowledged message of jetstream; a change whose call failed with
/// nats::errc::request_timeout or connection_lost may have been made.
class key_value {
 public:
  /// Creates a bucket. Does nothing but return it if there is one of the same configuration.
  /// Errors: jetstream_errc::stream_name_in_use for another one. With GCC 12, `config` must be a
  /// variable, not a temporary: see channel::send().
  [[nodiscard]] static task<key_value> create(const jetstream& streams,
                                              gyre::detail::awaited_value<key_value_config> config,
                                              key_value_options options = {});
  /// A bucket that exists. Errors: jetstream_errc::stream_not_found.
  [[nodiscard]] static task<key_value> open(const jetstream& streams, std::string_view bucket,
                                            key_value_options options = {});
  /// Deletes a bucket and all its values.
  [[nodiscard]] static task<> delete_bucket(const jetstream& streams, std::string_view bucket);

  /// Returns the names of all buckets.
  [[nodiscard]] static task<std::vector<std::string>> bucket_names(const jetstream& streams);

  const std::string& bucket() const;

  /// Returns the value of a key; std::nullopt if there is none.
  [[nodiscard]] task<std::optional<key_value_entry>> get(std::string_view key) const;
  /// Returns the value of a key with this revision, if the bucket has kept it.
  [[nodiscard]] task<std::optional<key_value_entry>> get(std::string_view key,
                                                         std::uint64_t revision) const;

  // --- Changes. A returned number is the revision of the change ---

  /// Stores a value, whether or not the key exists.
  [[nodiscard]] task<std::uint64_t> put(std::string_view key, payload_view value) const;
  /// Adds a key that does not exist, or was deleted. Errors: jetstream_errc::key_exists. A
  /// `time_to_live` above zero needs key_value_config::marker_time.
  [[nodiscard]] task<std::uint64_t> create(std::string_view key, payload_view value,
                                           duration time_to_live = duration::zero()) const;
  /// Changes a value that has this revision; 0 adds a key that has never existed. Errors:
  /// jetstream_errc::wrong_last_sequence.
  [[nodiscard]] task<std::uint64_t> update(std::string_view key, payload_view value,
                                           std::uint64_t revision) const;
  /// Deletes a key, even if it does not exist, and keeps its history. With a revision it fails, as
  /// update() does, unless the last value has the revision.
  [[nodiscard]] task<> remove(std::string_view key,
                              std::optional<std::uint64_t> revision = std::nullopt) const;
  /// Deletes a key with its history. The marker that remains stays for `time_to_live`, which needs
  /// key_value_config::marker_time; zero: for ever.
  [[nodiscard]] task<> purge(std::string_view key,
                             std::optional<std::uint64_t> revision = std::nullopt,
                             duration time_to_live = duration::zero()) const;

  // --- Many keys ---

  /// The keys that match the pattern and have a value.
  [[nodiscard]] task<std::vector<std::string>> keys(std::string_view pattern = ">") const;
  /// The values of the key that are kept, and its deletions, the oldest first.
  [[nodiscard]] task<std::vector<key_value_entry>> history(std::string_view key) const;
  /// Follows the keys that match the pattern, from the present values on.
  [[nodiscard]] task<key_value_watch> watch(std::string_view pattern = ">",
                                            watch_options options = {}) const;
  [[nodiscard]] task<key_value_status> status() const;

 private:
  explicit key_value(std::shared_ptr<const detail::bucket> bucket) noexcept
      : bucket_(std::move(bucket)) {}
  static task<key_value> open_stream(std::shared_ptr<const detail::bucket> bucket,
                                     task<stream_info> info);
  static task<key_value_watch> open_watch(std::shared_ptr<const detail::bucket> bucket,
                                          std::string pattern, watch_options options);

  const std::shared_ptr<const detail::bucket>& checked_bucket() const;

  std::shared_ptr<const detail::bucket> bucket_;
};

}  // namespace gyre::nats
