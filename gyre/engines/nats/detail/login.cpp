// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/nats/detail/login.hpp>

#include <gyre/base/detail/read_file.hpp>
#include <gyre/engines/nats/detail/nkey.hpp>
#include <gyre/engines/nats/error.hpp>

#include <nlohmann/json.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <system_error>

namespace gyre::nats::detail {
namespace {

using nlohmann::json;

std::string text_of(const json& object, const char* name) {
  const auto member = object.find(name);
  return member != object.end() && member->is_string() ? member->get<std::string>() : std::string();
}

bool flag_of(const json& object, const char* name) {
  const auto member = object.find(name);
  return member != object.end() && member->is_boolean() && member->get<bool>();
}

template <class T>
T number_of(const json& object, const char* name, T fallback) {
  const auto member = object.find(name);
  if (member == object.end() || !member->is_number_unsigned()) return fallback;
  const auto number = member->get<std::uint64_t>();
  return number <= std::numeric_limits<T>::max() ? static_cast<T>(number) : fallback;
}

std::string read_credentials(const client_options& options) {
  if (options.credentials_file.empty()) return options.credentials;
  auto text = gyre::detail::read_file(options.credentials_file.c_str());
  if (!text) {
    throw std::system_error(text.error(), std::generic_category(),
                            "gyre::nats::client: " + options.credentials_file);
  }
  return std::move(*text);
}

void add_signature(json& connect, const nkey& key, const info_message& info) {
  if (info.nonce.empty()) {
    throw std::system_error(make_error_code(errc::nonce_missing), "gyre::nats::client");
  }
  connect["sig"] = key.sign(info.nonce);
}

void add_user(json& connect, const client_options& options, const server_address& server,
              const info_message& info) {
  if (!server.user.empty()) {
    connect["user"] = server.user;
    connect["pass"] = server.password;
  } else if (!server.token.empty()) {
    connect["auth_token"] = server.token;
  } else if (!options.user.empty()) {
    connect["user"] = options.user;
    connect["pass"] = options.password;
  } else if (!options.token.empty()) {
    connect["auth_token"] = options.token;
  } else if (!options.nkey_seed.empty()) {
    const nkey key(options.nkey_seed);
    connect["nkey"] = key.public_key();
    add_signature(connect, key, info);
  } else if (!options.credentials.empty() || !options.credentials_file.empty()) {
    const credentials login_data = parse_credentials(read_credentials(options));
    connect["jwt"] = login_data.jwt;
    add_signature(connect, nkey(login_data.seed), info);
  }
}

}  // namespace

std::optional<info_message> parse_info(std::string_view text) {
  const json object = json::parse(text, nullptr, false);
  if (!object.is_object()) return std::nullopt;
  info_message info;
  server_info& server = info.server;
  server.id = text_of(object, "server_id");
  server.name = text_of(object, "server_name");
  server.version = text_of(object, "version");
  server.cluster = text_of(object, "cluster");
  server.host = text_of(object, "host");
  server.port = number_of<std::uint16_t>(object, "port", 0);
  server.client_id = number_of<std::uint64_t>(object, "client_id", 0);
  server.max_payload = number_of<std::size_t>(object, "max_payload", server.max_payload);
  server.has_headers = flag_of(object, "headers");
  server.has_jetstream = flag_of(object, "jetstream");
  server.is_lame_duck = flag_of(object, "ldm");
  info.nonce = text_of(object, "nonce");
  info.tls_required = flag_of(object, "tls_required");
  info.tls_available = flag_of(object, "tls_available");
  const auto urls = object.find("connect_urls");
  if (urls != object.end() && urls->is_array()) {
    for (const json& url : *urls) {
      if (url.is_string()) info.connect_urls.push_back(url.get<std::string>());
    }
  }
  return info;
}

std::string connect_line(const client_options& options, const server_address& server,
                         const info_message& info) {
  json connect = {{"verbose", false},
                  {"pedantic", false},
                  {"tls_required", options.tls.has_value() || server.demands_tls},
                  {"lang", "gyre"},
                  {"version", "0.1.0"},
                  {"protocol", 1},
                  {"echo", options.echo},
                  {"headers", info.server.has_headers},
                  {"no_responders", info.server.has_headers}};
  if (!options.name.empty()) connect["name"] = options.name;
  add_user(connect, options, server, info);
  // Bytes that are not UTF-8 are replaced, since JSON allows no others.
  return "CONNECT " + connect.dump(-1, ' ', false, json::error_handler_t::replace) + "\r\n";
}

}  // namespace gyre::nats::detail
