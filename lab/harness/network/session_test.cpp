// SPDX-License-Identifier: Apache-2.0
// Tests of the checks of the network experiments: the sessions of both ends agree, however the
// stream is cut into pieces, and notice wrong bytes.
#include <lab/experiments/ping_pong/messages.hpp>
#include <lab/harness/network/bare_epoll.hpp>
#include <lab/harness/network/echo.hpp>
#include <lab/harness/network/server_process.hpp>
#include <lab/harness/network/session.hpp>
#include <lab/harness/network/session_threads.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <thread>
#include <vector>

namespace lab::network {
namespace session_test {
namespace {

using bytes = std::span<const std::byte>;
using testing::ElementsAre;
using testing::IsEmpty;

/// Hands `data` over in pieces of at most `piece` bytes; returns all the answers.
template <class Session>
std::vector<std::byte> feed(Session& session, bytes data, std::size_t piece) {
  std::vector<std::byte> answers;
  while (!data.empty()) {
    const bytes next = data.first(std::min(piece, data.size()));
    const bytes answer = session.received(next);
    answers.insert(answers.end(), answer.begin(), answer.end());
    data = data.subspan(next.size());
  }
  return answers;
}

TEST(EchoClient, AcceptsItsMessageAgainAndAgainHoweverItIsCut) {
  const echo_messages messages(1000, fault::none);
  for (const std::size_t piece : {1u, 7u, 999u, 1000u}) {
    session_counters counters;
    echo_client client(-1, counters, 3, messages);
    for (int round = 0; round < 5; ++round) feed(client, client.first(), piece);
    EXPECT_EQ(counters.wrong.value(), 0u) << piece;
    EXPECT_EQ(counters.bytes.value(), 5000u);
    EXPECT_EQ(counters.finished.value(), 1u);
  }
}

TEST(EchoClient, NoticesBytesOfAnotherConnectionAndLostOrRepeatedOnes) {
  const echo_messages messages(1000, fault::none);
  const auto wrong = [&](bytes first, bytes then) {
    session_counters counters;
    echo_client client(-1, counters, 3, messages);
    client.received(first);
    client.received(then);
    return counters.wrong.value();
  };
  const bytes own = messages.rotated(3);
  EXPECT_EQ(wrong(own.first(10), own.subspan(10)), 0u);
  EXPECT_GT(wrong(messages.rotated(4), messages.rotated(4)), 0u);
  EXPECT_GT(wrong(own.first(10), own.subspan(11)), 0u);
  EXPECT_GT(wrong(own.first(10), own.subspan(9)), 0u);
}

TEST(EchoMessages, SabotageIsAByteTooFewOrTooMany) {
  EXPECT_EQ(echo_messages(50, fault::lose).rotated(0).size(), 49u);
  EXPECT_EQ(echo_messages(50, fault::duplicate).rotated(0).size(), 51u);
  EXPECT_EQ(echo_messages(50, fault::duplicate).rotated(1).size(), 50u);
}

TEST(PingPong, BothEndsPlayToTheEndHoweverMessagesAreCut) {
  for (const std::size_t piece : {1u, 3u, 64u, 1u << 20}) {
    session_counters server_counters;
    session_counters client_counters;
    ping_pong::game game(1, 300, fault::none);
    ping_pong::server_session server(-1, server_counters, 0, 0);
    ping_pong::client_session client(-1, client_counters, 0, game);
    const bytes first = client.first();
    std::vector<std::byte> message(first.begin(), first.end());
    while (!message.empty()) message = feed(client, feed(server, message, piece), piece);
    EXPECT_EQ(client_counters.finished.value(), 1u);
    EXPECT_EQ(client_counters.wrong.value(), 0u);
    // 300 messages of 8 bytes and bodies of 100 to 399.
    EXPECT_EQ(server_counters.bytes.value(), 300u * 8 + 300 * (100 + 399) / 2);
    EXPECT_EQ(client_counters.bytes.value(), server_counters.bytes.value());
  }
}

TEST(PingPong, BodyWrapsPastItsGreatestSize) {
  session_counters server_counters;
  session_counters client_counters;
  constexpr std::uint32_t sizes = ping_pong::most_body - ping_pong::least_body + 1;
  ping_pong::game game(1, sizes + 1, fault::none);
  ping_pong::server_session server(-1, server_counters, 0, 0);
  ping_pong::client_session client(-1, client_counters, 0, game);
  const bytes first = client.first();
  std::vector<std::byte> message(first.begin(), first.end());
  std::vector<std::uint32_t> last{0, 0};
  while (!message.empty()) {
    last = {last[1], ping_pong::header::read(message).body_size};
    message = feed(client, feed(server, message, 1 << 20), 1 << 20);
  }
  EXPECT_THAT(last, ElementsAre(ping_pong::most_body, ping_pong::least_body));
}

TEST(PingPong, NoticesAnAnswerThatIsNotDue) {
  session_counters counters;
  ping_pong::game game(1, 300, fault::none);
  ping_pong::client_session client(-1, counters, 0, game);
  const bytes first = client.first();
  const std::vector<std::byte> unanswered(first.begin(), first.end());
  feed(client, unanswered, 1 << 20);  // packet_count has not been counted up
  EXPECT_EQ(counters.wrong.value(), 1u);
}

TEST(SplitCpus, DividesTheCpus) {
  EXPECT_THAT(split_cpus({}).server, IsEmpty());
  EXPECT_THAT(split_cpus({5}).server, ElementsAre(5));
  EXPECT_THAT(split_cpus({5}).client, ElementsAre(5));
  EXPECT_THAT(split_cpus({0, 1, 2}).server, ElementsAre(0));
  EXPECT_THAT(split_cpus({0, 1, 2}).client, ElementsAre(1, 2));
}

TEST(BareEpoll, EchoesWhatIsLargerThanAllBuffers) {
  // As in an experiment, the threads and their data live until the process ends.
  const int listener = listen_on_loopback();
  constexpr std::size_t connections = 2;
  const std::vector<int> clients = connect_all(port_of(listener), connections);
  const std::vector<int> servers = accept_all(listener, connections);
  static auto& messages = *new echo_messages(8 << 20, fault::none);
  auto& serving = session_threads<echo_server>::make(servers, 1, messages);
  auto& asking = session_threads<echo_client>::make(clients, 2, messages);
  serving.start<bare_epoll<64 * 1024>>();
  asking.start<common_client>();
  while (asking.sum(&session_counters::bytes) < connections * messages.size() ||
         asking.sum(&session_counters::finished) < connections) {
    std::this_thread::yield();
  }
  EXPECT_EQ(asking.sum(&session_counters::wrong), 0u);
  EXPECT_EQ(asking.sum(&session_counters::lost), 0u);
}

}  // namespace
}  // namespace session_test
}  // namespace lab::network
