// SPDX-License-Identifier: Apache-2.0
// Tests of writing while a part of a peer's TLS message has come: OpenSSL writes no record then.
#include <gyre/exec/loop.hpp>
#include <gyre/net/callback_test_support.hpp>
#include <gyre/net/tcp_client.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/tls/detail/engine.hpp>
#include <gyre/tls/error.hpp>
#include <gyre/tls/tls_stream.hpp>
#include <gyre/tls/tls_test_support.hpp>
#include <gyre/tls/transport.hpp>
#include <tests/support/in_virtual_time.hpp>
#include <tests/support/socket_pairs.hpp>

#include <gtest/gtest.h>

#include <sys/socket.h>

#include <chrono>
#include <future>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace split_message_test {
namespace {

using namespace std::chrono_literals;
using namespace gyre::tls::test;
using gyre::inplace_stop_source;
using gyre::task;
using gyre::unique_fd;
using gyre::io::input;
using gyre::net::tcp_client;
using gyre::net::tcp_client_options;
using gyre::net::tcp_connection;
using gyre::net::tcp_stream;
using gyre::net::test::peer;
using gyre::net::test::settle;
using gyre::net::test::turn_until;
using gyre::tls::errc;
using gyre::tls::tls_context;
using gyre::tls::tls_stream;
using gyre::tls::detail::engine;

/// A server driven by hand, which sends its tickets in parts. A ticket that holds the client's
/// certificate takes several records.
class split_server {
 public:
  explicit split_server(unique_fd socket)
      : peer_(gyre::net::socket(std::move(socket))),
        machine_(tls_context::server(requiring_certificates()), "", {}, output_) {}

  /// True when it is done, and the tickets wait.
  bool shake_hands() {
    if (machine_.is_established()) return true;
    receive();
    EXPECT_NE(machine_.handshake(), engine::status::failed) << machine_.why().text;
    if (machine_.native() != nullptr) {
      EXPECT_EQ(SSL_set_max_send_fragment(machine_.native(), 512), 1);
    }
    send_rest();
    if (machine_.is_established()) {
      EXPECT_EQ(machine_.write_tickets(), engine::status::done);
    }
    return machine_.is_established();
  }
  std::size_t send_a_part() {
    constexpr std::size_t record_and_a_bit = 600;
    EXPECT_GT(output_.size(), record_and_a_bit);
    send(record_and_a_bit);
    return record_and_a_bit;
  }
  void send_rest() { send(output_.size()); }
  void send_text(std::string_view text) {
    EXPECT_EQ(machine_.write(std::as_bytes(std::span(text))), engine::status::done);
    send_rest();
  }
  void send_garbage() { peer_.send(std::string(100, 'x')); }
  void end_sending() { peer_.end_sending(); }
  void close() { peer_.close(); }
  /// The error that ended the connection, once it has been read to its end.
  int error() const { return peer_.error; }

  /// Reads what has come.
  const std::string& text() {
    receive();
    char room[256];
    std::size_t count = 0;
    while ((last_ = machine_.read(std::as_writable_bytes(std::span(room)), count)) ==
           engine::status::done) {
      text_.append(room, count);
    }
    EXPECT_NE(last_, engine::status::failed) << machine_.why().text;
    return text_;
  }
  /// Reads an alert.
  std::error_code failure() {
    receive();
    char room[256];
    std::size_t count = 0;
    EXPECT_EQ(machine_.read(std::as_writable_bytes(std::span(room)), count),
              engine::status::failed);
    return machine_.why().code;
  }
  /// Whether close_notify has come.
  bool has_ended() {
    text();
    return last_ == engine::status::ended;
  }

 private:
  void send(std::size_t count) {
    peer_.send(output_.text().substr(0, count));
    output_.consume(count);
  }
  void receive() {
    peer_.receive();
    input_.consume(input_.size() - machine_.unread().size());
    input_.append(peer_.text);
    peer_.text.clear();
    machine_.feed(input_.bytes());
  }

  peer peer_;
  gyre::io::buffer output_;
  gyre::io::buffer input_;
  engine machine_;
  engine::status last_ = engine::status::done;
  std::string text_;
};

template <class T>
bool is_done(const std::future<T>& of) {
  return of.wait_for(0s) == std::future_status::ready;
}
template <class T>
std::error_code error_of(std::future<T>& of) {
  return gyre::test::error_of([&of] { of.get(); });
}

task<> connect_to(tls_stream& made, tcp_stream over) {
  made = co_await gyre::tls::connect(std::move(over), "localhost",
                                     tls_context::client(showing_certificate()));
}
task<std::string> read_text(tls_stream& from) {
  const auto came = co_await from.receive();
  co_return std::string(came.text());
}
task<> forward(tcp_stream& from, tls_stream& to) {
  auto came = co_await from.receive();
  co_await to.write_all(std::move(came));
}

/// A stream whose server has its tickets still to send.
class TicketStream : public testing::Test {
 protected:
  TicketStream() : TicketStream(gyre::test::unix_pair()) {}
  void read_a_part() {
    server_.send_a_part();
    EXPECT_FALSE(client_.is_quiet());
  }

  std::future<std::size_t> write(std::string_view text, gyre::inplace_stop_token stop = {}) {
    return gyre::spawn_future(loop_, client_.write_all(text), stop);
  }
  std::future<std::string> read(gyre::inplace_stop_token stop = {}) {
    return gyre::spawn_future(loop_, read_text(client_), stop);
  }
  template <class T>
  void run_until_done(const std::future<T>& of) {
    turn_until(loop_, [&] { return is_done(of); });
  }
  // It waits for the rest.
  template <class T>
  void expect_waiting(const std::future<T>& of) {
    settle(loop_);
    EXPECT_FALSE(is_done(of));
    EXPECT_EQ(server_.text(), "");
  }

  gyre::loop loop_;
  split_server server_;
  tls_stream client_;

 private:
  explicit TicketStream(gyre::test::fd_pair sockets) : server_(std::move(sockets.first)) {
    gyre::spawn(loop_, connect_to(client_, tcp_stream(loop_, std::move(sockets.second))));
    turn_until(loop_, [&] { return server_.shake_hands() && client_.is_open(); });
  }
};

/// A stream that has read a part of a ticket.
class SplitStream : public TicketStream {
 protected:
  SplitStream() { read_a_part(); }
};

TEST_F(SplitStream, AWriteReadsTheRestFirst) {
  auto written = write("hello");
  expect_waiting(written);
  server_.send_rest();
  run_until_done(written);
  EXPECT_EQ(written.get(), 5u);
  EXPECT_EQ(server_.text(), "hello");
  EXPECT_TRUE(client_.session());
}

TEST_F(SplitStream, AWriteWaitsForTheOneWhoReads) {
  auto come = read();
  settle(loop_);
  auto written = write("hello");
  expect_waiting(written);
  server_.send_rest();
  run_until_done(written);
  EXPECT_FALSE(is_done(come));
  EXPECT_EQ(server_.text(), "hello");
  server_.send_text("answer");
  run_until_done(come);
  EXPECT_EQ(come.get(), "answer");
}

TEST_F(SplitStream, AReadMayBeginWhileAWriteReads) {
  auto written = write("hello");
  settle(loop_);
  auto come = read();
  expect_waiting(written);
  auto second = read();
  run_until_done(second);
  EXPECT_EQ(error_of(second), gyre::io::errc::busy);
  server_.send_text("answer");  // behind the rest, in one piece
  run_until_done(written);
  run_until_done(come);
  EXPECT_EQ(come.get(), "answer");
  EXPECT_EQ(server_.text(), "hello");
}

TEST_F(SplitStream, AWriteGoesOnWhenTheOneWhoReadsIsStopped) {
  inplace_stop_source stop;
  auto come = read(stop.get_token());
  settle(loop_);
  auto written = write("hello");
  settle(loop_);
  stop.request_stop();
  run_until_done(come);
  EXPECT_EQ(error_of(come), std::errc::operation_canceled);
  expect_waiting(written);
  server_.send_rest();
  run_until_done(written);
  EXPECT_EQ(server_.text(), "hello");
}

TEST_F(SplitStream, AReadGoesOnWhenTheWriteIsStopped) {
  inplace_stop_source stop;
  auto written = write("hello", stop.get_token());
  settle(loop_);
  auto come = read();
  settle(loop_);
  stop.request_stop();
  run_until_done(written);
  EXPECT_EQ(error_of(written), std::errc::operation_canceled);
  server_.send_text("answer");
  run_until_done(come);
  EXPECT_EQ(come.get(), "answer");
  run_until_done(written = write("again"));
  EXPECT_EQ(server_.text(), "again");
}

TEST_F(SplitStream, BytesInTheLoopsMemoryAreWrittenToo) {
  auto [near, far] = gyre::test::unix_pair();
  peer from((gyre::net::socket(std::move(far))));
  tcp_stream source(loop_, std::move(near));
  from.send("hello");
  auto done = gyre::spawn_future(loop_, forward(source, client_));
  expect_waiting(done);
  server_.send_rest();
  run_until_done(done);
  EXPECT_EQ(server_.text(), "hello");
}

TEST_F(SplitStream, ShutdownSendsCloseNotify) {
  auto ended = gyre::spawn_future(loop_, client_.shutdown());
  expect_waiting(ended);
  auto written = write("hello");
  run_until_done(written);
  EXPECT_EQ(error_of(written), gyre::io::errc::busy);
  server_.send_rest();
  run_until_done(ended);
  EXPECT_TRUE(server_.has_ended());
}

TEST_F(SplitStream, AWriteFailsIfThePeerEnds) {
  auto written = write("hello");
  expect_waiting(written);
  server_.close();
  run_until_done(written);
  EXPECT_EQ(error_of(written), errc::truncated);
}

TEST_F(SplitStream, AWriteFailsIfTheRestIsWrong) {
  auto written = write("hello");
  expect_waiting(written);
  server_.send_garbage();
  run_until_done(written);
  EXPECT_EQ(error_of(written), errc::bad_record);
  EXPECT_EQ(server_.failure(), errc::refused_by_peer);
}

TEST_F(TicketStream, OperationsGoOnBehindAStoppedWrite) {
  inplace_stop_source stop;
  const std::string text(150'000, 'x');
  auto written = write(text);  // which the kernel takes
  run_until_done(written);
  written = write(text, stop.get_token());
  settle(loop_);
  stop.request_stop();
  run_until_done(written);
  EXPECT_EQ(error_of(written), std::errc::operation_canceled);
  read_a_part();
  written = write("hello");
  auto come = read();
  settle(loop_);
  EXPECT_FALSE(is_done(written));
  server_.send_text("answer");
  turn_until(loop_, [&] { return server_.text().ends_with("hello"); });
  run_until_done(written);
  run_until_done(come);
  EXPECT_EQ(come.get(), "answer");
}

TEST_F(SplitStream, CloseEndsAWriteThatWaits) {
  auto written = write("hello");
  settle(loop_);
  auto come = read();
  expect_waiting(written);
  client_.close();
  run_until_done(written);
  run_until_done(come);
  EXPECT_EQ(error_of(written), gyre::io::errc::closed);
  EXPECT_EQ(error_of(come), gyre::io::errc::closed);
}

tcp_client_options secure_client(std::chrono::nanoseconds close_timeout) {
  tcp_client_options made;
  made.connections.close_timeout = close_timeout;
  made.transport =
      gyre::tls::client_transport(tls_context::client(showing_certificate()), "localhost");
  return made;
}

/// A connection whose server has its tickets still to send, and little room for bytes.
class TicketConnection : public testing::Test {
 protected:
  explicit TicketConnection(std::chrono::nanoseconds close_timeout = 5s, bool hears = true)
      : client_(loop_, secure_client(close_timeout)) {
    if (!hears) return;
    client_.on_message([this](tcp_connection&, input& in) {
      text_ += in.text();
      in.consume_all();
    });
  }
  void SetUp() override {
    client_.on_write_complete([this](tcp_connection&) { ++writes_completed_; });
    client_.on_close([this](tcp_connection&, std::error_code why) { end_ = why; });
    auto [listener, address] = gyre::test::loopback_listener();
    gyre::net::socket_ref(listener.get()).set_receive_buffer(4096);
    client_.connect(
        gyre::net::endpoint(gyre::net::ip_address::loopback_v4(), ntohs(address.sin_port)));
    turn_until(loop_, [&] {
      if (!server_) {
        unique_fd come(::accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
        if (come) server_.emplace(std::move(come));
      }
      return server_ && server_->shake_hands() && client_.connected();
    });
  }
  void receive_a_part() {
    const auto before = connection().metrics().bytes_received;
    const std::size_t part = server_->send_a_part();
    turn_until(loop_, [&] { return connection().metrics().bytes_received == before + part; });
  }
  tcp_connection& connection() { return *client_.connection(); }
  void send_hello() {
    ASSERT_TRUE(connection().send("hello"));
    settle(loop_);
    EXPECT_EQ(server_->text(), "");
    EXPECT_EQ(connection().pending_output(), 5u);
  }
  void expect_hello() {
    turn_until(loop_, [&] { return server_->text() == "hello"; });
  }

  // Sends until the kernel takes no more: then encrypted bytes wait, and no others.
  std::string fill() {
    std::string all;
    const std::string piece(20'000, 'x');
    while (connection().pending_output() == 0) {
      EXPECT_TRUE(connection().send(piece));
      all += piece;
    }
    return all;
  }

  gyre::loop loop_;
  tcp_client client_;
  std::optional<split_server> server_;
  std::string text_;
  int writes_completed_ = 0;
  std::optional<std::error_code> end_;
};

/// A connection that has received a part of a ticket.
class SplitConnection : public TicketConnection {
 protected:
  void SetUp() override {
    TicketConnection::SetUp();
    receive_a_part();
  }
};

TEST_F(SplitConnection, OutputWaitsForTheRest) {
  send_hello();
  EXPECT_EQ(writes_completed_, 0);
  server_->send_rest();
  expect_hello();
  settle(loop_);
  EXPECT_EQ(writes_completed_, 1);
  EXPECT_EQ(connection().pending_output(), 0u);
  server_->send_text("answer");
  turn_until(loop_, [&] { return text_ == "answer"; });
}

TEST_F(SplitConnection, OutputIsSentBeforeItIsClosed) {
  send_hello();
  client_.disconnect();
  settle(loop_);
  EXPECT_FALSE(end_);
  server_->send_rest();
  expect_hello();
  turn_until(loop_, [&] { return server_->has_ended(); });
  server_->close();
  turn_until(loop_, [&] { return end_.has_value(); });
  EXPECT_FALSE(*end_) << end_->message();
}

TEST_F(SplitConnection, TheEndOfOneSideWaitsForTheRest) {
  connection().shutdown_send();
  settle(loop_);
  EXPECT_FALSE(server_->has_ended());
  server_->send_text("answer");
  turn_until(loop_, [&] { return server_->has_ended() && text_ == "answer"; });
  EXPECT_FALSE(end_);
}

TEST_F(SplitConnection, TheRestIsReceivedThoughReadingIsPaused) {
  connection().pause_reading();
  send_hello();
  server_->send_text("answer");  // behind the rest, in one piece
  expect_hello();
  settle(loop_);
  server_->send_text(" and more");
  settle(loop_);
  EXPECT_EQ(text_, "");
  connection().resume_reading();
  turn_until(loop_, [&] { return text_ == "answer and more"; });
}

TEST_F(SplitConnection, APauseDoesNotKeepTheRestAway) {
  send_hello();
  connection().pause_reading();
  server_->send_rest();
  expect_hello();
  server_->send_text("answer");
  settle(loop_);
  EXPECT_EQ(text_, "");
  connection().resume_reading();
  turn_until(loop_, [&] { return text_ == "answer"; });
}

TEST_F(SplitConnection, AnEndBeforeTheRestIsTold) {
  send_hello();
  client_.disconnect();
  settle(loop_);
  server_->close();
  turn_until(loop_, [&] { return end_.has_value(); });
  EXPECT_EQ(*end_, errc::truncated);
}

TEST_F(SplitConnection, AWrongRestIsTold) {
  send_hello();
  client_.disconnect();
  settle(loop_);
  server_->send_garbage();
  turn_until(loop_, [&] { return end_.has_value(); });
  EXPECT_EQ(*end_, errc::bad_record);
}

TEST_F(SplitConnection, AnAlertIsSentThoughOutputWaits) {
  send_hello();
  server_->send_garbage();
  turn_until(loop_, [&] { return end_.has_value(); });
  EXPECT_EQ(*end_, errc::bad_record);
  EXPECT_EQ(server_->failure(), errc::refused_by_peer);
  EXPECT_EQ(server_->error(), 0);
}

TEST_F(TicketConnection, APauseStopsReadingWhileEncryptedBytesWait) {
  const std::string sent = fill();
  receive_a_part();
  connection().pause_reading();
  turn_until(loop_, [&] { return server_->text() == sent; });
  const auto before = connection().metrics().bytes_received;
  server_->send_text("answer");
  settle(loop_);
  EXPECT_EQ(connection().metrics().bytes_received, before);
  connection().resume_reading();
  turn_until(loop_, [&] { return text_ == "answer"; });
}

TEST_F(TicketConnection, TellsThatAllIsSentThoughTheEndWaits) {
  const std::string sent = fill();
  receive_a_part();
  writes_completed_ = 0;
  connection().shutdown_send();
  turn_until(loop_, [&] { return server_->text() == sent && writes_completed_ > 0; });
  EXPECT_FALSE(server_->has_ended());
}

TEST_F(TicketConnection, EncryptedBytesAreSentBehindThePeersEnd) {
  const std::string sent = fill();
  receive_a_part();
  client_.disconnect();
  server_->end_sending();
  turn_until(loop_, [&] { return server_->text() == sent && end_; });
  EXPECT_EQ(*end_, errc::truncated);
}

class HastyConnection : public TicketConnection {
 protected:
  HastyConnection() : TicketConnection(10ms) {}
};

TEST_F(HastyConnection, EndsThoughTheRestOfAMessageNeverComes) {
  const std::string sent = fill();
  receive_a_part();
  connection().close_without_lingering();
  turn_until(loop_, [&] { return server_->text() == sent && end_; });
  // The time limit may find the last bytes on their way.
  EXPECT_TRUE(!*end_ || *end_ == gyre::io::errc::close_timeout) << end_->message();
}

TEST_F(HastyConnection, ClosesThoughTheRestOfAMessageNeverComes) {
  receive_a_part();
  client_.disconnect();
  turn_until(loop_, [&] { return end_.has_value(); });
  EXPECT_FALSE(*end_) << end_->message();
}

class DeafConnection : public TicketConnection {
 protected:
  DeafConnection() : TicketConnection(5s, false) {}
};

TEST_F(DeafConnection, DropsBytesThatComeDuringAPause) {
  receive_a_part();
  connection().pause_reading();
  send_hello();
  server_->send_text("answer");  // behind the rest, in one piece
  expect_hello();
  connection().resume_reading();
  server_->send_text("and more");
  settle(loop_);
  EXPECT_FALSE(end_);
}

}  // namespace
}  // namespace split_message_test
