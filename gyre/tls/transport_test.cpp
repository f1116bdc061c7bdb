// SPDX-License-Identifier: Apache-2.0
// Tests of TLS for tcp_server and tcp_client: callbacks, ends, files, limits and failed handshakes.
#include <gyre/tls/transport.hpp>

#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/net/callback_test_support.hpp>
#include <gyre/net/connect.hpp>
#include <gyre/net/tcp_client.hpp>
#include <gyre/net/tcp_server.hpp>
#include <gyre/tls/error.hpp>
#include <gyre/tls/tls_test_support.hpp>
#include <tests/support/temporary_folder.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <optional>
#include <string>
#include <vector>

namespace transport_test {
namespace {

using namespace std::chrono_literals;
using namespace gyre::tls::test;
using gyre::io::input;
using gyre::net::tcp_client;
using gyre::net::tcp_client_options;
using gyre::net::tcp_connection;
using gyre::net::tcp_server;
using gyre::net::tcp_server_options;
using gyre::net::test::any_port;
using gyre::net::test::long_text;
using gyre::net::test::peer;
using gyre::net::test::settle;
using gyre::net::test::turn_until;
using gyre::tls::errc;
using gyre::tls::server_options;
using gyre::tls::tls_context;
using testing::HasSubstr;

struct failed_handshakes {
  std::vector<std::error_code> codes;
  std::vector<std::string> texts;
  gyre::tls::handshake_failure_handler handler() {
    return [this](const gyre::net::endpoint&, std::error_code why, std::string_view text) {
      codes.push_back(why);
      texts.emplace_back(text);
    };
  }
};

tcp_server_options secure(failed_handshakes& failed, const server_options& options = serving()) {
  tcp_server_options made;
  made.transport = gyre::tls::server_transport(tls_context::server(options), failed.handler());
  return made;
}
tcp_client_options secure_client(gyre::tls::client_options options = trusting()) {
  tcp_client_options made;
  made.transport =
      gyre::tls::client_transport(tls_context::client(std::move(options)), "localhost");
  return made;
}

/// A server and a client, both with TLS, and what the client gets.
struct both_ends {
  explicit both_ends(gyre::event_loop& on, tcp_server_options of_server,
                     tcp_client_options of_client = secure_client())
      : loop(on), server(on, any_port(), std::move(of_server)), client(on, std::move(of_client)) {
    server.on_close([this](tcp_connection&, std::error_code why) { server_end = why; });
    client.on_message([this](tcp_connection&, input& in) {
      text += in.text();
      in.consume_all();
    });
    client.on_close([this](tcp_connection&, std::error_code why) { client_end = why; });
    client.on_connect_failed(
        [this](std::error_code why, std::size_t, bool) { connect_error = why; });
  }
  void start() {
    server.start();
    client.connect(server.local_endpoint());
  }
  void connect() {
    start();
    turn_until(loop, [&] { return client.connected() || connect_error; });
  }

  gyre::event_loop& loop;
  tcp_server server;
  tcp_client client;
  std::string text;
  std::optional<std::error_code> server_end;
  std::optional<std::error_code> client_end;
  std::error_code connect_error;
};

void echo(tcp_server& server) {
  server.on_message([](tcp_connection& from, input& in) {
    EXPECT_TRUE(from.send(in.bytes()));
    in.consume_all();
  });
}

TEST(TlsTransport, TheHandshakeMayComeWithTheHeaderOfAProxy) {
  gyre::loop loop;
  failed_handshakes failed;
  tcp_server_options options = secure(failed);
  options.proxy_protocol.trusted = [](const gyre::net::endpoint&) { return true; };
  tcp_server server(loop, any_port(), options);
  std::string peers;
  server.on_connection(
      [&](tcp_connection& begun) { peers += begun.peer_endpoint().to_string() + " "; });
  echo(server);
  server.start();
  const auto visit = [](gyre::net::endpoint at) -> gyre::task<std::string> {
    auto connected = co_await gyre::net::connect(at);
    co_await connected.write_all("PROXY TCP4 192.0.2.1 198.51.100.2 1234 443\r\n");
    const auto context = tls_context::client(trusting());
    auto secured = co_await gyre::tls::connect(std::move(connected), "localhost", context);
    co_await secured.write_all("hello");
    auto reply = co_await secured.receive();
    co_return std::string(reply.text());
  };
  EXPECT_EQ(gyre::sync_wait(loop, visit(server.local_endpoint())), "hello");
  EXPECT_EQ(peers, "192.0.2.1:1234 ");
}

TEST(TlsTransport, EchoesPlainBytesOverTls) {
  gyre::loop loop;
  failed_handshakes failed;
  both_ends ends(loop, secure(failed));
  std::string protocol;
  ends.server.on_connection([&](tcp_connection& begun) {
    const auto info = gyre::tls::info_of(begun);
    ASSERT_TRUE(info);
    protocol = info->protocol;
    EXPECT_EQ(info->server_name, "localhost");
  });
  echo(ends.server);
  ends.connect();
  EXPECT_TRUE(ends.client.send("hello"));
  turn_until(loop, [&] { return ends.text == "hello"; });
  EXPECT_EQ(protocol, "TLSv1.3");
  ends.client.disconnect();
  turn_until(loop, [&] { return ends.server_end && ends.client_end; });
  EXPECT_FALSE(*ends.server_end) << ends.server_end->message();
  EXPECT_FALSE(*ends.client_end) << ends.client_end->message();
  EXPECT_TRUE(failed.codes.empty());
  EXPECT_EQ(ends.server.metrics().refused, 0U);
}

TEST(TlsTransport, EchoesAMebibyteAndPieces) {
  gyre::loop loop;
  failed_handshakes failed;
  both_ends ends(loop, secure(failed));
  echo(ends.server);
  ends.connect();
  const std::string text = long_text(std::size_t{1} << 20);
  const std::string first = "first ";
  EXPECT_TRUE(ends.client.connection()->send(
      {std::as_bytes(std::span(first)), std::as_bytes(std::span(text))}));
  gyre::io::buffer last;
  last.append("last");
  EXPECT_TRUE(ends.client.connection()->send(std::move(last)));
  turn_until(loop, [&] { return ends.text.size() >= text.size() + 10; });
  EXPECT_EQ(ends.text, first + text + "last");
}

TEST(TlsTransport, CloseSendsAllOutputAndItsEnd) {
  gyre::loop loop;
  failed_handshakes failed;
  both_ends ends(loop, secure(failed));
  const std::string text = long_text(std::size_t{3} << 20);
  ends.server.on_connection([&](tcp_connection& begun) {
    EXPECT_TRUE(begun.send(text));
    begun.close();
    EXPECT_FALSE(begun.send("too late"));
  });
  ends.start();
  turn_until(loop, [&] { return ends.server_end && ends.client_end; });
  EXPECT_EQ(ends.text, text);
  EXPECT_FALSE(*ends.client_end) << ends.client_end->message();
  EXPECT_FALSE(*ends.server_end) << ends.server_end->message();
}

TEST(TlsTransport, HalfCloseIsToldByTheTransportsEnd) {
  gyre::loop loop;
  failed_handshakes failed;
  both_ends ends(loop, secure(failed));
  std::string got;
  ends.server.on_message([&](tcp_connection&, input& in) {
    got += in.text();
    in.consume_all();
  });
  ends.server.on_peer_ended([&](tcp_connection& from) {
    EXPECT_EQ(got, "request");
    EXPECT_TRUE(from.send("answer"));
    from.close();
  });
  ends.client.on_connection([](tcp_connection& begun) {
    EXPECT_TRUE(begun.send("request"));
    begun.shutdown_send();
  });
  ends.start();
  turn_until(loop, [&] { return ends.server_end && ends.client_end; });
  EXPECT_EQ(ends.text, "answer");
  EXPECT_FALSE(*ends.client_end) << ends.client_end->message();
}

TEST(TlsTransport, AnEndWithoutCloseNotifyIsTold) {
  gyre::loop loop;
  failed_handshakes failed;
  both_ends ends(loop, secure(failed));
  ends.connect();
  ::shutdown(ends.client.connection()->fd(), SHUT_WR);
  turn_until(loop, [&] { return ends.server_end.has_value(); });
  EXPECT_EQ(*ends.server_end, errc::truncated);
}

TEST(TlsTransport, ABadRecordEndsTheConnection) {
  gyre::loop loop;
  failed_handshakes failed;
  both_ends ends(loop, secure(failed));
  ends.connect();
  turn_until(loop, [&] { return ends.server.metrics().connections == 1; });
  const std::string forged = std::string("\x17\x03\x03\x00\x20", 5) + std::string(32, 'x');
  EXPECT_EQ(::send(ends.client.connection()->fd(), forged.data(), forged.size(), 0), 37);
  turn_until(loop, [&] { return ends.server_end && ends.client_end; });
  EXPECT_EQ(*ends.server_end, errc::bad_record);
  EXPECT_EQ(*ends.client_end, errc::refused_by_peer);
}

TEST(TlsTransport, SendsFilesBetweenOtherOutput) {
  gyre::loop loop;
  failed_handshakes failed;
  both_ends ends(loop, secure(failed));
  const gyre::test::temporary_folder folder;
  const std::string text = long_text(std::size_t{2} << 20);
  const std::string path = folder.make_file("file", text);
  const auto open_it = [&] { return gyre::unique_fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC)); };
  ends.server.on_connection([&](tcp_connection& begun) {
    EXPECT_TRUE(begun.send("before "));
    EXPECT_TRUE(begun.send_file(open_it(), 1, text.size() - 1));
    EXPECT_TRUE(begun.send(" between "));
    EXPECT_TRUE(begun.send_file(open_it(), 0, 10));
    EXPECT_TRUE(begun.send(" behind"));
    EXPECT_THROW(begun.send_fds("x", {}), std::system_error);
    begun.close();
  });
  ends.start();
  turn_until(loop, [&] { return ends.client_end.has_value(); });
  EXPECT_EQ(ends.text, "before " + text.substr(1) + " between " + text.substr(0, 10) + " behind");
  EXPECT_FALSE(*ends.client_end) << ends.client_end->message();
}

TEST(TlsTransport, AFileThatBecomesShorterEndsTheConnection) {
  gyre::loop loop;
  failed_handshakes failed;
  both_ends ends(loop, secure(failed));
  const gyre::test::temporary_folder folder;
  const std::string path = folder.make_file("file", long_text(std::size_t{4} << 20));
  ends.server.on_connection([&](tcp_connection& begun) {
    gyre::unique_fd file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    const int fd = file.get();
    EXPECT_EQ(::ftruncate(fd, std::int64_t{4} << 20), 0);
    EXPECT_TRUE(begun.send_file(std::move(file), 0, std::uint64_t{4} << 20));
    EXPECT_EQ(::truncate(path.c_str(), 100), 0);
  });
  ends.client.on_connection([](tcp_connection& begun) { begun.pause_reading(); });
  ends.connect();
  turn_until(loop, [&] { return ends.server.metrics().connections == 1; });
  ends.client.connection()->resume_reading();
  turn_until(loop, [&] { return ends.server_end.has_value(); });
  EXPECT_EQ(*ends.server_end, gyre::io::errc::unexpected_end);
}

TEST(TlsTransport, PausesAndLimitsWorkAsWithoutTls) {
  gyre::loop loop;
  failed_handshakes failed;
  tcp_server_options options = secure(failed);
  options.connections.high_water = 100'000;
  options.connections.output_limit = std::size_t{16} << 20;
  both_ends ends(loop, options);
  std::size_t high = 0;
  std::size_t low = 0;
  const std::string text = long_text(std::size_t{8} << 20);
  ends.server.on_high_water([&](tcp_connection&, std::size_t waiting) {
    ++high;
    EXPECT_GE(waiting, 100'000U);
  });
  ends.server.on_low_water([&](tcp_connection&) { ++low; });
  ends.server.on_connection([&](tcp_connection& begun) { EXPECT_TRUE(begun.send(text)); });
  ends.client.on_connection([](tcp_connection& begun) { begun.pause_reading(); });
  ends.connect();
  turn_until(loop, [&] { return high == 1; });
  EXPECT_EQ(ends.text, "");
  ends.client.connection()->resume_reading();
  turn_until(loop, [&] { return ends.text.size() == text.size(); });
  EXPECT_EQ(ends.text, text);
  turn_until(loop, [&] { return low == 1; });
  EXPECT_EQ(high, 1U);
}

TEST(TlsTransport, OutputAboveItsLimitEndsTheConnection) {
  gyre::loop loop;
  failed_handshakes failed;
  tcp_server_options options = secure(failed);
  options.connections.output_limit = 1 << 20;
  both_ends ends(loop, options);
  ends.server.on_connection([&](tcp_connection& begun) {
    EXPECT_FALSE(begun.send(std::string(std::size_t{16} << 20, 'x')));
  });
  ends.start();
  turn_until(loop, [&] { return ends.server_end.has_value(); });
  EXPECT_EQ(*ends.server_end, gyre::io::errc::output_limit);
}

TEST(TlsTransport, BytesThatCameWithTheHandshakeAreDelivered) {
  gyre::loop loop;
  failed_handshakes failed;
  both_ends ends(loop, secure(failed));
  std::string got;
  bool paused = false;
  tcp_connection* begun_connection = nullptr;
  ends.server.on_connection([&](tcp_connection& begun) {
    begun.pause_reading();
    begun_connection = &begun;
    paused = true;
  });
  ends.server.on_message([&](tcp_connection&, input& in) {
    EXPECT_FALSE(paused);
    got += in.text();
    in.consume_all();
  });
  ends.client.on_connection([](tcp_connection& begun) { EXPECT_TRUE(begun.send("at once")); });
  ends.start();
  turn_until(loop, [&] { return begun_connection != nullptr; });
  settle(loop);
  EXPECT_EQ(got, "");
  paused = false;
  begun_connection->resume_reading();
  turn_until(loop, [&] { return got == "at once"; });
}

// --- Failed handshakes ---

TEST(TlsTransport, FailedHandshakesAreCountedAndToldAndTheServerGoesOn) {
  gyre::loop loop;
  failed_handshakes failed;
  both_ends ends(loop, secure(failed));
  echo(ends.server);
  ends.server.start();
  peer plain(ends.server.local_endpoint());
  plain.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  turn_until(loop, [&] { return failed.codes.size() == 1; });
  EXPECT_EQ(failed.codes.back(), errc::plain_http);
  EXPECT_THAT(failed.texts.back(), HasSubstr("plain HTTP"));
  turn_until(loop, [&] {
    plain.receive();
    return plain.ended;
  });
  peer other(ends.server.local_endpoint());
  other.send("SSH-2.0-OpenSSH_9.2 and more\r\n");
  turn_until(loop, [&] { return failed.codes.size() == 2; });
  EXPECT_EQ(failed.codes.back(), errc::not_tls);
  peer silent(ends.server.local_endpoint());
  silent.end_sending();
  turn_until(loop, [&] { return failed.codes.size() == 3; });
  EXPECT_EQ(failed.codes.back(), errc::handshake_ended);
  EXPECT_EQ(ends.server.metrics().failed_handshakes, 3U);
  EXPECT_EQ(ends.server.metrics().refused, 3U);
  EXPECT_EQ(ends.server.metrics().connections, 0U);
  EXPECT_FALSE(ends.server_end) << "no connection has begun";

  ends.client.connect(ends.server.local_endpoint());
  turn_until(loop, [&] { return ends.client.connected(); });
  EXPECT_TRUE(ends.client.send("still here"));
  turn_until(loop, [&] { return ends.text == "still here"; });
}

TEST(TlsTransport, AHandshakeHasALimitOfTime) {
  gyre::loop loop;
  failed_handshakes failed;
  server_options impatient = serving();
  impatient.handshake_timeout = 1ms;
  both_ends ends(loop, secure(failed, impatient));
  ends.server.start();
  peer silent(ends.server.local_endpoint());
  turn_until(loop, [&] { return failed.codes.size() == 1; });
  EXPECT_EQ(failed.codes.back(), errc::handshake_timeout);
}

TEST(TlsTransport, AStopServesConnectionsWhoseHandshakeIsUnderWay) {
  gyre::loop loop;
  failed_handshakes failed;
  tcp_server_options options = secure(failed);
  options.stop_grace = 1h;
  both_ends ends(loop, std::move(options));
  echo(ends.server);
  ends.start();
  turn_until(loop, [&] { return ends.server.metrics().accepted == 1; });
  bool stopped = false;
  ends.server.stop(1h, [&] { stopped = true; });
  turn_until(loop, [&] { return ends.client.connected(); });
  EXPECT_TRUE(ends.client.send("hello"));
  turn_until(loop, [&] { return stopped; });
  turn_until(loop, [&] { return ends.client_end.has_value(); });
  EXPECT_EQ(ends.text, "hello");
  EXPECT_TRUE(failed.codes.empty());
}

TEST(TlsTransport, TheEndOfAStopEndsHandshakes) {
  gyre::loop loop;
  failed_handshakes failed;
  both_ends ends(loop, secure(failed));
  ends.server.start();
  peer silent(ends.server.local_endpoint());
  turn_until(loop, [&] { return ends.server.metrics().accepted == 1; });
  bool stopped = false;
  ends.server.stop(1ms, [&] { stopped = true; });
  turn_until(loop, [&] { return stopped; });
  EXPECT_TRUE(failed.codes.empty());
  EXPECT_TRUE(silent.receive_end(loop));
}

TEST(TlsTransport, AClientReportsARefusedCertificateAsAFailedAttempt) {
  gyre::loop loop;
  failed_handshakes failed;
  both_ends ends(loop, secure(failed, serving({.valid_from = -7200, .valid_to = -3600})));
  ends.connect();
  EXPECT_EQ(ends.connect_error, errc::certificate_expired);
  turn_until(loop, [&] { return failed.codes.size() == 1; });
  EXPECT_EQ(failed.codes.back(), errc::refused_by_peer);
  EXPECT_FALSE(ends.client_end);
}

TEST(TlsTransport, AClientConnectsByNameAndResumesItsSession) {
  gyre::loop loop;
  failed_handshakes failed;
  tcp_client_options options;
  options.transport = gyre::tls::client_transport(tls_context::client(trusting()));
  both_ends ends(loop, secure(failed), options);
  std::vector<bool> resumed;
  ends.server.on_connection([&](tcp_connection& begun) {
    resumed.push_back(gyre::tls::info_of(begun)->resumed);
    EXPECT_TRUE(begun.send("welcome"));
  });
  ends.server.start();
  const std::string at = "localhost:" + std::to_string(ends.server.local_endpoint().port());
  for (int visits = 1; visits <= 2; ++visits) {
    ends.text.clear();
    ends.client_end.reset();
    ends.client.connect(at);
    turn_until(loop, [&] { return ends.text == "welcome" || ends.connect_error; });
    EXPECT_FALSE(ends.connect_error) << ends.connect_error.message();
    ends.client.disconnect();
    turn_until(loop, [&] { return ends.client_end.has_value(); });
  }
  EXPECT_EQ(resumed, (std::vector{false, true}));
}

TEST(TlsTransport, RefusesAContextOfTheOtherSide) {
  EXPECT_THROW(static_cast<void>(gyre::tls::server_transport(tls_context())), std::system_error);
  EXPECT_THROW(static_cast<void>(gyre::tls::client_transport(tls_context())), std::system_error);
  EXPECT_THROW(static_cast<void>(gyre::tls::server_transport(tls_context::client(trusting()))),
               std::system_error);
  EXPECT_THROW(static_cast<void>(gyre::tls::client_transport(tls_context::server(serving()))),
               std::system_error);
}

TEST(TlsTransport, AConnectionWithoutTransportHasNoInfo) {
  gyre::loop loop;
  tcp_server server(loop, any_port());
  bool begun = false;
  server.on_connection([&](tcp_connection& connection) {
    EXPECT_FALSE(gyre::tls::info_of(connection));
    begun = true;
  });
  server.start();
  peer plain(server.local_endpoint());
  turn_until(loop, [&] { return begun; });
}

}  // namespace
}  // namespace transport_test
