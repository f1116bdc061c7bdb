// SPDX-License-Identifier: Apache-2.0
#include <gyre/testing/scripted_peer.hpp>

#include <gyre/base/unique_fd.hpp>
#include <gyre/exec/timer.hpp>
#include <gyre/io/buffer.hpp>
#include <gyre/io/error.hpp>
#include <gyre/io/stream.hpp>
#include <gyre/net/tcp_stream.hpp>
#include <gyre/task/as_expected.hpp>
#include <gyre/task/sleep.hpp>
#include <gyre/task/task.hpp>
#include <gyre/task/when_all.hpp>
#include <gyre/task/with_timeout.hpp>
#include <gyre/testing/virtual_time_loop.hpp>

#include <gtest/gtest.h>

#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace scripted_peer_test {
namespace {

using namespace std::chrono_literals;
using gyre::testing::scripted_peer;
using gyre::testing::virtual_time_loop;

class ScriptedPeer : public testing::Test {
 protected:
  gyre::steady_time now() const { return virtual_time_.time.now(); }
  /// Connects the peer, runs `session` of the stream, and returns the error with which it failed.
  std::error_code run(gyre::task<> (*session)(gyre::io::stream&)) {
    auto stream = peer_.connect();
    try {
      virtual_time_.run(session(stream));
      return {};
    } catch (const std::system_error& error) {
      return error.code();
    }
  }

  virtual_time_loop<> virtual_time_;
  scripted_peer peer_{virtual_time_};
};

std::span<std::byte> bytes_of(std::string& room) { return std::as_writable_bytes(std::span(room)); }

// Writes back the length of each piece that a read gave.
gyre::task<> count_pieces(gyre::io::stream& stream) {
  for (;;) {
    std::string room(8, '\0');
    const std::size_t count = co_await stream.read_some(bytes_of(room));
    if (count == 0) co_return;
    co_await stream.write_all(std::to_string(count) + ' ');
  }
}

gyre::task<> echo(gyre::io::stream& stream) {
  for (;;) {
    auto data = co_await stream.receive();
    if (data.empty()) co_return;
    co_await stream.write_all(std::move(data));
  }
}

gyre::task<> read_line_within_a_second(gyre::io::stream& stream) {
  std::string room(5, '\0');
  co_await gyre::with_timeout(stream.read_exactly(bytes_of(room)), 1s);
}

gyre::task<> write_hello(gyre::io::stream& stream) { co_await stream.write_all("hello"); }

gyre::task<> write_hello_in_parts(gyre::io::stream& stream) {
  for (std::string_view rest = "hello"; !rest.empty();) {
    const std::size_t count = co_await stream.write_some(rest);
    rest.remove_prefix(count);
  }
}

gyre::task<> write_pieces(gyre::io::stream& stream) {
  std::string first = "hel";
  std::string second = "lo";
  const std::array pieces{iovec{first.data(), first.size()}, iovec{second.data(), second.size()}};
  co_await stream.write_all(std::span<const iovec>(pieces));
}

gyre::task<> wait_for_readiness(gyre::io::stream& stream) {
  co_await stream.wait_readable();
  co_await stream.wait_writable();
}

gyre::task<> log_in(gyre::io::stream& stream) {
  gyre::io::buffer input;
  co_await stream.write_all("user\n");
  co_await stream.read_until(input, "\n");
  co_await stream.write_all("password\n");
  co_await stream.read_until(input, "welcome\n");
}

TEST_F(ScriptedPeer, AReadGivesBytesOfOneSendAtMost) {
  peer_.send("ab").send("c").send("0123456789").end();
  EXPECT_EQ(run(count_pieces), std::error_code());
  EXPECT_EQ(peer_.received(), "2 1 8 2 ");
  EXPECT_TRUE(peer_.is_done() || peer_.has_seen_end());
}

TEST_F(ScriptedPeer, ReceivesIntoTheMemoryOfTheLoop) {
  peer_.send("hello, ").wait(1s).send("world").end();
  EXPECT_EQ(run(echo), std::error_code());
  EXPECT_EQ(peer_.received(), "hello, world");
}

TEST_F(ScriptedPeer, WaitsInVirtualTime) {
  const gyre::steady_time begin = now();
  peer_.wait(24h).send("hello").wait(24h).end();
  EXPECT_EQ(run(echo), std::error_code());
  EXPECT_GE(now() - begin, 48h);
  EXPECT_LT(now() - begin, 48h + 1ms);
}

TEST_F(ScriptedPeer, ALateAnswerReachesTheTimeLimitOfTheProgram) {
  peer_.send("hel").wait(2s).send("lo");
  EXPECT_EQ(run(read_line_within_a_second), std::errc::timed_out);
}

TEST_F(ScriptedPeer, AnAnswerInTimeDoesNot) {
  peer_.send("hel").wait(900ms).send("lo");
  EXPECT_EQ(run(read_line_within_a_second), std::error_code());
}

TEST_F(ScriptedPeer, TheEndInTheMiddleOfAMessageIsUnexpected) {
  peer_.send("hel").end();
  EXPECT_EQ(run(read_line_within_a_second), gyre::io::errc::unexpected_end);
}

TEST_F(ScriptedPeer, AFailureReachesOneReadAndEndsTheStream) {
  peer_.send("a").fail(std::errc::connection_reset);
  EXPECT_EQ(run(count_pieces), std::errc::connection_reset);
  EXPECT_EQ(peer_.received(), "1 ");
}

TEST_F(ScriptedPeer, ShortWritesAreContinued) {
  peer_.take_at_most(1).take_at_most(2);
  EXPECT_EQ(run(write_hello), std::error_code());
  EXPECT_EQ(peer_.received(), "hello");
}

TEST_F(ScriptedPeer, AProgramThatWritesSomeSeesShortWrites) {
  peer_.take_at_most(1).take_at_most(2);
  EXPECT_EQ(run(write_hello_in_parts), std::error_code());
  EXPECT_EQ(peer_.received(), "hello");
}

TEST_F(ScriptedPeer, WritesPiecesInShortWrites) {
  peer_.take_at_most(2).take_at_most(2);
  EXPECT_EQ(run(write_pieces), std::error_code());
  EXPECT_EQ(peer_.received(), "hello");
}

gyre::task<> send_hello_from_file(gyre::io::stream& stream) {
  const gyre::unique_fd file(::memfd_create("file", MFD_CLOEXEC));
  EXPECT_EQ(::write(file.get(), "> hello", 7), 7);
  EXPECT_EQ(co_await stream.send_file(file.get(), 2, 100), 5u);
}

TEST_F(ScriptedPeer, AFileIsWritten) {
  peer_.take_at_most(2).delay_write(1min);
  EXPECT_EQ(run(send_hello_from_file), std::error_code());
  EXPECT_EQ(peer_.received(), "hello");
}

TEST_F(ScriptedPeer, ADelayedWriteTakesTime) {
  const gyre::steady_time begin = now();
  peer_.delay_write(1min).take_at_most(2).delay_write(1min);
  EXPECT_EQ(run(write_hello), std::error_code());
  EXPECT_EQ(peer_.received(), "hello");
  EXPECT_GE(now() - begin, 2min);
}

TEST_F(ScriptedPeer, AWriteFailsHalfWay) {
  peer_.take_at_most(2).fail_write(std::errc::broken_pipe);
  EXPECT_EQ(run(write_hello), std::errc::broken_pipe);
  EXPECT_EQ(peer_.received(), "he");
}

TEST_F(ScriptedPeer, ReadinessFollowsTheScript) {
  const gyre::steady_time begin = now();
  peer_.wait(1s).send("a").delay_write(1s);
  EXPECT_EQ(run(wait_for_readiness), std::error_code());
  EXPECT_GE(now() - begin, 2s);
}

TEST_F(ScriptedPeer, HoldsADialogue) {
  peer_.expect("user\n").send("password?\n").expect("password\n").wait(1s).send("welcome\n");
  EXPECT_EQ(run(log_in), std::error_code());
  EXPECT_EQ(peer_.received(), "user\npassword\n");
}

gyre::task<> say_hello_and_listen(gyre::io::stream& stream) {
  co_await write_hello_in_parts(stream);
  gyre::io::buffer input;
  co_await stream.read_until(input, "again\n");
}

TEST_F(ScriptedPeer, ExpectedTextsMayComeInPartsAndFollowEachOther) {
  for (int part = 0; part < 4; ++part) peer_.take_at_most(1);
  peer_.expect("ell").expect("o").send("again\n");
  EXPECT_EQ(run(say_hello_and_listen), std::error_code());
}

TEST_F(ScriptedPeer, AnAnswerThatNeverComesIsReported) {
  peer_.expect("something else\n").send("password?\n");
  auto stream = peer_.connect();
  EXPECT_THROW(virtual_time_.run(log_in(stream)), std::logic_error);
  EXPECT_FALSE(peer_.is_done());
}

TEST_F(ScriptedPeer, ActionsMayBeAddedWhileTheProgramWaits) {
  gyre::timer later(virtual_time_.loop, [&] { peer_.send("abc").end(); });
  later.start_after(1h);
  EXPECT_EQ(run(count_pieces), std::error_code());
  EXPECT_EQ(peer_.received(), "3 ");
}

TEST_F(ScriptedPeer, SeesThatTheStreamIsClosedOrShutDown) {
  auto stream = peer_.connect<gyre::net::tcp_stream>();
  EXPECT_FALSE(peer_.has_seen_end());
  stream.shutdown(gyre::net::shutdown_side::send);
  EXPECT_TRUE(peer_.has_seen_end());
  stream.close();
  EXPECT_TRUE(peer_.has_seen_end());
}

TEST_F(ScriptedPeer, SeveralPeersTakeTurnsInTheSameOrderInEveryRun) {
  const auto run_both = [] {
    virtual_time_loop virtual_time;
    scripted_peer a(virtual_time);
    scripted_peer b(virtual_time);
    std::string log;
    const auto read_all = [&log](gyre::io::stream& stream) -> gyre::task<> {
      std::string room(1, '\0');
      while (co_await stream.read_some(bytes_of(room)) > 0) log += room;
    };
    a.send("a").wait(2ms).send("a").end();
    b.send("b").wait(1ms).send("b").wait(2ms).send("b").end();
    auto to_a = a.connect();
    auto to_b = b.connect();
    auto both = gyre::when_all(read_all(to_a), read_all(to_b));
    virtual_time.run(std::move(both));
    return log;
  };
  EXPECT_EQ(run_both(), "abbab");
  EXPECT_EQ(run_both(), "abbab");
}

TEST_F(ScriptedPeer, ACoroutineMayOwnThePeerAndTheStream) {
  virtual_time_.run([](virtual_time_loop<>& where) -> gyre::task<> {
    scripted_peer own(where);
    own.wait(1s).send("abc").end();
    auto stream = own.connect();
    co_await echo(stream);
    EXPECT_EQ(own.received(), "abc");
  }(virtual_time_));
}

TEST_F(ScriptedPeer, AStreamThatIsClosedWhileItWaitsEndsTheWait) {
  auto stream = peer_.connect();
  gyre::timer closing(virtual_time_.loop, [&] { stream.close(); });
  closing.start_after(1s);
  EXPECT_THROW(virtual_time_.run(echo(stream)), std::system_error);
}

TEST_F(ScriptedPeer, AfterThePeerIsGoneOperationsFail) {
  std::optional<scripted_peer> brief(std::in_place, virtual_time_);
  auto stream = brief->connect();
  brief.reset();
  EXPECT_THROW(virtual_time_.run(echo(stream)), std::system_error);
}

TEST_F(ScriptedPeer, RefusesMisuse) {
  EXPECT_THROW(peer_.take_at_most(0), std::invalid_argument);
  EXPECT_THROW(peer_.fail(std::errc()), std::invalid_argument);
  const auto stream = peer_.connect();
  EXPECT_THROW(static_cast<void>(peer_.connect()), std::logic_error);
  EXPECT_THROW(gyre::io::make_pipe(virtual_time_.loop), std::system_error);
}

}  // namespace
}  // namespace scripted_peer_test
