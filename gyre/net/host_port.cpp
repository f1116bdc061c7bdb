// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/host_port.hpp>

#include <gyre/net/detail/host_text.hpp>
#include <gyre/net/resolve_error.hpp>

#include <ostream>
#include <string_view>
#include <utility>

namespace gyre::net {
namespace {

constexpr std::string_view localhost = "localhost";

}  // namespace

std::expected<host_port, std::error_code> host_port::made_of(std::string_view host,
                                                             std::uint16_t port) {
  const auto address = ip_address::parse(host);
  if (address) return host_port(endpoint(*address, port));
  if (!detail::may_be_name(host)) {
    return std::unexpected(ends_in_number(host) ? resolve_errc::numeric_host : address.error());
  }
  host_port result;
  result.host_ = host;
  result.port_ = port;
  return result;
}

std::expected<host_port, std::error_code> host_port::parse(std::string_view text) {
  if (text.starts_with("unix:")) return endpoint::parse(text);
  const auto parts = detail::split_host_text(text);
  if (!parts) return std::unexpected(parts.error());
  return made_of(parts->is_any() ? localhost : parts->host, parts->port);
}

host_port host_port::read(std::string_view text) {
  auto result = parse(text);
  if (result) return *std::move(result);
  throw std::system_error(result.error(),
                          "gyre::net::host_port " + detail::describe_expected_forms(text, true));
}

host_port::host_port(std::string host, service port) {
  if (!port.port()) {
    throw std::system_error(resolve_errc::service_not_found, "gyre::net::host_port " + host);
  }
  auto result = made_of(host, *port.port());
  if (!result) {
    throw std::system_error(result.error(),
                            "gyre::net::host_port: neither an address nor a name: '" + host + '\'');
  }
  *this = *std::move(result);
}

std::string host_port::to_string() const {
  return is_name() ? host_ + ':' + std::to_string(port_) : direct_.to_string();
}

std::vector<endpoint> host_port::known_endpoints() const {
  if (!is_name()) return {direct_};
  const detail::host_text text{.host = host_, .port = port_, .is_bracketed = false};
  if (!text.is_localhost()) return {};
  return {{ip_address::loopback_v6(), port_}, {ip_address::loopback_v4(), port_}};
}

std::ostream& operator<<(std::ostream& output, const host_port& destination) {
  return output << destination.to_string();
}

}  // namespace gyre::net
