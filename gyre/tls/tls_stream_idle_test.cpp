// SPDX-License-Identifier: Apache-2.0
// Tests of streams that wait or are kept: they hold none of the loop's memory, and tell whether
// anything has come.
#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/io/backend.hpp>
#include <gyre/net/connection_pool.hpp>
#include <gyre/task/operation_cancelled.hpp>
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
using gyre::net::tcp_stream;
using gyre::test::error_of;
using gyre::tls::errc;
using gyre::tls::tls_context;
using gyre::tls::tls_stream;

std::string forged() { return std::string("\x17\x03\x03\x00\x20", 5) + std::string(32, 'x'); }

/// Whether anything waits in the socket.
bool has_come(int fd) {
  pollfd socket{.fd = fd, .events = POLLIN | POLLRDHUP, .revents = 0};
  return ::poll(&socket, 1, 0) != 0;
}

task<> receive_text(tls_stream& from, std::string_view text) {
  const gyre::io::received got = co_await from.receive();
  EXPECT_EQ(got.text(), text);
}

task<> send_text(tls_stream& to, std::string_view text) { co_await to.write_all(text); }

// --- Whether anything has come ---

TEST(TlsStreamIsQuiet, WhenNothingButTicketsHasCome) {
  gyre::loop loop;
  connection both(loop);
  EXPECT_TRUE(both.client_end.is_quiet());
  const std::string rest = send_tickets_alone(loop, both, "text");
  EXPECT_FALSE(both.client_end.session());
  EXPECT_TRUE(has_come(both.client_end.fd()));
  EXPECT_TRUE(both.client_end.is_quiet());
  EXPECT_TRUE(both.client_end.session());
  EXPECT_TRUE(both.client_end.is_quiet());
  EXPECT_TRUE(both.server_end.is_quiet());
  send_raw(both.server_end.fd(), rest);
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
  const std::string records = send_tickets_alone(loop, both, "text");
  EXPECT_TRUE(both.client_end.is_quiet());
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
    EXPECT_FALSE(both.client_end.is_quiet());
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

// --- The loop's memory ---

bool lends_memory(gyre::event_loop& loop) { return gyre::io::backend_of(loop).memory().lent(); }

/// Work that waits for the peer, until it is stopped or destroyed.
class waiting_work {
 public:
  waiting_work(gyre::event_loop& loop, task<> work) : loop_(loop) {
    gyre::spawn(loop, run(std::move(work)), {.stop = stop_.get_token()});
    settle();
  }
  waiting_work(const waiting_work&) = delete;
  waiting_work& operator=(const waiting_work&) = delete;
  ~waiting_work() {
    stop_.request_stop();
    while (!done_) loop_.poll();
  }

  bool done() const noexcept { return done_; }
  void settle() {
    while (loop_.poll()) continue;
  }
  /// Until all bytes that came at the descriptor are taken.
  void take_all(int fd) {
    while (has_come(fd)) loop_.poll();
    settle();
  }

 private:
  task<> run(task<> work) {
    try {
      co_await std::move(work);
    } catch (const std::exception&) {
    } catch (const gyre::operation_cancelled&) {
    }
    done_ = true;
  }

  gyre::event_loop& loop_;
  gyre::inplace_stop_source stop_;
  bool done_ = false;
};

task<> read_some(tls_stream& from) {
  std::byte room[100];
  co_await from.read_some(room);
}
task<> read_exactly(tls_stream& from) {
  std::byte room[5];
  co_await from.read_exactly(room);
}
task<> read_line(tls_stream& from) {
  gyre::io::buffer line;
  co_await from.read_until(line, "\n");
}
task<> wait_readable(tls_stream& from) { return from.wait_readable(); }
task<> receive(tls_stream& from) { co_await from.receive(); }

TEST(TlsStreamMemory, AReaderThatWaitsHoldsNone) {
  gyre::loop loop;
  for (task<> (*const reading)(tls_stream&) :
       {&read_some, &read_exactly, &read_line, &wait_readable, &receive}) {
    connection both(loop);
    const std::string records = send_tickets_alone(loop, both, "text\n");
    {
      waiting_work work(loop, reading(both.client_end));
      send_raw(both.server_end.fd(), std::string_view(records).substr(0, 9));
      work.take_all(both.client_end.fd());
      EXPECT_FALSE(work.done());
      EXPECT_FALSE(lends_memory(loop));
    }
    EXPECT_FALSE(lends_memory(loop)) << "stopped";
    send_raw(both.server_end.fd(), std::string_view(records).substr(9));
    gyre::sync_wait(loop, receive_text(both.client_end, "text\n"));
    EXPECT_FALSE(lends_memory(loop));
  }
}

TEST(TlsStreamMemory, AReadThatFailsHoldsNone) {
  gyre::loop loop;
  for (task<> (*const reading)(tls_stream&) : {&read_some, &read_exactly, &read_line, &receive}) {
    connection both(loop);
    send_raw(both.server_end.fd(), forged());
    EXPECT_EQ(error_of(loop, reading(both.client_end)), errc::bad_record);
    EXPECT_FALSE(lends_memory(loop));
  }
}

TEST(TlsStreamMemory, RecordsThatNobodyReadsHoldNone) {
  gyre::loop loop;
  connection both(loop);
  for (const std::string_view text : {"one", "two", "three"}) {
    gyre::sync_wait(loop, send_text(both.server_end, text));
  }
  std::byte first[1];
  EXPECT_EQ(gyre::sync_wait(loop, both.client_end.read_some(first)), 1u);
  EXPECT_FALSE(lends_memory(loop));
  EXPECT_FALSE(both.client_end.is_quiet());
  EXPECT_FALSE(lends_memory(loop));
  gyre::sync_wait(loop, receive_text(both.client_end, "netwothree"));
  EXPECT_FALSE(lends_memory(loop));
}

task<> accept_only(tcp_stream end, tls_context context) {
  co_await gyre::tls::accept(std::move(end), std::move(context));
}
task<> connect_only(tcp_stream end, tls_context context) {
  co_await gyre::tls::connect(std::move(end), "localhost", std::move(context));
}

void fill_output(int fd) {
  const std::string text(4096, 'x');
  for (std::size_t size = text.size(); size > 0;) {
    if (::send(fd, text.data(), size, MSG_DONTWAIT | MSG_NOSIGNAL) <= 0) size /= 2;
  }
}

TEST(TlsStreamMemory, AHandshakeThatWaitsHoldsNone) {
  gyre::loop loop;
  const tls_context server = tls_context::server(serving());
  const tls_context client = tls_context::client(trusting());
  std::string hello;
  {
    auto [end, other] = socket_pair(loop);
    const int fd = end.fd();
    waiting_work connecting(loop, connect_only(std::move(end), client));
    hello = take_raw(other.fd());
    send_raw(other.fd(), std::string_view("\x16\x03\x03\x00\x7a\x02", 6));
    connecting.take_all(fd);
    EXPECT_FALSE(connecting.done());
    EXPECT_FALSE(lends_memory(loop));
  }
  for (const bool cannot_send : {false, true}) {
    auto [end, other] = socket_pair(loop);
    const int fd = end.fd();
    if (cannot_send) fill_output(fd);
    waiting_work accepting(loop, accept_only(std::move(end), server));
    send_raw(other.fd(), std::string_view(hello).substr(0, hello.size() - (cannot_send ? 0 : 1)));
    accepting.take_all(fd);
    EXPECT_FALSE(accepting.done());
    EXPECT_FALSE(lends_memory(loop)) << cannot_send;
  }
  auto [end, other] = socket_pair(loop);
  send_raw(other.fd(), "no handshake");
  EXPECT_EQ(error_of(loop, accept_only(std::move(end), server)), errc::not_tls);
  EXPECT_FALSE(lends_memory(loop));
}

task<> send_back(tls_stream& peer) {
  gyre::io::received bytes = co_await peer.receive();
  co_await peer.write_all(std::move(bytes));
}

TEST(TlsStreamMemory, AWriterOfReceivedBytesThatWaitsHoldsNone) {
  gyre::loop loop;
  connection both(loop);
  fill_output(both.server_end.fd());
  waiting_work work(loop, send_back(both.server_end));
  gyre::sync_wait(loop, send_text(both.client_end, "text"));
  work.take_all(both.server_end.fd());
  EXPECT_FALSE(work.done());
  EXPECT_FALSE(lends_memory(loop));
}

}  // namespace
}  // namespace tls_stream_idle_test
