// SPDX-License-Identifier: Apache-2.0
// Tests of datagrams for coroutines: UDP, single and in batches, and Unix datagrams.
#include <gyre/net/udp_socket.hpp>

#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/net/datagram_batch.hpp>
#include <gyre/task/as_expected.hpp>
#include <gyre/task/when_all.hpp>
#include <gyre/task/with_timeout.hpp>
#include <tests/support/coroutine_sockets.hpp>
#include <tests/support/droppable.hpp>

#include <gtest/gtest.h>

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace udp_socket_test {
namespace {

using namespace std::chrono_literals;
using gyre::as_expected;
using gyre::inplace_stop_source;
using gyre::task;
using gyre::net::datagram;
using gyre::net::datagram_batch;
using gyre::net::endpoint;
using gyre::net::ip_address;
using gyre::net::udp_socket;
using gyre::net::unix_datagram;
using gyre::test::error_of;
using gyre::test::loopback_addresses;

const endpoint any_port(ip_address::loopback_v4(), 0);

std::string_view text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Regression: the kernel chose the address, and clients that asked another one dropped the reply.
TEST(Udp, RepliesLeaveFromTheAddressThatWasAsked) {
  gyre::loop loop;
  for (const ip_address& all : {ip_address::any_v4(), ip_address::any_v6()}) {
    udp_socket server(loop, {all, 0});
    udp_socket client(loop, any_port);
    const ip_address asked("127.0.0.2");
    client.connect({asked, server.local_endpoint().port()});
    const auto run = [&]() -> task<> {
      std::array<std::byte, 64> room;
      co_await client.send("one");
      const auto one = co_await server.receive_from(room);
      EXPECT_TRUE(one.peer.source());
      EXPECT_EQ(one.peer.source()->unmapped(), asked);
      co_await server.send_to("single", one.peer);
      co_await client.send("two");
      datagram_batch batch(4, 64);
      co_await server.receive_batch(batch);
      const endpoint peer = batch[0].peer;
      EXPECT_EQ(peer.source(), one.peer.source());
      batch.clear();
      EXPECT_TRUE(batch.add("batched", peer));
      co_await server.send_batch(batch);
      const std::string_view pieces = "first..second.";
      co_await server.send_segments(std::as_bytes(std::span(pieces)), 7, peer);
      for (const std::string_view expected : {"single", "batched", "first..", "second."}) {
        const std::size_t size = co_await client.receive(room);
        EXPECT_EQ(text(std::span(room).first(size)), expected);
      }
    };
    gyre::sync_wait(loop, run());
  }
}

TEST(Udp, NotesAddressesWhereItIsBoundToAllOfThem) {
  gyre::loop loop;
  EXPECT_FALSE(udp_socket(loop, any_port).options().packet_info());
  EXPECT_TRUE(udp_socket(loop, {ip_address::any_v6(), 0}).options().packet_info());
  EXPECT_TRUE(udp_socket(loop, gyre::net::address_family::ipv4).options().packet_info());
  EXPECT_TRUE(udp_socket(loop, gyre::net::socket::open(gyre::net::address_family::ipv6,
                                                       gyre::net::socket_type::datagram))
                  .options()
                  .packet_info());
}

// Without the size of its segments, datagrams that the kernel has joined would look like one.
TEST(Udp, ADatagramWhoseAncillaryDataIsCutOffIsTruncated) {
  gyre::loop loop;
  udp_socket server(loop, {ip_address::any_v6(), 0});
  const int on = 1;
  for (const int option : {IPV6_RECVTCLASS, IPV6_RECVHOPLIMIT, IPV6_RECVDSTOPTS, IPV6_RECVRTHDR,
                           IPV6_RECVORIGDSTADDR}) {
    ASSERT_EQ(::setsockopt(server.fd(), IPPROTO_IPV6, option, &on, sizeof on), 0);
  }
  for (const int option : {SO_TIMESTAMPNS, SO_RXQ_OVFL}) {
    ASSERT_EQ(::setsockopt(server.fd(), SOL_SOCKET, option, &on, sizeof on), 0);
  }
  udp_socket client(loop, {ip_address::loopback_v6(), 0});
  const auto run = [&]() -> task<> {
    std::array<std::byte, 8> room;
    const endpoint at(ip_address::loopback_v6(), server.local_endpoint().port());
    co_await client.send_to("x", at);
    const auto got = co_await server.receive_from(room);
    EXPECT_TRUE(got.truncated);
    EXPECT_EQ(got.size, 1u);
  };
  gyre::sync_wait(loop, run());
}

TEST(Udp, SendsAndReceivesEvenEmptyDatagrams) {
  gyre::loop loop;
  for (const ip_address& address : loopback_addresses()) {
    udp_socket server(loop, {address, 0});
    udp_socket client(loop, {address, 0});
    const auto run = [&]() -> task<> {
      std::array<std::byte, 8> room;
      EXPECT_EQ(co_await client.send_to("", server.local_endpoint()), 0u);
      EXPECT_EQ(co_await client.send_to("question", server.local_endpoint()), 8u);
      const auto empty = co_await server.receive_from(room);
      EXPECT_EQ(empty.size, 0u);
      EXPECT_EQ(empty.peer, client.local_endpoint());
      const auto question = co_await server.receive_from(room);
      EXPECT_EQ(text(std::span(room).first(question.size)), "question");
      EXPECT_FALSE(question.truncated);
      co_await server.send_to("too long an answer", question.peer);
      const auto answer = co_await client.receive_from(room);
      EXPECT_TRUE(answer.truncated);
      EXPECT_EQ(answer.size, room.size());
    };
    gyre::sync_wait(loop, run());
  }
}

TEST(Udp, ConnectedKnowsItsPeerAndWhatTheNetworkSays) {
  gyre::loop loop;
  udp_socket server(loop, any_port);
  udp_socket client(loop, gyre::net::address_family::ipv4);
  const auto run = [&]() -> task<> {
    client.connect(server.local_endpoint());
    EXPECT_EQ(client.peer_endpoint(), server.local_endpoint());
    std::array<std::byte, 8> room;
    co_await client.send("");
    EXPECT_EQ(co_await server.receive(room), 0u);
    co_await client.send("peer");
    EXPECT_EQ(co_await server.receive(room), 4u);
    server.close();
    co_await client.send("nobody");
    auto receiving = as_expected(client.receive(room));
    const auto refused = co_await std::move(receiving);
    EXPECT_EQ(refused.error(), std::errc::connection_refused);
    client.disconnect();
    auto sending = as_expected(client.send("to whom?"));
    const auto nowhere = co_await std::move(sending);
    EXPECT_EQ(nowhere.error(), std::errc::destination_address_required);
    const std::string huge(70'000, 'h');
    auto too_long = as_expected(client.send_to(huge, any_port));
    const auto told = co_await std::move(too_long);
    EXPECT_EQ(told.error(), std::errc::message_size);
  };
  gyre::sync_wait(loop, run());
}

TEST(Udp, GoesInBatches) {
  gyre::loop loop;
  udp_socket server(loop, any_port);
  udp_socket client(loop, any_port);
  const auto run = [&]() -> task<> {
    datagram_batch out(32, 16);
    const endpoint to = server.local_endpoint();
    const std::string longer(100, 'l');
    for (int i = 0; i < 30; ++i) EXPECT_TRUE(out.add(std::to_string(i), to));
    EXPECT_FALSE(out.add(longer, to));
    EXPECT_TRUE(out.add_reference(std::as_bytes(std::span(longer)), to));
    EXPECT_TRUE(out.add("", to));
    EXPECT_FALSE(out.add("one too many", to));
    EXPECT_EQ(co_await client.send_batch(out), 32u);
    EXPECT_EQ(out.sent(), 32u);
    datagram_batch in(20, 50);
    std::vector<std::string> came;
    while (came.size() < 32) {
      co_await server.receive_batch(in);
      EXPECT_LE(in.size(), 20u);
      for (const datagram each : in) {
        EXPECT_EQ(each.peer, client.local_endpoint());
        EXPECT_EQ(each.truncated, came.size() == 30);
        came.emplace_back(text(each.bytes));
      }
    }
    EXPECT_EQ(came[7], "7");
    EXPECT_EQ(came[30], std::string(50, 'l'));
    EXPECT_EQ(came[31], "");
    // A datagram that cannot be sent ends the batch.
    out.clear();
    EXPECT_TRUE(out.add("good", to));
    const std::string huge(70'000, 'h');
    EXPECT_TRUE(out.add_reference(std::as_bytes(std::span(huge)), to));
    auto sending = as_expected(client.send_batch(out));
    const auto sent = co_await std::move(sending);
    EXPECT_EQ(sent.error(), std::errc::message_size);
    EXPECT_EQ(out.sent(), 1u);
    co_await server.receive_batch(in);
    EXPECT_EQ(in.size(), 1u);
  };
  gyre::sync_wait(loop, run());
}

TEST(Udp, ABatchGoesOnBehindTheDatagramsThatWereSent) {
  gyre::loop loop;
  udp_socket server(loop, any_port);
  udp_socket client(loop, any_port);
  const auto run = [&]() -> task<> {
    datagram_batch out(4, 16);
    const endpoint to = server.local_endpoint();
    EXPECT_TRUE(out.add("first", to));
    EXPECT_EQ(co_await client.send_batch(out), 1u);
    EXPECT_TRUE(out.add("second", to));
    EXPECT_EQ(co_await client.send_batch(out), 2u);
    EXPECT_EQ(co_await client.send_batch(out), 2u);
    datagram_batch in(4, 16);
    co_await server.receive_batch(in);
    EXPECT_EQ(in.size(), 2u);
    EXPECT_EQ(text(in[1].bytes), "second");
  };
  gyre::sync_wait(loop, run());
}

TEST(Udp, CutsAndJoinsSegments) {
  gyre::loop loop;
  udp_socket server(loop, any_port, {.receive_buffer = 1 << 20});
  udp_socket client(loop, any_port);
  const std::string much = [] {
    std::string made;
    while (made.size() < 150'000) made += std::to_string(made.size());
    return made;
  }();
  const auto bytes = std::as_bytes(std::span(much));
  const auto send = [&](std::size_t segment) -> task<> {
    EXPECT_EQ(co_await client.send_segments(bytes, segment, server.local_endpoint()), much.size());
  };
  const auto receive = [&](std::size_t segment) -> task<> {
    datagram_batch in(16, 65'536);
    std::string came;
    while (came.size() < much.size()) {
      co_await server.receive_batch(in);
      for (const datagram each : in) {
        const std::size_t size = each.segment == 0 ? each.bytes.size() : each.segment;
        const bool last = came.size() + each.bytes.size() == much.size();
        EXPECT_TRUE(size == segment || last) << size;
        came += text(each.bytes);
      }
    }
    EXPECT_TRUE(came == much);
  };
  for (const bool joined : {false, true}) {
    if (joined && !server.set_receive_offload(true)) break;
    gyre::sync_wait(loop, gyre::when_all(receive(1000), send(1000)));
    gyre::sync_wait(loop, gyre::when_all(receive(40'000), send(40'000)));
  }
  const auto of_nothing = [&]() -> task<> { co_await client.send_segments(bytes, 0); };
  EXPECT_EQ(error_of(loop, of_nothing()), std::errc::invalid_argument);
}

TEST(Udp, ReceivesWhatIsSentToAGroup) {
  gyre::loop loop;
  const ip_address group("239.255.77.1");
  udp_socket member(loop, {ip_address::any_v4(), 0});
  udp_socket sender(loop, any_port);
  const unsigned loopback = 1;
  member.options().join_group(group, loopback);
  sender.options().set_multicast_interface(loopback);
  const auto run = [&]() -> task<> {
    std::array<std::byte, 8> room;
    co_await sender.send_to("to all", {group, member.local_endpoint().port()});
    EXPECT_EQ(co_await member.receive(room), 6u);
  };
  gyre::sync_wait(loop, run());
}

TEST(Datagrams, CanBeWaitedForNoLonger) {
  gyre::loop loop;
  udp_socket server(loop, any_port);
  auto [one, other] = gyre::net::datagram_pair(loop);
  while (::send(one.fd(), "x", 1, 0) == 1) continue;  // until there is no room
  std::array<std::byte, 8> room;
  datagram_batch in;
  datagram_batch out;
  ASSERT_TRUE(out.add("x"));
  using operation = std::function<task<>()>;
  const std::vector<operation> operations = {
      [&]() -> task<> { co_await server.receive_from(room); },
      [&]() -> task<> { co_await server.receive(room); },
      [&]() -> task<> { co_await server.receive_batch(in); },
      [&]() -> task<> { co_await server.wait_readable(); },
      [&]() -> task<> { co_await one.send("x"); },
      [&]() -> task<> { co_await one.send_batch(out); },
      [&]() -> task<> { co_await one.wait_writable(); },
  };
  for (const operation& each : operations) {
    inplace_stop_source source;
    std::jthread stopper;
    loop.post([&] { stopper = std::jthread([&] { source.request_stop(); }); });
    EXPECT_EQ(error_of(loop, each(), source.get_token()), std::errc::operation_canceled);
    EXPECT_EQ(error_of(loop, gyre::with_timeout(each(), 1ms)), std::errc::timed_out);
  }
  gyre::executor& here = loop;
  const auto wait = [](gyre::executor&, task<> work) -> gyre::test::droppable {
    co_await std::move(work);
    ADD_FAILURE() << "went on";
  };
  for (const operation& each : operations) {
    auto waiting = wait(here, each());
    EXPECT_FALSE(waiting.done());
    waiting.drop();
  }
  const auto close = [&]() -> task<> {
    one.close();
    server.close();
    co_return;
  };
  const auto send = [&]() -> task<> { co_await one.send("x"); };
  const auto both = [&]() -> task<> { co_await gyre::when_all(send(), close()); };
  EXPECT_EQ(error_of(loop, both()), std::errc::operation_canceled);
}

TEST(UnixDatagrams, GoByNameAndInPairs) {
  gyre::loop loop;
  unix_datagram named(loop, endpoint::unix_abstract("gyre-test-" + std::to_string(::getpid())));
  unix_datagram unnamed(loop);
  const auto run = [&]() -> task<> {
    std::array<std::byte, 8> room;
    co_await unnamed.send_to("", named.local_endpoint());
    co_await unnamed.send_to("name", named.local_endpoint());
    const auto empty = co_await named.receive_from(room);
    EXPECT_EQ(empty.size, 0u);
    const auto came = co_await named.receive_from(room);
    EXPECT_EQ(came.size, 4u);
    EXPECT_TRUE(came.peer.path().empty());
    auto [one, other] = gyre::net::datagram_pair(loop);
    auto receiving = other.receive(room);
    co_await one.send("pair");
    EXPECT_EQ(co_await receiving, 4u);
  };
  gyre::sync_wait(loop, run());
}

// No event reports room in the peer's queue: epoll reports the socket as writable again and again
// although the queue is full.
TEST(UnixDatagrams, ToAnAddressWhoseQueueIsFullFailAtOnce) {
  gyre::loop loop;
  unix_datagram full(loop, endpoint::unix_abstract("gyre-full-" + std::to_string(::getpid())));
  unix_datagram sender(loop);
  const endpoint to = full.local_endpoint();
  const auto send = [&]() -> task<> {
    for (;;) co_await sender.send_to("x", to);
  };
  EXPECT_EQ(error_of(loop, send()), std::errc::resource_unavailable_try_again);
  datagram_batch out(2, 8);
  EXPECT_TRUE(out.add("1", to));
  const auto send_batch = [&]() -> task<> { co_await sender.send_batch(out); };
  EXPECT_EQ(error_of(loop, send_batch()), std::errc::resource_unavailable_try_again);

  const auto read_one = [&]() -> task<> {
    std::array<std::byte, 8> room;
    co_await full.receive(room);
  };
  const auto send_one = [&]() -> task<> { co_await sender.send_to("x", to); };
  EXPECT_EQ(error_of(loop, read_one()), std::error_code());
  EXPECT_EQ(error_of(loop, send_one()), std::error_code());
  // A connected socket waits for room.
  sender.connect(to);
  const auto send_to_peer = [&]() -> task<> { co_await sender.send("x"); };
  EXPECT_EQ(error_of(loop, gyre::with_timeout(send_to_peer(), 1ms)), std::errc::timed_out);
  gyre::sync_wait(loop, gyre::when_all(send_to_peer(), read_one()));
}

// The descriptors were not requested.
TEST(UnixDatagrams, CloseDescriptorsThatComeAlong) {
  gyre::loop loop;
  auto [one, other] = gyre::net::datagram_pair(loop);
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
  gyre::unique_fd read_end(ends[0]);
  gyre::unique_fd write_end(ends[1]);
  const auto send = [&] {
    char byte = 'x';
    iovec piece{&byte, 1};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr& only = *CMSG_FIRSTHDR(&message);
    only.cmsg_level = SOL_SOCKET;
    only.cmsg_type = SCM_RIGHTS;
    only.cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(&only), &ends[1], sizeof(int));
    EXPECT_EQ(::sendmsg(one.fd(), &message, 0), 1);
  };
  const auto run = [&](unix_datagram& from) -> task<> {
    std::array<std::byte, 8> room;
    send();
    co_await from.receive_from(room);
    send();
    co_await from.receive(room);
    send();
    datagram_batch in;
    co_await from.receive_batch(in);
  };
  gyre::sync_wait(loop, run(other));
  write_end.reset();
  char byte = 0;
  EXPECT_EQ(::read(read_end.get(), &byte, 1), 0);  // there is no other writer
}

}  // namespace
}  // namespace udp_socket_test
