// SPDX-License-Identifier: Apache-2.0
// Tests of layers: what they keep between receives, and how connections of both faces drive them.
#include <gyre/net/layer.hpp>

#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/io/error.hpp>
#include <gyre/net/callback_test_support.hpp>
#include <gyre/net/detail/layer_limits.hpp>
#include <gyre/net/layered_stream.hpp>
#include <gyre/net/proxy_protocol.hpp>
#include <gyre/net/tcp_client.hpp>
#include <gyre/net/tcp_connection.hpp>
#include <gyre/net/tcp_server.hpp>
#include <gyre/net/tcp_stream.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/task/task.hpp>
#include <tests/support/coroutine_sockets.hpp>
#include <tests/support/socket_pairs.hpp>

#include <gtest/gtest.h>

#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace layer_test {
namespace {

using namespace std::chrono_literals;
using gyre::task;
using gyre::io::buffer;
using gyre::net::layer;
using gyre::net::layered_stream;
using gyre::net::tcp_connection;
using gyre::net::test::peer;
using gyre::net::test::settle;
using gyre::net::test::turn_until;
using gyre::test::error_of;
using status = layer::status;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

const std::error_code refused = std::make_error_code(std::errc::permission_denied);
const std::error_code too_late = std::make_error_code(std::errc::stream_timeout);
const std::error_code cut_off = std::make_error_code(std::errc::connection_aborted);

/// Text with signs of the protocol's own, which are no plain bytes:
/// - "^" is the handshake, which each side sends once,
/// - "?" asks for the reply "!", which the other side drops,
/// - between "(" and ")" nothing may be written,
/// - "." is the end, and "#" a failure, which is answered by "bye".
class sign_layer final : public layer {
 public:
  explicit sign_layer(bool has_handshake = true, gyre::duration limit = 10s) : limit_(limit) {
    is_established_ = !has_handshake;
  }

  status handshake() override {
    if (!std::exchange(greeted_, true)) output().append("^");
    if (unread().empty()) return status::wants_input;
    if (unread().front() != std::byte{'^'}) return refuse();
    consume(1);
    is_established_ = true;
    return status::done;
  }
  gyre::duration handshake_timeout() const noexcept override { return limit_; }
  std::error_code timeout_error() const noexcept override { return too_late; }

  status read(std::span<std::byte> room, std::size_t& count) override {
    count = 0;
    for (; count < room.size() && peek() == status::done; consume(1)) {
      room[count++] = unread().front();
    }
    return count > 0 ? status::done : peek();
  }
  status peek() override {
    for (; !why().code && !has_ended() && !unread().empty(); consume(1)) {
      switch (std::to_integer<char>(unread().front())) {
        case '?': output().append("!"); break;
        case '!': break;
        case '(': is_held_ = true; break;
        case ')': is_held_ = false; break;
        case '.': has_peer_ended_ = true; break;
        case '#': return refuse();
        default: return status::done;
      }
    }
    if (why().code) return status::failed;
    return has_ended() ? status::ended : status::wants_input;
  }
  bool may_write() const noexcept override { return !is_held_; }
  status write(std::span<const std::byte> bytes) override {
    if (why().code) return status::failed;
    output().append(bytes);
    return status::done;
  }
  void end() override {
    if (!has_announced_end()) output().append(".");
    layer::end();
  }
  std::error_code end_of_bytes() const noexcept override {
    return has_ended() ? std::error_code() : cut_off;
  }
  std::string_view stream_name() const noexcept override { return "sign_stream"; }
  std::string_view peer_name() const noexcept override { return "the other side"; }

 private:
  status refuse() {
    output().append("bye");
    return fail(refused, "no such sign");
  }

  const gyre::duration limit_;
  bool greeted_ = false;
  bool is_held_ = false;
};

// --- The state that all layers have ---

/// Gives its unread bytes three at a time.
class triples final : public layer {
 public:
  status read(std::span<std::byte> room, std::size_t& count) override {
    count = 0;
    if (peek() != status::done || room.size() < 3) return peek();
    std::ranges::copy(unread().first(3), room.begin());
    consume(count = 3);
    return status::done;
  }
  status peek() override { return unread().size() < 3 ? status::wants_input : status::done; }
  status write(std::span<const std::byte>) override { return status::done; }
  status refuse() { return fail(refused); }
};

TEST(Layer, KeepsUnreadBytesBeforeThoseThatAreFedLater) {
  triples protocol;
  buffer plain;
  std::string memory = "abcd";
  protocol.feed(bytes_of(memory));
  EXPECT_EQ(protocol.read_all(plain), status::wants_input);
  protocol.keep_unread();
  memory = "????";
  protocol.keep_unread();
  for (const std::string_view more : {"e", "", "fg"}) {
    protocol.feed(bytes_of(more));
    EXPECT_EQ(protocol.read_all(plain), status::wants_input);
    protocol.keep_unread();
  }
  EXPECT_EQ(plain.text(), "abcdef");
  EXPECT_EQ(protocol.unread().size(), 1u);
}

TEST(Layer, WithoutUnreadBytesReadsThoseThatAreFedWhereTheyAre) {
  triples protocol;
  buffer plain;
  const std::string_view memory = "abc";
  protocol.keep_unread();
  protocol.feed(bytes_of(memory));
  EXPECT_EQ(protocol.unread().data(), bytes_of(memory).data());
}

TEST(Layer, IsNeverDoneWithoutAByte) {
  triples protocol;
  std::array<std::byte, 2> room;  // too small, and triples says done all the same
  protocol.feed(bytes_of("abc"));
  std::size_t count = 1;
  EXPECT_EQ(protocol.read(room, count), status::done);
  EXPECT_EQ(protocol.take(room, count), status::wants_input);
  EXPECT_EQ(count, 0u);
}

TEST(Layer, KeepsNothingAfterAFailure) {
  triples protocol;
  protocol.feed(bytes_of("ab"));
  EXPECT_EQ(protocol.refuse(), status::failed);
  protocol.keep_unread();
  EXPECT_TRUE(protocol.unread().empty());
}

TEST(Layer, AnEndWithinAMessageIsAnError) {
  triples protocol;
  EXPECT_FALSE(protocol.end_of_bytes());
  protocol.feed(bytes_of("ab"));
  EXPECT_EQ(protocol.end_of_bytes(), gyre::io::errc::unexpected_end);
}

TEST(RecordParts, SmallPiecesShareAPartAndLargeOnesDoNot) {
  constexpr std::size_t record = gyre::net::detail::record_size;
  std::string small(10, 's');
  std::string large(record + 1, 'l');
  const auto piece = [](std::string& text) { return iovec{text.data(), text.size()}; };
  const std::array pieces{piece(small), piece(small), piece(large),
                          piece(large), piece(small), iovec{nullptr, 0}};
  const auto sizes_up_to = [&](std::size_t limit) {
    buffer room;
    gyre::net::detail::record_parts parts(pieces, room, limit);
    std::vector<std::size_t> sizes;
    for (auto part = parts.next(); !part.empty(); part = parts.next()) sizes.push_back(part.size());
    return sizes;
  };
  EXPECT_EQ(sizes_up_to(std::size_t{1} << 20),
            (std::vector{std::size_t{20}, record + 1, record + 1, std::size_t{10}}));
  EXPECT_EQ(sizes_up_to(15), (std::vector{std::size_t{15}}));
  EXPECT_EQ(sizes_up_to(20 + record), (std::vector{std::size_t{20}, record}));
}

// --- Coroutines ---

/// A stream above a sign_layer, and the other end of its socket.
struct signed_pair {
  explicit signed_pair(gyre::event_loop& loop) {
    auto [near, far] = gyre::test::unix_pair();
    other.emplace(gyre::net::socket(std::move(far)));
    other->send("^");
    gyre::sync_wait(loop, open(loop, std::move(near)));
    EXPECT_EQ(received(), "^");
  }
  std::string received() {
    other->receive();
    return std::exchange(other->text, {});
  }

  layered_stream stream;
  std::optional<peer> other;

 private:
  task<> open(gyre::event_loop& loop, gyre::unique_fd near) {
    auto opening = gyre::net::open_layer(gyre::net::tcp_stream(loop, std::move(near)),
                                         std::make_unique<sign_layer>());
    stream = co_await std::move(opening);
  }
};

task<> read_to(layered_stream& stream, std::string& text) {
  auto bytes = co_await stream.receive();
  text.append(bytes.empty() ? "<end>" : bytes.text());
}

TEST(LayeredStream, GivesPlainBytesAndSendsReplies) {
  gyre::loop loop;
  signed_pair both(loop);
  std::string text;
  both.other->send("a?b!c");
  gyre::sync_wait(loop, read_to(both.stream, text));
  EXPECT_EQ(text, "abc");
  EXPECT_EQ(both.received(), "!");
  both.other->send("d.");
  gyre::sync_wait(loop, read_to(both.stream, text));
  gyre::sync_wait(loop, read_to(both.stream, text));
  EXPECT_EQ(text, "abcd<end>");
}

TEST(LayeredStream, GivesBytesThatCameWithTheHandshake) {
  gyre::loop loop;
  auto [near, far] = gyre::test::unix_pair();
  const peer other{gyre::net::socket(std::move(far))};
  other.send("^with it");
  const auto reading = [](gyre::event_loop& on, gyre::unique_fd end) -> task<std::string> {
    auto opening = gyre::net::open_layer(gyre::net::tcp_stream(on, std::move(end)),
                                         std::make_unique<sign_layer>());
    layered_stream stream = co_await std::move(opening);
    buffer text;
    co_await stream.read_until(text, "it");
    co_return std::string(text.text());
  };
  EXPECT_EQ(gyre::sync_wait(loop, reading(loop, std::move(near))), "with it");
}

/// Runs `work` beside the test, and notes its error.
class running {
 public:
  running(gyre::event_loop& loop, task<> work) : loop_(loop) {
    gyre::spawn(loop, run(std::move(work)));
    settle(loop);
  }
  bool is_done() const noexcept { return done_; }
  std::error_code error() {
    turn_until(loop_, [&] { return done_; });
    return error_;
  }

 private:
  task<> run(task<> work) {
    try {
      co_await std::move(work);
    } catch (const std::system_error& error) {
      error_ = error.code();
    }
    done_ = true;
  }

  gyre::event_loop& loop_;
  bool done_ = false;
  std::error_code error_;
};

task<> write_to(layered_stream& stream, std::string_view text) { co_await stream.write_all(text); }

TEST(LayeredStream, AWriterReadsUntilTheLayerMayWrite) {
  gyre::loop loop;
  signed_pair both(loop);
  std::string text;
  both.other->send("a(");
  gyre::sync_wait(loop, read_to(both.stream, text));
  EXPECT_TRUE(both.stream.is_quiet());  // the layer has read the sign
  running writing(loop, write_to(both.stream, "late"));
  EXPECT_FALSE(writing.is_done());
  EXPECT_EQ(both.received(), "");
  both.other->send(")b");
  EXPECT_FALSE(writing.error());
  EXPECT_EQ(both.received(), "late");
  gyre::sync_wait(loop, read_to(both.stream, text));
  EXPECT_EQ(text, "ab");
}

TEST(LayeredStream, AWriterWaitsForTheCoroutineThatReads) {
  gyre::loop loop;
  signed_pair both(loop);
  std::string text;
  both.other->send("(");
  running reading(loop, read_to(both.stream, text));
  running writing(loop, write_to(both.stream, "late"));
  EXPECT_FALSE(writing.is_done());
  both.other->send(")b");
  EXPECT_FALSE(reading.error());
  EXPECT_FALSE(writing.error());
  EXPECT_EQ(text, "b");
  EXPECT_EQ(both.received(), "late");
}

TEST(LayeredStream, ThrowsTheErrorsOfTheLayer) {
  gyre::loop loop;
  {
    signed_pair both(loop);
    std::string text;
    both.other->send("a#");
    gyre::sync_wait(loop, read_to(both.stream, text));
    try {
      gyre::sync_wait(loop, read_to(both.stream, text));
      ADD_FAILURE() << "a failure must throw";
    } catch (const std::system_error& error) {
      EXPECT_EQ(error.code(), refused);
      EXPECT_TRUE(std::string_view(error.what())
                      .starts_with("sign_stream: receive (the other side): no such sign"))
          << error.what();
    }
    EXPECT_EQ(both.received(), "bye");
  }
  signed_pair both(loop);
  std::string text;
  both.other->send("a");
  both.other->end_sending();
  gyre::sync_wait(loop, read_to(both.stream, text));
  EXPECT_EQ(error_of(loop, read_to(both.stream, text)), cut_off);
}

TEST(LayeredStream, RefusesAPeerThatReadsNoReplies) {
  gyre::loop loop;
  auto [near, far] = gyre::test::tcp_pair(4096);
  const peer other{gyre::net::socket(std::move(far))};
  other.send("^");
  const auto reading = [](gyre::event_loop& on, gyre::unique_fd end) -> task<> {
    auto opening = gyre::net::open_layer(gyre::net::tcp_stream(on, std::move(end)),
                                         std::make_unique<sign_layer>());
    layered_stream stream = co_await std::move(opening);
    co_await stream.receive();
  };
  running flooded(loop, reading(loop, std::move(near)));
  const std::string signs(16384, '?');
  turn_until(loop, [&] {
    static_cast<void>(::send(other.fd(), signs.data(), signs.size(), MSG_DONTWAIT | MSG_NOSIGNAL));
    return flooded.is_done();
  });
  EXPECT_EQ(flooded.error(), gyre::io::errc::output_limit);
}

task<> open(gyre::event_loop& loop, gyre::unique_fd end, std::unique_ptr<layer> protocol) {
  co_await gyre::net::open_layer(gyre::net::tcp_stream(loop, std::move(end)), std::move(protocol));
}

/// Fails within the handshake, and names no error.
struct silent_refusal final : layer {
  silent_refusal() { is_established_ = false; }
  status handshake() override { return unread().empty() ? status::wants_input : status::failed; }
  status read(std::span<std::byte>, std::size_t&) override { return status::failed; }
  status peek() override { return status::failed; }
  status write(std::span<const std::byte>) override { return status::failed; }
};

TEST(LayeredStream, AFailureWithoutAnErrorIsOneAllTheSame) {
  gyre::loop loop;
  auto [near, far] = gyre::test::unix_pair();
  peer{gyre::net::socket(std::move(far))}.send("x");
  EXPECT_EQ(error_of(loop, open(loop, std::move(near), std::make_unique<silent_refusal>())),
            std::errc::protocol_error);
}

/// Never opens, and takes every end of the peer for a good one.
struct patient final : layer {
  explicit patient(int& steps) : steps_(steps) { is_established_ = false; }
  status handshake() override {
    ++steps_;
    return status::wants_input;
  }
  gyre::duration handshake_timeout() const noexcept override { return {}; }
  status read(std::span<std::byte>, std::size_t&) override { return status::wants_input; }
  status peek() override { return status::wants_input; }
  status write(std::span<const std::byte>) override { return status::done; }
  std::error_code end_of_bytes() const noexcept override { return {}; }

 private:
  int& steps_;
};

TEST(LayeredStream, AnEndWithinTheHandshakeIsAnErrorWhateverTheLayerSays) {
  gyre::loop loop;
  auto [near, far] = gyre::test::unix_pair();
  far.reset();
  int steps = 0;
  EXPECT_EQ(error_of(loop, open(loop, std::move(near), std::make_unique<patient>(steps))),
            gyre::io::errc::unexpected_end);
  EXPECT_EQ(steps, 1);
}

/// Writes down what it is called for, and when it must not be.
class noting_layer final : public layer {
 public:
  explicit noting_layer(std::string& calls, bool has_handshake) : calls_(calls) {
    is_established_ = !has_handshake;
  }
  status handshake() override {
    calls_ += is_established_ ? "handshake-again " : "handshake ";
    if (unread().empty()) return status::wants_input;
    consume(1);
    is_established_ = true;
    return status::done;
  }
  status read(std::span<std::byte>, std::size_t& count) override {
    count = 0;
    return peek();
  }
  status peek() override {
    if (!is_established_) calls_ += "early-peek ";
    if (unread().empty()) return status::wants_input;
    return fail(refused);
  }
  bool may_write() const noexcept override { return may_write_; }
  status write(std::span<const std::byte> bytes) override {
    calls_ += bytes.empty() ? "empty-write " : "write ";
    if (!may_write_ || !is_established_ || has_announced_end()) calls_ += "(forbidden) ";
    output().append(bytes);
    return status::done;
  }
  void end() override {
    calls_ += !is_established_ || why().code || !may_write_ ? "forbidden-end " : "end ";
    layer::end();
  }
  void hold() noexcept { may_write_ = false; }

 private:
  std::string& calls_;
  bool may_write_ = true;
};

task<> use(gyre::event_loop& loop, gyre::unique_fd near, bool has_handshake, std::string& calls) {
  auto opening = gyre::net::open_layer(gyre::net::tcp_stream(loop, std::move(near)),
                                       std::make_unique<noting_layer>(calls, has_handshake));
  layered_stream stream = co_await std::move(opening);
  co_await stream.write_all("");
  co_await stream.write_all("x");
  co_await stream.shutdown();
  stream.close();
}

TEST(LayeredStream, CallsTheLayerAsItsPhaseAllows) {
  gyre::loop loop;
  for (const bool has_handshake : {false, true}) {
    auto [near, far] = gyre::test::unix_pair();
    peer{gyre::net::socket(gyre::unique_fd(::dup(far.get())))}.send("^");
    std::string calls;
    gyre::sync_wait(loop, use(loop, std::move(near), has_handshake, calls));
    EXPECT_EQ(calls, has_handshake ? "handshake handshake write end " : "write end ");
  }
}

TEST(LayeredStream, ClosesWithoutAnEndWhereTheLayerMayNotSayOne) {
  gyre::loop loop;
  std::string calls;
  for (const bool fails : {false, true}) {
    auto [near, far] = gyre::test::unix_pair();
    const peer other{gyre::net::socket(std::move(far))};
    const auto closing = [](gyre::event_loop& on, gyre::unique_fd end, std::string& noted,
                            bool must_fail, const peer& sender) -> task<> {
      auto protocol = std::make_unique<noting_layer>(noted, false);
      noting_layer& held = *protocol;
      auto opening =
          gyre::net::open_layer(gyre::net::tcp_stream(on, std::move(end)), std::move(protocol));
      layered_stream stream = co_await std::move(opening);
      if (must_fail) {
        sender.send("#");
        auto waiting = stream.wait_readable();
        co_await std::move(waiting);
      } else {
        held.hold();
      }
      stream.close();
    };
    gyre::sync_wait(loop, closing(loop, std::move(near), calls, fails, other));
  }
  EXPECT_EQ(calls, "");
}

TEST(LayeredStream, AWriteFailsIfThePeerEndsBeforeTheLayerMayWrite) {
  gyre::loop loop;
  signed_pair both(loop);
  std::string text;
  both.other->send("a(");
  gyre::sync_wait(loop, read_to(both.stream, text));
  both.other->send(".");
  both.other->end_sending();
  EXPECT_EQ(error_of(loop, write_to(both.stream, "late")), gyre::io::errc::unexpected_end);
}

TEST(LayeredStream, SendsRepliesBeforeALimitIsExceeded) {
  gyre::loop loop;
  signed_pair both(loop);
  both.other->send("?0123456789abcdef");
  const auto reading = [](layered_stream& stream) -> task<> {
    buffer line;
    co_await stream.read_until(line, "\n", 10);
  };
  EXPECT_EQ(error_of(loop, reading(both.stream)), gyre::io::errc::limit_exceeded);
  both.stream.close();
  EXPECT_EQ(both.received(), "!.");
}

TEST(LayeredStream, TheHandshakeHasTheTimeLimitOfTheLayer) {
  gyre::loop loop;
  auto [near, far] = gyre::test::unix_pair();
  const auto opening = [](gyre::event_loop& on, gyre::unique_fd end) -> task<> {
    co_await gyre::net::open_layer(gyre::net::tcp_stream(on, std::move(end)),
                                   std::make_unique<sign_layer>(true, 1ms));
  };
  EXPECT_EQ(error_of(loop, opening(loop, std::move(near))), too_late);
}

TEST(LayeredStream, EndsItsSideByTheLayer) {
  gyre::loop loop;
  signed_pair both(loop);
  gyre::sync_wait(loop, [](layered_stream& stream) -> task<> {
    co_await stream.write_all("a");
    co_await stream.shutdown();
  }(both.stream));
  EXPECT_EQ(both.received(), "a.");
  EXPECT_TRUE(both.other->ended);
  EXPECT_EQ(error_of(loop, write_to(both.stream, "b")), std::errc::broken_pipe);
  both.stream.close();
  EXPECT_EQ(error_of(loop, write_to(both.stream, "b")), gyre::io::errc::not_open);
  EXPECT_THROW(gyre::sync_wait(loop,
                               [](gyre::event_loop& on) -> task<> {
                                 auto [near, far] = gyre::test::unix_pair();
                                 auto opening = gyre::net::open_layer(
                                     gyre::net::tcp_stream(on, std::move(near)), nullptr);
                                 co_await std::move(opening);
                               }(loop)),
               std::invalid_argument);
  layered_stream never_open;
  EXPECT_EQ(never_open.layer(), nullptr);
  EXPECT_THROW(static_cast<void>(never_open.loop()), std::system_error);
}

// --- Callbacks ---

class sign_transport final : public gyre::net::transport {
 public:
  explicit sign_transport(bool has_handshake) : has_handshake_(has_handshake) {}
  std::unique_ptr<layer> make_layer(std::string_view /*host*/) const override {
    return std::make_unique<sign_layer>(has_handshake_);
  }

 private:
  const bool has_handshake_;
};

gyre::net::tcp_server_options with_signs(bool has_handshake) {
  gyre::net::tcp_server_options options;
  options.transport = std::make_shared<sign_transport>(has_handshake);
  return options;
}

/// An echo server above sign_layers.
struct signed_server {
  signed_server(gyre::event_loop& loop, bool has_handshake)
      : server(loop, gyre::net::test::any_port(), with_signs(has_handshake)) {
    server.on_connection([this](tcp_connection&) { ++connections; });
    server.on_message([](tcp_connection& connection, gyre::io::input& input) {
      connection.send(input.bytes());
      input.consume_all();
    });
    server.on_close([this](tcp_connection&, std::error_code why) { end = why; });
    server.start();
  }
  int connections = 0;
  std::optional<std::error_code> end;
  gyre::net::tcp_server server;
};

TEST(ConnectionWithALayer, DeliversBytesThatCameWithTheHandshake) {
  gyre::loop loop;
  signed_server serving(loop, true);
  peer client(serving.server.local_endpoint());
  client.send("^hello?");
  EXPECT_EQ(client.receive(loop, 7), "^!hello");
  client.send(".");
  EXPECT_TRUE(client.receive_end(loop));
  EXPECT_EQ(client.text, "^!hello.");
  turn_until(loop, [&] { return serving.end.has_value(); });
  EXPECT_FALSE(*serving.end);
}

TEST(ConnectionWithALayer, BeginsAtOnceIfThereIsNoHandshake) {
  gyre::loop loop;
  signed_server serving(loop, false);
  peer client(serving.server.local_endpoint());
  turn_until(loop, [&] { return serving.connections == 1; });
  client.send("x");
  EXPECT_EQ(client.receive(loop, 1), "x");
}

TEST(ConnectionWithALayer, OutputWaitsUntilTheLayerMayWrite) {
  gyre::loop loop;
  signed_server serving(loop, false);
  peer client(serving.server.local_endpoint());
  client.send("a(");
  client.send("b");
  turn_until(loop, [&] { return serving.server.metrics().accepted == 1; });
  settle(loop);
  client.receive();
  EXPECT_LE(client.text.size(), 1u);
  client.send(")");
  EXPECT_EQ(client.receive(loop, 2), "ab");
}

TEST(ConnectionWithALayer, EndsWithTheErrorOfTheLayerAfterItsLastMessage) {
  gyre::loop loop;
  signed_server serving(loop, false);
  peer client(serving.server.local_endpoint());
  client.send("#");
  EXPECT_TRUE(client.receive_end(loop));
  EXPECT_EQ(client.text, "bye");
  turn_until(loop, [&] { return serving.end.has_value(); });
  EXPECT_EQ(*serving.end, refused);

  serving.end.reset();
  peer leaving(serving.server.local_endpoint());
  leaving.end_sending();
  turn_until(loop, [&] { return serving.end.has_value(); });
  EXPECT_EQ(*serving.end, cut_off);
}

/// A transport of a user who has forgotten the layer.
struct empty_transport final : gyre::net::transport {
  std::unique_ptr<layer> make_layer(std::string_view /*host*/) const override { return nullptr; }
};

TEST(ConnectionWithALayer, WithoutOneTheConnectionIsRefused) {
  gyre::loop loop;
  gyre::net::tcp_server_options options;
  options.transport = std::make_shared<empty_transport>();
  gyre::net::tcp_server server(loop, gyre::net::test::any_port(), options);
  server.start();
  peer visitor(server.local_endpoint());
  EXPECT_TRUE(visitor.receive_end(loop));
  EXPECT_EQ(server.metrics().failed_handshakes, 1u);
  EXPECT_EQ(server.metrics().connections, 0u);

  gyre::net::tcp_client_options of_client;
  of_client.transport = std::make_shared<empty_transport>();
  gyre::net::tcp_client client(loop, of_client);
  std::optional<std::error_code> error;
  client.on_connect_failed([&](std::error_code why, std::size_t, bool) { error = why; });
  client.connect(server.local_endpoint());
  turn_until(loop, [&] { return error.has_value(); });
  EXPECT_EQ(*error, std::errc::invalid_argument);
}

TEST(ConnectionWithALayer, AClientWithoutAHandshakeIsConnectedAtOnce) {
  gyre::loop loop;
  signed_server serving(loop, false);
  gyre::net::tcp_client_options options;
  options.transport = std::make_shared<sign_transport>(false);
  gyre::net::tcp_client client(loop, options);
  std::string text;
  client.on_connection([](tcp_connection& connection) { connection.send("hello"); });
  client.on_message([&](tcp_connection&, gyre::io::input& input) {
    text.append(input.text());
    input.consume_all();
  });
  client.connect(serving.server.local_endpoint());
  turn_until(loop, [&] { return text.size() == 5; });
  EXPECT_EQ(text, "hello");
}

/// Keeps plain bytes back until there is a block of them, or the end.
class blocks final : public layer {
 public:
  status read(std::span<std::byte>, std::size_t& count) override {
    count = 0;
    return peek();
  }
  status peek() override {
    consume(unread().size());
    return status::wants_input;
  }
  status write(std::span<const std::byte> bytes) override {
    held_.append(bytes);
    if (held_.size() >= block_size) output().append(std::exchange(held_, buffer()).bytes());
    return status::done;
  }
  void end() override {
    if (!has_announced_end()) output().append(std::exchange(held_, buffer()).bytes());
    layer::end();
  }
  static constexpr std::size_t block_size = 200'000;

 private:
  buffer held_;
};

/// Makes layers by a function.
struct made_by final : gyre::net::transport {
  explicit made_by(std::function<std::unique_ptr<layer>()> function) : make(std::move(function)) {}
  std::unique_ptr<layer> make_layer(std::string_view /*host*/) const override { return make(); }
  std::function<std::unique_ptr<layer>()> make;
};

template <class Layer>
gyre::net::tcp_server_options with() {
  gyre::net::tcp_server_options options;
  options.transport = std::make_shared<made_by>([] { return std::make_unique<Layer>(); });
  return options;
}

TEST(ConnectionWithALayer, SendsAllThoughTheLayerKeepsOutputBack) {
  gyre::loop loop;
  gyre::net::tcp_server_options options = with<blocks>();
  options.connections.output_limit = std::size_t{16} << 20;
  gyre::net::tcp_server server(loop, gyre::net::test::any_port(), options);
  const std::string text = gyre::net::test::long_text(6 * 1024 * 1024);
  server.on_connection([&](tcp_connection& connection) {
    connection.send(text);
    connection.close();
  });
  server.start();
  peer client(server.local_endpoint());
  EXPECT_TRUE(client.receive_end(loop));
  EXPECT_TRUE(client.text == text) << client.text.size();
}

/// Refuses to write, and says so to the peer.
struct unwilling final : layer {
  status read(std::span<std::byte>, std::size_t& count) override {
    count = 0;
    return status::wants_input;
  }
  status peek() override { return status::wants_input; }
  status write(std::span<const std::byte>) override {
    output().append("bye");
    return fail(refused);
  }
};

TEST(ConnectionWithALayer, SendsTheLastMessageOfALayerThatCannotWrite) {
  gyre::loop loop;
  gyre::net::tcp_server server(loop, gyre::net::test::any_port(), with<unwilling>());
  std::optional<std::error_code> end;
  server.on_connection([](tcp_connection& connection) { EXPECT_FALSE(connection.send("x")); });
  server.on_close([&](tcp_connection&, std::error_code why) { end = why; });
  server.start();
  peer client(server.local_endpoint());
  EXPECT_TRUE(client.receive_end(loop));
  EXPECT_EQ(client.text, "bye");
  turn_until(loop, [&] { return end.has_value(); });
  EXPECT_EQ(*end, refused);
}

TEST(ConnectionWithALayer, OutputThatCannotBeWrittenAnyMoreIsAnError) {
  gyre::loop loop;
  signed_server serving(loop, false);
  peer client(serving.server.local_endpoint());
  client.send("(a.");
  turn_until(loop, [&] { return serving.end.has_value(); });
  EXPECT_EQ(*serving.end, gyre::io::errc::unexpected_end);
}

/// Leaves all that it is fed.
struct hoarder final : layer {
  status read(std::span<std::byte>, std::size_t& count) override {
    count = 0;
    return status::wants_input;
  }
  status peek() override { return status::wants_input; }
  status write(std::span<const std::byte>) override { return status::done; }
};

TEST(ConnectionWithALayer, BytesThatTheLayerLeavesHaveTheLimitOfInput) {
  gyre::loop loop;
  gyre::net::tcp_server_options options = with<hoarder>();
  options.connections.input_limit = 10'000;
  gyre::net::tcp_server server(loop, gyre::net::test::any_port(), options);
  std::optional<std::error_code> end;
  server.on_close([&](tcp_connection&, std::error_code why) { end = why; });
  server.start();
  peer client(server.local_endpoint());
  client.send(std::string(5'000, 'x'));
  turn_until(loop, [&] { return server.metrics().traffic.bytes_received == 5'000; });
  client.send(std::string(5'001, 'x'));
  turn_until(loop, [&] { return end.has_value(); });
  EXPECT_EQ(*end, gyre::io::errc::input_limit);
}

TEST(ConnectionWithALayer, AFailureWithoutAnErrorRefusesTheConnection) {
  gyre::loop loop;
  gyre::net::tcp_server server(loop, gyre::net::test::any_port(), with<silent_refusal>());
  server.on_connection([](tcp_connection&) { ADD_FAILURE() << "the handshake has failed"; });
  server.start();
  peer client(server.local_endpoint());
  client.send("intruder");
  turn_until(loop, [&] { return server.metrics().failed_handshakes == 1; });
  EXPECT_EQ(server.metrics().connections, 0u);
}

TEST(ConnectionWithALayer, ATransportThatThrowsLeavesNoTrace) {
  std::vector<std::string> thrown;
  gyre::loop loop({.on_exception = [&](const std::exception_ptr& error) {
    try {
      std::rethrow_exception(error);
    } catch (const std::exception& failure) {
      thrown.emplace_back(failure.what());
    }
  }});
  gyre::net::tcp_server_options options;
  options.proxy_protocol.trusted = [first = true](const gyre::net::endpoint&) mutable {
    return std::exchange(first, false);
  };
  options.transport = std::make_shared<made_by>([first = true]() mutable -> std::unique_ptr<layer> {
    if (std::exchange(first, false)) throw std::runtime_error("no layer today");
    return std::make_unique<sign_layer>(false);
  });
  gyre::net::tcp_server server(loop, gyre::net::test::any_port(), options);
  std::vector<bool> came_by_proxy;
  server.on_connection([&](tcp_connection& connection) {
    came_by_proxy.push_back(connection.context<gyre::net::proxy_header>() != nullptr);
  });
  server.start();
  peer first(server.local_endpoint());
  first.send("PROXY TCP4 192.0.2.1 198.51.100.2 1234 443\r\n");
  turn_until(loop, [&] { return !thrown.empty(); });
  EXPECT_EQ(thrown, std::vector<std::string>{"no layer today"});
  EXPECT_EQ(server.metrics().connections, 0u);
  const peer second(server.local_endpoint());
  turn_until(loop, [&] { return !came_by_proxy.empty(); });
  EXPECT_EQ(came_by_proxy, std::vector{false});
  EXPECT_EQ(server.metrics().connections, 1u);
}

TEST(ConnectionWithALayer, AClientsTransportThatThrowsIsNoLackOfMemory) {
  gyre::loop loop;
  gyre::net::tcp_server server(loop, gyre::net::test::any_port());
  server.start();
  const auto error_of = [&](const std::function<void()>& fail) {
    gyre::net::tcp_client_options options;
    options.transport = std::make_shared<made_by>([&]() -> std::unique_ptr<layer> {
      fail();
      return nullptr;
    });
    gyre::net::tcp_client client(loop, options);
    std::optional<std::error_code> error;
    client.on_connect_failed([&](std::error_code why, std::size_t, bool) { error = why; });
    client.connect(server.local_endpoint());
    turn_until(loop, [&] { return error.has_value(); });
    return *error;
  };
  EXPECT_EQ(error_of([] { throw std::runtime_error("no"); }), std::errc::protocol_error);
  EXPECT_EQ(error_of([] { throw 1; }), std::errc::protocol_error);
  EXPECT_EQ(error_of([] { throw std::bad_alloc(); }), std::errc::not_enough_memory);
  EXPECT_EQ(error_of([] { throw std::system_error(refused); }), refused);
}

TEST(ConnectionWithALayer, CountsBytesThatCameWithTheHandshake) {
  gyre::loop loop;
  signed_server serving(loop, true);
  peer client(serving.server.local_endpoint());
  client.send("^hello");
  EXPECT_EQ(client.receive(loop, 6), "^hello");
  EXPECT_EQ(serving.server.metrics().traffic.bytes_received, 5u);
}

}  // namespace
}  // namespace layer_test
