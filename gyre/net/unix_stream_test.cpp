// SPDX-License-Identifier: Apache-2.0
// Tests of Unix sockets for coroutines: names, stale files, and passed descriptors.
#include <gyre/net/unix_stream.hpp>

#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/net/socket.hpp>
#include <gyre/task/as_expected.hpp>
#include <gyre/task/when_all.hpp>
#include <gyre/task/with_timeout.hpp>
#include <tests/support/coroutine_sockets.hpp>
#include <tests/support/droppable.hpp>

#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <span>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace unix_stream_test {
namespace {

using namespace std::chrono_literals;
using gyre::as_expected;
using gyre::task;
using gyre::unique_fd;
using gyre::net::connect_unix;
using gyre::net::endpoint;
using gyre::net::stream_pair;
using gyre::net::unix_listener;
using gyre::net::unix_stream;
using gyre::test::error_of;

/// A temporary directory, which is removed with its contents.
class directory {
 public:
  directory() {
    std::string name = std::filesystem::temp_directory_path() / "gyre-unix-XXXXXX";
    path_ = ::mkdtemp(name.data());
  }
  directory(const directory&) = delete;
  directory& operator=(const directory&) = delete;
  ~directory() { std::filesystem::remove_all(path_); }
  std::string file(const char* name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

/// A pipe with one write end here, and others that were passed on.
struct counted_pipe {
  counted_pipe() {
    int ends[2] = {-1, -1};
    EXPECT_EQ(::pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    read_end.reset(ends[0]);
    write_end.reset(ends[1]);
  }
  // Whether all writing ends are closed.
  bool ended() const {
    char byte = 0;
    return ::read(read_end.get(), &byte, 1) == 0;
  }
  unique_fd read_end;
  unique_fd write_end;
};

TEST(UnixStream, ConnectsByPathAndByName) {
  gyre::loop loop;
  const directory here;
  const auto run = [&](endpoint where) -> task<> {
    unix_listener listener(loop, where);
    auto accepting = listener.accept();
    auto connecting = connect_unix(where);
    auto [server, client] = co_await gyre::when_all(std::move(accepting), std::move(connecting));
    EXPECT_EQ(client.credentials().process, ::getpid());
    EXPECT_EQ(client.peer_endpoint(), where);
    co_await client.write_all("hello");
    client.shutdown(gyre::net::shutdown_side::send);
    std::array<std::byte, 5> room;
    co_await server.read_exactly(room);
    EXPECT_EQ(co_await server.read_some(room), 0u);
  };
  gyre::sync_wait(loop, run(endpoint::unix_path(here.file("socket"))));
  gyre::sync_wait(loop,
                  run(endpoint::unix_abstract("gyre-stream-test-" + std::to_string(::getpid()))));
}

TEST(UnixStream, ReplacesTheFileOfAListenerThatIsGoneAndOfNoOther) {
  gyre::loop loop;
  const directory here;
  const endpoint where = endpoint::unix_path(here.file("socket"));
  const auto connect_there = [&]() -> task<> { co_await connect_unix(where); };
  EXPECT_EQ(error_of(loop, connect_there()), std::errc::no_such_file_or_directory);
  {
    unix_listener gone(loop, where);
  }
  EXPECT_EQ(error_of(loop, connect_there()), std::errc::connection_refused);
  EXPECT_THROW(unix_listener(loop, where, {.replace_stale = false}), std::system_error);
  try {
    gyre::sync_wait(loop, connect_there());
    ADD_FAILURE() << "connected";
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.what(), "connect " + where.to_string() + ": Connection refused");
  }
  unix_listener listener(loop, where);
  EXPECT_THROW(unix_listener(loop, where), std::system_error);
  EXPECT_FALSE(error_of(loop, connect_there()));
}

// Regression: the file was mistaken for a stale one, and two servers started at the same time both
// got the name.
TEST(UnixStream, KeepsTheNameOfASocketThatDoesNotListenYet) {
  gyre::loop loop;
  const directory here;
  const endpoint where = endpoint::unix_path(here.file("socket"));
  auto first =
      gyre::net::socket::open(gyre::net::address_family::local, gyre::net::socket_type::stream);
  first.bind(where);
  try {
    const unix_listener second(loop, where);
    ADD_FAILURE() << "has taken the name";
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code(), std::errc::address_in_use);
  }
  first.listen();
  EXPECT_FALSE(error_of(loop, [&]() -> task<> { co_await connect_unix(where); }()));
}

TEST(UnixStream, GivesTheFileOfAListenerThatIsGoneToOneOfThoseWhoWantIt) {
  const directory here;
  for (int round = 0; round < 50; ++round) {
    const endpoint where = endpoint::unix_path(here.file("socket"));
    const auto open = [] {
      return gyre::net::socket::open(gyre::net::address_family::local,
                                     gyre::net::socket_type::stream);
    };
    std::array sockets{open(), open()};
    std::atomic<int> bound = 0;
    std::barrier both(2);
    const auto bind = [&](const gyre::net::socket& one) {
      both.arrive_and_wait();
      try {
        gyre::net::detail::bind_listener(one, where, true);
        ++bound;
      } catch (const std::system_error& error) {
        EXPECT_EQ(error.code(), std::errc::address_in_use);
      }
    };
    {
      const std::jthread other([&] { bind(sockets[1]); });
      bind(sockets[0]);
    }
    // The sockets end with the round, and the file of the winner stays.
    ASSERT_EQ(bound, 1) << "round " << round;
  }
}

TEST(UnixStream, PassesDescriptors) {
  gyre::loop loop;
  auto [one, other] = stream_pair(loop);
  counted_pipe pipe;
  const auto run = [&](unix_stream& from, unix_stream& to) -> task<> {
    const std::string message = "with descriptors";
    const std::vector<int> fds(unix_stream::max_fds, pipe.write_end.get());
    const auto bytes = std::as_bytes(std::span(message));
    EXPECT_EQ(co_await from.send_fds(bytes, fds), message.size());
    std::array<std::byte, 100> room;
    auto got = co_await to.receive_fds(room);
    EXPECT_EQ(got.size, message.size());
    EXPECT_EQ(got.fds.size(), fds.size());
    pipe.write_end.reset();
    EXPECT_EQ(::fcntl(got.fds.front().get(), F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    EXPECT_EQ(::write(got.fds.back().get(), "x", 1), 1);
    got.fds.clear();
    char byte = 0;
    EXPECT_EQ(::read(pipe.read_end.get(), &byte, 1), 1);
    EXPECT_TRUE(pipe.ended());

    co_await from.write_all("without");
    got = co_await to.receive_fds(room);
    EXPECT_EQ(got.size, 7u);
    EXPECT_TRUE(got.fds.empty());
    from.close();
    got = co_await to.receive_fds(room);
    EXPECT_EQ(got.size, 0u);
  };
  gyre::sync_wait(loop, run(one, other));
}

TEST(UnixStream, LeaksNoDescriptorThatCannotBeTaken) {
  gyre::loop loop;
  auto [one, other] = stream_pair(loop);
  counted_pipe pipe;
  const std::vector<int> fds(10, pipe.write_end.get());
  const std::byte byte{'x'};
  std::array<std::byte, 100> room;
  // Descriptors arrive at a read that does not support them.
  gyre::sync_wait(loop, one.send_fds(std::span(&byte, 1), fds));
  gyre::sync_wait(loop, other.read_some(room));
  // More descriptors arrive than the process may open.
  gyre::sync_wait(loop, one.send_fds(std::span(&byte, 1), fds));
  ::rlimit old{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &old), 0);
  ::rlimit few = old;
  few.rlim_cur =
      static_cast<::rlim_t>(unique_fd(::open("/dev/null", O_RDONLY | O_CLOEXEC)).get() + 3);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  const auto receive = [&](unix_stream& to) -> task<> { co_await to.receive_fds(room); };
  EXPECT_EQ(error_of(loop, receive(other)), std::errc::too_many_files_open);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &old), 0);
  pipe.write_end.reset();
  EXPECT_TRUE(pipe.ended());

  const auto refused = [&](std::span<const std::byte> bytes, std::size_t count) -> task<> {
    const std::vector<int> many(count, 0);
    co_await one.send_fds(bytes, many);
  };
  EXPECT_EQ(error_of(loop, refused({}, 1)), std::errc::invalid_argument);
  EXPECT_EQ(error_of(loop, refused(std::span(&byte, 1), unix_stream::max_fds + 1)),
            std::errc::invalid_argument);
  EXPECT_EQ(error_of(loop, gyre::with_timeout(receive(other), 1ms)), std::errc::timed_out);
}

TEST(UnixStream, WaitingCoroutinesMayBeDestroyed) {
  gyre::loop loop;
  gyre::executor& here = loop;
  auto [one, other] = stream_pair(loop);
  std::array<std::byte, 8> room;
  const auto receive = [&](gyre::executor&) -> gyre::test::droppable {
    co_await one.receive_fds(room);
    ADD_FAILURE() << "went on";
  };
  receive(here).drop();
  auto waiting = receive(here);
  one.close();
  waiting.drop();
  unix_listener listener(loop,
                         endpoint::unix_abstract("gyre-destroyed-" + std::to_string(::getpid())));
  const auto accept = [&](gyre::executor&) -> gyre::test::droppable {
    co_await listener.accept();
    ADD_FAILURE() << "went on";
  };
  accept(here).drop();
  auto accepting = accept(here);
  listener.close();
  accepting.drop();
  while (loop.poll()) continue;
}

TEST(UnixStream, ListenerWithAFullBacklogRefuses) {
  gyre::loop loop;
  const endpoint where = endpoint::unix_abstract("gyre-full-" + std::to_string(::getpid()));
  unix_listener listener(loop, where, {.backlog = 1});
  const auto run = [&]() -> task<> {
    std::vector<unix_stream> waiting;
    for (int i = 0; i < 10; ++i) {
      unix_stream made = co_await connect_unix(where);
      waiting.push_back(std::move(made));
    }
  };
  EXPECT_EQ(error_of(loop, run()), std::errc::connection_refused);
}

}  // namespace
}  // namespace unix_stream_test
