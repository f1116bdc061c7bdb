// SPDX-License-Identifier: Apache-2.0
// Tests of the time at which a server sends its session tickets: with the first bytes that it sends
// after the handshake, so that a client that never reads loses nothing.
#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/net/callback_test_support.hpp>
#include <gyre/net/connect.hpp>
#include <gyre/net/tcp_server.hpp>
#include <gyre/task/when_all.hpp>
#include <gyre/tls/detail/engine.hpp>
#include <gyre/tls/tls_stream.hpp>
#include <gyre/tls/tls_test_support.hpp>
#include <gyre/tls/transport.hpp>
#include <tests/support/socket_pairs.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <utility>

namespace session_tickets_test {
namespace {

using namespace gyre::tls::test;
using gyre::task;
using gyre::net::tcp_stream;
using gyre::net::test::long_text;
using gyre::net::test::turn_until;
using gyre::tls::session;
using gyre::tls::tls_context;
using gyre::tls::tls_stream;
using gyre::tls::detail::engine;

// --- A client that never reads ---

/// Bytes of which a part is still on its way when all are written.
const std::string& upload() {
  static const std::string text = long_text(std::size_t{1} << 20);
  return text;
}

task<> upload_and_leave(tcp_stream connected) {
  const tls_context context = tls_context::client(trusting());
  auto connecting = gyre::tls::connect(std::move(connected), "localhost", context);
  tls_stream to = co_await std::move(connecting);
  co_await to.write_all(upload());
  to.close();
}

task<std::string> serve(tcp_stream accepted) {
  const tls_context context = tls_context::server(serving());
  auto accepting = gyre::tls::accept(std::move(accepted), context);
  tls_stream from = co_await std::move(accepting);
  std::string text = co_await read_all(from);
  co_return text;
}

TEST(TlsTickets, AStreamGetsAllFromAClientThatNeverReads) {
  gyre::loop loop;
  auto [server, client] = gyre::test::tcp_pair();
  const auto [text, left] =
      gyre::sync_wait(loop, gyre::when_all(serve(tcp_stream(loop, std::move(server))),
                                           upload_and_leave(tcp_stream(loop, std::move(client)))));
  EXPECT_EQ(text.size(), upload().size());
  EXPECT_TRUE(text == upload());
}

task<> upload_to(gyre::event_loop& loop, gyre::net::endpoint server) {
  auto connecting = gyre::net::connect(loop, server);
  tcp_stream connected = co_await std::move(connecting);
  co_await upload_and_leave(std::move(connected));
}

TEST(TlsTickets, ACallbackServerGetsAllFromAClientThatNeverReads) {
  gyre::loop loop;
  gyre::net::tcp_server_options options;
  options.transport = gyre::tls::server_transport(tls_context::server(serving()));
  gyre::net::tcp_server server(loop, gyre::net::test::any_port(), options);
  std::string text;
  std::optional<std::error_code> end;
  server.on_message([&](gyre::net::tcp_connection&, gyre::io::input& in) {
    text += in.text();
    in.consume_all();
  });
  server.on_close([&](gyre::net::tcp_connection&, std::error_code why) { end = why; });
  server.start();
  gyre::sync_wait(loop, upload_to(loop, server.local_endpoint()));
  turn_until(loop, [&] { return end.has_value(); });
  EXPECT_FALSE(*end) << end->message();
  EXPECT_EQ(text.size(), upload().size());
  EXPECT_TRUE(text == upload());
}

// --- The time of tickets ---

/// Both ends of a connection in memory, whose client counts the tickets that it gets.
class TlsTicketsOfEngines : public testing::Test {
 protected:
  void connect(const session& resumed = {}) {
    server_.emplace(serves_, "", session(), to_client_);
    client_.emplace(asks_, "localhost", resumed, to_server_);
    to_client_.consume_all();
    to_server_.consume_all();
    tickets_ = 0;
    SSL_set_msg_callback(client_->native(), &count_ticket);
    SSL_set_msg_callback_arg(client_->native(), &tickets_);
    while (!(client_->is_established() && server_->is_established())) {
      for (engine* const each : {&*client_, &*server_}) {
        gyre::io::buffer& received = each == &*client_ ? to_client_ : to_server_;
        each->feed(received.bytes());
        ASSERT_NE(each->handshake(), engine::status::failed) << each->why().text;
        received.consume(received.size() - each->unread().size());
      }
    }
    EXPECT_TRUE(to_client_.empty()) << "tickets are sent behind the handshake";
  }

  void send(std::string_view text) {
    EXPECT_EQ(server_->write(std::as_bytes(std::span(text))), engine::status::done);
  }
  /// Has the client read what the server has sent; gives the tickets that were among it.
  int receive(engine::status last = engine::status::wants_input) {
    tickets_ = 0;
    client_->feed(to_client_.bytes());
    std::byte room[256];
    std::size_t count = 0;
    engine::status now = engine::status::done;
    while (now == engine::status::done) now = client_->read(room, count);
    EXPECT_EQ(now, last);
    to_client_.consume_all();
    return tickets_;
  }

  const tls_context serves_ = tls_context::server(serving());
  const tls_context asks_ = tls_context::client(trusting());
  gyre::io::buffer to_server_;
  gyre::io::buffer to_client_;
  std::optional<engine> server_;
  std::optional<engine> client_;

 private:
  static void count_ticket(int is_written, int /*version*/, int kind, const void* bytes,
                           std::size_t size, SSL* /*ssl*/, void* count) {
    constexpr unsigned char new_session_ticket = 4;
    if (is_written == 0 && kind == SSL3_RT_HANDSHAKE && size > 0 &&
        *static_cast<const unsigned char*>(bytes) == new_session_ticket) {
      ++*static_cast<int*>(count);
    }
  }

  int tickets_ = 0;
};

TEST_F(TlsTicketsOfEngines, GoWithTheFirstBytesOfTheServer) {
  connect();
  send("");
  EXPECT_TRUE(to_client_.empty());
  send("one");
  EXPECT_EQ(receive(), 2);
  const session kept = client_->newest_session();
  ASSERT_TRUE(kept);
  send("two");
  EXPECT_EQ(receive(), 0);

  connect(kept);
  EXPECT_EQ(SSL_session_reused(client_->native()), 1);
  send("one");
  EXPECT_EQ(receive(), 1);
  const session renewed = client_->newest_session();
  connect(renewed);
  EXPECT_EQ(SSL_session_reused(client_->native()), 1);
}

TEST_F(TlsTicketsOfEngines, GoBeforeTheEndOfAServerThatHasSentNothing) {
  connect();
  server_->end();
  EXPECT_EQ(receive(engine::status::ended), 2);
  EXPECT_TRUE(client_->newest_session());
}

TEST_F(TlsTicketsOfEngines, LeaveWhatHasComeFromTheClient) {
  for (const std::size_t come : {3U, 5U, 9U, 1000U}) {
    connect();
    const std::string text = "hello";
    EXPECT_EQ(client_->write(std::as_bytes(std::span(text))), engine::status::done);
    const std::span<const std::byte> record = to_server_.bytes();
    const std::size_t part = std::min(come, record.size());
    server_->feed(record.first(part));
    EXPECT_EQ(server_->peek(),
              part < record.size() ? engine::status::wants_input : engine::status::done);
    send("one");
    EXPECT_EQ(receive(), 2);
    server_->feed(record.subspan(part));
    std::byte room[256];
    std::size_t count = 0;
    EXPECT_EQ(server_->read(room, count), engine::status::done);
    EXPECT_TRUE(std::ranges::equal(std::span(room).first(count), std::as_bytes(std::span(text))));
  }
}

}  // namespace
}  // namespace session_tickets_test
