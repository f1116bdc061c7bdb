// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/socket_options.hpp>

#include <gyre/base/detail/duration_check.hpp>
#include <gyre/base/error.hpp>
#include <gyre/io/detail/system_files.hpp>
#include <gyre/net/detail/errors.hpp>
#include <gyre/net/detail/system_sockets.hpp>

#include <cerrno>
#include <cstring>
#include <utility>

namespace gyre::net {
namespace {

using option = detail::system::socket_option;
using detail::system::get_option;
using detail::system::so_keepalive;
using detail::system::so_linger;
using detail::system::tcp_nodelay;

constexpr option so_domain{SOL_SOCKET, SO_DOMAIN, "SO_DOMAIN"};
constexpr option so_error{SOL_SOCKET, SO_ERROR, "SO_ERROR"};
constexpr option so_reuseaddr{SOL_SOCKET, SO_REUSEADDR, "SO_REUSEADDR"};
constexpr option so_reuseport{SOL_SOCKET, SO_REUSEPORT, "SO_REUSEPORT"};
constexpr option so_sndbuf{SOL_SOCKET, SO_SNDBUF, "SO_SNDBUF"};
constexpr option so_rcvbuf{SOL_SOCKET, SO_RCVBUF, "SO_RCVBUF"};
constexpr option so_incoming_cpu{SOL_SOCKET, SO_INCOMING_CPU, "SO_INCOMING_CPU"};
constexpr option so_broadcast{SOL_SOCKET, SO_BROADCAST, "SO_BROADCAST"};
constexpr option ip_bind_address_no_port{IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT,
                                         "IP_BIND_ADDRESS_NO_PORT"};
constexpr option ip_pktinfo{IPPROTO_IP, IP_PKTINFO, "IP_PKTINFO"};
constexpr option ipv6_recvpktinfo{IPPROTO_IPV6, IPV6_RECVPKTINFO, "IPV6_RECVPKTINFO"};
constexpr option ip_tos{IPPROTO_IP, IP_TOS, "IP_TOS"};
constexpr option ip_multicast_loop{IPPROTO_IP, IP_MULTICAST_LOOP, "IP_MULTICAST_LOOP"};
constexpr option ip_multicast_ttl{IPPROTO_IP, IP_MULTICAST_TTL, "IP_MULTICAST_TTL"};
constexpr option ip_multicast_if{IPPROTO_IP, IP_MULTICAST_IF, "IP_MULTICAST_IF"};
constexpr option ipv6_v6only{IPPROTO_IPV6, IPV6_V6ONLY, "IPV6_V6ONLY"};
constexpr option ipv6_tclass{IPPROTO_IPV6, IPV6_TCLASS, "IPV6_TCLASS"};
constexpr option ipv6_multicast_loop{IPPROTO_IPV6, IPV6_MULTICAST_LOOP, "IPV6_MULTICAST_LOOP"};
constexpr option ipv6_multicast_hops{IPPROTO_IPV6, IPV6_MULTICAST_HOPS, "IPV6_MULTICAST_HOPS"};
constexpr option ipv6_multicast_if{IPPROTO_IPV6, IPV6_MULTICAST_IF, "IPV6_MULTICAST_IF"};
constexpr option tcp_keepidle{IPPROTO_TCP, TCP_KEEPIDLE, "TCP_KEEPIDLE"};
constexpr option tcp_keepintvl{IPPROTO_TCP, TCP_KEEPINTVL, "TCP_KEEPINTVL"};
constexpr option tcp_keepcnt{IPPROTO_TCP, TCP_KEEPCNT, "TCP_KEEPCNT"};
constexpr option tcp_cork{IPPROTO_TCP, TCP_CORK, "TCP_CORK"};
constexpr option tcp_quickack{IPPROTO_TCP, TCP_QUICKACK, "TCP_QUICKACK"};
constexpr option tcp_user_timeout{IPPROTO_TCP, TCP_USER_TIMEOUT, "TCP_USER_TIMEOUT"};
constexpr option tcp_defer_accept{IPPROTO_TCP, TCP_DEFER_ACCEPT, "TCP_DEFER_ACCEPT"};
constexpr option tcp_fastopen{IPPROTO_TCP, TCP_FASTOPEN, "TCP_FASTOPEN"};

template <class T>
void set(int fd, const option& key, const T& value) {
  const io::result outcome = detail::system::set_option(fd, key, value);
  if (!outcome) throw std::system_error(outcome.error(), key.name);
}

void set_flag(int fd, const option& key, bool is_enabled) { set<int>(fd, key, is_enabled ? 1 : 0); }
bool get_flag(int fd, const option& key) { return get_option(fd, key) != 0; }

template <class T>
void set_number(int fd, const option& key, T value) {
  if (std::cmp_less(value, 0) || !std::in_range<int>(value))
    gyre::detail::throw_system_error(EINVAL, key.name);
  set<int>(fd, key, static_cast<int>(value));
}

// The largest TCP_KEEPIDLE and TCP_KEEPINTVL that Linux accepts.
constexpr int max_probe_seconds = 32767;
constexpr int max_int = std::numeric_limits<int>::max();

template <class Unit>
int checked_units(const option& key, duration time, int max = max_int) {
  if (time < duration::zero()) gyre::detail::throw_system_error(EINVAL, key.name);
  return gyre::detail::whole_units<Unit>(time, max);
}
template <class Unit>
void set_time(int fd, const option& key, duration time, int max = max_int) {
  set<int>(fd, key, checked_units<Unit>(key, time, max));
}

// Returns the option for the family of the socket.
const option& of_family(const socket_ref& socket, const option& v4, const option& v6) {
  return socket.family() == address_family::ipv6 ? v6 : v4;
}

sockaddr_storage to_storage(const ip_address& address) {
  const endpoint source(address, 0);
  sockaddr_storage result{};
  std::memcpy(&result, source.data(), source.size());
  return result;
}

int level_of(const ip_address& group) { return group.is_v6() ? IPPROTO_IPV6 : IPPROTO_IP; }

group_req request_for(const ip_address& group, unsigned interface) {
  return {.gr_interface = interface != 0 ? interface : group.scope(),
          .gr_group = to_storage(group)};
}

group_source_req request_for(const ip_address& source, const ip_address& group,
                             unsigned interface) {
  return {.gsr_interface = interface != 0 ? interface : group.scope(),
          .gsr_group = to_storage(group),
          .gsr_source = to_storage(source)};
}

}  // namespace

endpoint socket_ref::local_endpoint() const {
  endpoint local;
  const io::result outcome = detail::system::read_local_endpoint(fd_, local);
  if (!outcome) detail::fail(outcome.error(), "getsockname");
  return local;
}
endpoint socket_ref::peer_endpoint() const {
  endpoint peer;
  const io::result outcome = detail::system::read_peer_endpoint(fd_, peer);
  if (!outcome) detail::fail(outcome.error(), "getpeername");
  return peer;
}

address_family socket_ref::family() const {
  return static_cast<address_family>(get_option(fd_, so_domain));
}

std::error_code socket_ref::take_error() const {
  return {get_option(fd_, so_error), std::system_category()};
}

void socket_ref::set_reuse_address(bool is_enabled) const {
  set_flag(fd_, so_reuseaddr, is_enabled);
}
bool socket_ref::reuse_address() const { return get_flag(fd_, so_reuseaddr); }
void socket_ref::set_reuse_port(bool is_enabled) const { set_flag(fd_, so_reuseport, is_enabled); }
bool socket_ref::reuse_port() const { return get_flag(fd_, so_reuseport); }
void socket_ref::set_send_buffer(std::size_t bytes) const { set_number(fd_, so_sndbuf, bytes); }
std::size_t socket_ref::send_buffer() const {
  return static_cast<std::size_t>(get_option(fd_, so_sndbuf));
}
void socket_ref::set_receive_buffer(std::size_t bytes) const { set_number(fd_, so_rcvbuf, bytes); }
std::size_t socket_ref::receive_buffer() const {
  return static_cast<std::size_t>(get_option(fd_, so_rcvbuf));
}

void socket_ref::set_linger(std::optional<duration> limit) const {
  const int seconds =
      checked_units<std::chrono::seconds>(so_linger, limit.value_or(duration::zero()));
  set(fd_, so_linger, ::linger{.l_onoff = limit.has_value() ? 1 : 0, .l_linger = seconds});
}
std::optional<std::chrono::seconds> socket_ref::linger() const {
  const auto value = get_option<struct ::linger>(fd_, so_linger);
  if (value.l_onoff == 0) return std::nullopt;
  return std::chrono::seconds{value.l_linger};
}
void socket_ref::set_incoming_cpu(int cpu) const { set(fd_, so_incoming_cpu, cpu); }
int socket_ref::incoming_cpu() const { return get_option(fd_, so_incoming_cpu); }
void socket_ref::set_v6_only(bool is_enabled) const { set_flag(fd_, ipv6_v6only, is_enabled); }
bool socket_ref::v6_only() const { return get_flag(fd_, ipv6_v6only); }

// The IPv4 option is also set on an IPv6 socket, for mapped addresses.
void socket_ref::set_traffic_class(int value) const {
  if (value < 0 || value > 255) gyre::detail::throw_system_error(EINVAL, ip_tos.name);
  if (family() == address_family::ipv6) set(fd_, ipv6_tclass, value);
  set(fd_, ip_tos, value);
}
int socket_ref::traffic_class() const {
  return get_option(fd_, of_family(*this, ip_tos, ipv6_tclass));
}

void socket_ref::set_no_delay(bool is_enabled) const { set_flag(fd_, tcp_nodelay, is_enabled); }
bool socket_ref::no_delay() const { return get_flag(fd_, tcp_nodelay); }

void socket_ref::set_keep_alive(const keep_alive_options& options) const {
  if (options.idle)
    set_time<std::chrono::seconds>(fd_, tcp_keepidle, *options.idle, max_probe_seconds);
  if (options.interval)
    set_time<std::chrono::seconds>(fd_, tcp_keepintvl, *options.interval, max_probe_seconds);
  if (options.count) set_number(fd_, tcp_keepcnt, *options.count);
  set_flag(fd_, so_keepalive, options.on);
}
keep_alive_options socket_ref::keep_alive() const {
  return {.on = get_flag(fd_, so_keepalive),
          .idle = std::chrono::seconds{get_option(fd_, tcp_keepidle)},
          .interval = std::chrono::seconds{get_option(fd_, tcp_keepintvl)},
          .count = get_option(fd_, tcp_keepcnt)};
}
void socket_ref::set_cork(bool is_enabled) const { set_flag(fd_, tcp_cork, is_enabled); }
bool socket_ref::cork() const { return get_flag(fd_, tcp_cork); }
void socket_ref::set_quick_ack(bool is_enabled) const { set_flag(fd_, tcp_quickack, is_enabled); }
bool socket_ref::quick_ack() const { return get_flag(fd_, tcp_quickack); }
void socket_ref::set_user_timeout(duration limit) const {
  set_time<std::chrono::milliseconds>(fd_, tcp_user_timeout, limit);
}
std::chrono::milliseconds socket_ref::user_timeout() const {
  return std::chrono::milliseconds{get_option(fd_, tcp_user_timeout)};
}
void socket_ref::set_defer_accept(duration limit) const {
  set_time<std::chrono::seconds>(fd_, tcp_defer_accept, limit);
}
std::chrono::seconds socket_ref::defer_accept() const {
  return std::chrono::seconds{get_option(fd_, tcp_defer_accept)};
}
void socket_ref::set_fast_open(int queue_length) const {
  set_number(fd_, tcp_fastopen, queue_length);
}
int socket_ref::fast_open() const { return get_option(fd_, tcp_fastopen); }
void socket_ref::set_bind_address_no_port(bool is_enabled) const {
  set_flag(fd_, ip_bind_address_no_port, is_enabled);
}
bool socket_ref::bind_address_no_port() const {
  return get_option(fd_, ip_bind_address_no_port) != 0;
}

// An IPv6 socket gets both options: it reports IPv4 datagrams by both, but only IP_PKTINFO has the
// address from which to reply to a broadcast.
void socket_ref::set_packet_info(bool is_enabled) const {
  set_flag(fd_, ip_pktinfo, is_enabled);
  if (family() == address_family::ipv6) set_flag(fd_, ipv6_recvpktinfo, is_enabled);
}
bool socket_ref::packet_info() const { return get_option(fd_, ip_pktinfo) != 0; }

void socket_ref::set_broadcast(bool is_enabled) const { set_flag(fd_, so_broadcast, is_enabled); }
bool socket_ref::broadcast() const { return get_flag(fd_, so_broadcast); }

void socket_ref::join_group(const ip_address& group, unsigned interface) const {
  set(fd_, {level_of(group), MCAST_JOIN_GROUP, "MCAST_JOIN_GROUP"}, request_for(group, interface));
}
void socket_ref::leave_group(const ip_address& group, unsigned interface) const {
  set(fd_, {level_of(group), MCAST_LEAVE_GROUP, "MCAST_LEAVE_GROUP"},
      request_for(group, interface));
}
void socket_ref::join_group_of(const ip_address& source, const ip_address& group,
                               unsigned interface) const {
  set(fd_, {level_of(group), MCAST_JOIN_SOURCE_GROUP, "MCAST_JOIN_SOURCE_GROUP"},
      request_for(source, group, interface));
}
void socket_ref::leave_group_of(const ip_address& source, const ip_address& group,
                                unsigned interface) const {
  set(fd_, {level_of(group), MCAST_LEAVE_SOURCE_GROUP, "MCAST_LEAVE_SOURCE_GROUP"},
      request_for(source, group, interface));
}

void socket_ref::set_multicast_loop(bool is_enabled) const {
  set_flag(fd_, of_family(*this, ip_multicast_loop, ipv6_multicast_loop), is_enabled);
}
bool socket_ref::multicast_loop() const {
  return get_flag(fd_, of_family(*this, ip_multicast_loop, ipv6_multicast_loop));
}
void socket_ref::set_multicast_hops(int hops) const {
  set_number(fd_, of_family(*this, ip_multicast_ttl, ipv6_multicast_hops), hops);
}
int socket_ref::multicast_hops() const {
  return get_option(fd_, of_family(*this, ip_multicast_ttl, ipv6_multicast_hops));
}

void socket_ref::set_multicast_interface(unsigned interface) const {
  if (family() == address_family::ipv6) {
    set(fd_, ipv6_multicast_if, static_cast<int>(interface));
  } else {
    set(fd_, ip_multicast_if,
        ip_mreqn{
            .imr_multiaddr = {}, .imr_address = {}, .imr_ifindex = static_cast<int>(interface)});
  }
}

void socket_ref::set_file_mode(unsigned permissions) const {
  const int error = io::detail::system::change_mode(fd_, permissions);
  if (error != 0) throw std::system_error(error, std::system_category(), "fchmod");
}

void socket_ref::apply(const socket_options& options) const {
  const auto if_given = [this](const auto& value, auto setter) {
    if (value) (this->*setter)(*value);
  };
  if_given(options.reuse_address, &socket_ref::set_reuse_address);
  if_given(options.reuse_port, &socket_ref::set_reuse_port);
  if_given(options.v6_only, &socket_ref::set_v6_only);
  if_given(options.send_buffer, &socket_ref::set_send_buffer);
  if_given(options.receive_buffer, &socket_ref::set_receive_buffer);
  if_given(options.no_delay, &socket_ref::set_no_delay);
  if_given(options.keep_alive, &socket_ref::set_keep_alive);
  if (options.linger) set_linger(options.linger);
  if_given(options.user_timeout, &socket_ref::set_user_timeout);
  if_given(options.traffic_class, &socket_ref::set_traffic_class);
  if_given(options.quick_ack, &socket_ref::set_quick_ack);
  if_given(options.cork, &socket_ref::set_cork);
  if_given(options.defer_accept, &socket_ref::set_defer_accept);
  if_given(options.fast_open, &socket_ref::set_fast_open);
  if_given(options.incoming_cpu, &socket_ref::set_incoming_cpu);
  if_given(options.broadcast, &socket_ref::set_broadcast);
  if_given(options.multicast_loop, &socket_ref::set_multicast_loop);
  if_given(options.multicast_hops, &socket_ref::set_multicast_hops);
  if_given(options.multicast_interface, &socket_ref::set_multicast_interface);
  if_given(options.file_mode, &socket_ref::set_file_mode);
}

}  // namespace gyre::net
