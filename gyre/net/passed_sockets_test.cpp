// SPDX-License-Identifier: Apache-2.0
// Tests of listening sockets from elsewhere: from the process that started this one, and from a
// predecessor that ends.
#include <gyre/net/passed_sockets.hpp>

#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/net/callback_test_support.hpp>
#include <gyre/net/connect.hpp>
#include <gyre/net/tcp_server.hpp>
#include <gyre/runtime/loop_pool.hpp>
#include <gyre/task/as_expected.hpp>
#include <gyre/task/task.hpp>

#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace passed_sockets_test {

using namespace std::chrono_literals;
using gyre::task;
using gyre::net::endpoint;
using gyre::net::ip_address;
using gyre::net::listening_socket;
using gyre::net::passed_socket;
using gyre::net::tcp_server;
using gyre::net::tcp_server_options;

const endpoint any_port(ip_address::loopback_v4(), 0);

// Sends `name` to each client.
std::unique_ptr<tcp_server> server_called(gyre::event_loop& loop, std::string name,
                                          tcp_server_options options = {}) {
  auto made = std::make_unique<tcp_server>(loop, std::move(options));
  made->on_connection([name = std::move(name)](gyre::net::tcp_connection& peer) {
    peer.send(name);
    peer.close();
  });
  return made;
}

task<std::string> what_is_said_at(endpoint at) {
  auto connecting = gyre::net::connect(std::move(at));
  auto peer = co_await std::move(connecting);
  std::string said;
  std::array<std::byte, 64> room;
  for (;;) {
    auto reading = peer.read_some(room);
    const std::size_t count = co_await std::move(reading);
    if (count == 0) co_return said;
    said.append(reinterpret_cast<const char*>(room.data()), count);
  }
}

std::error_code error_of(gyre::loop& loop, task<> failing) {
  auto ended = gyre::sync_wait(loop, gyre::as_expected(std::move(failing)));
  return ended ? std::error_code() : ended.error();
}

TEST(PassedSockets, AreServedAsTheServersOwn) {
  gyre::loop loop;
  auto server = server_called(loop, "passed");
  gyre::net::socket made = listening_socket(any_port);
  const endpoint at = made.local_endpoint();
  const gyre::net::socket_ref listening(made.fd());
  EXPECT_FALSE(listening.no_delay());
  server->listen(std::move(made));
  EXPECT_TRUE(listening.no_delay()) << "which connections inherit";
  server->start();
  EXPECT_EQ(server->local_endpoint(), at);
  EXPECT_EQ(gyre::sync_wait(loop, what_is_said_at(at)), "passed");
}

TEST(PassedSockets, MustListen) {
  gyre::loop loop;
  tcp_server server(loop);
  const auto error_for = [&](gyre::net::socket bad) {
    try {
      server.listen(std::move(bad));
      return std::error_code();
    } catch (const std::system_error& error) {
      return error.code();
    }
  };
  using gyre::net::address_family;
  using gyre::net::socket_type;
  const auto open = [](socket_type type) {
    return gyre::net::socket::open(address_family::ipv4, type);
  };
  EXPECT_EQ(error_for(open(socket_type::stream)), std::errc::invalid_argument);
  EXPECT_EQ(error_for(open(socket_type::datagram)), std::errc::invalid_argument);
  EXPECT_EQ(error_for(gyre::net::socket(gyre::net::make_pipe().reader)), std::errc::not_a_socket);
  EXPECT_EQ(error_for(gyre::net::socket()), std::errc::bad_file_descriptor);
  EXPECT_THROW(server.listen(std::vector<gyre::net::socket>()), std::invalid_argument);
}

TEST(PassedSockets, AreAcceptedFromByEveryLoop) {
  gyre::loop_pool loops(2);
  gyre::net::tcp_server server(loops, {.strategy = gyre::net::accept_strategy::every_loop});
  server.on_connection([](gyre::net::tcp_connection& peer) {
    peer.send("x");
    peer.close();
  });
  server.listen(listening_socket(any_port));
  server.start();
  gyre::loop loop;
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(gyre::sync_wait(loop, what_is_said_at(server.local_endpoint())), "x");
  }
  gyre::sync_wait(loop, server.stop_async(5s));
}

TEST(PassedSockets, ALoopThatIsBusyLeavesConnectionsToTheOthers) {
  gyre::loop busy;
  gyre::loop idle;
  tcp_server server(std::vector<gyre::event_loop*>{&busy, &idle},
                    {.strategy = gyre::net::accept_strategy::every_loop});
  int accepted = 0;
  server.on_connection([&](gyre::net::tcp_connection& peer) {
    EXPECT_EQ(&peer.loop(), &idle);
    ++accepted;
  });
  server.listen(listening_socket(any_port));
  server.start();
  for (gyre::loop* const each : {&busy, &idle}) gyre::net::test::settle(*each);
  std::vector<gyre::net::test::peer> peers;
  for (int i = 0; i < 10; ++i) peers.emplace_back(server.local_endpoint());
  gyre::net::test::turn_until(idle, [&] { return accepted == 10; });
}

TEST(PassedSockets, ServerThatRestartsLosesNoConnection) {
  gyre::loop loop;
  auto [old_end, new_end] = gyre::net::stream_pair(loop);
  const passed_socket kept{.name = "http", .passed = listening_socket(any_port)};
  const endpoint at = kept.passed.local_endpoint();
  auto before = server_called(loop, "old");
  before->listen(copy_of(kept.passed));
  before->start();
  EXPECT_EQ(gyre::sync_wait(loop, what_is_said_at(at)), "old");

  gyre::sync_wait(loop, send_sockets(old_end, std::span(&kept, 1)));
  auto passed = gyre::sync_wait(loop, receive_sockets(new_end));
  ASSERT_EQ(passed.size(), 1u);
  EXPECT_EQ(passed[0].name, "http");
  EXPECT_EQ(passed[0].passed.local_endpoint(), at);
  gyre::sync_wait(loop, before->stop_async(5s));
  // No server accepts at present.
  const auto between = gyre::sync_wait(loop, gyre::net::connect(at));

  auto after = server_called(loop, "new");
  after->listen(std::move(passed[0].passed));
  after->start();
  EXPECT_EQ(gyre::sync_wait(loop, what_is_said_at(at)), "new");
  EXPECT_EQ(after->metrics().accepted, 2u) << "the one between as well";
}

TEST(PassedSockets, MalformedListOfSocketsIsAnError) {
  gyre::loop loop;
  auto [one, other] = gyre::net::stream_pair(loop);
  const auto receive = [&]() -> task<> {
    auto receiving = receive_sockets(other);
    co_await std::move(receiving);
  };
  const auto say = [&](std::string_view text) -> task<> {
    auto writing = one.write_all(text);
    co_await std::move(writing);
  };
  gyre::sync_wait(loop, say(std::string_view("\0\0\0\2a:", 6)));
  EXPECT_EQ(error_of(loop, receive()), std::errc::protocol_error) << "a name without a socket";
  gyre::sync_wait(loop, say("\xff\xff\xff\xff"));
  EXPECT_EQ(error_of(loop, receive()), std::errc::protocol_error) << "too many names";
  one.close();
  EXPECT_EQ(error_of(loop, receive()), std::errc::protocol_error) << "the end";
}

// A peer that is not send_sockets() may pass anything.
TEST(PassedSockets, DescriptorsOfAnotherKindAreRefusedAndClosed) {
  gyre::loop loop;
  auto [one, other] = gyre::net::stream_pair(loop);
  auto pipe = gyre::net::make_pipe();
  gyre::net::socket listening = listening_socket(any_port);
  const endpoint at = listening.local_endpoint();
  const std::array<int, 2> fds{listening.fd(), pipe.writer.get()};
  const auto pass = [&]() -> task<> {
    const std::string_view names("\0\0\0\4a:b:", 8);
    auto sending = one.send_fds(std::as_bytes(std::span(names)), fds);
    co_await std::move(sending);
  };
  gyre::sync_wait(loop, pass());
  listening.close();
  pipe.writer.reset();
  try {
    static_cast<void>(gyre::sync_wait(loop, receive_sockets(other)));
    ADD_FAILURE() << "a pipe was received as a socket";
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code(), std::errc::not_a_socket);
    EXPECT_NE(std::string_view(error.what()).find("'b'"), std::string_view::npos) << error.what();
  }
  char byte = 0;
  EXPECT_EQ(::read(pipe.reader.get(), &byte, 1), 0) << "the pipe has no writer any more";
  EXPECT_NO_THROW(static_cast<void>(listening_socket(at))) << "nor the port a listener";
}

TEST(PassedSockets, OnlySocketsCanBeSent) {
  gyre::loop loop;
  auto [one, other] = gyre::net::stream_pair(loop);
  const passed_socket bad{.name = "a", .passed = gyre::net::socket(gyre::net::make_pipe().reader)};
  const auto send = [&]() -> task<> {
    auto sending = send_sockets(one, std::span(&bad, 1));
    co_await std::move(sending);
  };
  EXPECT_EQ(error_of(loop, send()), std::errc::not_a_socket);
}

TEST(PassedSockets, NameMayHaveNoColon) {
  gyre::loop loop;
  auto [one, other] = gyre::net::stream_pair(loop);
  const passed_socket bad{.name = "a:b", .passed = listening_socket(any_port)};
  const auto send = [&]() -> task<> {
    auto sending = send_sockets(one, std::span(&bad, 1));
    co_await std::move(sending);
  };
  EXPECT_EQ(error_of(loop, send()), std::errc::invalid_argument);
}

// Runs `function` in a child, whose descriptors and environment the test may change.
template <class Function>
int status_of_child(Function function) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(function());
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

void set_environment(const std::string& process, const char* count, const char* names) {
  ::setenv("LISTEN_PID", process.c_str(), 1);
  ::setenv("LISTEN_FDS", count, 1);
  if (names != nullptr) ::setenv("LISTEN_FDNAMES", names, 1);
}

TEST(SocketsFromEnvironment, AreThoseThatTheProcessWasStartedWith) {
  EXPECT_EQ(status_of_child([] {
              gyre::net::socket one = listening_socket(any_port);
              gyre::net::socket other = listening_socket(any_port);
              const endpoint first = one.local_endpoint();
              // Above the two target numbers, so that neither overwrites the other.
              const int high_one = ::fcntl(one.fd(), F_DUPFD, 100);
              const int high_other = ::fcntl(other.fd(), F_DUPFD, 100);
              static_cast<void>(one.release().release());
              static_cast<void>(other.release().release());
              ::dup2(high_one, 3);
              ::dup2(high_other, 4);
              ::fcntl(3, F_SETFL, 0);
              set_environment(std::to_string(::getpid()), "2", "http:admin");
              const auto passed = gyre::net::sockets_from_environment();
              if (passed.size() != 2 || passed[0].name != "http" || passed[1].name != "admin") {
                return 1;
              }
              if (passed[0].passed.fd() != 3 || passed[0].passed.local_endpoint() != first)
                return 2;
              if ((::fcntl(3, F_GETFD) & FD_CLOEXEC) == 0) return 3;
              if ((::fcntl(3, F_GETFL) & O_NONBLOCK) == 0) return 4;
              if (std::getenv("LISTEN_FDS") != nullptr) return 5;
              return gyre::net::sockets_from_environment().empty() ? 0 : 6;
            }),
            0);
}

TEST(SocketsFromEnvironment, AreNoneForAnotherProcessAndErrorsForNonsense) {
  EXPECT_EQ(status_of_child([] {
              if (!gyre::net::sockets_from_environment().empty()) return 1;
              set_environment(std::to_string(::getppid()), "1", nullptr);
              if (!gyre::net::sockets_from_environment().empty()) return 2;
              int errors = 0;
              for (const char* count : {"x", "-1", "65536"}) {
                set_environment(std::to_string(::getpid()), count, nullptr);
                try {
                  static_cast<void>(gyre::net::sockets_from_environment());
                } catch (const std::system_error& error) {
                  if (error.code() == std::errc::invalid_argument) ++errors;
                }
              }
              return errors == 3 ? 0 : 3;
            }),
            0);
}

TEST(SocketsFromEnvironment, AreClosedIfOneIsNone) {
  EXPECT_EQ(status_of_child([] {
              gyre::net::socket one = listening_socket(any_port);
              auto pipe = gyre::net::make_pipe();
              const int high_one = ::fcntl(one.fd(), F_DUPFD, 100);
              const int high_pipe = ::fcntl(pipe.writer.get(), F_DUPFD, 100);
              static_cast<void>(one.release().release());
              static_cast<void>(pipe.writer.release());
              static_cast<void>(pipe.reader.release());
              ::dup2(high_one, 3);
              ::dup2(high_pipe, 4);
              set_environment(std::to_string(::getpid()), "2", "http:pipe");
              try {
                static_cast<void>(gyre::net::sockets_from_environment());
                return 1;
              } catch (const std::system_error& error) {
                if (error.code() != std::errc::not_a_socket) return 2;
              }
              return ::fcntl(3, F_GETFD) < 0 && ::fcntl(4, F_GETFD) < 0 ? 0 : 3;
            }),
            0);
}

TEST(ServerSockets, SharePortAndGetTheOptionsThatWereAskedFor) {
  gyre::loop loop;
  tcp_server_options options;
  options.reuse_port = true;
  options.sockets = {.receive_buffer = 100'000};
  auto one = server_called(loop, "one", options);
  auto other = server_called(loop, "one", options);
  one->listen(any_port);
  other->listen(one->local_endpoint());
  EXPECT_EQ(other->local_endpoint(), one->local_endpoint());
  std::size_t buffer = 0;
  one->on_connection([&](gyre::net::tcp_connection& peer) {
    buffer = gyre::net::socket_ref(peer.fd()).receive_buffer();
    peer.close();
  });
  one->start();
  other.reset();
  static_cast<void>(gyre::sync_wait(loop, what_is_said_at(one->local_endpoint())));
  EXPECT_EQ(buffer, 200'000u) << "twice what was asked for, as the kernel counts";
}

}  // namespace passed_sockets_test
