// SPDX-License-Identifier: Apache-2.0
// Tests of the PROXY protocol: its headers, in a stream, and before a server's connections.
#include <gyre/net/proxy_protocol.hpp>

#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/net/connect.hpp>
#include <gyre/net/tcp_server.hpp>
#include <gyre/net/unix_stream.hpp>
#include <gyre/task/as_expected.hpp>
#include <gyre/task/sleep.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/task/task.hpp>

#include <gtest/gtest.h>

#include <any>
#include <array>
#include <chrono>
#include <cstddef>
#include <future>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace proxy_protocol_test {

using namespace std::chrono_literals;
using namespace std::string_literals;
using std::string_view_literals::operator""sv;
using gyre::task;
using gyre::net::endpoint;
using gyre::net::ip_address;
using gyre::net::parsed_proxy_header;
using gyre::net::proxy_header;

constexpr std::string_view line = "PROXY TCP4 192.0.2.1 198.51.100.2 40000 443\r\n";
constexpr std::string_view signature = "\r\n\r\n\0\r\nQUIT\n"sv;
const endpoint client("192.0.2.1:40000");
const endpoint reached("198.51.100.2:443");

// A header of version 2 with these parts after the signature.
std::string binary(std::string_view command_and_family, std::string_view rest) {
  std::string header(signature);
  header += command_and_family;
  header += static_cast<char>(rest.size() >> 8 & 0xff);
  header += static_cast<char>(rest.size() & 0xff);
  return header += rest;
}

constexpr std::string_view addresses = "\xc0\x00\x02\x01\xc6\x33\x64\x02\x9c\x40\x01\xbb"sv;

parsed_proxy_header parse(std::string_view text, std::size_t limit = 4096) {
  return gyre::net::parse_proxy_header(std::as_bytes(std::span(text)), limit);
}
std::optional<proxy_header> header_in(std::string_view text) {
  const auto parsed = parse(text);
  return parsed ? *parsed : std::nullopt;
}
bool is_nonsense(std::string_view text) {
  const auto parsed = parse(text);
  return !parsed && parsed.error() == std::errc::protocol_error;
}

TEST(ProxyHeader, Version1IsParsed) {
  const auto header = header_in(std::string(line) + "GET /");
  ASSERT_TRUE(header);
  EXPECT_EQ(header->source, client);
  EXPECT_EQ(header->destination, reached);
  EXPECT_EQ(header->size, line.size());
  const auto v6 = header_in("PROXY TCP6 2001:db8::1 ::1 65535 0\r\n");
  ASSERT_TRUE(v6);
  EXPECT_EQ(v6->source, endpoint("[2001:db8::1]:65535"));
  EXPECT_EQ(v6->destination, endpoint("[::1]:0"));
  for (const char* unknown : {"PROXY UNKNOWN\r\n", "PROXY UNKNOWN ffff::1 x 3 4 5\r\n"}) {
    const auto none = header_in(unknown);
    ASSERT_TRUE(none) << unknown;
    EXPECT_EQ(none->source, endpoint());
  }
}

TEST(ProxyHeader, Version1IsRefusedUnlessItIsExact) {
  for (const std::string_view bad :
       {"PROXY TCP4 192.0.2.1 198.51.100.2 40000 443\n"sv,
        "PROXY  TCP4 192.0.2.1 1.1.1.1 1 2\r\n"sv,
        "PROXY TCP4 192.0.2.1 198.51.100.2 40000 65536\r\n"sv, "PROXY TCP4 ::1 ::1 1 2\r\n"sv,
        "PROXY TCP6 192.0.2.1 192.0.2.2 1 2\r\n"sv, "PROXY TCP4 192.0.2.1 1.1.1.1 01 2\r\n"sv,
        "PROXY TCP4 192.0.2.01 1.1.1.1 1 2\r\n"sv, "PROXY TCP4 192.0.2.1 1.1.1.1 1\r\n"sv,
        "PROXY TCP4 192.0.2.1 1.1.1.1 1 2 \r\n"sv, "PROXY TCP4 192.0.2.1 1.1.1.1 1 2 3\r\n"sv,
        "PROXY TCP4 192.0.2.1 1.1.1.1 +1 2\r\n"sv, "PROXY TCP6 fe80::1%1 ::1 1 2\r\n"sv,
        "PROXY UDP4 192.0.2.1 1.1.1.1 1 2\r\n"sv, "PROXY UNKNOWNX\r\n"sv, "PROXY \r\n"sv,
        "PROXY UNKNOWN\rx\r\n"sv, "proxy TCP4"sv, "GET / HTTP/1.1\r\n"sv}) {
    EXPECT_TRUE(is_nonsense(bad)) << bad;
  }
  EXPECT_TRUE(header_in("PROXY UNKNOWN " + std::string(107 - 16, 'x') + "\r\n"));
  EXPECT_EQ(parse("PROXY UNKNOWN " + std::string(200, 'x')).error(), std::errc::message_size);
  EXPECT_EQ(parse("PROXY UNKNOWN " + std::string(200, 'x')).error(),
            gyre::io::errc::proxy_header_too_long);
  EXPECT_EQ(parse("GET / HTTP/1.1\r\n"sv).error(), gyre::io::errc::bad_proxy_header);
}

TEST(ProxyHeader, Version2IsParsed) {
  const auto header = header_in(binary("\x21\x11", addresses) + "GET /");
  ASSERT_TRUE(header);
  EXPECT_EQ(header->source, client);
  EXPECT_EQ(header->destination, reached);
  EXPECT_EQ(header->size, 28u);
  std::string v6(32, '\0');
  v6[15] = 1;
  v6[31] = 2;
  const auto of_v6 = header_in(binary("\x21\x21", v6 + "\0\1\0\2"s));
  ASSERT_TRUE(of_v6);
  EXPECT_EQ(of_v6->source, endpoint("[::1]:1"));
  EXPECT_EQ(of_v6->destination, endpoint("[::2]:2"));
  std::string paths(216, '\0');
  paths.replace(0, 6, "/run/a");
  paths.replace(109, 4, "name");
  const auto of_unix = header_in(binary("\x21\x31", paths));
  ASSERT_TRUE(of_unix);
  EXPECT_EQ(of_unix->source.path(), "/run/a");
  EXPECT_EQ(of_unix->destination.abstract_name(), "name");
  for (const std::string& none : {binary("\x20\x00"sv, ""), binary("\x20\x11", addresses),
                                  binary("\x21\x00"sv, "\x01"), binary("\x20\xff", "anything")}) {
    const auto local = header_in(none);
    ASSERT_TRUE(local);
    EXPECT_EQ(local->source, endpoint());
    EXPECT_EQ(local->size, none.size());
  }
}

TEST(ProxyHeader, Version2HasValues) {
  const std::string with_values = std::string(addresses) + "\x02\0\4host\xe0\0\0"s;
  const auto header = header_in(binary("\x21\x11", with_values));
  ASSERT_TRUE(header);
  ASSERT_NE(header->find(proxy_header::authority), nullptr);
  EXPECT_EQ(*header->find(proxy_header::authority), "host");
  EXPECT_EQ(*header->find(0xe0), "");
  EXPECT_EQ(header->find(proxy_header::alpn), nullptr);
}

TEST(ProxyHeader, ChecksumIsVerified) {
  const std::string before = std::string(addresses) + "\x02\0\4host\x03\0\4"s;
  EXPECT_TRUE(header_in(binary("\x21\x11", before + "\xf1\x93\xa5\x80"s)));
  EXPECT_TRUE(is_nonsense(binary("\x21\x11", before + "\0\0\0\0"s)));
  EXPECT_TRUE(is_nonsense(binary("\x21\x11", std::string(addresses) + "\x03\0\2ab"s)));
}

TEST(ProxyHeader, MalformedVersion2IsRefused) {
  const std::string all(addresses);
  EXPECT_TRUE(is_nonsense(binary("\x11\x11", all))) << "version";
  EXPECT_TRUE(is_nonsense(binary("\x22\x11", all))) << "command";
  EXPECT_TRUE(is_nonsense(binary("\x21\x41", all))) << "family";
  EXPECT_TRUE(is_nonsense(binary("\x21\x13", all))) << "type";
  EXPECT_TRUE(is_nonsense(binary("\x21\x10", all))) << "no type";
  EXPECT_TRUE(is_nonsense(binary("\x21\x11", all.substr(1)))) << "too short for addresses";
  EXPECT_TRUE(is_nonsense(binary("\x21\x21", all))) << "of another family";
  EXPECT_TRUE(is_nonsense(binary("\x21\x11", all + "\x02\0"s))) << "half a value";
  EXPECT_TRUE(is_nonsense(binary("\x21\x11", all + "\x02\0\4hos"s))) << "half a value";
  EXPECT_EQ(parse(binary("\x21\x11", all), 27).error(), std::errc::message_size);
  EXPECT_EQ(parse(binary("\x21\x11", std::string(5000, '\0')).substr(0, 16)).error(),
            std::errc::message_size)
      << "before all of it has come";
}

// endpoint::unix_path() puts "./" before a path that begins with '@'.
TEST(ProxyHeader, PathThatAnAddressCannotHoldIsRefused) {
  for (const std::size_t size : {105u, 106u, 107u}) {
    std::string paths(216, '\0');
    paths.replace(0, size, '@' + std::string(size - 1, 'x'));
    EXPECT_EQ(is_nonsense(binary("\x21\x31", paths)), size > 105) << size;
  }
}

TEST(ProxyHeader, PartOfOneNeedsMore) {
  for (const std::string& whole : {std::string(line), binary("\x21\x11", addresses)}) {
    for (std::size_t size = 0; size < whole.size(); ++size) {
      const auto parsed = parse(std::string_view(whole).substr(0, size));
      EXPECT_TRUE(parsed && !*parsed) << size;
    }
  }
}

TEST(ProxyHeader, IsReadFromAStream) {
  gyre::loop loop;
  auto [one, other] = gyre::net::stream_pair(loop);
  gyre::io::buffer held;
  const auto read = [&]() -> task<endpoint> {
    auto writing =
        one.write_all(std::string_view("PROXY TCP4 192.0.2.1 198.51.100.2 40000 443\r\nx"));
    co_await std::move(writing);
    task<proxy_header> reading = read_proxy_header(other, held);
    const proxy_header header = co_await std::move(reading);
    co_return header.source;
  };
  EXPECT_EQ(gyre::sync_wait(loop, read()), client);
  EXPECT_EQ(held.text(), "x");
}

// --- Before a server's connections ---

class ProxiedServer : public testing::Test {
 protected:
  void serve(gyre::net::proxy_protocol_options options, std::size_t most = 100) {
    gyre::net::tcp_server_options how;
    how.max_connections = most;
    serve(std::move(options), std::move(how));
  }
  void serve(gyre::net::proxy_protocol_options options, gyre::net::tcp_server_options how) {
    how.proxy_protocol = std::move(options);
    server_.emplace(loop_, std::move(how));
    server_->on_connection([this](gyre::net::tcp_connection& peer) {
      peers_.push_back(peer.peer_endpoint());
      const auto* header = peer.context<proxy_header>();
      destinations_.push_back(header != nullptr ? header->destination : endpoint());
    });
    server_->on_message([](gyre::net::tcp_connection& peer, gyre::io::input& in) {
      peer.send(in.bytes());
      in.consume_all();
    });
    server_->listen({ip_address::loopback_v4(), 0});
    server_->start();
  }
  static bool everybody(const endpoint&) { return true; }
  static bool nobody(const endpoint&) { return false; }

  // Sends `pieces`, each in a turn of its own, and returns the answers to all until `size` bytes or
  // the end have arrived.
  task<std::string> talk(std::vector<std::string> pieces, std::size_t size) {
    auto connecting = gyre::net::connect(server_->local_endpoint());
    auto peer = co_await std::move(connecting);
    for (const std::string& each : pieces) {
      auto writing = peer.write_all(std::string_view(each));
      co_await std::move(writing);
      auto turn = gyre::sleep_for(1ns);  // the loop looks for I/O before it ends
      co_await std::move(turn);
    }
    std::string answer;
    std::array<std::byte, 256> room;
    while (answer.size() < size) {
      auto reading = gyre::as_expected(peer.read_some(room));
      const auto count = co_await std::move(reading);
      if (!count || *count == 0) break;
      answer.append(reinterpret_cast<const char*>(room.data()), *count);
    }
    co_return answer;
  }
  std::string answer_to(std::vector<std::string> pieces, std::size_t size) {
    return gyre::sync_wait(loop_, talk(std::move(pieces), size));
  }

  gyre::loop loop_;
  std::optional<gyre::net::tcp_server> server_;
  std::vector<endpoint> peers_;
  std::vector<endpoint> destinations_;
};

TEST_F(ProxiedServer, KnowsTheClientBehindATrustedProxy) {
  serve({.trusted = everybody});
  EXPECT_EQ(answer_to({std::string(line) + "hello"}, 5), "hello");
  EXPECT_EQ(answer_to({binary("\x21\x11", addresses) + "again"}, 5), "again");
  EXPECT_EQ(peers_, std::vector({client, client}));
  EXPECT_EQ(destinations_, std::vector({reached, reached}));
}

TEST_F(ProxiedServer, ReleasesClientsWhosePortIsNotKnown) {
  gyre::net::tcp_server_options options;
  options.connections_per_address = 1;
  serve({.trusted = everybody}, std::move(options));
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(answer_to({"PROXY TCP4 192.0.2.1 198.51.100.2 0 443\r\nhello"}, 5), "hello");
    while (server_->metrics().connections > 0) loop_.run_once();
  }
  EXPECT_EQ(server_->metrics().limited, 0u);
  EXPECT_EQ(peers_, std::vector(3, endpoint(client.address(), 0)));
}

TEST_F(ProxiedServer, LeavesThePeersOfAProxysOwnConnections) {
  serve({.trusted = everybody});
  EXPECT_EQ(answer_to({"PROXY UNKNOWN\r\nhello"}, 5), "hello");
  ASSERT_EQ(peers_.size(), 1u);
  EXPECT_EQ(peers_[0].address(), ip_address::loopback_v4());
  EXPECT_EQ(destinations_[0], endpoint());
}

TEST_F(ProxiedServer, BelievesNobodyElse) {
  serve({.trusted = nobody});
  EXPECT_EQ(answer_to({std::string(line)}, line.size()), line) << "for it these are just bytes";
  ASSERT_EQ(peers_.size(), 1u);
  EXPECT_EQ(peers_[0].address(), ip_address::loopback_v4());
}

TEST_F(ProxiedServer, TakesHeadersThatComeInPieces) {
  serve({.trusted = everybody});
  for (const std::string& header : {std::string(line), binary("\x21\x11", addresses)}) {
    std::vector<std::string> pieces;
    for (const char each : header) pieces.emplace_back(1, each);
    pieces.emplace_back("hello");
    EXPECT_EQ(answer_to(std::move(pieces), 5), "hello");
  }
  EXPECT_EQ(peers_, std::vector({client, client}));
}

TEST_F(ProxiedServer, BytesAfterAHeaderWaitWhileReadingIsPaused) {
  gyre::net::tcp_server_options options;
  options.proxy_protocol.trusted = everybody;
  gyre::net::tcp_server server(loop_, std::move(options));
  gyre::net::tcp_connection* begun = nullptr;
  std::string text;
  server.on_connection([&](gyre::net::tcp_connection& peer) {
    peer.pause_reading();
    begun = &peer;
  });
  server.on_message([&](gyre::net::tcp_connection&, gyre::io::input& in) {
    text += in.text();
    in.consume_all();
  });
  server.listen({ip_address::loopback_v4(), 0});
  server.start();
  gyre::net::socket peer =
      gyre::net::socket::open(gyre::net::address_family::ipv4, gyre::net::socket_type::stream);
  static_cast<void>(peer.connect(server.local_endpoint()));
  const std::string sent = std::string(line) + "hello";
  ASSERT_EQ(::send(peer.fd(), sent.data(), sent.size(), 0), static_cast<ssize_t>(sent.size()));
  while (begun == nullptr) loop_.run_once();
  EXPECT_EQ(text, "");
  begun->resume_reading();
  while (text.empty()) loop_.run_once();
  EXPECT_EQ(text, "hello");
}

TEST_F(ProxiedServer, PayloadAfterAHeaderIsNotOfTheHandshake) {
  gyre::net::tcp_server_options options;
  options.memory_limit = 20'000;
  serve({.trusted = everybody}, std::move(options));
  const std::string payload(100'000, 'x');
  EXPECT_EQ(answer_to({std::string(line) + payload}, payload.size()), payload);
}

TEST_F(ProxiedServer, DescriptorsAfterAHeaderAreReceived) {
  const gyre::net::endpoint at = gyre::net::endpoint::unix_abstract("gyre-proxied-descriptors");
  gyre::net::tcp_server_options options;
  options.proxy_protocol.trusted = everybody;
  options.connections.fd_limit = 8;
  gyre::net::tcp_server server(loop_, std::move(options));
  std::string text;
  std::size_t descriptors = 0;
  server.on_message([&](gyre::net::tcp_connection& peer, gyre::io::input& in) {
    text += in.text();
    in.consume_all();
    descriptors += peer.take_fds().size();
  });
  server.listen(at);
  server.start();
  const auto send = [](gyre::event_loop& loop, gyre::net::endpoint server_at) -> task<> {
    auto connecting = gyre::net::connect_unix(loop, server_at);
    auto stream = co_await std::move(connecting);
    co_await stream.write_all("PROXY UNKNOWN\r\n");
    const int descriptor = stream.fd();
    co_await stream.send_fds(std::as_bytes(std::span("with it", 7)), {&descriptor, 1});
  };
  gyre::sync_wait(loop_, send(loop_, at));
  while (text.size() < 7) loop_.run_once();
  EXPECT_EQ(text, "with it");
  EXPECT_EQ(descriptors, 1u);
}

TEST_F(ProxiedServer, ClosesWhatBeginsWithoutAHeader) {
  serve({.trusted = everybody, .limit = 40}, 1);
  EXPECT_EQ(answer_to({"GET / HTTP/1.1\r\n\r\n"}, 1), "");
  EXPECT_EQ(answer_to({std::string(line)}, 1), "") << "longer than it may be";
  EXPECT_EQ(answer_to({binary("\x21\x11", std::string(30, 'x'))}, 1), "");
  EXPECT_EQ(server_->metrics().refused, 3u);
  EXPECT_EQ(server_->metrics().connections, 0u) << "its place is free for the next";
  EXPECT_TRUE(peers_.empty());
  EXPECT_EQ(answer_to({binary("\x21\x11", addresses) + "x"}, 1), "x");
}

TEST_F(ProxiedServer, ClosesAfterAHeaderWithAPathOfNoAddress) {
  serve({.trusted = everybody});
  std::string paths(216, '\0');
  paths.replace(0, 107, '@' + std::string(106, 'x'));
  EXPECT_EQ(answer_to({binary("\x21\x31", paths) + "hello"}, 5), "");
  EXPECT_EQ(answer_to({std::string(line) + "hello"}, 5), "hello") << "the server lives";
}

TEST_F(ProxiedServer, DoesNotWaitForAHeaderForEver) {
  serve({.trusted = everybody, .timeout = 1ms});
  EXPECT_EQ(answer_to({"PROXY "}, 1), "");
  EXPECT_EQ(server_->metrics().refused, 1u);
}

TEST_F(ProxiedServer, StopsAndEndsWhileHeadersAreAwaited) {
  serve({.trusted = everybody, .timeout = 1h});
  auto waiting = gyre::spawn_future(loop_, talk({"PROXY "}, 1));
  while (server_->metrics().connections == 0) loop_.run_once();
  gyre::sync_wait(loop_, server_->stop_async(1ms));
  EXPECT_EQ(server_->metrics().connections, 0u);
  while (waiting.wait_for(0s) != std::future_status::ready) loop_.run_once();
  EXPECT_EQ(waiting.get(), "");
  serve({.trusted = everybody, .timeout = 1h});
  auto another = gyre::spawn_future(loop_, talk({"PROXY "}, 1));
  while (server_->metrics().connections == 0) loop_.run_once();
  server_.reset();
  while (another.wait_for(0s) != std::future_status::ready) loop_.run_once();
  EXPECT_EQ(another.get(), "");
}

}  // namespace proxy_protocol_test
