// SPDX-License-Identifier: Apache-2.0
// endpoint: a socket address, either an IP address and a port or a Unix socket's name.
//
//     gyre::net::endpoint web = "192.0.2.1:80";
//     gyre::net::endpoint secure(gyre::net::ip_address::any_v6(), 443);
//     auto control = gyre::net::endpoint::unix_path("/run/service.sock");
//     auto given = gyre::net::endpoint::parse(argv[1]);
#pragma once

#include <gyre/net/address.hpp>

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <functional>
#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

namespace gyre::net {

/// Families of addresses. `local`: Unix sockets, as `unix` is a predefined macro.
enum class address_family : sa_family_t {
  none = AF_UNSPEC,
  ipv4 = AF_INET,
  ipv6 = AF_INET6,
  local = AF_UNIX,
};

/// Any socket address (sockaddr): IPv4 or IPv6 with a port; a Unix socket's path or abstract name,
/// or "unnamed"; or none, by default. A value of 116 bytes, for the longest path; an ip_address and
/// a port are smaller. Ordered and compared by family, then by address and port, or by path or
/// name; an IPv6 flow label is carried, not compared.
///
/// Lifetime: path() and abstract_name() are views of the endpoint.
class endpoint {
 public:
  endpoint() noexcept : storage_{}, size_(0) {}
  /// The port is in host order; port 0 lets the kernel choose when a server binds. `flow`: an IPv6
  /// flow label (20 bits, host order; not checked), which IPv4 ignores.
  endpoint(const ip_address& address, std::uint16_t port, std::uint32_t flow = 0) noexcept;

  /// Returns the endpoint of a Unix socket in the file system. Throws std::system_error:
  /// std::errc::filename_too_long beyond 107 bytes, std::errc::invalid_argument for an empty path
  /// or one with a zero byte. A path that begins with '@' gets "./" in front, so that its text is
  /// not that of an abstract name.
  static endpoint unix_path(std::string_view path);
  /// Returns the endpoint of a Unix socket in Linux's abstract name space: the name vanishes with
  /// the last descriptor of the socket. The name may have any bytes. Throws std::system_error:
  /// std::errc::filename_too_long beyond 107.
  static endpoint unix_abstract(std::string_view name);
  /// Returns the address of an unbound Unix socket. With it, socket::bind() is an autobind: the
  /// kernel chooses an abstract name.
  static endpoint unix_unnamed() noexcept;

  /// Returns the wildcard address, which stands for every local address when a server binds:
  /// [::]:port, which IPv4 peers reach, too, unless the server takes IPv6 only; 0.0.0.0:port on a
  /// machine without IPv6.
  static endpoint any(std::uint16_t port) noexcept;

  /// Reads an address with a port:
  ///
  /// | text | endpoint |
  /// |---|---|
  /// | "192.0.2.1:80", "[2001:db8::7]:80", "[fe80::1%eth0]:80" | an IP address and a port |
  /// | ":80", "*:80" | any(80) |
  /// | "localhost:80" | 127.0.0.1:80 |
  /// | "[::1]:http" | the port of a service, see net::service |
  /// | "unix:/run/service.sock", "unix:@name", "unix:" | a Unix socket: path, abstract, unnamed |
  ///
  /// Looks up no other host name: see host_port, connect() and tcp_client.
  ///
  /// Errors: std::errc::invalid_argument, resolve_errc::service_not_found, and the errors of
  /// ip_address::parse() and of the functions above. Complexity: reads /etc/services for the name
  /// of a service that is not built in, which blocks; system calls for the name of an interface.
  [[nodiscard]] static std::expected<endpoint, std::error_code> parse(std::string_view text);
  /// Constructs the endpoint that parse() reads from `text`, so that a text can be passed as an
  /// endpoint: `server.listen(":7000")`. Throws std::system_error with the text and the forms that
  /// are accepted.
  template <std::convertible_to<std::string_view> Text>
  endpoint(const Text& text) : endpoint(read(text)) {}
  /// Returns a text that parse() reads, or "none", which it does not read, for no address.
  [[nodiscard]] std::string to_string() const;

  address_family family() const noexcept {
    return size_ == 0 ? address_family::none : static_cast<address_family>(storage_.any.sa_family);
  }
  /// Whether the family is ipv4 or ipv6.
  bool is_ip() const noexcept {
    return family() == address_family::ipv4 || family() == address_family::ipv6;
  }
  bool is_unix() const noexcept { return family() == address_family::local; }

  /// Returns the IP address. Throws std::system_error (std::errc::address_family_not_supported)
  /// unless is_ip().
  ip_address address() const;
  /// Returns the port in host order; 0 unless is_ip().
  std::uint16_t port() const noexcept;
  /// Sets the port. Does nothing unless is_ip().
  void set_port(std::uint16_t port) noexcept;
  /// Returns the flow label of an IPv6 endpoint, otherwise 0.
  std::uint32_t flow() const noexcept;
  /// Returns the path of a Unix socket; empty if there is none.
  std::string_view path() const noexcept;
  /// Returns the abstract name of a Unix socket, without the zero byte in front; empty if there is
  /// none.
  std::string_view abstract_name() const noexcept;
  bool is_abstract() const noexcept;

  /// Returns the local address from which datagrams to this endpoint are sent. Without a value, the
  /// kernel chooses. A socket that is bound to all addresses receives its peers' endpoints with the
  /// address at which the datagram arrived, so that a reply leaves from there: clients drop others
  /// (RFC 1122, 4.1.3.5). Only a link-local address of IPv6 decides the interface, too, by its
  /// scope; others take the route to the peer. There is no source after a multicast of IPv6, and
  /// for a Unix socket. The source is copied, but not compared, hashed or printed. Complexity: a
  /// datagram with a source costs 32 or 40 bytes of ancillary data.
  std::optional<ip_address> source() const noexcept;
  /// Sets the source. Does nothing unless is_ip(). Sending from an address of another machine fails
  /// with std::errc::invalid_argument.
  void set_source(const std::optional<ip_address>& address) noexcept;

  // The functions below pass the address to system calls.

  /// Throws std::system_error: std::errc::address_family_not_supported for a family that is not in
  /// address_family, std::errc::invalid_argument for a size that does not fit the family.
  static endpoint from_sockaddr(const sockaddr* address, socklen_t size);
  const sockaddr* data() const noexcept { return &storage_.any; }
  socklen_t size() const noexcept { return size_; }
  /// Returns a buffer of capacity() bytes for accept(), getsockname() and recvmsg(); call resize()
  /// afterwards.
  sockaddr* data() noexcept { return &storage_.any; }
  static constexpr socklen_t capacity() noexcept { return sizeof(storage::bytes); }
  /// Accepts `size` bytes that a system call has written to data(). If they are not an address of
  /// an address_family, or their size does not fit the family, the family of the endpoint is
  /// address_family::none.
  void resize(socklen_t size) noexcept;

  friend std::strong_ordering operator<=>(const endpoint& left, const endpoint& right) noexcept;
  friend bool operator==(const endpoint& left, const endpoint& right) noexcept {
    return (left <=> right) == 0;
  }
  friend std::ostream& operator<<(std::ostream& output, const endpoint& address);

 private:
  // An IP endpoint, followed by the address from which to send to it.
  struct address_and_source {
    sockaddr_in6 address;
    sa_family_t source_family;  // AF_UNSPEC if there is no source
    ip_address::v6_bytes source;
    std::uint32_t source_scope;
  };
  // Linux reports a path of 108 bytes with a zero after it: one byte more than sockaddr_un has.
  union storage {
    sockaddr any;
    sockaddr_in v4;
    sockaddr_in6 v6;
    sockaddr_un local;
    address_and_source with_source;
    char bytes[sizeof(sockaddr_un) + 1];
  };
  static constexpr socklen_t name_offset = offsetof(sockaddr_un, sun_path);

  endpoint(bool is_abstract, std::string_view name);
  static endpoint read(std::string_view text);
  static bool fits(const storage& address, socklen_t size) noexcept;
  std::string_view name() const noexcept;

  storage storage_;
  socklen_t size_;
};

}  // namespace gyre::net

template <>
struct std::hash<gyre::net::endpoint> {
  std::size_t operator()(const gyre::net::endpoint& address) const noexcept;
};
