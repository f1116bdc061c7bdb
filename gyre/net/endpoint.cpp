// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/endpoint.hpp>

#include <gyre/base/unique_fd.hpp>
#include <gyre/net/detail/errors.hpp>
#include <gyre/net/detail/host_text.hpp>
#include <gyre/net/detail/system_sockets.hpp>
#include <gyre/net/host_port.hpp>
#include <gyre/net/resolve_error.hpp>

#include <arpa/inet.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <ostream>

namespace gyre::net {
namespace {

using detail::fail;

constexpr std::string_view unix_prefix = "unix:";
constexpr std::size_t max_abstract_name = sizeof(sockaddr_un::sun_path) - 1;

std::expected<endpoint, std::error_code> parse_unix(std::string_view name) {
  if (name.empty()) return endpoint::unix_unnamed();
  try {
    return name.starts_with('@') ? endpoint::unix_abstract(name.substr(1))
                                 : endpoint::unix_path(name);
  } catch (const std::system_error& error) {
    return std::unexpected(error.code());
  }
}

}  // namespace

endpoint::endpoint(const ip_address& address, std::uint16_t port, std::uint32_t flow) noexcept
    : storage_{} {
  const auto bytes = address.bytes();
  if (address.is_v4()) {
    size_ = sizeof(sockaddr_in);
    storage_.v4.sin_family = AF_INET;
    storage_.v4.sin_port = htons(port);
    std::memcpy(&storage_.v4.sin_addr, bytes.data(), bytes.size());
  } else {
    size_ = sizeof(sockaddr_in6);
    storage_.v6.sin6_family = AF_INET6;
    storage_.v6.sin6_port = htons(port);
    storage_.v6.sin6_flowinfo = htonl(flow);
    storage_.v6.sin6_scope_id = address.scope();
    std::memcpy(&storage_.v6.sin6_addr, bytes.data(), bytes.size());
  }
  set_source(std::nullopt);
}

// Stores a path with a terminating zero, and an abstract name with a leading zero.
endpoint::endpoint(bool is_abstract, std::string_view name) : storage_{} {
  if (name.size() > max_abstract_name) fail(std::errc::filename_too_long, "gyre::net::endpoint");
  storage_.local.sun_family = AF_UNIX;
  std::ranges::copy(name, storage_.local.sun_path + (is_abstract ? 1 : 0));
  size_ = name_offset + static_cast<socklen_t>(name.size()) + 1;
}

endpoint endpoint::unix_path(std::string_view path) {
  if (path.empty() || path.contains('\0')) {
    fail(std::errc::invalid_argument, "gyre::net::endpoint::unix_path");
  }
  if (path.starts_with('@')) return {false, "./" + std::string(path)};
  return {false, path};
}

endpoint endpoint::unix_abstract(std::string_view name) { return {true, name}; }

endpoint endpoint::unix_unnamed() noexcept {
  endpoint result;
  result.storage_.local.sun_family = AF_UNIX;
  result.size_ = name_offset;
  return result;
}

// IPv6 is checked only once, because only booting with ipv6.disable=1 can take it away.
endpoint endpoint::any(std::uint16_t port) noexcept {
  static const bool has_v6 = [] {
    const auto probe = detail::system::open_socket(AF_INET6, SOCK_DGRAM);
    return probe || probe.error() != EAFNOSUPPORT;
  }();
  return {has_v6 ? ip_address::any_v6() : ip_address::any_v4(), port};
}

endpoint endpoint::read(std::string_view text) {
  auto result = parse(text);
  if (result) return *result;
  throw std::system_error(result.error(),
                          "gyre::net::endpoint " + detail::describe_expected_forms(text, false));
}

std::expected<endpoint, std::error_code> endpoint::parse(std::string_view text) {
  if (text.starts_with(unix_prefix)) return parse_unix(text.substr(unix_prefix.size()));
  const auto parts = detail::split_host_text(text);
  if (!parts) return std::unexpected(parts.error());
  if (parts->is_any()) return any(parts->port);
  if (parts->is_localhost()) return endpoint(ip_address::loopback_v4(), parts->port);
  const auto address = ip_address::parse(parts->host);
  if (!address) {
    return std::unexpected(ends_in_number(parts->host) ? resolve_errc::numeric_host
                                                       : address.error());
  }
  return endpoint(*address, parts->port);
}

std::string endpoint::to_string() const {
  switch (family()) {
    case address_family::none: return "none";
    case address_family::ipv4: return address().to_string() + ':' + std::to_string(port());
    case address_family::ipv6: return '[' + address().to_string() + "]:" + std::to_string(port());
    case address_family::local: break;
  }
  std::string text(unix_prefix);
  if (is_abstract()) return (text += '@') += abstract_name();
  // The added "./" marks the text as a path: only the kernel can report a path that begins like the
  // text of an abstract name.
  if (path().starts_with('@')) text += "./";
  return text += path();
}

ip_address endpoint::address() const {
  if (family() == address_family::ipv4) {
    return ip_address(std::bit_cast<ip_address::v4_bytes>(storage_.v4.sin_addr));
  }
  if (family() == address_family::ipv6) {
    return ip_address(std::bit_cast<ip_address::v6_bytes>(storage_.v6.sin6_addr),
                      storage_.v6.sin6_scope_id);
  }
  fail(std::errc::address_family_not_supported, "gyre::net::endpoint::address");
}

std::uint16_t endpoint::port() const noexcept {
  switch (family()) {
    case address_family::ipv4: return ntohs(storage_.v4.sin_port);
    case address_family::ipv6: return ntohs(storage_.v6.sin6_port);
    default: return 0;
  }
}

void endpoint::set_port(std::uint16_t port) noexcept {
  if (family() == address_family::ipv4) storage_.v4.sin_port = htons(port);
  if (family() == address_family::ipv6) storage_.v6.sin6_port = htons(port);
}

std::uint32_t endpoint::flow() const noexcept {
  return family() == address_family::ipv6 ? ntohl(storage_.v6.sin6_flowinfo) : 0;
}

std::optional<ip_address> endpoint::source() const noexcept {
  if (!is_ip()) return std::nullopt;
  const address_and_source& fields = storage_.with_source;
  if (fields.source_family == AF_INET6) return ip_address(fields.source, fields.source_scope);
  if (fields.source_family != AF_INET) return std::nullopt;
  ip_address::v4_bytes bytes;
  std::copy_n(fields.source.begin(), bytes.size(), bytes.begin());
  return ip_address(bytes);
}

void endpoint::set_source(const std::optional<ip_address>& address) noexcept {
  if (!is_ip()) return;
  address_and_source& fields = storage_.with_source;
  fields.source_family = AF_UNSPEC;
  if (!address) return;
  fields.source_family = address->is_v4() ? AF_INET : AF_INET6;
  std::ranges::copy(address->bytes(), fields.source.begin());
  fields.source_scope = address->scope();
}

// Returns a Unix socket's name, with the zero before an abstract name, and without the zero after a
// path.
std::string_view endpoint::name() const noexcept {
  if (!is_unix()) return {};
  const std::string_view all(storage_.bytes + name_offset, size_ - name_offset);
  return all.starts_with('\0') ? all : all.substr(0, all.find('\0'));
}

std::string_view endpoint::path() const noexcept { return is_abstract() ? "" : name(); }

std::string_view endpoint::abstract_name() const noexcept {
  return is_abstract() ? name().substr(1) : "";
}

bool endpoint::is_abstract() const noexcept { return name().starts_with('\0'); }

bool endpoint::fits(const storage& address, socklen_t size) noexcept {
  if (size < sizeof(sa_family_t) || size > capacity()) return false;
  switch (address.any.sa_family) {
    case AF_INET: return size >= sizeof(sockaddr_in);
    case AF_INET6: return size >= sizeof(sockaddr_in6);
    case AF_UNIX: return true;
    default: return false;
  }
}

endpoint endpoint::from_sockaddr(const sockaddr* address, socklen_t size) {
  endpoint copy;
  if (size > capacity()) fail(std::errc::invalid_argument, "gyre::net::endpoint::from_sockaddr");
  std::memcpy(&copy.storage_, address, size);
  if (fits(copy.storage_, size)) {
    copy.resize(size);
    return copy;
  }
  const bool is_known = size >= sizeof(sa_family_t) &&
                        (address->sa_family == AF_INET || address->sa_family == AF_INET6);
  fail(is_known ? std::errc::invalid_argument : std::errc::address_family_not_supported,
       "gyre::net::endpoint::from_sockaddr");
}

void endpoint::resize(socklen_t size) noexcept {
  size_ = fits(storage_, size) ? size : 0;
  if (family() == address_family::ipv4) size_ = sizeof(sockaddr_in);
  if (family() == address_family::ipv6) size_ = sizeof(sockaddr_in6);
  set_source(std::nullopt);
}

std::strong_ordering operator<=>(const endpoint& left, const endpoint& right) noexcept {
  if (const auto order = left.family() <=> right.family(); order != 0) return order;
  if (left.is_unix()) return left.name() <=> right.name();
  if (!left.is_ip()) return std::strong_ordering::equal;
  if (const auto order = left.address() <=> right.address(); order != 0) return order;
  return left.port() <=> right.port();
}

std::ostream& operator<<(std::ostream& output, const endpoint& address) {
  return output << address.to_string();
}

}  // namespace gyre::net

std::size_t std::hash<gyre::net::endpoint>::operator()(
    const gyre::net::endpoint& address) const noexcept {
  if (address.is_ip()) {
    return std::hash<gyre::net::ip_address>()(address.address()) ^
           (std::size_t{address.port()} << 16);
  }
  const std::string_view path = address.path();
  return std::hash<std::string_view>()(path.empty() ? address.abstract_name() : path);
}
