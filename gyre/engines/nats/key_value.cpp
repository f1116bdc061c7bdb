// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/nats/key_value.hpp>

#include <gyre/base/detail/parse_decimal.hpp>
#include <gyre/engines/nats/detail/api_json.hpp>
#include <gyre/engines/nats/detail/bucket.hpp>
#include <gyre/engines/nats/detail/jetstream_core.hpp>
#include <gyre/engines/nats/detail/key_value_names.hpp>
#include <gyre/engines/nats/detail/ordered_reader.hpp>
#include <gyre/engines/nats/detail/require_content.hpp>
#include <gyre/engines/nats/detail/timestamp.hpp>

#include <algorithm>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <system_error>

namespace gyre::nats {
namespace {

using detail::check_key;
using detail::jetstream_core;
using shared_bucket = std::shared_ptr<const detail::bucket>;

constexpr unsigned max_history = 64;
constexpr std::string_view stream_prefix = "KV_";
// The maximum number of attempts of create(): other clients may delete and create the key
// meanwhile.
constexpr int create_attempts = 3;

stream_config stream_of(const key_value_config& config) {
  detail::check_bucket(config.bucket);
  if (config.history == 0 || config.history > max_history) {
    throw std::invalid_argument("gyre::nats::key_value: history must be from 1 to 64");
  }
  stream_config stream{.name = detail::stream_of_bucket(config.bucket),
                       .description = config.description,
                       .subjects = {detail::key_prefix(config.bucket) + '>'},
                       .storage = config.storage,
                       .discard = discard_policy::newest,
                       .compression = config.compression,
                       .replicas = config.replicas,
                       .max_messages_per_subject = config.history,
                       .max_bytes = config.max_bytes,
                       .max_message_size = config.max_value_size,
                       .max_age = config.time_to_live,
                       .allow_direct = true,
                       .allow_rollup = true,
                       .deny_delete = true,
                       .placement = config.placement,
                       .republish = config.republish,
                       .metadata = config.metadata};
  if (config.marker_time > duration::zero()) {
    stream.allow_message_ttl = true;
    stream.subject_delete_marker_ttl = config.marker_time;
  }
  return stream;
}

key_value_config config_of(std::string_view bucket, stream_config&& stream) {
  return {.bucket = std::string(bucket),
          .description = std::move(stream.description),
          .history = static_cast<unsigned>(stream.max_messages_per_subject.value_or(1)),
          .time_to_live = stream.max_age,
          .max_bytes = stream.max_bytes,
          .max_value_size = stream.max_message_size,
          .storage = stream.storage,
          .compression = stream.compression,
          .replicas = stream.replicas,
          .marker_time = stream.subject_delete_marker_ttl,
          .placement = std::move(stream.placement),
          .republish = std::move(stream.republish),
          .metadata = std::move(stream.metadata)};
}

[[noreturn]] void throw_bad_reply(const std::string& subject) {
  throw std::system_error(make_error_code(jetstream_errc::bad_reply), subject);
}

// Returns the entry in the reply to a direct request, which is the stored message with its metadata
// in headers.
std::optional<key_value_entry> entry_of_direct(std::string_view key, const message& reply,
                                               const std::string& subject) {
  constexpr int not_found = 404;
  if (reply.status() == not_found) return std::nullopt;
  if (reply.status() != 0) throw_bad_reply(subject + ": " + std::string(reply.description()));
  const auto sequence = reply.headers().find("Nats-Sequence");
  const auto time = reply.headers().find("Nats-Time-Stamp");
  const auto revision =
      sequence ? gyre::detail::parse_decimal<std::uint64_t>(*sequence) : std::nullopt;
  if (!revision) throw_bad_reply(subject);
  return key_value_entry{
      .key = std::string(key),
      .value = std::string(reply.text()),
      .revision = *revision,
      .created = detail::parse_timestamp(time.value_or("")).value_or(detail::timestamp()),
      .operation = detail::operation_of(reply.headers())};
}

key_value_entry entry_of_stored(std::string_view key, detail::raw_message&& content) {
  const std::size_t line_end = content.headers.find("\r\n");
  const header_view headers(line_end == std::string::npos
                                ? std::string_view()
                                : std::string_view(content.headers).substr(line_end + 2));
  return {.key = std::string(key),
          .value = std::move(content.payload),
          .revision = content.sequence,
          .created = content.time,
          .operation = detail::operation_of(headers)};
}

std::optional<key_value_entry> without_deletion(std::optional<key_value_entry>&& entry) {
  if (entry && entry->operation != key_value_operation::put) return std::nullopt;
  return std::move(entry);
}

bool is_wrong_sequence(const std::error_code& code) noexcept {
  return code == jetstream_errc::wrong_last_sequence ||
         code == jetstream_errc::wrong_last_sequence_of_subject;
}

std::string time_to_live_text(duration time) {
  const auto seconds =
      std::chrono::ceil<std::chrono::seconds>(static_cast<std::chrono::nanoseconds>(time));
  return std::to_string(seconds.count()) + 's';
}

// --- Reading ---

task<std::optional<key_value_entry>> read_from_leader(shared_bucket bucket, std::string key) {
  try {
    task<detail::raw_message> request_task = jetstream_core::call(
        bucket->core, "STREAM.MSG.GET." + bucket->stream,
        detail::write_last_of_subject(bucket->prefix + key), &detail::read_message);
    detail::raw_message content = co_await std::move(request_task);
    co_return entry_of_stored(key, std::move(content));
  } catch (const server_error& error) {
    if (error.code() != jetstream_errc::message_not_found) throw;
  }
  co_return std::nullopt;
}

task<std::optional<key_value_entry>> read_last(shared_bucket bucket, std::string key) {
  if (bucket->reads_from_leader) {
    task<std::optional<key_value_entry>> read_task = read_from_leader(bucket, key);
    std::optional<key_value_entry> entry = co_await std::move(read_task);
    co_return without_deletion(std::move(entry));
  }
  const std::string subject =
      bucket->core->api_subject("DIRECT.GET." + bucket->stream + '.' + bucket->prefix + key);
  task<message> request_task = jetstream_core::ask_directly(bucket->core, subject, "");
  const message reply = co_await std::move(request_task);
  co_return without_deletion(entry_of_direct(key, reply, subject));
}

task<std::optional<key_value_entry>> read_revision(shared_bucket bucket, std::string key,
                                                   std::uint64_t revision) {
  const std::string subject = bucket->core->api_subject("DIRECT.GET." + bucket->stream);
  task<message> request_task =
      jetstream_core::ask_directly(bucket->core, subject, detail::write_sequence(revision));
  const message reply = co_await std::move(request_task);
  std::optional<key_value_entry> entry = entry_of_direct(key, reply, subject);
  // The revision may belong to another key.
  if (entry && reply.headers().find("Nats-Subject") != bucket->prefix + key) co_return std::nullopt;
  co_return without_deletion(std::move(entry));
}

// --- Changes ---

task<std::uint64_t> write(shared_bucket bucket, std::string key, payload_view value,
                          headers lines) {
  const std::string subject = bucket->prefix + key;
  task<publish_ack> request_task =
      jetstream_core::ask(bucket->core, {.subject = subject, .payload = value, .headers = lines},
                          &detail::read_publish_ack);
  const publish_ack ack = co_await std::move(request_task);
  co_return ack.sequence;
}

headers expected_revision(std::uint64_t revision) {
  return headers{{"Nats-Expected-Last-Subject-Sequence", std::to_string(revision)}};
}

task<std::uint64_t> create_key(shared_bucket bucket, std::string key, payload_view value,
                               duration time_to_live) {
  std::uint64_t revision = 0;
  for (int attempt = 0; attempt < create_attempts; ++attempt) {
    headers lines = expected_revision(revision);
    if (time_to_live > duration::zero()) lines.add("Nats-TTL", time_to_live_text(time_to_live));
    try {
      task<std::uint64_t> write_task = write(bucket, key, value, std::move(lines));
      co_return co_await std::move(write_task);
    } catch (const server_error& error) {
      if (!is_wrong_sequence(error.code())) throw;
    }
    // Another write came first. If its entry is a deletion marker, the marker may be replaced.
    task<std::optional<key_value_entry>> read_task = read_from_leader(bucket, key);
    const std::optional<key_value_entry> last = co_await std::move(read_task);
    if (last && last->operation == key_value_operation::put) break;
    revision = last ? last->revision : 0;
  }
  throw std::system_error(make_error_code(jetstream_errc::key_exists), bucket->prefix + key);
}

task<> erase(shared_bucket bucket, std::string key, headers lines) {
  task<std::uint64_t> write_task = write(bucket, key, {}, std::move(lines));
  static_cast<void>(co_await std::move(write_task));
}

headers deletion(const char* operation, std::optional<std::uint64_t> revision) {
  headers lines;
  if (revision) lines = expected_revision(*revision);
  return lines.add("KV-Operation", operation);
}

// --- Many keys ---

consumer_config reader_config(const detail::bucket& bucket, std::string_view pattern,
                              const watch_options& options) {
  consumer_config config;
  config.filter_subjects = {bucket.prefix + std::string(pattern)};
  config.deliver = deliver_policy::last_per_subject;
  if (options.has_history) config.deliver = deliver_policy::all;
  if (options.updates_only) config.deliver = deliver_policy::following;
  config.headers_only = !options.has_values;
  return config;
}

task<std::vector<key_value_entry>> collect(task<key_value_watch> source) {
  key_value_watch watch = co_await std::move(source);
  std::vector<key_value_entry> entries;
  for (;;) {
    task<std::optional<key_value_entry>> read_task = watch.next_initial();
    std::optional<key_value_entry> entry = co_await std::move(read_task);
    if (!entry) co_return entries;
    entries.push_back(std::move(*entry));
  }
}

task<std::vector<std::string>> keys_of(task<std::vector<key_value_entry>> source) {
  std::vector<key_value_entry> entries = co_await std::move(source);
  std::vector<std::string> keys;
  for (key_value_entry& entry : entries) keys.push_back(std::move(entry.key));
  // A key may occur twice if it has changed during the listing.
  std::ranges::sort(keys);
  const auto duplicates = std::ranges::unique(keys);
  keys.erase(duplicates.begin(), duplicates.end());
  co_return keys;
}

task<key_value_status> status_of(std::string name, task<stream_info> reply) {
  stream_info info = co_await std::move(reply);
  co_return key_value_status{.config = config_of(name, std::move(info.config)),
                             .values = info.state.messages,
                             .bytes = info.state.bytes};
}

task<std::vector<std::string>> buckets_of(task<std::vector<std::string>> streams) {
  std::vector<std::string> names = co_await std::move(streams);
  std::erase_if(names, [](const std::string& name) { return !name.starts_with(stream_prefix); });
  for (std::string& name : names) name.erase(0, stream_prefix.size());
  co_return names;
}

shared_bucket make_bucket(std::shared_ptr<jetstream_core> core, std::string_view name,
                          const key_value_options& options) {
  detail::check_bucket(name);
  return std::make_shared<const detail::bucket>(
      detail::bucket{.core = std::move(core),
                     .name = std::string(name),
                     .stream = detail::stream_of_bucket(name),
                     .prefix = detail::key_prefix(name),
                     .reads_from_leader = options.reads_from_leader});
}

}  // namespace

// --- Buckets ---

task<key_value> key_value::open_stream(shared_bucket bucket, task<stream_info> info) {
  static_cast<void>(co_await std::move(info));
  co_return key_value(std::move(bucket));
}

task<key_value> key_value::create(const jetstream& streams,
                                  gyre::detail::awaited_value<key_value_config> config,
                                  key_value_options options) {
  const key_value_config settings = std::move(config);
  const stream_config stream = stream_of(settings);
  return open_stream(make_bucket(streams.checked_core(), settings.bucket, options),
                     streams.create_stream(stream));
}

task<key_value> key_value::open(const jetstream& streams, std::string_view bucket,
                                key_value_options options) {
  shared_bucket result = make_bucket(streams.checked_core(), bucket, options);
  task<stream_info> request_task = streams.stream(result->stream);
  return open_stream(std::move(result), std::move(request_task));
}

task<> key_value::delete_bucket(const jetstream& streams, std::string_view bucket) {
  detail::check_bucket(bucket);
  return streams.delete_stream(detail::stream_of_bucket(bucket));
}

task<std::vector<std::string>> key_value::bucket_names(const jetstream& streams) {
  return buckets_of(streams.stream_names("$KV.*.>"));
}

const shared_bucket& key_value::checked_bucket() const {
  detail::require_content(bucket_, "key_value");
  return bucket_;
}

const std::string& key_value::bucket() const { return checked_bucket()->name; }

task<key_value_status> key_value::status() const {
  const shared_bucket& bucket = checked_bucket();
  return status_of(bucket->name, jetstream_core::call(bucket->core, "STREAM.INFO." + bucket->stream,
                                                      "", &detail::read_stream));
}

// --- Keys ---

task<std::optional<key_value_entry>> key_value::get(std::string_view key) const {
  check_key(key);
  return read_last(checked_bucket(), std::string(key));
}

task<std::optional<key_value_entry>> key_value::get(std::string_view key,
                                                    std::uint64_t revision) const {
  check_key(key);
  return read_revision(checked_bucket(), std::string(key), revision);
}

task<std::uint64_t> key_value::put(std::string_view key, payload_view value) const {
  check_key(key);
  return write(checked_bucket(), std::string(key), value, {});
}

task<std::uint64_t> key_value::create(std::string_view key, payload_view value,
                                      duration time_to_live) const {
  check_key(key);
  return create_key(checked_bucket(), std::string(key), value, time_to_live);
}

task<std::uint64_t> key_value::update(std::string_view key, payload_view value,
                                      std::uint64_t revision) const {
  check_key(key);
  return write(checked_bucket(), std::string(key), value, expected_revision(revision));
}

task<> key_value::remove(std::string_view key, std::optional<std::uint64_t> revision) const {
  check_key(key);
  return erase(checked_bucket(), std::string(key), deletion("DEL", revision));
}

task<> key_value::purge(std::string_view key, std::optional<std::uint64_t> revision,
                        duration time_to_live) const {
  check_key(key);
  headers lines = deletion("PURGE", revision);
  lines.add("Nats-Rollup", "sub");
  if (time_to_live > duration::zero()) lines.add("Nats-TTL", time_to_live_text(time_to_live));
  return erase(checked_bucket(), std::string(key), std::move(lines));
}

// --- Many keys ---

task<key_value_watch> key_value::open_watch(shared_bucket bucket, std::string pattern,
                                            watch_options options) {
  auto reader = std::make_unique<detail::ordered_reader>(bucket->core, bucket->stream,
                                                         reader_config(*bucket, pattern, options));
  task<> open_task = reader->open_consumer();
  co_await std::move(open_task);
  co_return key_value_watch(std::move(reader), bucket->prefix.size(), options.skips_deletes);
}

task<std::vector<std::string>> key_value::keys(std::string_view pattern) const {
  const watch_options options{.skips_deletes = true, .has_values = false};
  return keys_of(collect(watch(pattern, options)));
}

task<std::vector<key_value_entry>> key_value::history(std::string_view key) const {
  check_key(key);
  return collect(watch(key, {.has_history = true}));
}

task<key_value_watch> key_value::watch(std::string_view pattern, watch_options options) const {
  detail::check_key_pattern(pattern);
  if (options.has_history && options.updates_only) {
    throw std::invalid_argument(
        "gyre::nats::key_value::watch: set either has_history or updates_only");
  }
  return open_watch(checked_bucket(), std::string(pattern), options);
}

}  // namespace gyre::nats
