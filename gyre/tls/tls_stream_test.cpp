// SPDX-License-Identifier: Apache-2.0
// Tests of TLS for coroutines: bytes both ways, ends, stops, limits and bad peers.
#include <gyre/tls/tls_stream.hpp>

#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/exec/timer.hpp>
#include <gyre/task/as_expected.hpp>
#include <gyre/task/operation_cancelled.hpp>
#include <gyre/task/when_all.hpp>
#include <gyre/task/with_timeout.hpp>
#include <gyre/tls/error.hpp>
#include <gyre/tls/tls_test_support.hpp>
#include <tests/support/coroutine_sockets.hpp>
#include <tests/support/temporary_folder.hpp>

#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/socket.h>

#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace tls_stream_test {
namespace {

using namespace std::chrono_literals;
using namespace gyre::tls::test;
using gyre::inplace_stop_source;
using gyre::task;
using gyre::net::tcp_stream;
using gyre::test::error_of;
using gyre::tls::errc;
using gyre::tls::server_options;
using gyre::tls::session;
using gyre::tls::tls_context;
using gyre::tls::tls_stream;

std::string text_of(std::size_t size) {
  std::string text;
  for (std::size_t i = 0; text.size() < size; ++i) text += std::to_string(i) + ' ';
  text.resize(size);
  return text;
}

std::span<std::byte> bytes_of(std::string& text) {
  return std::as_writable_bytes(std::span(text.data(), text.size()));
}

task<> send_and_end(tls_stream& to, std::string text) {
  const std::size_t sent = co_await to.write_all(text);
  EXPECT_EQ(sent, text.size());
  co_await to.shutdown();
}

task<> echo(tls_stream peer) {
  for (;;) {
    auto came = co_await peer.receive();
    if (came.empty()) break;
    co_await peer.write_all(std::move(came));
  }
  co_await peer.shutdown();
}

TEST(TlsStream, CarriesBytesBothWaysAndEndsInOrder) {
  gyre::loop loop;
  for (const auto version : {gyre::tls::version::tls_1_2, gyre::tls::version::tls_1_3}) {
    server_options options = serving();
    options.min_version = options.max_version = version;
    connection both(loop, tls_context::server(options), tls_context::client(trusting()));
    const std::string protocol = version == gyre::tls::version::tls_1_2 ? "TLSv1.2" : "TLSv1.3";
    EXPECT_EQ(both.client_end.info().protocol, protocol);
    EXPECT_EQ(both.server_end.info().protocol, protocol);
    EXPECT_EQ(both.server_end.info().server_name, "localhost");
    EXPECT_NE(both.client_end.info().peer_certificate.find("BEGIN CERTIFICATE"), std::string::npos);
    EXPECT_EQ(both.client_end.info().peer_subject, "CN = localhost");
    const auto [to_server, to_client, s, c] =
        gyre::sync_wait(loop, gyre::when_all(read_all(both.server_end), read_all(both.client_end),
                                             send_and_end(both.server_end, "from the server"),
                                             send_and_end(both.client_end, "from the client")));
    EXPECT_EQ(to_server, "from the client");
    EXPECT_EQ(to_client, "from the server");
  }
}

TEST(TlsStream, EchoesAMebibyteWhileBothEndsReadAndWrite) {
  gyre::loop loop;
  connection both(loop);
  const std::string text = text_of(std::size_t{1} << 20);
  const auto [a, b, got] = gyre::sync_wait(
      loop, gyre::when_all(echo(std::move(both.server_end)), send_and_end(both.client_end, text),
                           read_all(both.client_end)));
  EXPECT_EQ(got, text);
}

TEST(TlsStream, SendsAMebibyteEachWayAtOnce) {
  gyre::loop loop;
  connection both(loop);
  const std::string text = text_of(std::size_t{1} << 20);
  const auto [a, b, at_server, at_client] = gyre::sync_wait(
      loop, gyre::when_all(send_and_end(both.server_end, text), send_and_end(both.client_end, text),
                           read_all(both.server_end), read_all(both.client_end)));
  EXPECT_EQ(at_server, text);
  EXPECT_EQ(at_client, text);
}

task<> relay_bytes(tcp_stream& from, tcp_stream& to) {
  std::byte one[1];
  for (;;) {
    const std::size_t count = co_await from.read_some(one);
    if (count == 0) break;
    co_await to.write_all(std::span<const std::byte>(one));
  }
  to.shutdown(gyre::net::shutdown_side::send);
}

task<> exchange_over(tcp_stream server, tcp_stream client, bool& done) {
  auto accepting = gyre::tls::accept(std::move(server), tls_context::server(serving()));
  auto connecting =
      gyre::tls::connect(std::move(client), "localhost", tls_context::client(trusting()));
  auto both = gyre::when_all(std::move(accepting), std::move(connecting));
  auto [server_end, client_end] = co_await std::move(both);
  auto transfer = gyre::when_all(read_all(server_end), read_all(client_end),
                                 send_and_end(server_end, text_of(3000)),
                                 send_and_end(client_end, text_of(5000)));
  const auto [at_server, at_client, s, c] = co_await std::move(transfer);
  EXPECT_EQ(at_server, text_of(5000));
  EXPECT_EQ(at_client, text_of(3000));
  done = true;
}

TEST(TlsStream, WorksWhenBytesComeOneAtATime) {
  gyre::loop loop;
  auto [server, server_relay] = socket_pair(loop);
  auto [client, client_relay] = socket_pair(loop);
  bool done = false;
  gyre::sync_wait(loop, gyre::when_all(exchange_over(std::move(server), std::move(client), done),
                                       relay_bytes(server_relay, client_relay),
                                       relay_bytes(client_relay, server_relay)));
  EXPECT_TRUE(done);
}

task<> read_in_pieces(tls_stream& from) {
  std::string head(4, ' ');
  EXPECT_EQ(co_await from.read_exactly(bytes_of(head)), 4U);
  EXPECT_EQ(head, "head");
  std::string one(1, ' ');
  EXPECT_EQ(co_await from.read_some(bytes_of(one)), 1U);
  gyre::io::buffer buffer;
  const std::size_t line = co_await from.read_until(buffer, "\n");
  EXPECT_EQ(one + std::string(buffer.text().substr(0, line)), "a line\n");
  const std::string more = co_await read_all(from);
  EXPECT_EQ(std::string(buffer.text().substr(line)) + more, "one two three" + text_of(100'000));
}

task<> write_in_pieces(tls_stream& to) {
  co_await to.write_all("heada line\n");
  std::string one = "one ";
  std::string two = "two ";
  std::string three = "three";
  std::string large = text_of(100'000);
  const iovec pieces[] = {{one.data(), one.size()},
                          {two.data(), two.size()},
                          {nullptr, 0},
                          {three.data(), three.size()},
                          {large.data(), large.size()}};
  const std::size_t count = co_await to.write_all(std::span<const iovec>(pieces));
  EXPECT_EQ(count, 13U + 100'000U);
  co_await to.shutdown();
}

TEST(TlsStream, ReadsExactlyAndUntilADelimiter) {
  gyre::loop loop;
  connection both(loop);
  gyre::sync_wait(
      loop, gyre::when_all(read_in_pieces(both.server_end), write_in_pieces(both.client_end)));
}

task<> send_the_file(tls_stream& to, int file) {
  const std::size_t part = co_await to.send_file(file, 100, 200'000);
  EXPECT_EQ(part, 200'000U);
  const std::size_t rest = co_await to.send_file(file, 299'999, 5);
  EXPECT_EQ(rest, 1U);
  co_await to.shutdown();
}

TEST(TlsStream, SendsAFile) {
  gyre::loop loop;
  connection both(loop);
  const gyre::test::temporary_folder folder;
  const std::string text = text_of(300'000);
  const gyre::unique_fd file(::open(folder.make_file("file", text).c_str(), O_RDONLY | O_CLOEXEC));
  const auto [sent, got] = gyre::sync_wait(
      loop, gyre::when_all(send_the_file(both.server_end, file.get()), read_all(both.client_end)));
  EXPECT_EQ(got, text.substr(100, 200'000) + text.back());
}

task<> read_once(tls_stream& from) { co_await from.receive(); }

TEST(TlsStream, TellsAnEndWithoutCloseNotify) {
  gyre::loop loop;
  connection both(loop);
  ::shutdown(both.server_end.fd(), SHUT_WR);
  EXPECT_EQ(error_of(loop, read_once(both.client_end)), errc::truncated);
  EXPECT_EQ(error_of(loop, read_once(both.client_end)), errc::truncated);
}

task<bool> is_readable_within(tls_stream& from, std::chrono::nanoseconds limit) {
  auto waiting = gyre::as_expected(gyre::with_timeout(from.wait_readable(), limit));
  const auto came = co_await std::move(waiting);
  EXPECT_TRUE(came || came.error() == std::errc::timed_out);
  co_return came.has_value();
}

TEST(TlsStream, WaitsUntilItIsReadable) {
  gyre::loop loop;
  connection both(loop);
  const auto is_readable = [&](std::chrono::nanoseconds limit) {
    return gyre::sync_wait(loop, is_readable_within(both.client_end, limit));
  };
  const std::string rest = send_tickets_alone(loop, both, "x");
  EXPECT_FALSE(is_readable(5ms)) << "tickets are no bytes of the program";
  send_raw(both.server_end.fd(), rest);
  EXPECT_TRUE(is_readable(1min));
  gyre::sync_wait(loop, read_once(both.client_end));
  std::string text = text_of(100'000);
  std::string got(text.size(), '\0');
  gyre::sync_wait(loop,
                  gyre::when_all(both.client_end.wait_readable(), both.server_end.write_all(text)));
  EXPECT_TRUE(is_readable(1min));
  gyre::sync_wait(loop, both.client_end.read_exactly(bytes_of(got).first(50'000)));
  EXPECT_TRUE(is_readable(1min));
  gyre::sync_wait(loop, both.client_end.read_exactly(bytes_of(got).subspan(50'000)));
  EXPECT_EQ(got, text);
  EXPECT_FALSE(is_readable(5ms));
  gyre::sync_wait(loop, both.server_end.shutdown());
  EXPECT_TRUE(is_readable(1min)) << "the end";
  EXPECT_EQ(gyre::sync_wait(loop, read_all(both.client_end)), "");
}

TEST(TlsStream, AnAbruptEndIsReadable) {
  gyre::loop loop;
  connection both(loop);
  ::shutdown(both.server_end.fd(), SHUT_WR);
  EXPECT_TRUE(gyre::sync_wait(loop, is_readable_within(both.client_end, 1min)));
  EXPECT_EQ(error_of(loop, read_once(both.client_end)), errc::truncated);
  EXPECT_EQ(::send(both.client_end.fd(), "no record", 9, 0), 9);
  EXPECT_TRUE(gyre::sync_wait(loop, is_readable_within(both.server_end, 1min)));
  EXPECT_EQ(error_of(loop, read_once(both.server_end)), errc::bad_record);
}

TEST(TlsStream, CloseSendsCloseNotify) {
  gyre::loop loop;
  connection both(loop);
  both.server_end.close();
  EXPECT_FALSE(both.server_end.is_open());
  EXPECT_EQ(both.server_end.fd(), -1);
  EXPECT_EQ(gyre::sync_wait(loop, read_all(both.client_end)), "");
  EXPECT_EQ(error_of(loop, read_once(both.server_end)), gyre::io::errc::not_open);
}

TEST(TlsStream, ABadRecordEndsTheConnectionAndTellsThePeer) {
  gyre::loop loop;
  connection both(loop);
  const std::string forged = std::string("\x17\x03\x03\x00\x20", 5) + std::string(32, 'x');
  EXPECT_EQ(::send(both.server_end.fd(), forged.data(), forged.size(), 0), 37);
  EXPECT_EQ(error_of(loop, read_once(both.client_end)), errc::bad_record);
  EXPECT_EQ(error_of(loop, read_once(both.client_end)), errc::bad_record);
  EXPECT_EQ(error_of(loop, read_once(both.server_end)), errc::refused_by_peer);
}

TEST(TlsStream, RefusesASecondReaderAndEndsAWaitingOneWhenItIsClosed) {
  gyre::loop loop;
  connection both(loop);
  tls_stream& stream = both.client_end;
  std::error_code first;
  std::error_code second;
  const auto reading = [](tls_stream& from, std::error_code& error) -> task<> {
    auto outcome = gyre::as_expected(from.receive());
    auto got = co_await std::move(outcome);
    if (!got) error = got.error();
  };
  const auto closing = [](tls_stream& closed) -> task<> {
    closed.close();
    co_return;
  };
  gyre::sync_wait(loop,
                  gyre::when_all(reading(stream, first), reading(stream, second), closing(stream)));
  EXPECT_EQ(first, gyre::io::errc::closed);
  EXPECT_EQ(second, gyre::io::errc::busy);
}

// --- Stops and limits ---

bool is_stopped(gyre::event_loop& loop, task<> work) {
  inplace_stop_source source;
  bool stopped = false;
  const auto guarded = [](task<> inner, bool& told) -> task<> {
    try {
      co_await std::move(inner);
    } catch (const gyre::operation_cancelled&) {
      told = true;
    }
  };
  gyre::timer expiry(loop, [&] { source.request_stop(); });
  expiry.start_after(1ms);
  gyre::sync_wait(loop, guarded(std::move(work), stopped), source.get_token());
  return stopped;
}

task<> accept_only(tcp_stream end, tls_context context) {
  auto made = co_await gyre::tls::accept(std::move(end), std::move(context));
}
task<> connect_only(tcp_stream end, tls_context context) {
  auto made = co_await gyre::tls::connect(std::move(end), "localhost", std::move(context));
}
task<> write_without_end(tls_stream& to) {
  const std::string text(100'000, 'x');
  for (;;) co_await to.write_all(text);
}

TEST(TlsStream, AStopEndsEachPhase) {
  gyre::loop loop;
  const tls_context server = tls_context::server(serving());
  const tls_context client = tls_context::client(trusting());
  {
    auto [one, other] = socket_pair(loop);
    EXPECT_TRUE(is_stopped(loop, accept_only(std::move(one), server)));
  }
  {
    auto [one, other] = socket_pair(loop);
    EXPECT_TRUE(is_stopped(loop, connect_only(std::move(one), client)));
  }
  connection both(loop, server, client);
  EXPECT_TRUE(is_stopped(loop, read_once(both.client_end)));
  EXPECT_TRUE(is_stopped(loop, write_without_end(both.client_end)));
  // The read has lost nothing.
  const auto [sent, got] = gyre::sync_wait(
      loop,
      gyre::when_all(send_and_end(both.server_end, "after the stop"), read_all(both.client_end)));
  EXPECT_EQ(got, "after the stop");
}

TEST(TlsStream, AStoppedWriteLeavesWholeRecordsBehind) {
  gyre::loop loop;
  connection both(loop);
  EXPECT_TRUE(is_stopped(loop, write_without_end(both.client_end)));
  const auto [sent, got] = gyre::sync_wait(
      loop, gyre::when_all(send_and_end(both.client_end, "the end"), read_all(both.server_end)));
  EXPECT_EQ(got.size() - 7, got.find("the end"));
  EXPECT_EQ(got.find_first_not_of('x'), got.size() - 7);
}

TEST(TlsStream, ATimeLimitEndsEachPhase) {
  gyre::loop loop;
  server_options short_limit = serving();
  short_limit.handshake_timeout = 1ms;
  gyre::tls::client_options short_client = trusting();
  short_client.handshake_timeout = 1ms;
  auto [one, other] = socket_pair(loop);
  EXPECT_EQ(error_of(loop, accept_only(std::move(one), tls_context::server(short_limit))),
            errc::handshake_timeout);
  auto [third, fourth] = socket_pair(loop);
  EXPECT_EQ(error_of(loop, connect_only(std::move(third), tls_context::client(short_client))),
            errc::handshake_timeout);
  connection both(loop);
  const auto limited = [](task<> work) -> task<> {
    co_await gyre::with_timeout(std::move(work), 1ms);
  };
  EXPECT_EQ(error_of(loop, limited(read_once(both.client_end))), std::errc::timed_out);
  EXPECT_EQ(error_of(loop, limited(write_without_end(both.client_end))), std::errc::timed_out);
  // Its output is full, so that close_notify must wait.
  EXPECT_EQ(error_of(loop, limited(both.client_end.shutdown())), std::errc::timed_out);
}

// --- Bad peers ---

std::error_code error_of_server(gyre::event_loop& loop, std::string_view bytes, bool ends = true) {
  auto [one, other] = socket_pair(loop);
  EXPECT_EQ(::send(other.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(bytes.size()));
  if (ends) ::shutdown(other.fd(), SHUT_WR);
  return error_of(loop, accept_only(std::move(one), tls_context::server(serving())));
}

TEST(TlsStream, TellsWhatIsNoTls) {
  gyre::loop loop;
  EXPECT_EQ(error_of_server(loop, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"), errc::plain_http);
  EXPECT_EQ(error_of_server(loop, "SSH-2.0-OpenSSH_9.2 and more text\r\n"), errc::not_tls);
  EXPECT_EQ(error_of_server(loop, ""), errc::handshake_ended);
  EXPECT_EQ(error_of_server(loop, std::string_view("\x16\x03\x01", 3)), errc::handshake_ended);
}

TEST(TlsStream, RefusesAHugeHandshake) {
  gyre::loop loop;
  // A ClientHello that claims to have 16 MiB.
  std::string record("\x16\x03\x01\x40\x00\x01\xff\xff\xff\x03\x03", 11);
  record.resize(5 + 0x4000, 'x');
  const std::error_code error = error_of_server(loop, record, false);
  EXPECT_EQ(error, errc::handshake_too_large);
}

}  // namespace
}  // namespace tls_stream_test
