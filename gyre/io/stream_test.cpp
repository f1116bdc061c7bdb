// SPDX-License-Identifier: Apache-2.0
// Tests of coroutines that await reads and writes on a loop, and of all early ends of the waits.
#include <gyre/io/stream.hpp>

#include <gyre/exec/loop.hpp>
#include <gyre/exec/loop_thread.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/exec/timer.hpp>
#include <gyre/io/error.hpp>
#include <gyre/io/received.hpp>
#include <gyre/task/as_expected.hpp>
#include <gyre/task/invoke.hpp>
#include <gyre/task/schedule.hpp>
#include <gyre/task/shielded.hpp>
#include <gyre/task/sleep.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/task/sync_wait.hpp>
#include <gyre/task/when_all.hpp>
#include <gyre/task/when_any.hpp>
#include <gyre/task/with_timeout.hpp>
#include <gyre/testing/manual_executor.hpp>
#include <tests/support/droppable.hpp>
#include <tests/support/sanitizers.hpp>
#include <tests/support/stubborn_coroutines.hpp>

#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <coroutine>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace stream_test {
namespace {

using namespace std::chrono_literals;
using gyre::as_expected;
using gyre::inplace_stop_source;
using gyre::task;
using gyre::unique_fd;
using gyre::io::stream;
using gyre::test::droppable;

std::string_view text(std::span<const std::byte> read) {
  return {reinterpret_cast<const char*>(read.data()), read.size()};
}

struct stream_ends {
  stream one;
  stream other;
};

// Connected sockets; with small buffers they hold a few KiB.
stream_ends make_ends(gyre::event_loop& loop, bool small = false) {
  int fds[2];
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
  if (small) {
    const int size = 1;
    for (const int fd : fds) {
      EXPECT_EQ(::setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size), 0);
    }
  }
  constexpr auto kind = gyre::io::handle_kind::socket;
  return {stream(loop, unique_fd(fds[0]), kind), stream(loop, unique_fd(fds[1]), kind)};
}

void fill(stream& to) {
  const std::string much(1 << 16, 'x');
  while (::send(to.fd(), much.data(), much.size(), 0) > 0) continue;
}

std::error_code error_of(gyre::event_loop& loop, task<> work, gyre::inplace_stop_token stop = {}) {
  try {
    gyre::sync_wait(loop, std::move(work), stop);
    return {};
  } catch (const std::system_error& error) {
    return error.code();
  }
}

TEST(Stream, ReadsWhatWasWrittenUntilTheEnd) {
  gyre::loop loop;
  gyre::sync_wait(loop, gyre::invoke([&]() -> task<> {
                    auto ends = make_ends(loop);
                    EXPECT_EQ(co_await ends.one.write_all("hello, world"), 12u);
                    std::array<std::byte, 5> five;
                    EXPECT_EQ(co_await ends.other.read_exactly(five), 5u);
                    EXPECT_EQ(text(five), "hello");
                    std::array<std::byte, 100> rest;
                    const std::size_t count = co_await ends.other.read_some(rest);
                    EXPECT_EQ(text(std::span(rest).first(count)), ", world");
                    ends.one.close();
                    EXPECT_EQ(co_await ends.other.read_some(rest), 0u);
                    EXPECT_EQ(co_await ends.other.read_some(rest), 0u);
                    const auto nothing = co_await ends.other.receive();
                    EXPECT_TRUE(nothing.empty());
                  }));
}

// A task that is always pending; records the number of bytes that moved between two of its runs.
struct task_between_bytes : gyre::operation {
  explicit task_between_bytes(gyre::event_loop& on) : operation(&run), loop(on) {
    loop.post(*this);
  }
  static void run(operation& self) {
    auto& counting = static_cast<task_between_bytes&>(self);
    counting.most = std::max(counting.most, counting.moved - counting.last);
    counting.last = counting.moved;
    counting.running = counting.moved < enough;
    if (counting.running) counting.loop.post(counting);
  }
  // The share of a turn, plus the bytes that one call may move beyond it: a signal can cut a read
  // of a device short, just before the share is used up.
  static constexpr std::size_t share = 2 * (std::size_t{1} << 20);
  static constexpr std::size_t enough = 20 * share;

  gyre::event_loop& loop;
  std::size_t moved = 0;
  std::size_t last = 0;
  std::size_t most = 0;
  bool running = true;
};

TEST(Stream, APeerThatSendsWithoutEndLeavesOthersTheirTurn) {
  gyre::loop loop;
  task_between_bytes other(loop);
  gyre::sync_wait(loop, gyre::invoke([&]() -> task<> {
                    auto ends = make_ends(loop);
                    while (other.running) {
                      fill(ends.other);
                      const auto data = co_await ends.one.receive();
                      other.moved += data.size();
                    }
                  }));
  EXPECT_LE(other.most, other.share);
}

TEST(Stream, APeerThatReadsWithoutEndLeavesOthersTheirTurn) {
  gyre::loop loop;
  task_between_bytes other(loop);
  const std::string much(1 << 17, 'x');
  std::string taken(much.size(), '\0');
  gyre::sync_wait(loop, gyre::invoke([&]() -> task<> {
                    auto ends = make_ends(loop);
                    while (other.running) {
                      other.moved += co_await ends.one.write_all(much);
                      EXPECT_EQ(::recv(ends.other.fd(), taken.data(), taken.size(), MSG_WAITALL),
                                static_cast<ssize_t>(taken.size()));
                    }
                  }));
  EXPECT_LE(other.most, other.share);
}

TEST(Stream, TellsThatTheEndCameTooEarly) {
  gyre::loop loop;
  auto ends = make_ends(loop);
  std::array<std::byte, 100> room;
  const auto read = [&]() -> task<> {
    co_await ends.one.write_all("short");
    ends.one.close();
    co_await ends.other.read_exactly(room);
  };
  EXPECT_EQ(error_of(loop, read()), gyre::io::errc::unexpected_end);
  EXPECT_EQ(text(std::span(room).first(5)), "short");
}

TEST(Stream, APipeReadsAndWrites) {
  gyre::loop loop;
  gyre::sync_wait(loop, gyre::invoke([&]() -> task<> {
                    auto pipe = gyre::io::make_pipe(loop);
                    auto reading = pipe.read_end.receive();
                    co_await pipe.write_end.write("through a pipe");
                    const auto came = co_await reading;
                    EXPECT_EQ(came.text(), "through a pipe");
                    pipe.read_end.close();
                    std::signal(SIGPIPE, SIG_IGN);
                    auto writing = as_expected(pipe.write_end.write_all("nobody"));
                    const auto refused = co_await std::move(writing);
                    EXPECT_EQ(refused.error(), std::errc::broken_pipe);
                  }));
}

// Devices that poll(2) does not wait for, which epoll refuses.
TEST(Stream, RefusesToReadAWriteEndAndToWriteAReadEnd) {
  gyre::loop loop;
  auto [from, to] = gyre::io::make_pipe(loop);
  auto refused = [&](auto awaitable) {
    return gyre::sync_wait(loop, as_expected(std::move(awaitable))).error();
  };
  std::array<std::byte, 4> room{};
  EXPECT_EQ(refused(to.read_some(room)), std::errc::bad_file_descriptor);
  EXPECT_EQ(refused(to.read_exactly(room)), std::errc::bad_file_descriptor);
  EXPECT_EQ(refused(to.receive()), std::errc::bad_file_descriptor);
  EXPECT_EQ(refused(gyre::with_timeout(to.receive(), 1h)), std::errc::bad_file_descriptor);
  EXPECT_EQ(refused(from.write_some("text")), std::errc::bad_file_descriptor);
  EXPECT_EQ(refused(from.write_all("text")), std::errc::bad_file_descriptor);
  // The wait has told that the end takes no bytes.
  EXPECT_EQ(refused(gyre::with_timeout(from.wait_writable(), 0s)), gyre::time_limit_errc::expired);
  EXPECT_EQ(refused(from.write_all("text")), std::errc::bad_file_descriptor);
}

TEST(Stream, WaitForAWriteEndToBeReadableEndsWhenTheReadEndIsClosed) {
  gyre::loop loop;
  auto [from, to] = gyre::io::make_pipe(loop);
  auto waiting = [](stream& end) -> task<> { co_await end.wait_readable(); };
  auto closing = [](stream& end) -> task<> {
    end.close();
    co_return;
  };
  gyre::sync_wait(loop, gyre::when_all(waiting(to), closing(from)));
}

TEST(Stream, ADeviceThatIsAlwaysReadyReadsAndWrites) {
  gyre::loop loop;
  const auto open = [&](const char* path) {
    return stream(loop, unique_fd(::open(path, O_RDWR | O_CLOEXEC)));
  };
  gyre::sync_wait(loop, gyre::invoke([&]() -> task<> {
                    stream null = open("/dev/null");
                    EXPECT_EQ(co_await null.write_all("nowhere"), 7u);
                    std::array<std::byte, 100> bytes;
                    EXPECT_EQ(co_await null.read_some(bytes), 0u);
                    co_await null.wait_readable();
                    co_await null.wait_writable();
                    stream zero = open("/dev/zero");
                    bytes.fill(std::byte{1});
                    EXPECT_EQ(co_await zero.read_exactly(bytes), bytes.size());
                    EXPECT_EQ(bytes, decltype(bytes){});
                    const auto zeros = co_await zero.receive();
                    EXPECT_FALSE(zeros.empty());
                    stream full = open("/dev/full");
                    const auto refused = co_await as_expected(full.write_all("x"));
                    EXPECT_EQ(refused.error(), std::errc::no_space_on_device);
                  }));
}

TEST(Stream, AnEndlessDeviceLeavesOthersTheirTurn) {
  gyre::loop loop;
  task_between_bytes other(loop);
  gyre::sync_wait(loop, gyre::invoke([&]() -> task<> {
                    stream zero(loop, unique_fd(::open("/dev/zero", O_RDWR | O_CLOEXEC)));
                    while (other.running) {
                      const auto zeros = co_await zero.receive();
                      other.moved += zeros.size();
                    }
                  }));
  EXPECT_LE(other.most, other.share);
}

TEST(Stream, RefusesFilesDirectoriesAndBlockDevices) {
  gyre::loop loop;
  const auto refuses = [&](int fd) {
    try {
      const stream none(loop, unique_fd(fd));
      return false;
    } catch (const std::system_error& error) {
      return error.code() == std::errc::operation_not_permitted;
    }
  };
  EXPECT_TRUE(refuses(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC)));
  EXPECT_TRUE(refuses(::open("/", O_RDONLY | O_CLOEXEC)));
  const int block_device = ::open("/dev/loop0", O_RDONLY | O_CLOEXEC);
  EXPECT_TRUE(block_device < 0 || refuses(block_device));
}

TEST(Stream, CarriesMuchThroughTinyBuffersBothWaysAtOnce) {
  gyre::loop loop;
  auto ends = make_ends(loop, true);
  const std::string much = [] {
    std::string made;
    for (int i = 0; i < 40'000; ++i) made += std::to_string(i);
    return made;
  }();
  const auto write = [&](stream& to) -> task<> { co_await to.write_all(much); };
  const auto read = [&](stream& from) -> task<> {
    std::string all(much.size(), '\0');
    co_await from.read_exactly(std::as_writable_bytes(std::span(all)));
    EXPECT_TRUE(all == much);
  };
  gyre::sync_wait(
      loop, gyre::when_all(write(ends.one), write(ends.other), read(ends.one), read(ends.other)));
}

TEST(Stream, EchoesOutOfTheLoopsMemoryAndHoldsNoneOfItForASlowPeer) {
  gyre::loop loop;
  auto ends = make_ends(loop, true);
  const std::string much(1 << 20, 'm');
  std::size_t most_lent = 0;
  const auto echo = [&]() -> task<> {
    for (;;) {
      auto came = co_await ends.other.receive();
      if (came.empty()) break;
      co_await ends.other.write_all(std::move(came));
      most_lent += loop.io()->memory().lent() ? 1 : 0;
    }
    ends.other.close();
  };
  const auto client = [&]() -> task<> {
    co_await ends.one.write_all(much);
    EXPECT_EQ(::shutdown(ends.one.fd(), SHUT_WR), 0);
  };
  const auto reader = [&]() -> task<> {
    std::string all(much.size(), '\0');
    std::size_t size = 0;
    std::array<std::byte, 100> few;
    for (;;) {
      const std::size_t count = co_await ends.one.read_some(few);
      if (count == 0) break;
      EXPECT_FALSE(loop.io()->memory().lent());  // although the echo waits to write
      size += count;
    }
    EXPECT_EQ(size, much.size());
  };
  gyre::sync_wait(loop, gyre::when_all(echo(), client(), reader()));
  EXPECT_EQ(most_lent, 0u);
}

TEST(Stream, GathersManyPieces) {
  gyre::loop loop;
  auto ends = make_ends(loop, true);
  std::vector<std::string> parts;
  std::string whole;
  for (int i = 0; i < 3000; ++i) {
    parts.push_back(i % 7 == 0 ? "" : std::string(static_cast<std::size_t>(i) % 50, 'a'));
    parts.back() += std::to_string(i % 7 == 0 ? 0 : i).substr(0, i % 7 == 0 ? 0 : 9);
    whole += parts.back();
  }
  std::vector<iovec> pieces;
  for (std::string& part : parts) pieces.push_back({part.data(), part.size()});
  const auto write = [&]() -> task<> {
    EXPECT_EQ(co_await ends.one.write_all(pieces), whole.size());
    EXPECT_EQ(co_await ends.one.write_all(std::span<const iovec>()), 0u);
  };
  const auto read = [&]() -> task<> {
    std::string all(whole.size(), '\0');
    co_await ends.other.read_exactly(std::as_writable_bytes(std::span(all)));
    EXPECT_TRUE(all == whole);
  };
  gyre::sync_wait(loop, gyre::when_all(write(), read()));
}

TEST(Stream, SendsAFile) {
  gyre::loop loop;
  auto ends = make_ends(loop, true);
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::tmpfile(), &std::fclose);
  const std::string content(300'000, 'f');
  ASSERT_EQ(std::fwrite(content.data(), 1, content.size(), file.get()), content.size());
  ASSERT_EQ(std::fflush(file.get()), 0);
  const auto write = [&]() -> task<> {
    // Requests more bytes than the file has.
    EXPECT_EQ(co_await ends.one.send_file(::fileno(file.get()), 10, 1 << 20), content.size() - 10);
    ends.one.close();
  };
  const auto read = [&]() -> task<> {
    std::size_t size = 0;
    for (;;) {
      const auto came = co_await ends.other.receive();
      if (came.empty()) break;
      size += came.size();
    }
    EXPECT_EQ(size, content.size() - 10);
  };
  gyre::sync_wait(loop, gyre::when_all(write(), read()));
}

TEST(Stream, ReadsUntilADelimiter) {
  gyre::loop loop;
  gyre::sync_wait(loop, gyre::invoke([&]() -> task<> {
                    auto ends = make_ends(loop);
                    gyre::io::buffer lines;
                    auto first = ends.other.read_until(lines, "\r\n");
                    co_await ends.one.write_all("first line\r");
                    auto waiting = as_expected(gyre::with_timeout(std::move(first), 0ns));
                    const auto not_yet = co_await std::move(waiting);
                    EXPECT_EQ(not_yet.error(), std::errc::timed_out);
                    EXPECT_EQ(lines.text(), "first line\r");  // kept
                    co_await ends.one.write_all("\nsecond\r\nrest");
                    EXPECT_EQ(co_await ends.other.read_until(lines, "\r\n"), 12u);
                    lines.consume(12);
                    EXPECT_EQ(co_await ends.other.read_until(lines, "\r\n"), 8u);
                    lines.consume(8);
                    auto limited = as_expected(ends.other.read_until(lines, "\r\n", 4));
                    const auto too_long = co_await std::move(limited);
                    EXPECT_EQ(too_long.error(), gyre::io::errc::limit_exceeded);
                    ends.one.close();
                    auto last = as_expected(ends.other.read_until(lines, "\r\n"));
                    const auto ended = co_await std::move(last);
                    EXPECT_EQ(ended.error(), gyre::io::errc::unexpected_end);
                    EXPECT_EQ(lines.text(), "rest");
                  }));
}

TEST(Stream, AllowsOneReaderAndOneWriter) {
  gyre::loop loop;
  auto ends = make_ends(loop);
  std::array<std::byte, 10> room;
  const auto first = [&]() -> task<> { co_await ends.one.read_some(room); };
  const auto second = [&]() -> task<> {
    try {
      co_await ends.one.receive();
      ADD_FAILURE() << "two readers";
    } catch (const std::system_error& error) {
      EXPECT_EQ(error.code(), std::errc::operation_in_progress);
      EXPECT_EQ(error.code(), gyre::io::errc::busy);
      EXPECT_NE(std::string(error.what()).find("another coroutine"), std::string::npos);
    }
    co_await ends.one.write_all("may write");
    co_await ends.other.write_all("done");
  };
  gyre::sync_wait(loop, gyre::when_all(first(), second()));
}

TEST(Stream, RefusesWhoIsNotOnItsLoopsThread) {
  gyre::loop loop;
  gyre::loop other;
  auto ends = make_ends(loop);
  const auto read = [&]() -> task<> { co_await ends.one.receive(); };
  EXPECT_EQ(error_of(other, read()), std::errc::operation_not_permitted);
  EXPECT_EQ(error_of(other, read()), gyre::io::errc::wrong_thread);
  ends.one.close();
  EXPECT_EQ(error_of(loop, read()), std::errc::bad_file_descriptor);
  EXPECT_EQ(error_of(loop, read()), gyre::io::errc::not_open);
  stream empty;
  EXPECT_FALSE(empty.is_open());
  const auto read_nothing = [&]() -> task<> { co_await empty.receive(); };
  EXPECT_EQ(error_of(loop, read_nothing()), std::errc::bad_file_descriptor);
}

// The loop's only thread waits for an event of its own loop. The loop cancels the abandoned request
// later.
TEST(Stream, ReadByAPlainSyncWaitInATaskOfItsLoopIsReported) {
  if (!gyre::detail::checks_deadlocks || gyre::test::thread_sanitizer_is_on) {
    GTEST_SKIP() << "this build waits for ever";
  }
  gyre::loop loop;
  auto ends = make_ends(loop);
  std::error_code code;
  bool went_on = false;
  const auto read = [&]() -> task<> {
    co_await ends.one.receive();
    went_on = true;
  };
  loop.post([&] {
    try {
      gyre::sync_wait(read());
    } catch (const std::system_error& error) {
      code = error.code();
    }
  });
  EXPECT_TRUE(loop.poll());
  EXPECT_EQ(code, std::errc::resource_deadlock_would_occur);
  while (loop.poll()) {
  }
  EXPECT_FALSE(went_on);
  gyre::sync_wait(loop, ends.other.write_all("x"));
  std::string read_again;
  const auto read_after_that = [&]() -> task<> {
    const auto received = co_await ends.one.receive();
    read_again = text(received.bytes());
  };
  gyre::sync_wait(loop, read_after_that());
  EXPECT_EQ(read_again, "x");
}

TEST(Stream, CloseEndsWhoWaitsInTheNextTurn) {
  gyre::loop loop;
  auto ends = make_ends(loop, true);
  bool closing = false;
  const auto expect_cancelled = [&](task<> work) -> task<> {
    try {
      co_await std::move(work);
      ADD_FAILURE() << "not cancelled";
    } catch (const std::system_error& error) {
      EXPECT_EQ(error.code(), std::errc::operation_canceled);
      EXPECT_EQ(error.code(), gyre::io::errc::closed);
    }
    EXPECT_FALSE(closing);
  };
  const auto read = [&]() -> task<> { co_await ends.one.receive(); };
  const auto write = [&]() -> task<> { co_await ends.one.write_all(std::string(1 << 20, 'x')); };
  const auto close = [&]() -> task<> {
    closing = true;
    stream moved = std::move(ends.one);  // while they wait
    moved.close();
    moved.close();
    EXPECT_FALSE(moved.is_open());
    closing = false;
    co_return;
  };
  gyre::sync_wait(loop,
                  gyre::when_all(expect_cancelled(read()), expect_cancelled(write()), close()));
}

/// All operations that can wait, with a stream on which they wait.
class Waiting : public testing::Test {
 protected:
  Waiting() : ends_(make_ends(loop_, true)) { fill(ends_.one); }

  using operation = std::function<task<>()>;
  std::vector<operation> operations() {
    return {
        [this]() -> task<> { co_await ends_.one.read_some(room_); },
        [this]() -> task<> { co_await ends_.one.read_exactly(room_); },
        [this]() -> task<> { co_await ends_.one.receive(); },
        [this]() -> task<> { co_await ends_.one.read_until(buffer_, "\n"); },
        [this]() -> task<> { co_await ends_.one.wait_readable(); },
        [this]() -> task<> { co_await ends_.one.write_some("x"); },
        [this]() -> task<> { co_await ends_.one.write_all("x"); },
        [this]() -> task<> { co_await ends_.one.write_all(std::span<const iovec>(&piece_, 1)); },
        [this]() -> task<> { co_await ends_.one.wait_writable(); },
        [this]() -> task<> { co_await ends_.one.send_file(file_.get(), 0, 100); },
        [this]() -> task<> { co_await gyre::with_timeout(ends_.one.read_some(room_), 1h); },
        [this]() -> task<> {
          co_await gyre::with_timeout(ends_.one.send_file(file_.get(), 0, 100), 1h);
        },
    };
  }

  gyre::loop loop_;
  stream_ends ends_;
  std::array<std::byte, 10> room_{};
  gyre::io::buffer buffer_;
  iovec piece_{room_.data(), room_.size()};
  unique_fd file_{::open("/proc/self/exe", O_RDONLY | O_CLOEXEC)};
};

TEST_F(Waiting, IsEndedByAStopThatWasRequestedBefore) {
  inplace_stop_source source;
  source.request_stop();
  for (const operation& each : operations()) {
    EXPECT_EQ(error_of(loop_, each(), source.get_token()), std::errc::operation_canceled);
  }
}

TEST_F(Waiting, IsEndedByAStopOnTheLoop) {
  for (const operation& each : operations()) {
    inplace_stop_source source;
    loop_.post([&] { source.request_stop(); });
    EXPECT_EQ(error_of(loop_, each(), source.get_token()), std::errc::operation_canceled);
  }
}

TEST_F(Waiting, IsEndedByAStopOfAnotherThread) {
  for (const operation& each : operations()) {
    inplace_stop_source source;
    std::jthread stopper;
    loop_.post([&] { stopper = std::jthread([&] { source.request_stop(); }); });
    EXPECT_EQ(error_of(loop_, each(), source.get_token()), std::errc::operation_canceled);
  }
}

TEST_F(Waiting, ForInputThatHasArrivedIsEndedByNoStop) {
  inplace_stop_source source;
  const auto arrive_and_stop = [&] {
    EXPECT_EQ(::send(ends_.other.fd(), "x", 1, MSG_NOSIGNAL), 1);
    source.request_stop();
  };
  const auto wait = [&]() -> task<> { co_await ends_.one.wait_for_input(); };
  loop_.post(arrive_and_stop);
  EXPECT_EQ(error_of(loop_, wait(), source.get_token()), std::error_code()) << "while it waits";
  EXPECT_EQ(error_of(loop_, wait(), source.get_token()), std::error_code()) << "when it begins";
  char byte = 0;
  EXPECT_EQ(::recv(ends_.one.fd(), &byte, 1, 0), 1);
  EXPECT_EQ(error_of(loop_, wait(), source.get_token()), std::errc::operation_canceled);
}

TEST_F(Waiting, ThatIsStoppedEndsALoopThatLogsErrors) {
  for (const operation& each : operations()) {
    inplace_stop_source source;
    loop_.post([&] { source.request_stop(); });
    int errors = 0;
    EXPECT_EQ(error_of(loop_, gyre::test::log_errors(each, errors), source.get_token()),
              std::errc::operation_canceled);
    EXPECT_EQ(errors, 0);
  }
}

TEST_F(Waiting, GivesWayWhenItsCancellationIsSwallowedAgainAndAgain) {
  inplace_stop_source source;
  source.request_stop();
  for (const operation& each : operations()) {
    bool enough = false;
    int swallowed = 0;
    gyre::test::swallow_until_others_run(loop_, each, swallowed, enough, source.get_token());
    while (loop_.poll()) {
    }
    EXPECT_TRUE(enough);
    EXPECT_GE(swallowed, 1);
  }
}

TEST_F(Waiting, PassesACancellationThroughAsExpected) {
  inplace_stop_source source;
  source.request_stop();
  bool went_on = false;
  const auto read = [&]() -> task<> {
    auto reading = as_expected(ends_.one.read_some(room_));
    static_cast<void>(co_await std::move(reading));
    went_on = true;
  };
  EXPECT_EQ(error_of(loop_, read(), source.get_token()), std::errc::operation_canceled);
  EXPECT_FALSE(went_on);
}

TEST_F(Waiting, IsEndedByATimeout) {
  for (const operation& each : operations()) {
    EXPECT_EQ(error_of(loop_, gyre::with_timeout(each(), 1ms)), std::errc::timed_out);
  }
  const auto within = [&]() -> task<> { co_await gyre::with_timeout(ends_.one.receive(), 1ms); };
  EXPECT_EQ(error_of(loop_, within()), std::errc::timed_out);
  EXPECT_EQ(error_of(loop_, within()), gyre::time_limit_errc::expired);
  const auto write_within = [&]() -> task<> {
    co_await gyre::with_timeout(ends_.one.write_all("x"), 1ms);
  };
  EXPECT_EQ(error_of(loop_, write_within()), std::errc::timed_out);
}

// Each coroutine begins its wait a hundred ticks of the loop's timers after the one before.
TEST_F(Waiting, LimitsThatBeginInOneTurnExpireInOneTurn) {
  constexpr int count = 10;
  gyre::loop loop({.batch_time = 10s});  // on a slow machine, too, all begin in one turn
  std::vector<stream_ends> pairs;
  for (int i = 0; i < count; ++i) pairs.push_back(make_ends(loop));
  const auto limit_of = [&loop](auto begin) -> task<std::uint64_t> {
    const gyre::steady_time called = loop.now();
    while (loop.now() < called + 100us) {
    }
    auto limited = as_expected(begin());
    const auto ended = co_await std::move(limited);
    EXPECT_EQ(ended.error(), gyre::time_limit_errc::expired);
    co_return loop.metrics().turns;
  };
  std::vector<task<std::uint64_t>> reads;
  std::vector<task<std::uint64_t>> tasks;
  for (stream_ends& pair : pairs) {
    reads.push_back(limit_of([&] { return gyre::with_timeout(pair.one.wait_readable(), 3ms); }));
    tasks.push_back(limit_of([] {
      return gyre::with_timeout([]() -> task<> { co_await gyre::sleep_for(1h); }(), 3ms);
    }));
  }
  for (auto* const limited : {&reads, &tasks}) {
    const std::vector<std::uint64_t> turns =
        gyre::sync_wait(loop, gyre::when_all(std::move(*limited)));
    EXPECT_EQ(std::ranges::count(turns, turns.front()), count);
  }
}

TEST_F(Waiting, IsEndedByAWinner) {
  for (const operation& each : operations()) {
    const auto loser = [&]() -> task<> { co_await each(); };
    const auto winner = []() -> task<> { co_await gyre::yield(); };
    auto first = gyre::sync_wait(loop_, gyre::when_any(loser(), winner()));
    EXPECT_EQ(first.index, 1u);
  }
}

// A read that completed before the stop request returns its bytes; any other leaves them in the
// socket.
TEST(Stream, ReadsThatLoseARaceLoseNoBytes) {
  gyre::loop loop;
  auto ends = make_ends(loop);
  constexpr unsigned count = 1000;
  const auto write_one = [&](unsigned number) -> task<> {
    const std::array byte{static_cast<std::byte>(number)};
    co_await ends.one.write_all(byte);
    for (unsigned i = 0; i < number % 4; ++i) co_await gyre::shielded(gyre::yield());
  };
  gyre::sync_wait(loop, gyre::invoke([&]() -> task<> {
                    unsigned sent = 0;
                    unsigned received = 0;
                    while (received < count) {
                      std::array<std::byte, 8> room;
                      auto ended =
                          co_await gyre::when_any(ends.other.read_some(room), write_one(sent));
                      if (std::get<1>(ended.values)) ++sent;
                      const std::size_t read = std::get<0>(ended.values).value_or(0);
                      for (const std::byte byte : std::span(room).first(read)) {
                        EXPECT_EQ(byte, static_cast<std::byte>(received++));
                      }
                    }
                  }));
}

TEST_F(Waiting, MayBeDestroyed) {
  inplace_stop_source never;
  const auto wait = [](gyre::executor&, task<> work) -> droppable { co_await std::move(work); };
  for (const operation& each : operations()) {
    gyre::executor& here = loop_;
    droppable waits = wait(here, each());
    EXPECT_FALSE(waits.done());
    waits.drop();
  }
  // No read or write is pending any more.
  std::array<std::byte, 4096> room;
  gyre::sync_wait(loop_, ends_.other.read_some(room));
  gyre::sync_wait(loop_, ends_.other.write_all("still alive"));
  const auto came = gyre::sync_wait(loop_, ends_.one.receive());
  EXPECT_EQ(came.text(), "still alive");
}

TEST_F(Waiting, MayBeDestroyedWhenTheStreamHasJustBeenClosed) {
  inplace_stop_source never;
  const auto wait = [](gyre::executor&, gyre::inplace_stop_token, task<> work) -> droppable {
    co_await std::move(work);
    ADD_FAILURE() << "went on";
  };
  for (gyre::executor* where : {static_cast<gyre::executor*>(&loop_), &gyre::inline_executor()}) {
    for (const auto& stop : {gyre::inplace_stop_token(), never.get_token()}) {
      for (std::size_t each = 0; each < operations().size(); ++each) {
        auto ends = make_ends(loop_, true);
        fill(ends.one);
        std::swap(ends_.one, ends.one);
        droppable waits = wait(*where, stop, operations()[each]());
        EXPECT_FALSE(waits.done()) << each;
        ends_.one.close();
        waits.drop();
      }
    }
  }
  while (loop_.poll()) continue;
}

TEST(Stream, WaitingCoroutinesMayBeDestroyedAfterTheStream) {
  gyre::loop loop;
  std::array<std::byte, 1> room;
  const auto read = [&](gyre::executor&, stream& from) -> droppable {
    co_await from.read_some(room);
  };
  const auto read_within = [&](gyre::executor&, stream& from) -> droppable {
    co_await gyre::with_timeout(from.read_some(room), 1h);
  };
  struct session {
    droppable waiting;
    stream served;
  };
  gyre::executor& here = loop;
  auto ends = make_ends(loop);
  droppable one = read(here, ends.one);
  droppable other = read_within(here, ends.other);
  {
    const session first{std::move(one), std::move(ends.one)};
    const session second{std::move(other), std::move(ends.other)};
  }
  while (loop.poll()) continue;
}

TEST(Stream, CoroutineResumedByTheCloseMayDestroyTheOther) {
  gyre::loop loop;
  auto ends = make_ends(loop, true);
  fill(ends.one);
  std::optional<droppable> writing;
  std::error_code error;
  const auto read = [&](gyre::executor&) -> droppable {
    auto receiving = as_expected(ends.one.receive());
    const auto came = co_await std::move(receiving);
    error = came.error();
    writing.reset();
  };
  const auto write = [&](gyre::executor&) -> droppable {
    co_await ends.one.write_some("x");
    ADD_FAILURE() << "went on";
  };
  gyre::executor& here = loop;
  const droppable reading = read(here);
  writing.emplace(write(here));
  ends.one.close();
  EXPECT_FALSE(reading.done());
  loop.poll();
  EXPECT_TRUE(reading.done());
  EXPECT_EQ(error, std::errc::operation_canceled);
}

TEST_F(Waiting, LosesNothingToAStopThatComesWithTheBytes) {
  const int fd = ends_.other.fd();
  const auto read_one = [&]() -> task<bool> {
    try {
      co_await ends_.one.read_some(std::span(room_).first(1));
      co_return true;
    } catch (const gyre::operation_cancelled&) {
      co_return false;
    }
  };
  const auto race = [&]() -> task<> {
    for (int round = 0; round < 50; ++round) {
      inplace_stop_source source;
      auto racing = gyre::spawn_future(loop_, read_one(), source.get_token());
      co_await gyre::yield();
      std::jthread stopper([&] {
        EXPECT_EQ(::send(fd, "x", 1, 0), 1);
        source.request_stop();
      });
      while (racing.wait_for(0s) != std::future_status::ready) co_await gyre::yield();
      stopper.join();
      if (!racing.get()) co_await ends_.one.read_exactly(std::span(room_).first(1));
    }
  };
  gyre::sync_wait(loop_, race());
}

TEST(Stream, ResumesOnTheCoroutinesExecutor) {
  gyre::loop loop;
  gyre::testing::manual_executor elsewhere;
  auto ends = make_ends(loop);
  std::string got;
  const auto read = [&](gyre::executor&) -> droppable {
    const auto came = co_await ends.one.receive();
    got = came.text();
  };
  std::optional<droppable> reading;
  loop.post([&] {
    gyre::executor& where = elsewhere;
    reading.emplace(read(where));
  });
  gyre::sync_wait(loop, gyre::yield());
  gyre::sync_wait(loop, ends.other.write_all("to elsewhere"));
  while (elsewhere.pending() == 0) loop.run_once();
  EXPECT_EQ(got, "");
  elsewhere.run_all();
  EXPECT_EQ(got, "to elsewhere");
}

TEST(Stream, GoesToAnotherLoopByItsDescriptor) {
  gyre::loop loop;
  gyre::loop_thread other;
  auto ends = make_ends(loop);
  unique_fd moved = ends.other.release();
  EXPECT_FALSE(ends.other.is_open());
  const auto echo = [&]() -> task<> {
    stream there(other.loop(), std::move(moved), gyre::io::handle_kind::socket);
    auto came = co_await there.receive();
    co_await there.write_all(std::move(came));
  };
  auto echoed = gyre::spawn_future(other.loop(), echo());
  gyre::sync_wait(loop, ends.one.write_all("round"));
  const auto came = gyre::sync_wait(loop, ends.one.receive());
  EXPECT_EQ(came.text(), "round");
  echoed.get();
}

TEST(Stream, TellsWhetherAnythingHasCome) {
  gyre::loop loop;
  EXPECT_FALSE(stream().is_quiet());
  auto ends = make_ends(loop);
  EXPECT_TRUE(ends.other.is_quiet());
  gyre::sync_wait(loop, ends.one.write_all("text"));
  EXPECT_FALSE(ends.other.is_quiet());
  std::array<std::byte, 4> bytes{};
  gyre::sync_wait(loop, ends.other.read_exactly(bytes));
  EXPECT_TRUE(ends.other.is_quiet());
  ends.one.close();
  EXPECT_FALSE(ends.other.is_quiet());
  ends.other.close();
  EXPECT_FALSE(ends.other.is_quiet());
}

// Their limit is a timer of the loop, without a stop source.
static_assert(gyre::detail::expirable_operation<decltype(std::declval<stream&>().receive())>);
static_assert(gyre::detail::expirable_operation<
              decltype(std::declval<stream&>().write_all(std::declval<gyre::io::received>()))>);

// The stop has posted its operation when the limit expires, in the same turn.
TEST(Stream, AStopBeforeTheTimeLimitIsTheReason) {
  gyre::loop loop;
  auto ends = make_ends(loop);
  inplace_stop_source source;
  gyre::timer stops(loop, [&] { source.request_stop(); });
  const auto read = [&]() -> task<> {
    stops.start_after(1ms);
    co_await gyre::with_timeout(ends.one.receive(), 1ms);
  };
  EXPECT_EQ(error_of(loop, read(), source.get_token()), std::errc::operation_canceled);
}

TEST(Stream, LeavesBytesToItsNextOwnerAfterATimeLimit) {
  gyre::loop loop;
  auto ends = make_ends(loop);
  const auto none =
      gyre::sync_wait(loop, gyre::as_expected(gyre::with_timeout(ends.other.receive(), 1ms)));
  EXPECT_EQ(none.error(), std::errc::timed_out);
  gyre::sync_wait(loop, ends.one.write_all("kept"));
  loop.run_for(1ms);
  const unique_fd moved = ends.other.release();
  std::array<char, 8> bytes{};
  EXPECT_EQ(::read(moved.get(), bytes.data(), bytes.size()), 4);
}

TEST(Stream, LetsOthersRunHoweverMuchThereIsToRead) {
  gyre::loop loop;
  auto ends = make_ends(loop);
  bool stop = false;
  loop.post_after(1ms, [&] { stop = true; });
  const auto write = [&]() -> task<> {
    while (!stop) co_await ends.one.write_some("x");
    ends.one.close();
  };
  const auto read = [&]() -> task<> {
    for (;;) {
      const auto came = co_await ends.other.receive();
      if (came.empty()) break;
    }
  };
  gyre::sync_wait(loop, gyre::when_all(write(), read()));
}

}  // namespace
}  // namespace stream_test
