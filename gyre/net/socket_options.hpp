// SPDX-License-Identifier: Apache-2.0
// socket_options, socket_ref: the options of a socket, to be set one by one or many at once.
//
//     gyre::net::socket_ref(connection.fd()).set_no_delay(true);
//     auto opened = gyre::net::socket::open(at.family(), gyre::net::socket_type::stream);
//     opened.apply({.reuse_port = true, .receive_buffer = 1 << 20});  // before bind()
#pragma once

#include <gyre/base/duration.hpp>
#include <gyre/net/address.hpp>
#include <gyre/net/endpoint.hpp>

#include <chrono>
#include <cstddef>
#include <optional>
#include <system_error>

namespace gyre::net {

/// Keepalive probes, which the kernel sends to a silent TCP peer (SO_KEEPALIVE, tcp(7)).
struct keep_alive_options {
  /// Whether probes are sent.
  bool on = true;
  /// The silence before the first probe (TCP_KEEPIDLE), and between probes (TCP_KEEPINTVL), not
  /// zero. It is rounded up to whole seconds, at most 32767, the limit of the kernel. Without a
  /// value the option is not changed.
  std::optional<duration> idle = {};
  /// The silence between probes (TCP_KEEPINTVL): see `idle`.
  std::optional<duration> interval = {};
  /// The number of unanswered probes after which the connection is reset (TCP_KEEPCNT).
  std::optional<int> count = {};

  bool operator==(const keep_alive_options&) const noexcept = default;
};

/// Options for socket_ref::apply(), which sets the members that have a value, in the order of their
/// declaration. The setter of the same name documents each.
struct socket_options {
  std::optional<bool> reuse_address = {};             ///< see socket_ref::set_reuse_address()
  std::optional<bool> reuse_port = {};                ///< see socket_ref::set_reuse_port()
  std::optional<bool> v6_only = {};                   ///< see socket_ref::set_v6_only()
  std::optional<std::size_t> send_buffer = {};        ///< see socket_ref::set_send_buffer()
  std::optional<std::size_t> receive_buffer = {};     ///< see socket_ref::set_receive_buffer()
  std::optional<bool> no_delay = {};                  ///< see socket_ref::set_no_delay()
  std::optional<keep_alive_options> keep_alive = {};  ///< see socket_ref::set_keep_alive()
  std::optional<duration> linger = {};                ///< see socket_ref::set_linger()
  std::optional<duration> user_timeout = {};          ///< see socket_ref::set_user_timeout()
  std::optional<int> traffic_class = {};              ///< see socket_ref::set_traffic_class()
  std::optional<bool> quick_ack = {};                 ///< see socket_ref::set_quick_ack()
  std::optional<bool> cork = {};                      ///< see socket_ref::set_cork()
  std::optional<duration> defer_accept = {};          ///< see socket_ref::set_defer_accept()
  std::optional<int> fast_open = {};                  ///< see socket_ref::set_fast_open()
  std::optional<int> incoming_cpu = {};               ///< see socket_ref::set_incoming_cpu()
  std::optional<bool> broadcast = {};                 ///< see socket_ref::set_broadcast()
  std::optional<bool> multicast_loop = {};            ///< see socket_ref::set_multicast_loop()
  std::optional<int> multicast_hops = {};             ///< see socket_ref::set_multicast_hops()
  std::optional<unsigned> multicast_interface = {};   ///< see socket_ref::set_multicast_interface()
  std::optional<unsigned> file_mode = {};             ///< see socket_ref::set_file_mode()
};

/// A non-owning reference to a socket: its options and its addresses.
///
/// Thread-safety: any thread.
/// Lifetime: the descriptor must stay open; the number of a closed descriptor may be that of
/// another socket.
/// Errors: std::system_error with the kernel's name of the option, such as "TCP_NODELAY: Operation
/// not supported"; std::errc::invalid_argument also for a number that no int can hold.
/// Complexity: one system call for each member unless said otherwise.
class socket_ref {
 public:
  explicit socket_ref(int fd) noexcept : fd_(fd) {}
  int fd() const noexcept { return fd_; }

  /// Sets all options that have a value. Options that precede a failing one stay set.
  void apply(const socket_options& options) const;

  /// Return the address that the socket is bound to, and the address of its peer
  /// (std::errc::not_connected if there is none).
  endpoint local_endpoint() const;
  endpoint peer_endpoint() const;
  address_family family() const;
  /// Returns the pending error (SO_ERROR), such as that of a connect(), or none. The kernel then
  /// clears it.
  std::error_code take_error() const;

  // The options below are those of any socket.

  /// Allows a port where an earlier listener's connections linger (SO_REUSEADDR). Set it before
  /// bind.
  void set_reuse_address(bool is_enabled) const;
  bool reuse_address() const;
  /// Allows several sockets to be bound to one port, among which the kernel spreads connections or
  /// datagrams (SO_REUSEPORT). Set it before bind, on each of the sockets.
  void set_reuse_port(bool is_enabled) const;
  bool reuse_port() const;
  /// Makes bind() to port 0 reserve no port (IP_BIND_ADDRESS_NO_PORT): connect() chooses one that
  /// only has to be free for its peer. For stream sockets; set it before bind.
  void set_bind_address_no_port(bool is_enabled) const;
  bool bind_address_no_port() const;
  /// The size of the kernel's buffer (SO_SNDBUF, SO_RCVBUF). The kernel doubles the value, and ends
  /// its auto-tuning. Limited by net.core.wmem_max and rmem_max. For TCP, set it before connect or
  /// listen.
  void set_send_buffer(std::size_t bytes) const;
  std::size_t send_buffer() const;
  /// Sets the size of the kernel's buffer of received bytes: see set_send_buffer().
  void set_receive_buffer(std::size_t bytes) const;
  std::size_t receive_buffer() const;
  /// The time for which closing blocks the thread, even of a non-blocking socket, while data is
  /// unsent (SO_LINGER), in whole seconds, rounded up; with zero, closing resets the connection.
  /// Without a value, the default, closing returns at once, and the kernel continues to send.
  void set_linger(std::optional<duration> limit) const;
  std::optional<std::chrono::seconds> linger() const;
  /// The processor of incoming packets (SO_INCOMING_CPU). On a listener of a reuse_port group, set
  /// the processor whose packets the listener gets. On a connection, the value is the processor
  /// that received the last packet.
  void set_incoming_cpu(int cpu) const;
  int incoming_cpu() const;

  /// The permissions of the file that bind() makes for a Unix socket (fchmod(2)), which the umask
  /// reduces; by default all. Only processes that may write to the file can connect. Set it before
  /// bind.
  void set_file_mode(unsigned permissions) const;

  // The options below are those of Internet sockets.

  /// Makes an IPv6 socket refuse IPv4 peers, which otherwise have v4-mapped addresses
  /// (IPV6_V6ONLY). Set it before bind.
  void set_v6_only(bool is_enabled) const;
  bool v6_only() const;
  /// The byte of DSCP and ECN in sent packets (IP_TOS; for IPv6, IPV6_TCLASS as well). 0 to 255.
  void set_traffic_class(int value) const;
  int traffic_class() const;

  // The options below are those of TCP.

  /// Sends small writes at once instead of waiting for an acknowledgement (TCP_NODELAY).
  void set_no_delay(bool is_enabled) const;
  bool no_delay() const;
  /// Complexity: one system call for each member that has a value.
  void set_keep_alive(const keep_alive_options& options) const;
  keep_alive_options keep_alive() const;
  /// Holds back bytes that do not fill a packet, for 200 ms at most (TCP_CORK).
  void set_cork(bool is_enabled) const;
  bool cork() const;
  /// Acknowledges at once (TCP_QUICKACK). The effect does not last: the kernel may delay
  /// acknowledgements again.
  void set_quick_ack(bool is_enabled) const;
  bool quick_ack() const;
  /// The time for which sent data may stay unacknowledged before the connection is reset
  /// (TCP_USER_TIMEOUT), in whole milliseconds, rounded up, and at most 24 days; zero for the
  /// system's default.
  void set_user_timeout(duration limit) const;
  std::chrono::milliseconds user_timeout() const;
  /// Makes a listener accept a connection only when data has come, or this time has passed
  /// (TCP_DEFER_ACCEPT), which the kernel rounds up; with zero, at once.
  void set_defer_accept(duration limit) const;
  std::chrono::seconds defer_accept() const;
  /// Lets a listener take data with the first packet of a connection (TCP_FASTOPEN), from up to
  /// `waiting` peers at a time; with zero, from none. Such data may arrive twice.
  void set_fast_open(int queue_length) const;
  int fast_open() const;

  // The options below are those of datagram sockets.

  /// Notes the local address at which each datagram arrives as the source() of its sender's
  /// endpoint, so that a reply leaves from there (IP_PKTINFO, IPV6_RECVPKTINFO). For IP sockets
  /// only. Complexity: two system calls.
  void set_packet_info(bool is_enabled) const;
  bool packet_info() const;
  /// Allows sending to broadcast addresses (SO_BROADCAST).
  void set_broadcast(bool is_enabled) const;
  bool broadcast() const;
  /// Receives multicasts to `group` on an interface (MCAST_JOIN_GROUP) until leave_group(). 0
  /// stands for the scope of `group`, or else the interface of the route.
  void join_group(const ip_address& group, unsigned interface = 0) const;
  void leave_group(const ip_address& group, unsigned interface = 0) const;
  /// Receives multicasts to `group` like join_group(), but only those from `source`
  /// (source-specific multicast, MCAST_JOIN_SOURCE_GROUP).
  void join_group_of(const ip_address& source, const ip_address& group,
                     unsigned interface = 0) const;
  /// Ends join_group_of().
  void leave_group_of(const ip_address& source, const ip_address& group,
                      unsigned interface = 0) const;
  /// Delivers the socket's multicasts to this machine's members of the group, too
  /// (IP_MULTICAST_LOOP, IPV6_MULTICAST_LOOP); on by default. Complexity: two system calls, as for
  /// the next two functions.
  void set_multicast_loop(bool is_enabled) const;
  bool multicast_loop() const;
  /// The maximum number of hops of multicasts (IP_MULTICAST_TTL, IPV6_MULTICAST_HOPS); by default
  /// 1: the local network.
  void set_multicast_hops(int hops) const;
  int multicast_hops() const;
  /// The interface from which multicasts are sent (IP_MULTICAST_IF, IPV6_MULTICAST_IF), by its
  /// number (if_nametoindex(3)). 0 stands for the interface of the route.
  void set_multicast_interface(unsigned interface) const;

 protected:
  void rebind(int fd) noexcept { fd_ = fd; }

 private:
  int fd_;
};

}  // namespace gyre::net
