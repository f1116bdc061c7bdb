// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/detail/system_names.hpp>

#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>

#include <cerrno>
#include <vector>

namespace gyre::net::detail::system {

std::optional<std::uint16_t> find_service_port(const std::string& name) {
  servent entry{};
  servent* match = nullptr;
  std::vector<char> buffer(1024);
  while (::getservbyname_r(name.c_str(), nullptr, &entry, buffer.data(), buffer.size(), &match) ==
         ERANGE) {
    buffer.resize(buffer.size() * 2);
  }
  if (match == nullptr) return std::nullopt;
  return ntohs(static_cast<std::uint16_t>(match->s_port));
}

unsigned find_interface(const char* name) noexcept { return ::if_nametoindex(name); }

}  // namespace gyre::net::detail::system
