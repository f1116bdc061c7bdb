// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/framed.hpp>

#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/net/connect.hpp>
#include <gyre/net/tcp_listener.hpp>
#include <gyre/net/unix_stream.hpp>
#include <gyre/task/as_expected.hpp>
#include <gyre/task/schedule.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/task/when_all.hpp>
#include <gyre/task/with_timeout.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <concepts>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace framed_test {
namespace {

using namespace std::chrono_literals;
using namespace std::string_view_literals;
using gyre::as_expected;
using gyre::task;
using gyre::io::errc;
using gyre::net::delimited;
using gyre::net::fixed;
using gyre::net::framed;
using gyre::net::length_prefixed;
using gyre::net::unix_stream;
using testing::ElementsAre;

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

template <class Framed>
task<std::vector<std::string>> all_messages(Framed& from) {
  std::vector<std::string> all;
  for (;;) {
    auto receiving = from.template next<std::string_view>();
    const auto message = co_await std::move(receiving);
    if (!message) co_return all;
    all.emplace_back(*message);
  }
}

// The error with which `work` ends.
std::error_code error_of(gyre::loop& loop, task<> work) {
  const auto ended = gyre::sync_wait(loop, as_expected(std::move(work)));
  return ended ? std::error_code() : ended.error();
}

TEST(Framed, SendsAndReceivesLines) {
  gyre::loop loop;
  auto [left, right] = gyre::net::stream_pair(loop);
  framed here(std::move(left), delimited("\n"));
  framed there(std::move(right), delimited("\n"));
  static_assert(std::same_as<decltype(here), framed<delimited, unix_stream>>);
  static_assert(std::same_as<decltype(here)::payload, std::string_view>);
  const auto send = [&]() -> task<> {
    for (const std::string_view line : {"one"sv, ""sv, "three"sv}) co_await here.send(line);
    here.stream().shutdown(gyre::net::shutdown_side::send);
  };
  auto both = gyre::when_all(send(), all_messages(there));
  EXPECT_THAT(std::get<1>(gyre::sync_wait(loop, std::move(both))), ElementsAre("one", "", "three"));
  EXPECT_EQ(here.pending_output(), 0u);
}

TEST(Framed, GivesBytesOfOtherFramings) {
  gyre::loop loop;
  auto [left, right] = gyre::net::stream_pair(loop);
  framed packets(std::move(left), length_prefixed({.width = 2}));
  framed records(std::move(right), length_prefixed({.width = 2}));
  const auto exchange = [&]() -> task<std::string> {
    co_await packets.send("hello");
    const auto got = co_await records.next();
    static_assert(std::same_as<decltype(got), const std::optional<std::span<const std::byte>>>);
    co_return text_of(*got);
  };
  EXPECT_EQ(gyre::sync_wait(loop, exchange()), "hello");
}

TEST(Framed, TakesAnyStreamByItsBase) {
  gyre::loop loop;
  auto ends = gyre::io::make_pipe(loop);
  framed<fixed> in(std::move(ends.read_end), fixed(3));
  framed<fixed> out(std::move(ends.write_end), fixed(3));
  auto [left, right] = gyre::net::stream_pair(loop);
  const framed<delimited> of_socket(std::move(left), delimited("\n"));
  EXPECT_TRUE(of_socket.stream().is_open());
  const auto send = [&]() -> task<> {
    co_await out.send("abc");
    co_await out.send("def");
    out.stream().close();
  };
  auto both = gyre::when_all(send(), all_messages(in));
  EXPECT_THAT(std::get<1>(gyre::sync_wait(loop, std::move(both))), ElementsAre("abc", "def"));
}

task<std::string> ask(gyre::net::endpoint server) {
  auto connecting = gyre::net::connect(server);
  gyre::net::tcp_stream peer = co_await std::move(connecting);
  framed lines(std::move(peer), delimited("\r\n"));
  co_await lines.send("time?");
  const auto answer = co_await lines.next();
  co_return std::string(answer.value());
}

task<> answer_one(gyre::net::tcp_listener& listener) {
  auto accepting = listener.accept();
  gyre::net::tcp_stream peer = co_await std::move(accepting);
  framed lines(std::move(peer), delimited("\r\n"));
  auto moved = std::move(lines);
  const auto question = co_await moved.next();
  co_await moved.send(*question);
}

TEST(Framed, WorksOverTcp) {
  gyre::loop loop;
  gyre::net::tcp_listener listener(loop, "127.0.0.1:0");
  auto both = gyre::when_all(ask(listener.local_endpoint()), answer_one(listener));
  EXPECT_EQ(std::get<0>(gyre::sync_wait(loop, std::move(both))), "time?");
}

TEST(Framed, GoesOnReceivingAfterAStopInTheMiddleOfAMessage) {
  gyre::loop loop;
  auto [left, right] = gyre::net::stream_pair(loop);
  framed lines(std::move(right), delimited("\n"));
  const auto run = [](unix_stream& peer, framed<delimited, unix_stream>& from) -> task<> {
    co_await peer.write_all("first li");
    for (int i = 0; i < 2; ++i) {
      auto early = as_expected(gyre::with_timeout(from.next(), 1ms));
      const auto none = co_await std::move(early);
      EXPECT_EQ(none.error(), std::errc::timed_out);
    }
    EXPECT_EQ(from.received().text(), "first li");
    co_await peer.write_all("ne\nsecond\n");
    const auto first = co_await from.next();
    EXPECT_EQ(first, "first line");
    const auto second = co_await from.next();
    EXPECT_EQ(second, "second");
  };
  gyre::sync_wait(loop, run(left, lines));
}

TEST(Framed, GoesOnSendingAfterAStopInTheMiddleOfAMessage) {
  gyre::loop loop;
  auto [left, right] = gyre::net::stream_pair(loop);
  framed out(std::move(left), length_prefixed());
  framed in(std::move(right), length_prefixed());
  const std::string large(1'000'000, 'x');
  const auto begin = [&]() -> task<> {
    auto sending = as_expected(gyre::with_timeout(out.send(large), 1ms));
    const auto stopped = co_await std::move(sending);
    EXPECT_EQ(stopped.error(), std::errc::timed_out);
    EXPECT_GT(out.pending_output(), 0u);
    EXPECT_LT(out.pending_output(), large.size()) << "nothing was sent";
    const std::size_t left_over = out.pending_output();
    auto next = as_expected(gyre::with_timeout(out.send("next"), 1ms));
    const auto not_begun = co_await std::move(next);
    EXPECT_EQ(not_begun.error(), std::errc::timed_out);
    EXPECT_EQ(out.pending_output(), left_over) << "a message waits behind the rest of another";
  };
  gyre::sync_wait(loop, begin());
  const auto finish = [&]() -> task<> {
    co_await out.flush();
    EXPECT_EQ(out.pending_output(), 0u);
    co_await out.send("next");
    out.stream().close();
  };
  auto both = gyre::when_all(finish(), all_messages(in));
  EXPECT_THAT(std::get<1>(gyre::sync_wait(loop, std::move(both))), ElementsAre(large, "next"));
}

TEST(Framed, AStopBeforeItSendsSendsNothing) {
  gyre::loop loop;
  auto [left, right] = gyre::net::stream_pair(loop);
  framed out(std::move(left), delimited("\n"));
  gyre::inplace_stop_source source;
  source.request_stop();
  const auto send = [&]() -> task<> { co_await out.send("no"); };
  EXPECT_THROW(gyre::sync_wait(loop, send(), source.get_token()), std::system_error);
  EXPECT_LE(out.pending_output(), 3u);
  const auto receive = [&]() -> task<> { co_await out.next(); };
  EXPECT_THROW(gyre::sync_wait(loop, receive(), source.get_token()), std::system_error);
}

TEST(Framed, OneCoroutineSendsAtATime) {
  gyre::loop loop;
  auto [left, right] = gyre::net::stream_pair(loop);
  framed out(std::move(left), length_prefixed());
  framed in(std::move(right), length_prefixed());
  const std::string large(1'000'000, 'x');
  const auto first = [&]() -> task<> {
    co_await out.send(large);
    out.stream().close();
  };
  const auto second = [&]() -> task<std::vector<std::string>> {
    auto sending = as_expected(out.send("second"));
    const auto refused = co_await std::move(sending);
    EXPECT_EQ(refused.error(), errc::busy);
    auto flushing = as_expected(out.flush());
    const auto busy = co_await std::move(flushing);
    EXPECT_EQ(busy.error(), errc::busy);
    co_return co_await all_messages(in);
  };
  auto both = gyre::when_all(first(), second());
  EXPECT_THAT(std::get<1>(gyre::sync_wait(loop, std::move(both))), ElementsAre(large));
}

TEST(Framed, TellsOfMessagesThatAreTooLongOrCutOff) {
  gyre::loop loop;
  auto [left, right] = gyre::net::stream_pair(loop);
  framed lines(std::move(right), delimited("\n", 4));
  const auto too_long_to_send = [&]() -> task<> { co_await lines.send("12345"); };
  EXPECT_EQ(error_of(loop, too_long_to_send()), errc::frame_too_long);
  const auto with_delimiter = [&]() -> task<> { co_await lines.send("1\n2"); };
  EXPECT_EQ(error_of(loop, with_delimiter()), std::errc::invalid_argument);
  EXPECT_EQ(lines.pending_output(), 0u);
  const auto cut_off = [&]() -> task<> {
    co_await left.write_all("ok\nhal");
    left.close();
    const auto line = co_await lines.next();
    EXPECT_EQ(line, "ok");
    co_await lines.next();
  };
  EXPECT_EQ(error_of(loop, cut_off()), errc::unexpected_end);
}

TEST(Framed, HoldsNoMoreThanTheGivenLimit) {
  gyre::loop loop;
  auto [left, right] = gyre::net::stream_pair(loop);
  framed lines(std::move(right), delimited("\n"), {.max_size = 16});
  const auto run = [&]() -> task<> {
    co_await left.write_all("short\nlonger than sixteen bytes\n");
    const auto line = co_await lines.next();
    EXPECT_EQ(line, "short");
    co_await lines.next();
  };
  EXPECT_EQ(error_of(loop, run()), errc::limit_exceeded);
  EXPECT_LE(lines.received().size(), 16u);
}

TEST(Framed, ReleasesTheStreamWithTheBytesBehindTheLastMessage) {
  gyre::loop loop;
  auto [left, right] = gyre::net::stream_pair(loop);
  framed lines(std::move(right), delimited("\n"));
  const auto run = [&]() -> task<> {
    co_await left.write_all("upgrade\nother protocol");
    const auto line = co_await lines.next();
    EXPECT_EQ(line, "upgrade");
    EXPECT_EQ(lines.received().text(), "other protocol");
    unix_stream released = std::move(lines).release();
    co_await released.write_all("!");
    std::array<std::byte, 4> room;
    const std::size_t count = co_await left.read_some(room);
    EXPECT_EQ(count, 1u);
  };
  gyre::sync_wait(loop, run());
}

TEST(Framed, FailsAsItsStreamDoes) {
  gyre::loop loop;
  auto [left, right] = gyre::net::stream_pair(loop);
  framed lines(std::move(right), delimited("\n"));
  left.close();
  const auto send = [&]() -> task<> { co_await lines.send("x"); };
  EXPECT_EQ(error_of(loop, send()), std::errc::broken_pipe);
  lines.stream().close();
  const auto receive = [&]() -> task<> { co_await lines.next(); };
  EXPECT_EQ(error_of(loop, receive()), errc::not_open);
}

}  // namespace
}  // namespace framed_test
