// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/service.hpp>

#include <gyre/base/detail/parse_decimal.hpp>
#include <gyre/net/detail/system_names.hpp>

#include <algorithm>
#include <array>
#include <string>
#include <utility>

namespace gyre::net {
namespace {

// Ports that IANA has registered. With this table their names work in a container without
// /etc/services.
constexpr std::array<std::pair<std::string_view, std::uint16_t>, 20> common_services{{
    {"amqp", 5672},  {"domain", 53},        {"echo", 7},    {"ftp", 21},   {"http", 80},
    {"https", 443},  {"imap", 143},         {"imaps", 993}, {"ldap", 389}, {"ldaps", 636},
    {"mqtt", 1883},  {"mysql", 3306},       {"nats", 4222}, {"ntp", 123},  {"postgresql", 5432},
    {"redis", 6379}, {"secure-mqtt", 8883}, {"smtp", 25},   {"ssh", 22},   {"telnet", 23},
}};

}  // namespace

std::optional<std::uint16_t> service::find(std::string_view name) {
  if (const auto number = gyre::detail::parse_decimal<std::uint16_t>(name)) return number;
  const auto* const entry =
      std::ranges::find(common_services, name, &std::pair<std::string_view, std::uint16_t>::first);
  if (entry != common_services.end()) return entry->second;
  if (name.contains('\0')) return std::nullopt;
  return detail::system::find_service_port(std::string(name));
}

}  // namespace gyre::net
