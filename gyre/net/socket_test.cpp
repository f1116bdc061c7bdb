// SPDX-License-Identifier: Apache-2.0
// Tests of sockets and their options, on the loopback interface and on Unix sockets.
#include <gyre/net/socket.hpp>

#include <gtest/gtest.h>

#include <fcntl.h>
#include <net/if.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace socket_test {
namespace {

using namespace std::chrono_literals;
using gyre::net::address_family;
using gyre::net::endpoint;
using gyre::net::ip_address;
using gyre::net::keep_alive_options;
using gyre::net::shutdown_side;
using gyre::net::socket;
using gyre::net::socket_options;
using gyre::net::socket_ref;
using gyre::net::socket_type;

const endpoint some_port(ip_address::loopback_v4(), 0);
const endpoint some_v6_port(ip_address::loopback_v6(), 0);

socket tcp() { return socket::open(address_family::ipv4, socket_type::stream); }
socket tcp6() { return socket::open(address_family::ipv6, socket_type::stream); }
socket udp() { return socket::open(address_family::ipv4, socket_type::datagram); }
socket udp6() { return socket::open(address_family::ipv6, socket_type::datagram); }

void wait_for(const socket& one, short event) {
  pollfd asked{.fd = one.fd(), .events = event, .revents = 0};
  ASSERT_EQ(::poll(&asked, 1, 10'000), 1);
}

socket accept(const socket& listener) {
  wait_for(listener, POLLIN);
  return socket(gyre::unique_fd(::accept4(listener.fd(), nullptr, nullptr, SOCK_NONBLOCK)));
}

template <class F>
std::system_error failure_of(F&& work) {
  try {
    work();
  } catch (const std::system_error& error) {
    return error;
  }
  return std::system_error(std::error_code(), "nothing failed");
}

TEST(Socket, NeitherBlocksNorIsInherited) {
  const auto [one, other] = gyre::net::socket_pair();
  const auto [reader, writer] = gyre::net::make_pipe();
  const socket opened = tcp();
  for (const int fd : {opened.fd(), one.fd(), other.fd(), reader.get(), writer.get()}) {
    EXPECT_TRUE(::fcntl(fd, F_GETFL) & O_NONBLOCK);
    EXPECT_TRUE(::fcntl(fd, F_GETFD) & FD_CLOEXEC);
  }
  EXPECT_EQ(::write(writer.get(), "x", 1), 1);
  char byte = 0;
  EXPECT_EQ(::read(reader.get(), &byte, 1), 1);
  EXPECT_EQ(::read(reader.get(), &byte, 1), -1);
  EXPECT_EQ(errno, EAGAIN);
}

TEST(Socket, IsClosedOnceByItsLastOwner) {
  socket first = tcp();
  const int fd = first.fd();
  socket second = std::move(first);
  EXPECT_FALSE(first);
  EXPECT_EQ(first.fd(), -1);
  EXPECT_EQ(second.fd(), fd);
  first = std::move(second);
  EXPECT_EQ(first.fd(), fd);
  socket& same = first;
  first = std::move(same);
  EXPECT_EQ(first.fd(), fd);
  gyre::unique_fd released = first.release();
  EXPECT_FALSE(first);
  EXPECT_GE(::fcntl(released.get(), F_GETFD), 0);
  first = socket(std::move(released));
  first.close();
  EXPECT_FALSE(first);
  EXPECT_EQ(::fcntl(fd, F_GETFD), -1);
}

TEST(Socket, ConnectsAndKnowsBothEnds) {
  for (const endpoint& where : {some_port, some_v6_port, endpoint::unix_unnamed()}) {
    socket listener = socket::open(where.family(), socket_type::stream);
    listener.bind(where);
    listener.listen();
    const endpoint server = listener.local_endpoint();
    EXPECT_EQ(listener.family(), where.family());
    socket client = socket::open(where.family(), socket_type::stream);
    if (!client.connect(server)) wait_for(client, POLLOUT);
    EXPECT_FALSE(client.take_error());
    const socket accepted = accept(listener);
    EXPECT_EQ(client.peer_endpoint(), server);
    EXPECT_EQ(accepted.local_endpoint(), server);
    EXPECT_EQ(accepted.peer_endpoint(), client.local_endpoint());
  }
}

TEST(Socket, TellsOnceHowAConnectionFailed) {
  socket nobody = tcp();
  nobody.bind(some_port);
  const endpoint refusing = nobody.local_endpoint();
  socket client = tcp();
  if (const auto at_once = failure_of([&] {
        if (!client.connect(refusing)) wait_for(client, POLLOUT);
      });
      at_once.code()) {
    EXPECT_EQ(at_once.code(), std::errc::connection_refused);
  } else {
    EXPECT_EQ(client.take_error(), std::errc::connection_refused);
    EXPECT_FALSE(client.take_error());
  }
  EXPECT_EQ(failure_of([&] { client.peer_endpoint(); }).code(), std::errc::not_connected);
}

TEST(Socket, EndsOneWayOrBoth) {
  auto [near, far] = gyre::net::socket_pair();
  near.shutdown(shutdown_side::send);
  char byte = 0;
  EXPECT_EQ(::read(far.fd(), &byte, 1), 0);
  EXPECT_EQ(::write(far.fd(), "x", 1), 1);
  EXPECT_EQ(::read(near.fd(), &byte, 1), 1) << "the other way goes on";
  far.shutdown(shutdown_side::both);
  EXPECT_EQ(::read(near.fd(), &byte, 1), 0);
  near.shutdown(shutdown_side::both);
  tcp().shutdown(shutdown_side::both);
}

TEST(Socket, FailsWithTheNameOfTheCall) {
  const socket closed;
  EXPECT_EQ(failure_of([&] { closed.bind(some_port); }).code(), std::errc::bad_file_descriptor);
  EXPECT_TRUE(std::string(failure_of([&] { closed.listen(); }).what()).starts_with("listen:"));
  socket first = tcp();
  first.bind(some_port);
  socket second = tcp();
  const endpoint taken = first.local_endpoint();
  const std::system_error in_use = failure_of([&] { second.bind(taken); });
  EXPECT_EQ(in_use.code(), std::errc::address_in_use);
  EXPECT_EQ(in_use.what(), "bind " + taken.to_string() + ": Address already in use");
  const std::string unreachable =
      failure_of([&] { static_cast<void>(closed.connect(taken)); }).what();
  EXPECT_TRUE(unreachable.starts_with("connect " + taken.to_string() + ':')) << unreachable;
  EXPECT_EQ(failure_of([&] { first.listen(-1); }).code(), std::errc::invalid_argument);
  EXPECT_EQ(failure_of([] { socket::open(address_family::none, socket_type::stream); }).code(),
            std::errc::address_family_not_supported);
}

TEST(SocketPair, KeepsTheBordersOfDatagrams) {
  const auto [near, far] = gyre::net::socket_pair(socket_type::datagram);
  EXPECT_EQ(::send(near.fd(), "", 0, 0), 0);
  EXPECT_EQ(::send(near.fd(), "ab", 2, 0), 2);
  std::array<char, 8> room{};
  EXPECT_EQ(::recv(far.fd(), room.data(), room.size(), 0), 0);
  EXPECT_EQ(::recv(far.fd(), room.data(), room.size(), 0), 2);
}

TEST(SocketOptions, GenericOptionsAreSetAndRead) {
  const socket one = tcp();
  for (const bool on : {true, false}) {
    one.set_reuse_address(on);
    EXPECT_EQ(one.reuse_address(), on);
    one.set_reuse_port(on);
    EXPECT_EQ(one.reuse_port(), on);
  }
  one.set_send_buffer(16384);
  EXPECT_EQ(one.send_buffer(), 32768u);
  one.set_receive_buffer(16384);
  EXPECT_EQ(one.receive_buffer(), 32768u);
  EXPECT_EQ(one.linger(), std::nullopt);
  one.set_linger(3s);
  EXPECT_EQ(one.linger(), 3s);
  one.set_linger(0s);
  EXPECT_EQ(one.linger(), 0s);
  one.set_linger(std::nullopt);
  EXPECT_EQ(one.linger(), std::nullopt);
  one.set_incoming_cpu(0);
  EXPECT_EQ(one.incoming_cpu(), 0);
}

TEST(SocketOptions, TcpOptionsAreSetAndRead) {
  const socket one = tcp();
  for (const bool on : {true, false}) {
    one.set_no_delay(on);
    EXPECT_EQ(one.no_delay(), on);
    one.set_cork(on);
    EXPECT_EQ(one.cork(), on);
    one.set_quick_ack(on);
    EXPECT_EQ(one.quick_ack(), on);
  }
  one.set_keep_alive({.idle = 60s, .interval = 10s, .count = 3});
  EXPECT_EQ(one.keep_alive(), (keep_alive_options{.idle = 60s, .interval = 10s, .count = 3}));
  one.set_keep_alive({.on = false});
  EXPECT_EQ(one.keep_alive(),
            (keep_alive_options{.on = false, .idle = 60s, .interval = 10s, .count = 3}));
  one.set_user_timeout(1500ms);
  EXPECT_EQ(one.user_timeout(), 1500ms);
  one.set_defer_accept(5s);
  EXPECT_GE(one.defer_accept(), 5s);
  one.bind(some_port);
  one.set_fast_open(16);
  EXPECT_EQ(one.fast_open(), 16);
}

TEST(SocketOptions, OptionsForBothVersionsOfIpAreSetAndRead) {
  const socket v6 = tcp6();
  for (const bool on : {true, false}) {
    v6.set_v6_only(on);
    EXPECT_EQ(v6.v6_only(), on);
  }
  for (const socket& one : {udp(), udp6()}) {
    one.set_traffic_class(0xb8);
    EXPECT_EQ(one.traffic_class(), 0xb8);
    one.set_broadcast(true);
    EXPECT_TRUE(one.broadcast());
    EXPECT_TRUE(one.multicast_loop());
    one.set_multicast_loop(false);
    EXPECT_FALSE(one.multicast_loop());
    EXPECT_EQ(one.multicast_hops(), 1);
    one.set_multicast_hops(7);
    EXPECT_EQ(one.multicast_hops(), 7);
    one.set_multicast_interface(::if_nametoindex("lo"));
  }
}

TEST(SocketOptions, AreAppliedWithOneCall) {
  const socket one = tcp6();
  one.apply({.reuse_address = true,
             .v6_only = true,
             .receive_buffer = 16384,
             .no_delay = true,
             .keep_alive = keep_alive_options{.idle = 9s},
             .linger = 1s,
             .traffic_class = 0x10});
  EXPECT_TRUE(one.reuse_address() && one.v6_only() && one.no_delay());
  EXPECT_EQ(one.receive_buffer(), 32768u);
  EXPECT_TRUE(one.keep_alive().on);
  EXPECT_EQ(one.keep_alive().idle, 9s);
  EXPECT_EQ(one.linger(), 1s);
  EXPECT_EQ(one.traffic_class(), 0x10);
  EXPECT_FALSE(one.reuse_port()) << "was not given";
  EXPECT_NO_THROW(socket().apply({}));
}

TEST(SocketOptions, FailWithTheirNames) {
  const auto pair = gyre::net::socket_pair();
  const auto what = [](auto&& work) { return std::string(failure_of(work).what()); };
  EXPECT_TRUE(what([&] { pair.first.set_no_delay(true); }).starts_with("TCP_NODELAY:"));
  EXPECT_TRUE(what([&] { pair.first.apply({.cork = true}); }).starts_with("TCP_CORK:"));
  EXPECT_TRUE(what([&] { udp().fast_open(); }).starts_with("TCP_FASTOPEN:"));
  const socket one = tcp();
  EXPECT_TRUE(what([&] { one.v6_only(); }).starts_with("IPV6_V6ONLY:"));
  for (const auto& error :
       {failure_of([&] { one.set_linger(-1s); }), failure_of([&] { one.set_user_timeout(-1ms); }),
        failure_of([&] { one.set_send_buffer(std::size_t{1} << 40); }),
        failure_of([&] { one.set_traffic_class(256); }),
        failure_of([&] { one.set_keep_alive({.idle = 0s}); })}) {
    EXPECT_EQ(error.code(), std::errc::invalid_argument) << error.what();
  }
}

// Sends to a group by the loopback interface, from an unrelated socket of the same machine.
void send_to_group(const endpoint& group, const ip_address& from) {
  const unsigned loopback = ::if_nametoindex("lo");
  const socket sender = socket::open(group.family(), socket_type::datagram);
  sender.bind(endpoint(from, 0));
  sender.set_multicast_interface(loopback);
  EXPECT_EQ(::sendto(sender.fd(), "x", 1, 0, group.data(), group.size()), 1);
}

bool received(const socket& member) {
  char byte = 0;
  return ::recv(member.fd(), &byte, 1, 0) == 1;
}

TEST(Multicast, ReachesMembersOfAGroupUntilTheyLeave) {
  const unsigned loopback = ::if_nametoindex("lo");
  const ip_address group("239.255.7.7");
  const socket member = udp();
  member.bind(endpoint(ip_address::any_v4(), 0));
  const endpoint target(group, member.local_endpoint().port());
  member.join_group(group, loopback);
  send_to_group(target, ip_address::loopback_v4());
  EXPECT_TRUE(received(member));
  member.leave_group(group, loopback);
  send_to_group(target, ip_address::loopback_v4());
  EXPECT_FALSE(received(member));
}

// Few machines have a route for multicasts of IPv6 on the loopback interface.
TEST(Multicast, HasMembersOfBothVersionsByTheScopeOrTheInterface) {
  const unsigned loopback = ::if_nametoindex("lo");
  for (const auto& group :
       {ip_address("239.255.7.7"), ip_address("ff01::7:7%" + std::to_string(loopback))}) {
    const socket member = socket::open(endpoint(group, 0).family(), socket_type::datagram);
    member.join_group(group, group.is_v4() ? loopback : 0);
    EXPECT_EQ(failure_of([&] { member.join_group(group, loopback); }).code(),
              std::errc::address_in_use);
    member.leave_group(group, loopback);
    EXPECT_EQ(failure_of([&] { member.leave_group(group, loopback); }).code(),
              std::errc::address_not_available);
  }
}

TEST(Multicast, ASourceSpecificMemberReceivesFromItsSourceOnly) {
  const unsigned loopback = ::if_nametoindex("lo");
  const ip_address group("232.7.7.7");
  const socket member = udp();
  member.bind(endpoint(ip_address::any_v4(), 0));
  const endpoint target(group, member.local_endpoint().port());
  member.join_group_of(ip_address("127.0.0.2"), group, loopback);
  send_to_group(target, ip_address("127.0.0.1"));
  EXPECT_FALSE(received(member));
  send_to_group(target, ip_address("127.0.0.2"));
  EXPECT_TRUE(received(member));
  member.leave_group_of(ip_address("127.0.0.2"), group, loopback);
  send_to_group(target, ip_address("127.0.0.2"));
  EXPECT_FALSE(received(member));
}

}  // namespace
}  // namespace socket_test
