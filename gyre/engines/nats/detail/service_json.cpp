// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/nats/detail/service_json.hpp>

#include <gyre/engines/nats/detail/json_depth.hpp>

#include <nlohmann/json.hpp>

#include <map>
#include <utility>

namespace gyre::nats::detail {
namespace {

using json = nlohmann::json;

constexpr const char* info_type = "io.nats.micro.v1.info_response";

json common_part(const char* type, const service_info& info) {
  return {{"type", type},
          {"name", info.name},
          {"id", info.id},
          {"version", info.version},
          {"metadata", info.metadata}};
}

json json_of(const endpoint_info& endpoint) {
  return {{"name", endpoint.name},
          {"subject", endpoint.subject},
          {"queue_group", endpoint.queue_group},
          {"metadata", endpoint.metadata}};
}

std::string reply_text(const json& reply) {
  return reply.dump(-1, ' ', false, json::error_handler_t::replace);
}

// Returns the member if it is a text, and otherwise an empty text.
std::string text_in(const json& object, const char* key) {
  const auto match = object.find(key);
  if (match == object.end() || !match->is_string()) return {};
  return match->get<std::string>();
}

std::map<std::string, std::string> metadata_in(const json& object) {
  std::map<std::string, std::string> result;
  const auto match = object.find("metadata");
  if (match == object.end() || !match->is_object()) return result;
  for (const auto& [name, value] : match->items()) {
    if (value.is_string()) result.emplace(name, value.get<std::string>());
  }
  return result;
}

}  // namespace

std::string write_ping_reply(const service_info& info) {
  return reply_text(common_part("io.nats.micro.v1.ping_response", info));
}

std::string write_info_reply(const service_info& info) {
  json reply = common_part(info_type, info);
  reply["description"] = info.description;
  json& endpoints = reply["endpoints"] = json::array();
  for (const endpoint_info& endpoint : info.endpoints) endpoints.push_back(json_of(endpoint));
  return reply_text(reply);
}

std::string write_stats_reply(const service_info& info, const std::vector<endpoint_stats>& stats,
                              timestamp start_time) {
  json reply = common_part("io.nats.micro.v1.stats_response", info);
  reply["started"] = format_timestamp(start_time);
  json& endpoints = reply["endpoints"] = json::array();
  for (const endpoint_stats& endpoint : stats) {
    json object = json_of(endpoint.endpoint);
    object.erase("metadata");
    object["num_requests"] = endpoint.requests;
    object["num_errors"] = endpoint.errors;
    object["last_error"] = endpoint.last_error;
    object["processing_time"] = endpoint.processing_time.count();
    object["average_processing_time"] =
        endpoint.requests > 0
            ? endpoint.processing_time.count() / static_cast<std::int64_t>(endpoint.requests)
            : 0;
    object["data"] = {{"refused", endpoint.refused},
                      {"running", endpoint.running},
                      {"waiting", endpoint.waiting}};
    endpoints.push_back(std::move(object));
  }
  return reply_text(reply);
}

std::optional<service_info> read_info_reply(std::string_view text) {
  if (is_nested_deeply(text)) return std::nullopt;
  const json reply = json::parse(text, nullptr, false);
  if (!reply.is_object() || text_in(reply, "type") != info_type) return std::nullopt;
  service_info info;
  info.name = text_in(reply, "name");
  info.id = text_in(reply, "id");
  info.version = text_in(reply, "version");
  info.description = text_in(reply, "description");
  info.metadata = metadata_in(reply);
  if (info.name.empty() || info.id.empty()) return std::nullopt;
  const auto endpoints = reply.find("endpoints");
  if (endpoints == reply.end() || !endpoints->is_array()) return info;
  for (const json& endpoint : *endpoints) {
    if (!endpoint.is_object()) continue;
    info.endpoints.push_back({.name = text_in(endpoint, "name"),
                              .subject = text_in(endpoint, "subject"),
                              .queue_group = text_in(endpoint, "queue_group"),
                              .metadata = metadata_in(endpoint)});
  }
  return info;
}

}  // namespace gyre::nats::detail
