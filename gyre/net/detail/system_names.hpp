// SPDX-License-Identifier: Apache-2.0
// system_names: the names of services and network interfaces, as the system has them. A simulated
// world replaces these functions at link time. Name servers and the hosts file need no function
// here: sockets query the former, and the latter is an ordinary file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace gyre::net::detail::system {

/// Returns the port of a service, from /etc/services (services(5)). Throws std::bad_alloc.
std::optional<std::uint16_t> find_service_port(const std::string& name);

/// Returns the number of a network interface such as "eth0"; 0 if no interface has that name.
unsigned find_interface(const char* name) noexcept;

}  // namespace gyre::net::detail::system
