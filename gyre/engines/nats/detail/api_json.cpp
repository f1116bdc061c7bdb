// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/nats/detail/api_json.hpp>

#include <gyre/base/detail/base64.hpp>
#include <gyre/engines/nats/detail/json_depth.hpp>
#include <gyre/engines/nats/jetstream_error.hpp>

#include <nlohmann/json.hpp>

#include <array>
#include <cstddef>
#include <limits>
#include <map>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace gyre::nats::detail {
namespace {

using json = nlohmann::json;

// Pairs of an enumerator and its name in the protocol.
template <class Enum, std::size_t Count>
using name_table = std::array<std::pair<Enum, const char*>, Count>;

constexpr name_table<retention_policy, 3> retention_names = {{
    {retention_policy::limits, "limits"},
    {retention_policy::interest, "interest"},
    {retention_policy::work_queue, "workqueue"},
}};
constexpr name_table<storage_type, 2> storage_names = {{
    {storage_type::file, "file"},
    {storage_type::memory, "memory"},
}};
constexpr name_table<discard_policy, 2> discard_names = {{
    {discard_policy::oldest, "old"},
    {discard_policy::newest, "new"},
}};
constexpr name_table<stream_compression, 2> compression_names = {{
    {stream_compression::none, "none"},
    {stream_compression::s2, "s2"},
}};
constexpr name_table<deliver_policy, 6> deliver_names = {{
    {deliver_policy::all, "all"},
    {deliver_policy::last, "last"},
    {deliver_policy::last_per_subject, "last_per_subject"},
    {deliver_policy::following, "new"},
    {deliver_policy::from_sequence, "by_start_sequence"},
    {deliver_policy::from_time, "by_start_time"},
}};
constexpr name_table<ack_policy, 3> ack_names = {{
    {ack_policy::each, "explicit"},
    {ack_policy::all, "all"},
    {ack_policy::none, "none"},
}};
constexpr name_table<replay_policy, 2> replay_names = {{
    {replay_policy::instant, "instant"},
    {replay_policy::original, "original"},
}};

template <class Enum, std::size_t Count>
const char* name_in(const name_table<Enum, Count>& names, Enum value) {
  for (const auto& [known_value, name] : names) {
    if (known_value == value) return name;
  }
  throw std::invalid_argument("gyre::nats: a policy has a value outside of its enumeration");
}

// --- Requests ---

std::string text_of(const json& request) {
  try {
    return request.dump();
  } catch (const json::exception&) {
    throw std::invalid_argument("gyre::nats: a text of the configuration is not UTF-8");
  }
}

template <class T>
void write_set(json& object, const char* key, const std::optional<T>& value) {
  if (value) object[key] = *value;
}
void write_set(json& object, const char* key, std::string_view value) {
  if (!value.empty()) object[key] = value;
}
void write_set(json& object, const char* key, const std::vector<std::string>& values) {
  if (!values.empty()) object[key] = values;
}
void write_set(json& object, const char* key, const std::map<std::string, std::string>& values) {
  if (!values.empty()) object[key] = values;
}
void write_set(json& object, const char* key, duration value) {
  if (value > duration::zero()) object[key] = value.count();
}
void write_set(json& object, const char* key, bool value) {
  if (value) object[key] = true;
}

void write_set(json& object, const char* key, const std::optional<timestamp>& time) {
  if (time) object[key] = format_timestamp(*time);
}

json json_of(const stream_source& source) {
  json object = {{"name", source.name}};
  write_set(object, "opt_start_seq", source.start_sequence);
  write_set(object, "opt_start_time", source.start_time);
  write_set(object, "filter_subject", source.filter_subject);
  return object;
}

json json_of(const consumer_config& config) {
  json object = {{"deliver_policy", name_in(deliver_names, config.deliver)},
                 {"ack_policy", name_in(ack_names, config.ack)},
                 {"replay_policy", name_in(replay_names, config.replay)}};
  write_set(object, "name", config.name);
  if (config.is_durable) write_set(object, "durable_name", config.name);
  write_set(object, "description", config.description);
  write_set(object, "inactive_threshold", config.inactive_threshold);
  write_set(object, "opt_start_seq", config.start_sequence);
  write_set(object, "opt_start_time", config.start_time);
  if (config.filter_subjects.size() == 1) {
    object["filter_subject"] =
        config.filter_subjects.front();  // servers before 2.10 know only this member
  } else {
    write_set(object, "filter_subjects", config.filter_subjects);
  }
  write_set(object, "headers_only", config.headers_only);
  write_set(object, "ack_wait", config.ack_wait);
  for (const duration delay : config.backoff) object["backoff"].push_back(delay.count());
  write_set(object, "max_deliver", config.max_deliveries);
  write_set(object, "max_ack_pending", config.max_ack_pending);
  write_set(object, "max_waiting", config.max_waiting);
  write_set(object, "max_batch", config.max_request_messages);
  write_set(object, "max_bytes", config.max_request_bytes);
  write_set(object, "max_expires", config.max_request_expires);
  object["num_replicas"] = config.replicas;
  write_set(object, "mem_storage", config.memory_storage);
  write_set(object, "metadata", config.metadata);
  return object;
}

// --- Replies ---

// A JSON value of a reply. The members read parts of the value, and refuse parts of other types.
class reply_object {
 public:
  reply_object(const json& value, std::string_view operation) noexcept
      : value_(value), operation_(operation) {}

  [[noreturn]] void refuse(const char* key) const {
    throw std::system_error(make_error_code(jetstream_errc::bad_reply),
                            std::string(operation_) + ": " + key);
  }
  /// Returns the member, or null.
  const json* find(const char* key) const {
    const auto match = value_.find(key);
    return match == value_.end() || match->is_null() ? nullptr : &*match;
  }
  /// The object that is a member; an empty one if it is missing.
  reply_object object(const char* key) const {
    static const json no_object = json::object();
    const json* const member = find(key);
    if (member != nullptr && !member->is_object()) refuse(key);
    return {member != nullptr ? *member : no_object, operation_};
  }
  std::vector<reply_object> objects(const char* key) const {
    std::vector<reply_object> result;
    const json* const members = find(key);
    if (members == nullptr) return result;
    if (!members->is_array()) refuse(key);
    for (const json& member : *members) {
      if (!member.is_object()) refuse(key);
      result.emplace_back(member, operation_);
    }
    return result;
  }

  void read(const char* key, std::string& result) const {
    const json* const member = find(key);
    if (member == nullptr) return;
    if (!member->is_string()) refuse(key);
    result = member->get_ref<const std::string&>();
  }
  void read(const char* key, bool& result) const {
    const json* const member = find(key);
    if (member == nullptr) return;
    if (!member->is_boolean()) refuse(key);
    result = member->get<bool>();
  }
  /// A negative number, which stands for "no limit", is zero.
  void read(const char* key, std::uint64_t& result) const {
    const json* const member = find(key);
    if (member == nullptr) return;
    if (!member->is_number_integer()) refuse(key);
    result = member->is_number_unsigned() ? member->get<std::uint64_t>()
                                          : non_negative(member->get<std::int64_t>());
  }
  void read(const char* key, unsigned& result) const {
    std::uint64_t value = result;
    read(key, value);
    if (value > std::numeric_limits<unsigned>::max()) refuse(key);
    result = static_cast<unsigned>(value);
  }
  /// A limit that is not above zero does not limit.
  template <class Integer>
  void read(const char* key, std::optional<Integer>& result) const {
    std::uint64_t value = 0;
    read(key, value);
    if (value > std::numeric_limits<Integer>::max()) refuse(key);
    result = value > 0 ? std::optional(static_cast<Integer>(value)) : std::nullopt;
  }
  void read(const char* key, duration& result) const {
    std::uint64_t value = 0;
    read(key, value);
    if (value > static_cast<std::uint64_t>(duration::max().count())) refuse(key);
    result = std::chrono::nanoseconds{static_cast<std::int64_t>(value)};
  }
  void read(const char* key, std::optional<timestamp>& result) const {
    std::string text;
    read(key, text);
    result = parse_timestamp(text);
  }
  void read(const char* key, std::vector<std::string>& result) const {
    const json* const members = find(key);
    if (members == nullptr) return;
    if (!members->is_array()) refuse(key);
    for (const json& member : *members) {
      if (!member.is_string()) refuse(key);
      result.push_back(member.get<std::string>());
    }
  }
  void read(const char* key, std::map<std::string, std::string>& result) const {
    const json* const members = find(key);
    if (members == nullptr) return;
    if (!members->is_object()) refuse(key);
    for (const auto& [name, value] : members->items()) {
      if (!value.is_string()) refuse(key);
      result.emplace(name, value.get<std::string>());
    }
  }
  /// A name that is not in the table leaves the result: a newer server may have more.
  template <class Enum, std::size_t Count>
  void read(const char* key, const name_table<Enum, Count>& names, Enum& result) const {
    std::string text;
    read(key, text);
    for (const auto& [value, name] : names) {
      if (text == name) result = value;
    }
  }

 private:
  static std::uint64_t non_negative(std::int64_t value) noexcept {
    return value > 0 ? static_cast<std::uint64_t>(value) : 0;
  }

  const json& value_;
  std::string_view operation_;
};

// A parsed reply of the JetStream API. The constructor throws the error that a reply reports.
class reply {
 public:
  reply(std::string_view text, std::string_view operation)
      : value_(is_nested_deeply(text) ? json() : json::parse(text, nullptr, false)),
        operation_(operation) {
    if (!value_.is_object()) root().refuse("it is no JSON object");
    if (root().find("error") != nullptr) throw_error(root().object("error"));
  }

  reply_object root() const noexcept { return {value_, operation_}; }

 private:
  [[noreturn]] void throw_error(const reply_object& error) const {
    std::uint64_t status = 0;
    std::uint64_t code = 0;
    std::string text;
    error.read("code", status);
    error.read("err_code", code);
    error.read("description", text);
    constexpr auto max = static_cast<std::uint64_t>(std::numeric_limits<int>::max());
    if (status > max || code > max) error.refuse("error");
    // NATS servers before 2.4 send an error's status without its code.
    if (code == 0) code = static_cast<std::uint64_t>(jetstream_errc::bad_request);
    throw server_error(static_cast<jetstream_errc>(code), static_cast<int>(status), std::move(text),
                       std::string(operation_));
  }

  const json value_;
  const std::string_view operation_;
};

stream_source read_source(const reply_object& object) {
  stream_source source;
  object.read("name", source.name);
  object.read("opt_start_seq", source.start_sequence);
  object.read("opt_start_time", source.start_time);
  object.read("filter_subject", source.filter_subject);
  return source;
}

stream_config read_config(const reply_object& object) {
  stream_config config;
  object.read("name", config.name);
  object.read("description", config.description);
  object.read("subjects", config.subjects);
  object.read("retention", retention_names, config.retention);
  object.read("storage", storage_names, config.storage);
  object.read("discard", discard_names, config.discard);
  object.read("compression", compression_names, config.compression);
  object.read("num_replicas", config.replicas);
  object.read("max_msgs", config.max_messages);
  object.read("max_msgs_per_subject", config.max_messages_per_subject);
  object.read("max_bytes", config.max_bytes);
  object.read("max_msg_size", config.max_message_size);
  object.read("max_consumers", config.max_consumers);
  object.read("max_age", config.max_age);
  object.read("duplicate_window", config.duplicate_window);
  object.read("discard_new_per_subject", config.discard_newest_per_subject);
  object.read("allow_direct", config.allow_direct);
  object.read("allow_rollup_hdrs", config.allow_rollup);
  object.read("deny_delete", config.deny_delete);
  object.read("deny_purge", config.deny_purge);
  object.read("allow_msg_ttl", config.allow_message_ttl);
  object.read("subject_delete_marker_ttl", config.subject_delete_marker_ttl);
  object.read("first_seq", config.first_sequence);
  object.read("no_ack", config.no_acknowledgement);
  object.read("metadata", config.metadata);
  if (object.find("mirror") != nullptr) config.mirror = read_source(object.object("mirror"));
  for (const reply_object& source : object.objects("sources")) {
    config.sources.push_back(read_source(source));
  }
  if (object.find("placement") != nullptr) {
    const reply_object placement = object.object("placement");
    config.placement.emplace();
    placement.read("cluster", config.placement->cluster);
    placement.read("tags", config.placement->tags);
  }
  if (object.find("republish") != nullptr) {
    const reply_object republish = object.object("republish");
    config.republish.emplace();
    republish.read("src", config.republish->source);
    republish.read("dest", config.republish->target);
    republish.read("headers_only", config.republish->headers_only);
  }
  return config;
}

consumer_config read_consumer_config(const reply_object& object) {
  consumer_config config;
  std::string durable_name;
  std::string filter_subject;
  object.read("name", config.name);
  object.read("durable_name", durable_name);
  config.is_durable = !durable_name.empty();
  if (config.name.empty()) config.name = std::move(durable_name);
  object.read("description", config.description);
  object.read("inactive_threshold", config.inactive_threshold);
  object.read("deliver_policy", deliver_names, config.deliver);
  object.read("opt_start_seq", config.start_sequence);
  object.read("opt_start_time", config.start_time);
  object.read("filter_subject", filter_subject);
  object.read("filter_subjects", config.filter_subjects);
  if (!filter_subject.empty()) config.filter_subjects.push_back(std::move(filter_subject));
  object.read("replay_policy", replay_names, config.replay);
  object.read("headers_only", config.headers_only);
  object.read("ack_policy", ack_names, config.ack);
  object.read("ack_wait", config.ack_wait);
  if (const json* const delays = object.find("backoff")) {
    if (!delays->is_array()) object.refuse("backoff");
    for (const json& delay : *delays) {
      if (!delay.is_number_integer()) object.refuse("backoff");
      config.backoff.emplace_back(std::chrono::nanoseconds{delay.get<std::int64_t>()});
    }
  }
  object.read("max_deliver", config.max_deliveries);
  object.read("max_ack_pending", config.max_ack_pending);
  object.read("max_waiting", config.max_waiting);
  object.read("max_batch", config.max_request_messages);
  object.read("max_bytes", config.max_request_bytes);
  object.read("max_expires", config.max_request_expires);
  object.read("num_replicas", config.replicas);
  object.read("mem_storage", config.memory_storage);
  object.read("metadata", config.metadata);
  return config;
}

cluster_info read_cluster(const reply_object& object) {
  cluster_info cluster;
  object.read("name", cluster.name);
  object.read("leader", cluster.leader);
  for (const reply_object& replica_object : object.objects("replicas")) {
    replica_info& replica = cluster.replicas.emplace_back();
    replica_object.read("name", replica.name);
    replica_object.read("current", replica.is_current);
    replica_object.read("offline", replica.is_offline);
    replica_object.read("active", replica.last_seen);
    replica_object.read("lag", replica.lag);
  }
  return cluster;
}

consumer_position read_position(const reply_object& object) {
  consumer_position position;
  object.read("consumer_seq", position.consumer_sequence);
  object.read("stream_seq", position.stream_sequence);
  return position;
}

std::string decoded(const reply_object& object, const char* key) {
  std::string text;
  object.read(key, text);
  std::optional<std::string> bytes = gyre::detail::decode_base64(text);
  if (!bytes) object.refuse(key);
  return std::move(*bytes);
}

}  // namespace

std::string write_stream(const stream_config& config) {
  json object = {{"name", config.name},
                 {"retention", name_in(retention_names, config.retention)},
                 {"storage", name_in(storage_names, config.storage)},
                 {"discard", name_in(discard_names, config.discard)},
                 {"num_replicas", config.replicas}};
  write_set(object, "description", config.description);
  write_set(object, "subjects", config.subjects);
  if (config.compression != stream_compression::none) {
    object["compression"] = name_in(compression_names, config.compression);
  }
  // An absent limit is written as -1: the server reads an absent number as zero, and refuses zero
  // for some limits.
  const auto limit = [&object](const char* key, const auto& value) {
    if (value) {
      object[key] = *value;
    } else {
      object[key] = -1;
    }
  };
  limit("max_msgs", config.max_messages);
  limit("max_msgs_per_subject", config.max_messages_per_subject);
  limit("max_bytes", config.max_bytes);
  limit("max_msg_size", config.max_message_size);
  limit("max_consumers", config.max_consumers);
  write_set(object, "max_age", config.max_age);
  write_set(object, "duplicate_window", config.duplicate_window);
  write_set(object, "discard_new_per_subject", config.discard_newest_per_subject);
  write_set(object, "allow_direct", config.allow_direct);
  write_set(object, "allow_rollup_hdrs", config.allow_rollup);
  write_set(object, "deny_delete", config.deny_delete);
  write_set(object, "deny_purge", config.deny_purge);
  write_set(object, "allow_msg_ttl", config.allow_message_ttl);
  write_set(object, "subject_delete_marker_ttl", config.subject_delete_marker_ttl);
  write_set(object, "first_seq", config.first_sequence);
  write_set(object, "no_ack", config.no_acknowledgement);
  write_set(object, "metadata", config.metadata);
  if (config.mirror) object["mirror"] = json_of(*config.mirror);
  for (const stream_source& source : config.sources) object["sources"].push_back(json_of(source));
  if (config.placement) {
    json& placement = object["placement"] = json::object();
    write_set(placement, "cluster", config.placement->cluster);
    write_set(placement, "tags", config.placement->tags);
  }
  if (config.republish) {
    object["republish"] = {{"src", config.republish->source},
                           {"dest", config.republish->target},
                           {"headers_only", config.republish->headers_only}};
  }
  return text_of(object);
}

std::string write_consumer(std::string_view stream, const consumer_config& config,
                           consumer_action action) {
  json request = {{"stream_name", stream}, {"config", json_of(config)}};
  if (action == consumer_action::create) request["action"] = "create";
  if (action == consumer_action::update) request["action"] = "update";
  return text_of(request);
}

std::string write_names_request(std::string_view subject, std::uint64_t offset) {
  json request = {{"offset", offset}};
  if (!subject.empty()) request["subject"] = subject;
  return text_of(request);
}

std::string write_purge(const purge_options& options) {
  json request = json::object();
  write_set(request, "filter", options.subject);
  write_set(request, "seq", options.sequence);
  write_set(request, "keep", options.keep);
  return text_of(request);
}

std::string write_sequence(std::uint64_t sequence) { return text_of({{"seq", sequence}}); }

std::string write_last_of_subject(std::string_view subject) {
  return text_of({{"last_by_subj", subject}});
}

publish_ack read_publish_ack(std::string_view text, std::string_view operation) {
  const reply content(text, operation);
  publish_ack ack;
  content.root().read("stream", ack.stream);
  content.root().read("seq", ack.sequence);
  content.root().read("duplicate", ack.is_duplicate);
  content.root().read("domain", ack.domain);
  if (ack.stream.empty() || ack.sequence == 0) content.root().refuse("it is no acknowledgement");
  return ack;
}

stream_info read_stream(std::string_view text, std::string_view operation) {
  const reply content(text, operation);
  stream_info info;
  if (content.root().find("config") == nullptr) content.root().refuse("it has no config");
  info.config = read_config(content.root().object("config"));
  info.cluster = read_cluster(content.root().object("cluster"));
  content.root().read("created", info.created);
  const reply_object state = content.root().object("state");
  state.read("messages", info.state.messages);
  state.read("bytes", info.state.bytes);
  state.read("first_seq", info.state.first_sequence);
  state.read("last_seq", info.state.last_sequence);
  state.read("first_ts", info.state.first_time);
  state.read("last_ts", info.state.last_time);
  state.read("num_subjects", info.state.subjects);
  state.read("num_deleted", info.state.deleted);
  state.read("consumer_count", info.state.consumers);
  return info;
}

consumer_info read_consumer(std::string_view text, std::string_view operation) {
  const reply content(text, operation);
  consumer_info info;
  content.root().read("stream_name", info.stream);
  content.root().read("name", info.name);
  if (info.stream.empty() || info.name.empty()) content.root().refuse("it has no name");
  info.config = read_consumer_config(content.root().object("config"));
  info.delivered = read_position(content.root().object("delivered"));
  info.ack_floor = read_position(content.root().object("ack_floor"));
  content.root().read("num_ack_pending", info.ack_pending);
  content.root().read("num_redelivered", info.redelivered);
  content.root().read("num_waiting", info.waiting_requests);
  content.root().read("num_pending", info.pending);
  info.cluster = read_cluster(content.root().object("cluster"));
  content.root().read("created", info.created);
  return info;
}

account_info read_account(std::string_view text, std::string_view operation) {
  const reply content(text, operation);
  account_info info;
  content.root().read("memory", info.memory);
  content.root().read("storage", info.storage);
  content.root().read("streams", info.streams);
  content.root().read("consumers", info.consumers);
  const reply_object limits = content.root().object("limits");
  limits.read("max_memory", info.max_memory);
  limits.read("max_storage", info.max_storage);
  limits.read("max_streams", info.max_streams);
  limits.read("max_consumers", info.max_consumers);
  return info;
}

name_page read_names(std::string_view text, std::string_view operation) {
  const reply content(text, operation);
  name_page page;
  content.root().read("total", page.total);
  content.root().read("streams", page.names);
  content.root().read("consumers", page.names);
  return page;
}

raw_message read_message(std::string_view text, std::string_view operation) {
  const reply content(text, operation);
  const reply_object object = content.root().object("message");
  raw_message message;
  object.read("subject", message.subject);
  object.read("seq", message.sequence);
  if (message.subject.empty() || message.sequence == 0) content.root().refuse("it has no message");
  std::optional<timestamp> time;
  object.read("time", time);
  message.time = time.value_or(timestamp());
  message.headers = decoded(object, "hdrs");
  message.payload = decoded(object, "data");
  return message;
}

std::uint64_t read_purge(std::string_view text, std::string_view operation) {
  const reply content(text, operation);
  std::uint64_t purged_count = 0;
  content.root().read("purged", purged_count);
  return purged_count;
}

void read_confirmation(std::string_view text, std::string_view operation) {
  const reply content(text, operation);
  bool is_done = false;
  content.root().read("success", is_done);
  if (!is_done) content.root().refuse("it is no confirmation");
}

}  // namespace gyre::nats::detail
