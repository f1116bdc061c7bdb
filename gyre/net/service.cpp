// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/service.hpp>

#include <gyre/base/detail/parse_decimal.hpp>
#include <gyre/net/detail/errors.hpp>

#include <netdb.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>
#include <utility>
#include <vector>

namespace gyre::net {
namespace {

// So that these work in a container without /etc/services. Ports that IANA has registered.
constexpr std::array<std::pair<std::string_view, std::uint16_t>, 20> common_services{{
    {"amqp", 5672},  {"domain", 53},        {"echo", 7},    {"ftp", 21},   {"http", 80},
    {"https", 443},  {"imap", 143},         {"imaps", 993}, {"ldap", 389}, {"ldaps", 636},
    {"mqtt", 1883},  {"mysql", 3306},       {"nats", 4222}, {"ntp", 123},  {"postgresql", 5432},
    {"redis", 6379}, {"secure-mqtt", 8883}, {"smtp", 25},   {"ssh", 22},   {"telnet", 23},
}};

}  // namespace

std::optional<std::uint16_t> service::find(std::string_view name) {
  if (const auto number = gyre::detail::parse_decimal<std::uint16_t>(name)) return number;
  const auto* const known =
      std::ranges::find(common_services, name, &std::pair<std::string_view, std::uint16_t>::first);
  if (known != common_services.end()) return known->second;
  if (name.contains('\0')) return std::nullopt;
  const std::string terminated(name);
  std::vector<char> room(1024);
  servent entry{};
  servent* found = nullptr;
  while (::getservbyname_r(terminated.c_str(), nullptr, &entry, room.data(), room.size(), &found) ==
         ERANGE) {
    room.resize(room.size() * 2);
  }
  if (found == nullptr) return std::nullopt;
  return ntohs(static_cast<std::uint16_t>(found->s_port));
}

}  // namespace gyre::net
