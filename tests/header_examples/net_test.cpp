// SPDX-License-Identifier: Apache-2.0
// The examples in the comments of net's headers about streams and their servers.
#include <gyre/gyre.hpp>
#include <tests/header_examples/support.hpp>

#include <gtest/gtest.h>

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

namespace net_test {
namespace {

using header_examples::any_port;
using header_examples::listening_already;
using header_examples::own_directory;
using header_examples::seen_enough;

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Sends `text`, shuts down sending, and returns everything that arrives.
template <class Stream>
gyre::task<std::string> talk(Stream& peer, std::string_view text) {
  co_await peer.write_all(text);
  peer.shutdown(gyre::net::shutdown_side::send);
  std::string said;
  std::array<std::byte, 64> room;
  for (;;) {
    const std::size_t count = co_await peer.read_some(room);
    if (count == 0) co_return said;
    said += text_of(std::span(room).first(count));
  }
}

gyre::task<std::string> talk_to(gyre::net::endpoint server, std::string_view text) {
  auto connecting = gyre::net::connect(std::move(server));
  gyre::net::tcp_stream peer = co_await std::move(connecting);
  co_return co_await talk(peer, text);
}

// gyre/net/framing.hpp
std::string handled;
void handle(std::span<const std::byte> line) { handled += text_of(line) + ";"; }

TEST(NetExamples, FramingFindsLines) {
  handled.clear();
  gyre::loop loop;
  gyre::net::tcp_server server(loop);
  // clang-format off
  server.on_connection([](gyre::net::tcp_connection& connection) {
    connection.context() = gyre::net::delimited("\r\n");  // each connection has its own
  });
  server.on_message([](gyre::net::tcp_connection& connection, gyre::io::input& input) {
    const std::error_code error = gyre::net::for_each_frame(
        *connection.context<gyre::net::delimited>(), input,
        [](std::span<const std::byte> line) { handle(line); });
    if (error) connection.close();  // a line is too long
  });
  // clang-format on
  server.listen(any_port());
  server.start();
  gyre::sync_wait(loop, talk_to(server.local_endpoint(), "one\r\ntwo\r\n"));
  EXPECT_EQ(handled, "one;two;");
}

TEST(NetExamples, FramingPutsLengthsInFront) {
  const std::string_view payload = "hello";
  gyre::net::length_prefixed packets({.width = 2, .maximum = 1200});
  gyre::io::buffer out;
  packets.encode(out, payload);
  EXPECT_EQ(out.text(), std::string_view("\0\5hello", 7));
}

// gyre/net/framed.hpp
gyre::task<> echo_lines(gyre::net::unix_stream peer) {
  gyre::net::framed lines(std::move(peer), gyre::net::delimited("\n"));
  while (auto line = co_await lines.next()) {  // a std::string_view
    co_await lines.send(*line);
  }
}

TEST(NetExamples, FramedEchoesLines) {
  gyre::loop loop;
  auto [left, right] = gyre::net::stream_pair(loop);
  std::string said;
  const auto ask = [&said](gyre::net::unix_stream to) -> gyre::task<> {
    said = co_await talk(to, "one\ntwo\n");
  };
  gyre::sync_wait(loop, gyre::when_all(echo_lines(std::move(left)), ask(std::move(right))));
  EXPECT_EQ(said, "one\ntwo\n");
}

// gyre/net/connection_pool.hpp
gyre::task<> greet(gyre::net::tcp_listener& listener) {
  auto peer = co_await listener.accept();
  const auto hello = co_await peer.receive();
  co_await peer.write_all(hello.text());
}

TEST(NetExamples, ConnectionPoolIsGivenAConnectionBack) {
  gyre::loop loop;
  gyre::net::tcp_listener listener(loop, any_port());
  const std::string server = listener.local_endpoint().to_string();
  // clang-format off
  gyre::net::connection_pool pool(loop, server, {.max_open = 8});  // such as "localhost:7000"
  const auto ask = [&]() -> gyre::task<> {
    auto connection = co_await pool.acquire();
    co_await connection->write_all("hello\n");
    auto reply = co_await connection->receive();
    connection.give_back();  // else it is closed: after an exception its state is unknown
    EXPECT_EQ(reply.text(), "hello\n");
  };
  // clang-format on
  gyre::sync_wait(loop, gyre::when_all(greet(listener), ask()));
}

// gyre/net/reconnecting_client.hpp
namespace reconnecting {

using lines = gyre::net::framed<gyre::net::delimited, gyre::net::tcp_stream>;

gyre::task<std::string> ask_for(lines& peer, std::string word) {
  co_await peer.send(word);
  const auto answer = co_await peer.next();
  co_return std::string(answer.value_or(""));
}

gyre::task<lines> log_in(gyre::net::tcp_stream connected) {
  lines peer(std::move(connected), gyre::net::delimited("\n"));
  EXPECT_EQ(co_await ask_for(peer, "my name"), "my name");
  co_return peer;
}

gyre::task<> echo_words(gyre::net::tcp_listener& listener) {
  lines peer(co_await listener.accept(), gyre::net::delimited("\n"));
  while (auto word = co_await peer.next()) co_await peer.send(*word);
}

TEST(NetExamples, ReconnectingClientAsks) {
  gyre::loop loop;
  gyre::net::tcp_listener listener(loop, any_port());
  const std::string server = listener.local_endpoint().to_string();
  // clang-format off
  gyre::net::reconnecting_client client(loop, server, log_in);  // task<lines> log_in(tcp_stream)
  const auto use = [&]() -> gyre::task<> {
    auto ask = [](lines& peer) { return ask_for(peer, "version"); };
    std::string version = co_await client.call_idempotent(ask);
    co_await client.stop();
    EXPECT_EQ(version, "version");
  };
  // clang-format on
  gyre::sync_wait(loop, gyre::when_all(echo_words(listener), use()));
}

}  // namespace reconnecting

// gyre/net/passed_sockets.hpp
TEST(NetExamples, PassedSocketsAreServed) {
  const int first_passed = 3;
  const gyre::unique_fd before(::fcntl(first_passed, F_DUPFD_CLOEXEC, 10));
  gyre::net::socket listening = gyre::net::listening_socket(any_port());
  const gyre::net::endpoint at = listening.local_endpoint();
  ASSERT_EQ(::dup2(listening.fd(), first_passed), first_passed);
  if (listening.fd() == first_passed) static_cast<void>(listening.release().release());
  ::setenv("LISTEN_PID", std::to_string(::getpid()).c_str(), 1);
  ::setenv("LISTEN_FDS", "1", 1);
  {
    gyre::loop loop;
    gyre::net::tcp_server server(loop);
    server.on_connection([](gyre::net::tcp_connection& peer) {
      peer.send("hello");
      peer.close();
    });
    for (auto& one : gyre::net::sockets_from_environment()) server.listen(std::move(one.passed));
    listening.close();
    server.start();
    EXPECT_EQ(gyre::sync_wait(loop, talk_to(at, "")), "hello");
  }
  if (before) ::dup2(before.get(), first_passed);
}

// gyre/net/proxy_protocol.hpp
std::string logged;
void log(const gyre::net::endpoint& client) { logged = client.to_string(); }

TEST(NetExamples, ProxyProtocolTellsTheClient) {
  logged.clear();
  gyre::loop loop;
  const auto comes_from_our_proxy = [](const gyre::net::endpoint&) { return true; };
  gyre::net::tcp_server server(loop, {.proxy_protocol = {.trusted = comes_from_our_proxy}});
  server.on_connection([](gyre::net::tcp_connection& peer) {
    log(peer.peer_endpoint());  // the client's, not the proxy's
  });
  server.listen(any_port());
  server.start();
  gyre::sync_wait(loop,
                  talk_to(server.local_endpoint(), "PROXY TCP4 192.0.2.1 192.0.2.2 17 7\r\n"));
  EXPECT_EQ(logged, "192.0.2.1:17");
}

// gyre/net/read_frame.hpp
gyre::task<> read_lines(gyre::io::stream& stream) {
  gyre::net::delimited lines("\r\n");
  gyre::io::buffer held;
  while (auto line = co_await gyre::net::read_frame(stream, lines, held)) handle(*line);
}

TEST(NetExamples, ReadFrameReadsLines) {
  handled.clear();
  gyre::loop loop;
  auto [left, right] = gyre::net::stream_pair(loop);
  const auto send = [](gyre::net::unix_stream to) -> gyre::task<> {
    co_await to.write_all("one\r\ntwo\r\n");
  };
  gyre::sync_wait(loop, gyre::when_all(send(std::move(left)), read_lines(right)));
  EXPECT_EQ(handled, "one;two;");
}

// gyre/net/tcp_client.hpp
std::string received;

TEST(NetExamples, TcpClientSpeaksWhenItIsConnected) {
  received.clear();
  gyre::loop loop;
  gyre::net::tcp_server echo(loop);
  echo.on_message([](gyre::net::tcp_connection& connection, gyre::io::input& input) {
    connection.send(input.bytes());
    input.consume_all();
  });
  echo.listen(any_port());
  echo.start();
  const std::string server = echo.local_endpoint().to_string();
  // clang-format off
  gyre::net::tcp_client client(loop, server, {.reconnect = true});  // such as "localhost:7000"
  client.on_connection([](gyre::net::tcp_connection& up) { up.send("hello\n"); });
  client.on_message([](gyre::net::tcp_connection&, gyre::io::input& input) { received = input.text(); });
  client.connect();
  // clang-format on
  while (received != "hello\n") loop.run_once();
}

// gyre/net/tcp_connection.hpp
TEST(NetExamples, TcpConnectionEchoes) {
  gyre::loop loop;
  gyre::net::tcp_server server(loop);
  server.on_message([](gyre::net::tcp_connection& connection, gyre::io::input& input) {
    connection.send(input.bytes());  // echo: one recv, one send, nothing allocated or copied
    input.consume_all();
  });
  server.listen(any_port());
  server.start();
  EXPECT_EQ(gyre::sync_wait(loop, talk_to(server.local_endpoint(), "hello")), "hello");
}

// gyre/net/tcp_connection_ref.hpp
TEST(NetExamples, TcpConnectionRefSendsFromAnyThread) {
  gyre::loop loop;
  std::jthread worker;
  gyre::net::tcp_server server(loop);
  // The peer ends its side at once: the connection is to stay until it has its reply.
  server.on_peer_ended([](gyre::net::tcp_connection&) {});
  server.on_write_complete([](gyre::net::tcp_connection& connection) { connection.close(); });
  server.on_message([&](gyre::net::tcp_connection& connection, gyre::io::input& input) {
    input.consume_all();
    // clang-format off
    gyre::net::tcp_connection_ref peer = connection.ref();  // on the loop's thread
    worker = std::jthread([peer] { peer.send("done"); });   // from any thread
    // clang-format on
  });
  server.listen(any_port());
  server.start();
  EXPECT_EQ(gyre::sync_wait(loop, talk_to(server.local_endpoint(), "work")), "done");
}

// gyre/net/released_connection.hpp
gyre::task<> serve_taken(gyre::loop& loop, gyre::net::released_connection taken) {
  gyre::net::tcp_stream stream(loop, std::move(taken.socket));
  co_await stream.write_all(taken.received.bytes());
}

TEST(NetExamples, ReleasedConnectionGoesToACoroutine) {
  gyre::loop loop;
  gyre::net::tcp_server server(loop);
  server.on_message([&](gyre::net::tcp_connection& peer, gyre::io::input& input) {
    gyre::net::released_connection taken = peer.release(input.bytes());
    gyre::spawn(loop, serve_taken(loop, std::move(taken)));  // by a coroutine from now on
  });
  server.listen(any_port());
  server.start();
  EXPECT_EQ(gyre::sync_wait(loop, talk_to(server.local_endpoint(), "hello")), "hello");
}

// gyre/net/tcp_listener.hpp
gyre::task<> accept_for_ever(gyre::event_loop& loop, listening_already& at) {
  const auto serve = [](gyre::net::tcp_stream peer) -> gyre::task<> {
    EXPECT_TRUE(peer.is_open());
    throw seen_enough();
    co_return;
  };
  const auto accept = [&](gyre::scope& scope) -> gyre::task<> {
    gyre::net::tcp_listener listener(loop, at);  // such as ":7000"
    for (;;) {
      auto peer = co_await listener.accept();
      scope.spawn(serve(std::move(peer)));
    }
  };
  co_await gyre::with_scope(std::cref(accept));
}

TEST(NetExamples, TcpListenerAccepts) {
  gyre::loop loop;
  listening_already at;
  const gyre::net::endpoint where = at.where();
  EXPECT_THROW(
      gyre::sync_wait(loop, gyre::when_all(accept_for_ever(loop, at), talk_to(where, "hello"))),
      seen_enough);
}

// gyre/net/tcp_server.hpp
gyre::task<> talk_and_stop(gyre::loop& loop, gyre::net::endpoint server, std::string& said) {
  gyre::net::unix_stream peer = co_await gyre::net::connect_unix(std::move(server));
  said = co_await talk(peer, "hello");
  loop.stop();
}

TEST(NetExamples, TcpServerEchoes) {
  const own_directory directory;
  const auto at = gyre::net::endpoint::unix_path(directory.file("echo"));
  gyre::loop loop;
  std::string said;
  gyre::spawn(loop, talk_and_stop(loop, at, said));          // begins when the loop runs
  gyre::net::tcp_server server(loop, at, {.name = "echo"});  // such as ":7000"
  server.on_message([](gyre::net::tcp_connection& connection, gyre::io::input& input) {
    connection.send(input.bytes());
    input.consume_all();
  });
  server.start();
  loop.run();
  EXPECT_EQ(said, "hello");
}

// gyre/net/tcp_stream.hpp
gyre::task<std::string> say_hello(gyre::net::endpoint server) {
  auto peer = co_await gyre::net::connect(server);  // an endpoint
  co_await peer.write_all("hello\n");
  peer.shutdown(gyre::net::shutdown_side::send);
  auto reply = co_await peer.receive();
  co_return text_of(reply.bytes());
}

TEST(NetExamples, TcpStreamGetsAReply) {
  gyre::loop loop;
  gyre::net::tcp_server server(loop);
  server.on_message([](gyre::net::tcp_connection& connection, gyre::io::input& input) {
    input.consume_all();
    connection.send("welcome");
  });
  server.listen(any_port());
  server.start();
  EXPECT_EQ(gyre::sync_wait(loop, say_hello(server.local_endpoint())), "welcome");
}

// gyre/net/layer.hpp
std::byte masked(std::byte plain) { return plain ^ std::byte{0x55}; }

class mask final : public gyre::net::layer {
 public:
  status read(std::span<std::byte> room, std::size_t& count) override {
    count = std::min(room.size(), unread().size());
    std::ranges::transform(unread().first(count), room.begin(), masked);
    consume(count);
    return count > 0 ? status::done : status::wants_input;
  }
  status peek() override { return unread().empty() ? status::wants_input : status::done; }
  status write(std::span<const std::byte> bytes) override {
    std::ranges::transform(bytes, output().prepare(bytes.size()).begin(), masked);
    output().commit(bytes.size());
    return status::done;
  }
};

// gyre/net/layered_stream.hpp
gyre::task<std::string> talk_masked(gyre::net::endpoint server) {
  auto peer = co_await gyre::net::connect(server);
  auto stream = co_await gyre::net::open_layer(std::move(peer), std::make_unique<mask>());
  co_await stream.write_all("hello\n");
  auto reply = co_await stream.receive();
  co_return text_of(reply.bytes());
}

TEST(NetExamples, ALayerMasksBothDirections) {
  gyre::loop loop;
  gyre::net::tcp_server server(loop);
  server.on_message([](gyre::net::tcp_connection& connection, gyre::io::input& input) {
    EXPECT_EQ(input.text().find("hello"), std::string_view::npos);
    connection.send(input.bytes());
    input.consume_all();
  });
  server.listen(any_port());
  server.start();
  EXPECT_EQ(gyre::sync_wait(loop, talk_masked(server.local_endpoint())), "hello\n");
}

// gyre/net/unix_stream.hpp
gyre::task<std::size_t> accept_fds(gyre::loop& loop, const std::string& path) {
  std::array<std::byte, 16> room;
  const std::string at = "unix:" + path;
  gyre::net::unix_listener listener(loop, at);  // such as "unix:/run/service.sock"
  auto peer = co_await listener.accept();
  auto message = co_await peer.receive_fds(room);
  co_return message.fds.size();
}

gyre::task<> send_fd(const std::string& path) {
  gyre::net::unix_stream peer =
      co_await gyre::net::connect_unix(gyre::net::endpoint::unix_path(path));
  const std::array<int, 1> fds{peer.fd()};
  const std::array<std::byte, 1> byte{};
  auto sending = peer.send_fds(byte, fds);
  co_await std::move(sending);
}

TEST(NetExamples, UnixStreamPassesDescriptors) {
  const own_directory directory;
  const std::string path = directory.file("service.sock");
  gyre::loop loop;
  auto [received_fds, nothing] =
      gyre::sync_wait(loop, gyre::when_all(accept_fds(loop, path), send_fd(path)));
  EXPECT_EQ(received_fds, 1U);
}

}  // namespace
}  // namespace net_test
