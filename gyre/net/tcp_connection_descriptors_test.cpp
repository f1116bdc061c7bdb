// SPDX-License-Identifier: Apache-2.0
// Tests of files and descriptors that connections with callbacks send and receive.
#include <gyre/net/tcp_connection.hpp>

#include <gyre/base/unique_fd.hpp>
#include <gyre/exec/loop.hpp>
#include <gyre/io/error.hpp>
#include <gyre/net/callback_test_support.hpp>
#include <gyre/net/tcp_server.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace tcp_connection_descriptors_test {
namespace {

using namespace gyre::net::test;
using gyre::unique_fd;
using gyre::io::input;
using gyre::net::connection_options;
using gyre::net::tcp_connection;
using gyre::net::tcp_server;
using gyre::net::tcp_server_options;

unique_fd file_with(std::string_view content) {
  unique_fd file(::memfd_create("gyre_test", MFD_CLOEXEC));
  EXPECT_EQ(::write(file.get(), content.data(), content.size()),
            static_cast<ssize_t>(content.size()));
  return file;
}

unique_fd copy_of(const unique_fd& original) {
  return unique_fd(::fcntl(original.get(), F_DUPFD_CLOEXEC, 0));
}

bool is_open(int fd) { return ::fcntl(fd, F_GETFD) >= 0; }

struct pipe_ends {
  pipe_ends() {
    std::array<int, 2> fds{};
    EXPECT_EQ(::pipe2(fds.data(), O_CLOEXEC | O_NONBLOCK), 0);
    out.reset(fds[0]);
    in.reset(fds[1]);
  }
  // Drops `in`; true if no other descriptor of the other end is open.
  bool is_at_end() {
    in.reset();
    char byte = 0;
    return ::read(out.get(), &byte, 1) == 0;
  }
  unique_fd out, in;
};

// --- Files ---

class SentFile : public testing::Test {
 protected:
  void start(connection_options options = {}) {
    server.emplace(loop, tcp_server_options{.connections = options});
    server->on_connection([this](tcp_connection& c) {
      gyre::net::socket_ref(c.fd()).set_send_buffer(200'000);
      connection = &c;
    });
    server->on_write_complete([this](tcp_connection&) { ++completions; });
    server->on_close([this](tcp_connection&, std::error_code why) {
      connection = nullptr;
      end = why;
    });
    server->listen(any_port());
    server->start();
    client.emplace(server->local_endpoint(), 4096);
    turn_until(loop, [&] { return connection != nullptr; });
  }
  // Fills the socket, so that further output must wait.
  void fill_kernel() {
    while (connection->pending_output() == 0) ASSERT_TRUE(connection->send(long_text(100'000)));
  }
  void wait_for_end() {
    turn_until(loop, [&] { return end.has_value(); });
  }

  gyre::loop loop;
  std::optional<tcp_server> server;
  tcp_connection* connection = nullptr;
  std::optional<peer> client;
  int completions = 0;
  std::optional<std::error_code> end;
};

TEST_F(SentFile, KeepsItsPlaceAmongBytes) {
  start();
  const std::string content = long_text(3'000'000);
  unique_fd file = file_with(content);
  unique_fd copy = copy_of(file);
  const int first = file.get();
  const int second = copy.get();
  EXPECT_TRUE(connection->send("head "));
  EXPECT_TRUE(connection->send_file(std::move(file), 10, 2'500'000));
  EXPECT_TRUE(connection->send(" middle "));
  EXPECT_TRUE(connection->send_file(std::move(copy), 0, 7));
  EXPECT_TRUE(connection->send_file(file_with(content), 5, 0));
  EXPECT_TRUE(connection->send(" tail"));
  EXPECT_GT(connection->pending_output(), 2 * 16'384u);
  EXPECT_LT(connection->pending_output(), 100'000u) << "it is not in memory";
  EXPECT_TRUE(is_open(first));
  EXPECT_TRUE(is_open(second));
  const std::string expected =
      "head " + content.substr(10, 2'500'000) + " middle " + content.substr(0, 7) + " tail";
  EXPECT_TRUE(client->receive(loop, expected.size()) == expected);
  settle(loop);
  EXPECT_EQ(connection->pending_output(), 0u);
  EXPECT_EQ(connection->metrics().bytes_sent, expected.size());
  EXPECT_GE(completions, 1);
  EXPECT_FALSE(is_open(first));
  EXPECT_FALSE(is_open(second));
}

TEST_F(SentFile, GoesAtOnceIfThereIsRoom) {
  start();
  EXPECT_TRUE(connection->send_file(file_with("hello"), 1, 4));
  EXPECT_EQ(connection->pending_output(), 0u);
  EXPECT_EQ(client->receive(loop, 4), "ello");
}

// The kernel may have sent a part when the answer to it, a reset, arrives within the same call.
TEST_F(SentFile, ToAPeerThatHasClosedRaisesNoSignal) {
  for (int i = 0; i < 20; ++i) {
    end.reset();
    start();
    client->close();
    connection->send_file(file_with(long_text(1'000'000)), 0, 1'000'000);
    wait_for_end();
  }
}

TEST_F(SentFile, MustBeThere) {
  start();
  pipe_ends pipe;
  EXPECT_THROW(connection->send_file(std::move(pipe.out), 0, 1), std::system_error);
  EXPECT_THROW(connection->send_file(unique_fd(), 0, 1), std::system_error);
  for (const auto& [offset, count] : std::vector<std::pair<std::uint64_t, std::uint64_t>>{
           {0, 6}, {5, 1}, {6, 0}, {1, ~std::uint64_t{0}}, {~std::uint64_t{0}, 2}}) {
    try {
      connection->send_file(file_with("hello"), offset, count);
      ADD_FAILURE() << offset << ' ' << count;
    } catch (const std::system_error& error) {
      EXPECT_EQ(error.code(), gyre::io::errc::unexpected_end);
    }
  }
  EXPECT_TRUE(connection->send("still there"));
  EXPECT_EQ(client->receive(loop, 11), "still there");
  connection->close();
  EXPECT_FALSE(connection->send_file(file_with("hello"), 0, 5));
}

TEST_F(SentFile, ThatShrinksEndsTheConnection) {
  start();
  fill_kernel();
  unique_fd file = file_with(long_text(100'000));
  EXPECT_TRUE(connection->send_file(copy_of(file), 0, 100'000));
  EXPECT_TRUE(connection->send("behind it"));
  ASSERT_EQ(::ftruncate(file.get(), 10), 0);
  client->receive(loop, std::string::npos);
  wait_for_end();
  EXPECT_EQ(*end, gyre::io::errc::unexpected_end);
  EXPECT_EQ(client->error, ECONNRESET) << "the peer must not take it for the end";
  EXPECT_EQ(client->text.find("behind it"), std::string::npos);
}

TEST_F(SentFile, IsSentBeforeTheConnectionCloses) {
  start();
  const std::string content = long_text(1'000'000);
  unique_fd file = file_with(content);
  EXPECT_TRUE(connection->send_file(std::move(file), 0, content.size()));
  connection->close();
  client->receive(loop, std::string::npos);
  EXPECT_TRUE(client->text == content);
  EXPECT_EQ(client->error, 0);
  client->close();
  wait_for_end();
  EXPECT_FALSE(*end) << end->message();
}

TEST_F(SentFile, IsClosedWithTheConnection) {
  for (const bool by_peer : {false, true}) {
    end.reset();
    start();
    fill_kernel();
    unique_fd file = file_with(long_text(1'000'000));
    const int fd = file.get();
    EXPECT_TRUE(connection->send_file(std::move(file), 0, 1'000'000));
    EXPECT_TRUE(is_open(fd));
    if (by_peer) {
      client->reset();
    } else {
      connection->abort();
    }
    wait_for_end();
    EXPECT_FALSE(is_open(fd));
    EXPECT_TRUE(*end);
  }
}

TEST_F(SentFile, CountsAsADescriptor) {
  start({.high_water = 180'000, .output_limit = 16'384 * 12 + 100'000});
  fill_kernel();
  int accepted = 0;
  while (connection->is_open() && accepted < 100) {
    if (connection->send_file(file_with("x"), 0, 1)) ++accepted;
  }
  EXPECT_GE(accepted, 6);
  EXPECT_LE(accepted, 18);
  wait_for_end();
  EXPECT_EQ(*end, std::errc::no_buffer_space);
}

TEST_F(SentFile, IsNotTooMuchAlone) {
  start({.high_water = 1000, .output_limit = 5000});
  const std::string content = long_text(2'000'000);
  EXPECT_TRUE(connection->send_file(file_with(content), 0, content.size()));
  EXPECT_GT(connection->pending_output(), 0u);
  EXPECT_TRUE(client->receive(loop, content.size()) == content);
  EXPECT_TRUE(connection->send_file(file_with("x"), 0, 1));
  client->receive(loop, content.size() + 1);
  EXPECT_FALSE(end);
}

// --- Peers that request files and read nothing ---

// Lowers the process's limit of descriptors for its lifetime.
class few_descriptors {
 public:
  explicit few_descriptors(rlim_t most) {
    EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &before_), 0);
    const rlimit few{.rlim_cur = most, .rlim_max = before_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  }
  few_descriptors(const few_descriptors&) = delete;
  few_descriptors& operator=(const few_descriptors&) = delete;
  ~few_descriptors() { EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &before_), 0); }

 private:
  rlimit before_{};
};

// A server that sends its only file for each received byte.
class ServerOfAFile : public testing::Test {
 protected:
  ServerOfAFile() {
    server.on_connection(
        [](tcp_connection& c) { gyre::net::socket_ref(c.fd()).set_send_buffer(100'000); });
    server.on_message([this](tcp_connection& c, input& in) {
      for (std::size_t requests = in.size(); requests > 0 && c.can_send(); --requests) {
        unique_fd opened = copy_of(file);
        if (!opened) {
          ++refused;
          return c.abort();
        }
        c.send_file(std::move(opened), 0, content.size());
      }
      in.consume_all();
    });
    server.on_close([this](tcp_connection&, std::error_code why) {
      if (why == std::errc::no_buffer_space) ++greedy_ended;
    });
    server.listen(any_port());
    server.start();
  }

  const std::string content = long_text(1'000'000);
  const unique_fd file = file_with(content);
  const few_descriptors few{200};
  gyre::loop loop;
  tcp_server server{loop};
  int refused = 0;
  int greedy_ended = 0;
};

TEST_F(ServerOfAFile, OutlivesPeersThatAskAgainAndAgainAndReadNothing) {
  std::size_t asked = 0;
  for (const std::size_t requests : {1000U, 100U, 5U}) {
    greedy_ended = 0;
    std::vector<peer> greedy;
    for (int i = 0; i < 8; ++i) greedy.emplace_back(server.local_endpoint(), 4096);
    for (const peer& each : greedy) each.send(std::string(requests, 'x'));
    asked += 8 * requests;
    turn_until(loop, [&] { return server.metrics().traffic.bytes_received >= asked; });
    peer modest(server.local_endpoint());
    modest.send("x");
    ++asked;
    EXPECT_TRUE(modest.receive(loop, content.size()) == content) << requests;
    EXPECT_EQ(refused, 0) << requests << ": there was no descriptor left";
    EXPECT_EQ(greedy_ended, requests > 5 ? 8 : 0) << requests;
  }
}

// A connection's first file does not count towards the limit: many concurrent downloads are no
// attack.
TEST_F(ServerOfAFile, SendsOneFileToEachOfMany) {
  std::vector<peer> many;
  for (int i = 0; i < 50; ++i) {
    many.emplace_back(server.local_endpoint(), 4096);
    many.back().send("x");
  }
  for (peer& each : many) EXPECT_TRUE(each.receive(loop, content.size()) == content);
  EXPECT_EQ(refused, 0);
}

// --- Descriptors ---

// Two servers, of which each has one end of a Unix socket.
class PassedDescriptors : public testing::Test {
 protected:
  void start(std::size_t fd_limit) {
    auto [one, other] = gyre::net::socket_pair();
    taking.emplace(loop, tcp_server_options{.connections = {.fd_limit = fd_limit}});
    taking->on_connection([this](tcp_connection& c) { taker = &c; })
        .on_message([this](tcp_connection& c, input& in) { hear(c, in); })
        .on_close([this](tcp_connection&, std::error_code why) {
          taker = nullptr;
          end = why;
        });
    passing.emplace(loop);
    passing->on_connection([this](tcp_connection& c) { passer = &c; })
        .on_close([this](tcp_connection&, std::error_code) { passer = nullptr; });
    taking->adopt(one.release());
    passing->adopt(other.release());
    turn_until(loop, [&] { return passer != nullptr && taker != nullptr; });
  }
  void hear(tcp_connection& c, input& in) {
    if (takes) {
      for (unique_fd& each : c.take_fds()) {
        places.push_back(heard.size());
        taken.push_back(std::move(each));
      }
    }
    heard += in.text();
    in.consume_all();
  }
  // Fills the socket, so that further descriptors must wait.
  void fill_kernel() {
    while (passer->pending_output() == 0) ASSERT_TRUE(passer->send(long_text(100'000)));
  }
  bool pass(std::string_view text, const unique_fd& fd) {
    const int one = fd.get();
    return passer->send_fds(text, {&one, 1});
  }
  void wait_for(std::size_t bytes) {
    turn_until(loop, [&] { return heard.size() >= bytes; });
  }

  gyre::loop loop;
  std::optional<tcp_server> taking, passing;
  tcp_connection* taker = nullptr;
  tcp_connection* passer = nullptr;
  bool takes = true;
  std::string heard;
  std::vector<unique_fd> taken;
  std::vector<std::size_t> places;  // the number of bytes received before each
  std::optional<std::error_code> end;
};

TEST_F(PassedDescriptors, AreTheSameAndClosedOnExec) {
  start(1);
  for (std::size_t i = 0; i < 3; ++i) {
    pipe_ends pipe;
    EXPECT_TRUE(pass("take it", pipe.in));
    wait_for((i + 1) * 7);
    ASSERT_EQ(taken.size(), 1u);
    EXPECT_EQ(::fcntl(taken[0].get(), F_GETFD), FD_CLOEXEC);
    ASSERT_EQ(::write(taken[0].get(), "x", 1), 1);
    char byte = 0;
    EXPECT_EQ(::read(pipe.out.get(), &byte, 1), 1);
    taken.clear();
    EXPECT_TRUE(pipe.is_at_end()) << "there is no other copy";
  }
}

TEST_F(PassedDescriptors, KeepTheirPlaceAmongBytesAndFiles) {
  start(100);
  const std::string much = long_text(1'000'000);
  pipe_ends pipe;
  std::string expected;
  std::vector<std::size_t> expected_places;
  for (int i = 0; i < 5; ++i) {
    expected += much;
    ASSERT_TRUE(passer->send(much));
    if (i == 2) {
      expected += "file";
      ASSERT_TRUE(passer->send_file(file_with("a file"), 2, 4));
    }
    expected_places.push_back(expected.size());
    expected += "with it";
    ASSERT_TRUE(pass("with it", pipe.in));
    turn_until(loop, [&] { return passer->pending_output() < 1'000'000; });
  }
  wait_for(expected.size());
  EXPECT_TRUE(heard == expected);
  ASSERT_EQ(places.size(), expected_places.size());
  for (std::size_t i = 0; i < places.size(); ++i) EXPECT_LE(places[i], expected_places[i]);
  taken.clear();
  EXPECT_TRUE(pipe.is_at_end()) << "copies that waited are closed";
}

TEST_F(PassedDescriptors, AboveTheLimitEndTheConnection) {
  start(2);
  takes = false;
  pipe_ends pipe;
  for (std::size_t i = 1; i <= 2; ++i) {
    EXPECT_TRUE(pass("x", pipe.in));
    wait_for(i);
  }
  EXPECT_FALSE(end);
  EXPECT_TRUE(pass("x", pipe.in));
  turn_until(loop, [&] { return end.has_value(); });
  EXPECT_EQ(*end, std::errc::too_many_files_open);
  EXPECT_EQ(*end, gyre::io::errc::fd_limit);
  settle(loop);
  EXPECT_TRUE(pipe.is_at_end());
}

TEST_F(PassedDescriptors, ThatNobodyTakesAreClosedWithTheConnection) {
  start(5);
  takes = false;
  pipe_ends pipe;
  EXPECT_TRUE(pass("x", pipe.in));
  wait_for(1);
  passer->close();
  turn_until(loop, [&] { return end.has_value(); });
  settle(loop);
  EXPECT_FALSE(*end);
  EXPECT_TRUE(pipe.is_at_end());
}

TEST_F(PassedDescriptors, AreClosedWhereNoneIsTaken) {
  start(0);
  pipe_ends pipe;
  EXPECT_TRUE(pass("x", pipe.in));
  EXPECT_TRUE(passer->send("y"));
  wait_for(2);
  EXPECT_EQ(heard, "xy");
  EXPECT_TRUE(taken.empty());
  EXPECT_TRUE(pipe.is_at_end());
}

TEST_F(PassedDescriptors, WaitWhileReadingIsPaused) {
  start(5);
  pipe_ends pipe;
  taker->pause_reading();
  settle(loop);
  EXPECT_TRUE(pass("x", pipe.in));
  EXPECT_TRUE(passer->send("y"));
  settle(loop);
  EXPECT_EQ(heard, "");
  taker->resume_reading();
  wait_for(2);
  EXPECT_EQ(taken.size(), 1u);
  EXPECT_TRUE(taker->send("an answer"));
  passer->abort();
  turn_until(loop, [&] { return end.has_value(); });
}

TEST_F(PassedDescriptors, AreForUnixSocketsAndGoWithBytes) {
  start(5);
  pipe_ends pipe;
  EXPECT_THROW(pass("", pipe.in), std::system_error);
  const std::vector<int> many(254, pipe.in.get());
  EXPECT_THROW(passer->send_fds("x", many), std::system_error);
  EXPECT_TRUE(passer->send_fds("x", {}));
  wait_for(1);
  passing->listen(any_port());
  passing->start();
  passer = nullptr;
  const peer client(passing->local_endpoint());
  turn_until(loop, [&] { return passer != nullptr; });
  EXPECT_THROW(pass("x", pipe.in), std::system_error);
}

TEST_F(PassedDescriptors, ThatAreNotOpenAreTheCallersErrorOnly) {
  start(5);
  pipe_ends pipe;
  const auto code_of = [&](std::span<const int> fds) {
    try {
      passer->send_fds("bad", fds);
    } catch (const std::system_error& error) {
      return error.code();
    }
    return std::error_code();
  };
  for (const bool waits : {false, true}) {
    if (waits) {
      taker->pause_reading();
      fill_kernel();
    }
    const std::size_t pending = passer->pending_output();
    unique_fd gone = copy_of(pipe.out);
    const int closed = gone.get();
    gone.reset();
    for (const int bad : {-1, closed, std::numeric_limits<int>::max()}) {
      for (const auto& fds : {std::array{bad, pipe.in.get()}, std::array{pipe.in.get(), bad}}) {
        EXPECT_EQ(code_of(fds), std::errc::bad_file_descriptor) << bad << " waits " << waits;
        ASSERT_NE(passer, nullptr);
        ASSERT_TRUE(passer->can_send());
        EXPECT_EQ(passer->pending_output(), pending);
      }
    }
    EXPECT_TRUE(pass("good", pipe.in));
    if (waits) taker->resume_reading();
    turn_until(loop, [&] { return passer->pending_output() == 0; });
    const std::size_t sent = passer->metrics().bytes_sent;
    wait_for(sent);
    EXPECT_EQ(heard.size(), sent);
    EXPECT_TRUE(heard.ends_with("good"));
    EXPECT_EQ(taken.size(), waits ? 2U : 1U);
  }
  EXPECT_FALSE(heard.contains("bad"));
  taken.clear();
  EXPECT_TRUE(pipe.is_at_end()) << "no copy was left behind";
  passer->close();
  EXPECT_EQ(code_of(std::array{-1}), std::errc::bad_file_descriptor) << "also when it is closed";
}

}  // namespace
}  // namespace tcp_connection_descriptors_test
