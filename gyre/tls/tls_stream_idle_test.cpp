// SPDX-License-Identifier: Apache-2.0
// Tests of streams that are kept: they tell whether anything has come.
#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/net/connection_pool.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/tls/error.hpp>
#include <gyre/tls/tls_stream.hpp>
#include <gyre/tls/tls_test_support.hpp>
#include <tests/support/coroutine_sockets.hpp>

#include <gtest/gtest.h>

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tls_stream_idle_test {
namespace {

using namespace gyre::tls::test;
using gyre::task;
using gyre::test::error_of;
using gyre::tls::errc;
using gyre::tls::tls_context;
using gyre::tls::tls_stream;

std::string forged() { return std::string("\x17\x03\x03\x00\x20", 5) + std::string(32, 'x'); }

void send_raw(int fd, std::string_view bytes) {
  EXPECT_EQ(::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(bytes.size()));
}

std::string take_raw(int fd) {
  std::string bytes(100'000, '\0');
  const ssize_t count = ::recv(fd, bytes.data(), bytes.size(), MSG_DONTWAIT);
  bytes.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
  return bytes;
}

/// Whether anything waits in the socket.
bool has_come(int fd) {
  pollfd socket{.fd = fd, .events = POLLIN | POLLRDHUP, .revents = 0};
  return ::poll(&socket, 1, 0) != 0;
}

/// The records in which one end sends `text`, taken on their way.
std::string records_of(gyre::event_loop& loop, tls_stream& from, tls_stream& to,
                       std::string_view text) {
  EXPECT_TRUE(to.is_quiet());
  gyre::sync_wait(loop, from.write_all(text));
  return take_raw(to.fd());
}

task<> receive_text(tls_stream& from, std::string_view text) {
  const gyre::io::received got = co_await from.receive();
  EXPECT_EQ(got.text(), text);
}

task<> send_text(tls_stream& to, std::string_view text) { co_await to.write_all(text); }

TEST(TlsStreamIsQuiet, WhenNothingButTicketsHasCome) {
  gyre::loop loop;
  connection both(loop);
  EXPECT_FALSE(both.client_end.session());
  EXPECT_TRUE(has_come(both.client_end.fd())) << "tickets";
  EXPECT_TRUE(both.client_end.is_quiet());
  EXPECT_TRUE(both.client_end.session());
  EXPECT_TRUE(both.client_end.is_quiet());
  EXPECT_TRUE(both.server_end.is_quiet());
  gyre::sync_wait(loop, send_text(both.server_end, "text"));
  gyre::sync_wait(loop, receive_text(both.client_end, "text"));
  EXPECT_TRUE(both.client_end.is_quiet());
}

TEST(TlsStreamIsQuiet, NotWhenBytesHaveComeWhichAReadGets) {
  gyre::loop loop;
  connection both(loop);
  gyre::sync_wait(loop, send_text(both.server_end, "one"));
  gyre::sync_wait(loop, send_text(both.server_end, "two"));
  EXPECT_FALSE(both.client_end.is_quiet());
  EXPECT_FALSE(both.client_end.is_quiet());
  gyre::sync_wait(loop, receive_text(both.client_end, "onetwo"));
  EXPECT_TRUE(both.client_end.is_quiet());
}

TEST(TlsStreamIsQuiet, NotWhenAPartOfARecordHasCome) {
  gyre::loop loop;
  connection both(loop);
  const std::string records = records_of(loop, both.server_end, both.client_end, "text");
  std::size_t sent = 0;
  for (const std::size_t end : {std::size_t{3}, std::size_t{5}, std::size_t{9}, records.size()}) {
    send_raw(both.server_end.fd(), std::string_view(records).substr(sent, end - sent));
    sent = end;
    EXPECT_FALSE(both.client_end.is_quiet()) << end;
    EXPECT_FALSE(both.client_end.is_quiet()) << end;
  }
  gyre::sync_wait(loop, receive_text(both.client_end, "text"));
  EXPECT_TRUE(both.client_end.is_quiet());
}

TEST(TlsStreamIsQuiet, NotAfterACloseNotifyWithoutAFin) {
  gyre::loop loop;
  for (const bool comes_with_bytes : {false, true}) {
    connection both(loop);
    const gyre::unique_fd twin(::dup(both.server_end.fd()));  // no FIN while it is open
    if (comes_with_bytes) gyre::sync_wait(loop, send_text(both.server_end, "text"));
    both.server_end.close();
    if (comes_with_bytes) {
      gyre::sync_wait(loop, receive_text(both.client_end, "text"));
      EXPECT_FALSE(has_come(both.client_end.fd()));
    }
    EXPECT_FALSE(both.client_end.is_quiet());
    gyre::sync_wait(loop, receive_text(both.client_end, ""));
  }
}

TEST(TlsStreamIsQuiet, NotAfterAnEndOrABadRecordWhichAReadTells) {
  gyre::loop loop;
  {
    connection both(loop);
    ::shutdown(both.server_end.fd(), SHUT_WR);
    EXPECT_FALSE(both.client_end.is_quiet()) << "behind the tickets";
    EXPECT_FALSE(both.client_end.is_quiet());
    EXPECT_EQ(error_of(loop, receive_text(both.client_end, "")), errc::truncated);
  }
  connection both(loop);
  send_raw(both.server_end.fd(), forged());
  EXPECT_FALSE(both.client_end.is_quiet());
  EXPECT_EQ(error_of(loop, receive_text(both.client_end, "")), errc::bad_record);
  EXPECT_EQ(error_of(loop, receive_text(both.server_end, "")), errc::refused_by_peer);
}

TEST(TlsStreamIsQuiet, NotWhileItIsReadOrClosed) {
  gyre::loop loop;
  EXPECT_FALSE(tls_stream().is_quiet());
  connection both(loop);
  gyre::spawn(loop, receive_text(both.client_end, "text"));
  while (loop.poll()) continue;
  EXPECT_FALSE(both.client_end.is_quiet());
  gyre::sync_wait(loop, send_text(both.server_end, "text"));
  while (loop.poll() || !both.client_end.is_quiet()) continue;
  both.client_end.close();
  EXPECT_FALSE(both.client_end.is_quiet());
}

task<> use_twice(gyre::net::connection_pool<tls_stream>& pool) {
  for (const bool reused : {false, true}) {
    auto taken = co_await pool.acquire();
    EXPECT_EQ(taken.is_reused(), reused);
    taken.give_back();
  }
}

TEST(TlsStreamIsQuiet, SoAPoolKeepsIt) {
  gyre::loop loop;
  std::vector<connection> made;
  for (int i = 0; i < 2; ++i) made.emplace_back(loop);
  std::size_t connects = 0;
  const auto connect = [&]() -> task<tls_stream> {
    co_return std::move(made.at(connects++).client_end);
  };
  gyre::net::connection_pool<tls_stream> pool(loop, connect);
  gyre::sync_wait(loop, use_twice(pool));
  made.front().server_end.close();
  gyre::sync_wait(loop, use_twice(pool));
  EXPECT_EQ(connects, 2u);
}

}  // namespace
}  // namespace tls_stream_idle_test
