// SPDX-License-Identifier: Apache-2.0
// Tests of requests that a loop carries out, and of failing system calls.
#include <gyre/io/request.hpp>

#include <gyre/exec/fd_watch.hpp>
#include <gyre/exec/loop.hpp>
#include <gyre/io/descriptor.hpp>
#include "gyre/testing/system_call_faults.hpp"
#include "gyre/testing/virtual_time_loop.hpp"
#include "tests/support/io_facts.hpp"
#include "tests/support/socket_pairs.hpp"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <ranges>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace request_test {
namespace {

using namespace gyre::io;
using namespace std::chrono_literals;
using gyre::unique_fd;
using gyre::testing::calls_made;
using gyre::testing::fault;

std::span<const std::byte> bytes(std::string_view text) { return std::as_bytes(std::span(text)); }
std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// A request that records its results, and then calls the test's function.
template <class Request>
struct noted : Request {
  template <class... Arguments>
  explicit noted(handle& target, Arguments&&... arguments)
    requires std::constructible_from<Request, handle&, Arguments..., request::function>
      : Request(target, std::forward<Arguments>(arguments)..., &note) {}
  noted(handle& target, repeat how) : Request(target, &note, how) {}
  noted(handle& target, repeat how, bool ahead) : Request(target, &note, how, ahead) {}
  template <class Memory>
  noted(handle& target, Memory memory, bool whole) : Request(target, memory, &note, whole) {}

  static void note(request& self, result what) {
    auto& noted_self = static_cast<noted&>(self);
    noted_self.results.push_back(what);
    if (noted_self.then) noted_self.then();
  }
  bool ended() const { return !results.empty(); }

  std::vector<result> results;
  std::function<void()> then;
};

class Request : public testing::Test {
 protected:
  explicit Request(gyre::test::fd_pair pair = gyre::test::tcp_pair(),
                   handle_kind kind = handle_kind::stream_socket)
      : here(std::in_place, loop, std::move(pair.first), kind), peer(std::move(pair.second)) {}

  void run_until(const std::function<bool()>& done) {
    for (int turns = 0; !done(); ++turns) {
      ASSERT_LT(turns, 100'000) << "nothing came of it";
      loop.run_until(gyre::detail::monotonic_now() + 1ms);
    }
  }
  // Performs a request that a loop completes at once if it knows the readiness.
  template <class Asked>
  result done_with(Asked& asked) {
    const auto at_once = here->start(asked);
    EXPECT_TRUE(at_once || !gyre::test::facts_of(loop).knows_readiness);
    return result_of(asked, at_once);
  }
  template <class Asked>
  result result_of(Asked& asked, const std::optional<result>& at_once) {
    run_until([&] { return at_once || asked.ended(); });
    EXPECT_EQ(asked.results.size(), at_once ? 0u : 1u) << "told twice";
    return at_once ? *at_once : asked.results.at(0);
  }
  // Consumes the event that epoll reports when a descriptor is registered.
  void settle() {
    while (loop.poll()) {
    }
  }
  void peer_sends(std::string_view text) const {
    ASSERT_EQ(::write(peer.get(), text.data(), text.size()), std::ssize(text));
  }
  std::string peer_reads() const {
    std::array<char, 65536> to;
    const auto count = ::read(peer.get(), to.data(), to.size());
    return count > 0 ? std::string(to.data(), static_cast<std::size_t>(count)) : std::string();
  }
  void peer_resets() {
    const linger now{.l_onoff = 1, .l_linger = 0};
    ASSERT_EQ(::setsockopt(peer.get(), SOL_SOCKET, SO_LINGER, &now, sizeof now), 0);
    peer.reset();
  }
  handle& target() { return here->handle(); }

  gyre::loop loop;
  std::optional<descriptor> here;
  unique_fd peer;
};

TEST_F(Request, ReadsWhatComesLater) {
  std::array<std::byte, 16> to;
  noted<read_request> reading(target(), std::span<std::byte>(to));
  ASSERT_FALSE(here->start(reading));
  EXPECT_TRUE(reading.under_way());
  peer_sends("hello");
  run_until([&] { return reading.ended(); });
  EXPECT_EQ(reading.results[0].count(), 5u);
  EXPECT_EQ(text_of(std::span(to).first(5)), "hello");
  EXPECT_FALSE(reading.under_way());
}

TEST_F(Request, ReadsWhatIsThereAtOnce) {
  peer_sends("hello");
  settle();
  std::array<std::byte, 3> to;
  noted<read_request> reading(target(), std::span<std::byte>(to));
  EXPECT_EQ(done_with(reading).count(), 3u);
}

TEST_F(Request, ReadsThePartThatAFullReadLeft) {
  peer_sends("hello");
  settle();
  std::array<std::byte, 3> to;
  noted<read_request> first(target(), std::span<std::byte>(to));
  noted<read_request> second(target(), std::span<std::byte>(to));
  EXPECT_EQ(done_with(first).count(), 3u);
  const auto rest = here->start(second);
  ASSERT_TRUE(rest);
  EXPECT_EQ(rest->count(), 2u);
  noted<read_request> third(target(), std::span<std::byte>(to));
  EXPECT_FALSE(here->start(third)) << "there is nothing more";
}

TEST_F(Request, ReadsAWholeBufferOutOfPieces) {
  std::array<std::byte, 10> to;
  noted<read_request> reading(target(), std::span<std::byte>(to), true);
  ASSERT_FALSE(here->start(reading));
  peer_sends("01234");
  settle();
  EXPECT_FALSE(reading.ended());
  EXPECT_EQ(reading.done, 5u);
  peer_sends("56789");
  run_until([&] { return reading.ended(); });
  EXPECT_EQ(reading.results[0].count(), 10u);
  EXPECT_EQ(text_of(to), "0123456789");
}

TEST_F(Request, AWholeReadEndsWithTheStream) {
  std::array<std::byte, 10> to;
  noted<read_request> reading(target(), std::span<std::byte>(to), true);
  ASSERT_FALSE(here->start(reading));
  peer_sends("0123");
  peer.reset();
  run_until([&] { return reading.ended(); });
  EXPECT_EQ(reading.results[0].count(), 4u);
}

TEST_F(Request, TellsTheEndThatCameWithTheLastBytes) {
  peer_sends("last");
  peer.reset();
  settle();
  std::array<std::byte, 16> to;
  noted<read_request> first(target(), std::span<std::byte>(to));
  auto read = here->start(first);
  if (!read) {
    run_until([&] { return first.ended(); });
    read = first.results[0];
  }
  ASSERT_EQ(read->count(), 4u);
  noted<read_request> second(target(), std::span<std::byte>(to));
  auto end = here->start(second);
  if (!end) {
    run_until([&] { return second.ended(); });
    end = second.results[0];
  }
  EXPECT_EQ(end->count(), 0u) << "the end of the stream is not reported again";
}

TEST_F(Request, ReceivesIntoTheLoopsMemoryAgainAndAgain) {
  noted<receive_request> receiving(target(), repeat::until_cancelled);
  std::string all;
  receiving.then = [&] { all += text_of(receiving.data); };
  ASSERT_FALSE(here->start(receiving));
  for (const char* each : {"one ", "two ", "three"}) {
    peer_sends(each);
    settle();
  }
  EXPECT_EQ(all, "one two three");
  EXPECT_TRUE(receiving.under_way());
  peer.reset();
  run_until([&] { return !receiving.under_way(); });
  EXPECT_EQ(receiving.results.back().count(), 0u);
}

TEST_F(Request, HandlesShareAReceiveRequest) {
  auto [other_end, other_peer] = gyre::test::tcp_pair();
  descriptor other(loop, std::move(other_end), handle_kind::stream_socket);
  static std::vector<std::pair<const handle*, std::string>> arrivals;
  static receive_memory* memory = nullptr;
  arrivals.clear();
  memory = &here->io().memory();
  shared_receive_request receiving(
      [](handle& source, result outcome) {
        ASSERT_TRUE(outcome.ok());
        arrivals.emplace_back(&source, text_of(memory->arrived()));
      },
      1024);
  for (descriptor* const each : {&*here, &other}) {
    ASSERT_FALSE(each->io().start_receiving(each->handle(), receiving));
    EXPECT_TRUE(each->handle().reading());
  }
  EXPECT_EQ(here->io().start_receiving(target(), receiving)->error_number(), EINPROGRESS);
  peer_sends("one");
  run_until([&] { return arrivals.size() == 1; });
  EXPECT_EQ(arrivals[0], std::pair(static_cast<const handle*>(&target()), std::string("one")));

  here->io().stop_receiving(target());
  EXPECT_FALSE(target().reading());
  peer_sends("two");
  ASSERT_EQ(::write(other_peer.get(), "three", 5), 5);
  run_until([&] { return arrivals.size() == 2; });
  settle();
  ASSERT_EQ(arrivals.size(), 2u) << "the first handle's request was ended";
  EXPECT_EQ(arrivals[1],
            std::pair(static_cast<const handle*>(&other.handle()), std::string("three")));

  other_peer.reset();
  run_until([&] { return !other.handle().reading(); });
  EXPECT_EQ(arrivals.back().second, "") << "the end of the stream ends the request";
}

TEST_F(Request, ATransientReceiveLeavesItsBytesWithTheLoopDuringTheCallback) {
  noted<transient_receive_request> receiving(target(), repeat::until_cancelled);
  received& arrived = here->io().memory().arrived();
  std::string all;
  std::vector<received> kept;
  receiving.then = [&] {
    all += text_of(arrived);
    if (arrived.text() == "two ") kept.push_back(std::move(arrived));
  };
  ASSERT_FALSE(here->start(receiving));
  for (const char* each : {"one ", "two ", "three"}) {
    peer_sends(each);
    settle();
    EXPECT_TRUE(arrived.empty()) << "the bytes are given back after the callback";
  }
  EXPECT_EQ(all, "one two three");
  ASSERT_EQ(kept.size(), 1u);
  EXPECT_EQ(kept[0].text(), "two ");
}

TEST_F(Request, ALoanThatIsKeptIsNotOverwritten) {
  noted<receive_request> receiving(target(), repeat::until_cancelled);
  std::vector<received> kept;
  receiving.then = [&] { kept.push_back(std::move(receiving.data)); };
  ASSERT_FALSE(here->start(receiving));
  for (const char* each : {"one", "two", "three"}) {
    peer_sends(each);
    settle();
  }
  ASSERT_EQ(kept.size(), 3u);
  EXPECT_EQ(kept[0].text(), "one");
  EXPECT_EQ(kept[1].text(), "two");
  EXPECT_EQ(kept[2].text(), "three");
}

TEST_F(Request, AReceiverThatIsCancelledInItsFunctionCanGoOnLater) {
  noted<receive_request> receiving(target(), repeat::until_cancelled);
  std::string all;
  receiving.then = [&] {
    all += text_of(receiving.data);
    here->cancel(receiving);
  };
  ASSERT_FALSE(here->start(receiving));
  peer_sends("one");
  settle();
  peer_sends("two");
  settle();
  EXPECT_EQ(all, "one");
  ASSERT_FALSE(here->start(receiving));
  settle();
  EXPECT_EQ(all, "onetwo");
}

TEST_F(Request, WaitsForMemoryThatIsOnLoan) {
  receive_memory& memory = here->io().memory();
  std::vector<received> loans;
  while (!memory.room().empty()) loans.push_back(memory.lend(memory.room().size()));
  EXPECT_LE(memory.allocated(), memory.limit());
  peer_sends("hello");
  settle();
  noted<receive_request> receiving(target());
  ASSERT_FALSE(here->start(receiving));
  settle();
  EXPECT_FALSE(receiving.ended());
  loans.pop_back();
  run_until([&] { return receiving.ended(); });
  EXPECT_EQ(receiving.data.text(), "hello");
}

TEST_F(Request, WritesAtOnce) {
  noted<write_request> writing(target(), bytes("hello"));
  const auto written = here->start(writing);
  ASSERT_TRUE(written);
  EXPECT_EQ(written->count(), 5u);
  EXPECT_EQ(peer_reads(), "hello");
}

TEST_F(Request, GathersAndScatters) {
  std::string left = "left ";
  std::string right = "right";
  const std::array<iovec, 2> from{iovec{left.data(), left.size()}, iovec{right.data(), 5}};
  noted<gather_request> writing(target(), std::span<const iovec>(from));
  ASSERT_EQ(here->start(writing)->count(), 10u);
  EXPECT_EQ(peer_reads(), "left right");
  std::string first(2, ' ');
  std::string second(10, ' ');
  const std::array<iovec, 2> to{iovec{first.data(), 2}, iovec{second.data(), 10}};
  noted<scatter_request> reading(target(), std::span<const iovec>(to));
  ASSERT_FALSE(here->start(reading));
  peer_sends("abcde");
  run_until([&] { return reading.ended(); });
  EXPECT_EQ(reading.results[0].count(), 5u);
  EXPECT_EQ(first + second.substr(0, 3), "abcde");
}

TEST_F(Request, ReadingAndWritingGoOnBesideEachOther) {
  noted<receive_request> receiving(target(), repeat::until_cancelled);
  receiving.then = [&] {
    noted<write_request> reply(target(), receiving.data.bytes());
    EXPECT_TRUE(here->start(reply));
  };
  ASSERT_FALSE(here->start(receiving));
  peer_sends("echo");
  settle();
  EXPECT_EQ(peer_reads(), "echo");
}

TEST_F(Request, CancelledItIsNotReported) {
  std::array<std::byte, 16> to;
  noted<read_request> reading(target(), std::span<std::byte>(to));
  ASSERT_FALSE(here->start(reading));
  EXPECT_FALSE(here->cancel(reading));
  EXPECT_FALSE(reading.under_way());
  peer_sends("hello");
  settle();
  EXPECT_FALSE(reading.ended());
  noted<read_request> again(target(), std::span<std::byte>(to));
  EXPECT_EQ(done_with(again).count(), 5u) << "what was not read is still there";
}

TEST_F(Request, TheDescriptorMayBeClosedInTheFunctionOfEitherDirection) {
  for (const bool in_write : {false, true}) {
    auto [left, right] = gyre::test::tcp_pair(4096);
    auto closing = std::make_unique<descriptor>(loop, std::move(left), handle_kind::stream_socket);
    const std::string large(1 << 20, 'x');
    noted<receive_request> receiving(closing->handle(), repeat::until_cancelled);
    noted<write_request> writing(closing->handle(), bytes(large));
    while (closing->start(writing)) {
      EXPECT_FALSE(writing.under_way());
    }
    ASSERT_FALSE(closing->start(receiving));
    (in_write ? writing.then : receiving.then) = [&] { closing.reset(); };
    std::array<char, 65536> sink;
    ASSERT_EQ(::write(right.get(), "x", 1), 1);
    run_until([&] {
      if (in_write) static_cast<void>(::read(right.get(), sink.data(), sink.size()));
      return closing == nullptr;
    });
    EXPECT_EQ((in_write ? writing.results : receiving.results).size(), 1u);
  }
}

TEST_F(Request, AnExceptionOfAFunctionLosesNothing) {
  int exceptions = 0;
  gyre::loop own({.on_exception = [&](const std::exception_ptr&) { ++exceptions; }});
  std::vector<gyre::test::fd_pair> pairs;
  std::vector<std::unique_ptr<descriptor>> ends;
  std::vector<std::unique_ptr<noted<receive_request>>> receiving;
  for (int i = 0; i < 4; ++i) {
    pairs.push_back(gyre::test::tcp_pair());
    ends.push_back(std::make_unique<descriptor>(own, std::move(pairs.back().first),
                                                handle_kind::stream_socket));
    receiving.push_back(
        std::make_unique<noted<receive_request>>(ends.back()->handle(), repeat::until_cancelled));
    receiving.back()->then = [] { throw std::runtime_error("no"); };
    ASSERT_FALSE(ends.back()->start(*receiving.back()));
    ASSERT_EQ(::write(pairs.back().second.get(), "x", 1), 1);
  }
  for (int turns = 0; exceptions < 4 && turns < 1000; ++turns) own.run_for(1ms);
  EXPECT_EQ(exceptions, 4);
  for (const auto& each : receiving) EXPECT_EQ(each->results.size(), 1u);
}

TEST_F(Request, AFastPeerDoesNotKeepTheLoopToItself) {
  int tasks = 0;
  std::array<std::byte, 1> to;
  peer_sends(std::string(50'000, 'x'));
  settle();
  // Each read starts the next, as all bytes have arrived.
  noted<read_request> first(target(), std::span<std::byte>(to));
  noted<read_request> second(target(), std::span<std::byte>(to));
  bool deferred = false;
  for (int i = 0; i < 1000; ++i) {
    noted<read_request>& next = i % 2 == 0 ? first : second;
    if (!here->start(next)) {
      deferred = true;
      break;
    }
  }
  EXPECT_TRUE(deferred) << "a thousand reads in one turn";
  loop.post([&] { ++tasks; });
  settle();
  EXPECT_EQ(tasks, 1);
  EXPECT_EQ(first.results.size() + second.results.size(), 1u);
}

TEST_F(Request, UrgentDataHidesNothing) {
  noted<receive_request> receiving(target(), repeat::until_cancelled);
  std::string all;
  receiving.then = [&] { all += receiving.data.text(); };
  ASSERT_FALSE(here->start(receiving));
  peer_sends("abc");
  ASSERT_EQ(::send(peer.get(), "!", 1, MSG_OOB), 1);
  peer_sends("def");
  for (int turns = 0; all != "abcdef" && turns < 1000; ++turns) loop.run_for(1ms);
  EXPECT_EQ(all, "abcdef");
}

// TCP refuses reads so at urgent data while a signal is pending.
TEST_F(Request, AReadThatIsRefusedAtUrgentDataGoesOnBehindIt) {
  std::array<std::byte, 100> to;
  const auto read = [&] {
    noted<read_request> reading(target(), std::span<std::byte>(to), false);
    return result_of(reading, here->start(reading)).count();
  };
  peer_sends("abc");
  ASSERT_EQ(::send(peer.get(), "!", 1, MSG_OOB), 1);
  peer_sends("def");
  ASSERT_EQ(read(), 3u);
  const fault refused("recv", EAGAIN);
  ASSERT_EQ(read(), 3u);
  EXPECT_EQ(refused.hits(), 1);
}

TEST_F(Request, ASecondOneOfADirectionIsRefused) {
  noted<receive_request> receiving(target());
  noted<receive_request> second(target());
  ASSERT_FALSE(here->start(receiving));
  const auto refused = here->start(second);
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->error(), std::errc::operation_in_progress);
  EXPECT_TRUE(receiving.under_way());
}

TEST_F(Request, ARequestForAClosedDescriptorIsRefused) {
  noted<receive_request> receiving(target());
  here->close();
  const auto refused = here->start(receiving);
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->error(), std::errc::bad_file_descriptor);
}

TEST_F(Request, HandlesLeaveTheQueueInAnyOrder) {
  std::vector<gyre::test::fd_pair> pairs;
  std::vector<std::unique_ptr<descriptor>> ends;
  std::vector<std::unique_ptr<noted<receive_request>>> receiving;
  for (int i = 0; i < 20; ++i) {
    pairs.push_back(gyre::test::tcp_pair());
    ends.push_back(std::make_unique<descriptor>(loop, std::move(pairs.back().first),
                                                handle_kind::stream_socket));
    ASSERT_EQ(::write(pairs.back().second.get(), "x", 1), 1);
  }
  settle();
  for (const auto& each : ends) {
    receiving.push_back(
        std::make_unique<noted<receive_request>>(each->handle(), repeat::until_cancelled));
    ASSERT_FALSE(each->start(*receiving.back()));
  }
  for (const std::size_t gone : {19u, 0u, 7u, 12u}) ends[gone].reset();
  auto [left, right] = gyre::test::tcp_pair();
  descriptor newcomer(loop, std::move(left), handle_kind::stream_socket);
  settle();
  for (std::size_t i = 0; i < ends.size(); ++i) {
    EXPECT_EQ(receiving[i]->results.size(), ends[i] == nullptr ? 0u : 1u) << i;
  }
}

TEST(Backend, AFailedForkLeavesItAsItWas) {
  gyre::loop loop;
  auto [left, right] = gyre::test::tcp_pair();
  descriptor here(loop, std::move(left), handle_kind::stream_socket);
  auto [watched, other] = gyre::test::pipe_pair();
  gyre::fd_watch watch(loop, watched.get(), [](gyre::readiness) {});
  watch.start(gyre::readiness::readable);
  const int before = gyre::testing::open_descriptors();
  for (const char* call : {"epoll_create1", "eventfd", "epoll_ctl"}) {
    int failures = 0;
    for (bool failed = true; failed; failures += failed) {
      const fault failing(call, EMFILE, {.after = failures});
      try {
        loop.after_fork_in_child();
        failed = false;
      } catch (const std::system_error& error) {
        EXPECT_EQ(error.code().value(), EMFILE);
      }
      EXPECT_EQ(failing.hits(), failed ? 1 : 0) << call;
      EXPECT_EQ(gyre::testing::open_descriptors(), before) << call;
    }
    EXPECT_GT(failures, 0) << call;
  }
  {
    const fault failing("eventfd", EMFILE);
    EXPECT_THROW(loop.after_fork_in_child(), std::system_error);
  }
  noted<receive_request> receiving(here.handle());
  ASSERT_FALSE(here.start(receiving));
  ASSERT_EQ(::write(right.get(), "x", 1), 1);
  for (int turns = 0; !receiving.ended() && turns < 1000; ++turns) loop.run_for(1ms);
  EXPECT_TRUE(receiving.ended());
}

TEST_F(Request, AResetIsAnError) {
  std::array<std::byte, 16> to;
  noted<read_request> reading(target(), std::span<std::byte>(to));
  ASSERT_FALSE(here->start(reading));
  peer_resets();
  run_until([&] { return reading.ended(); });
  EXPECT_EQ(reading.results[0].error(), std::errc::connection_reset);
  noted<write_request> writing(target(), bytes("late"));
  const auto written = here->start(writing);
  ASSERT_TRUE(written);
  EXPECT_EQ(written->error(), std::errc::broken_pipe);
}

// Writes 1 MiB into sockets with small buffers.
TEST(SmallBuffers, AWholeWriteGoesOnUntilAllIsWritten) {
  gyre::loop loop;
  auto [left, right] = gyre::test::tcp_pair(4096);
  descriptor from(loop, std::move(left), handle_kind::stream_socket);
  descriptor to(loop, std::move(right), handle_kind::stream_socket);
  std::string sent(1 << 20, ' ');
  for (std::size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<char>('a' + i % 23);
  noted<write_request> writing(from.handle(), bytes(sent), true);
  ASSERT_FALSE(from.start(writing));
  std::string got;
  noted<receive_request> receiving(to.handle(), repeat::until_cancelled);
  receiving.then = [&] { got += receiving.data.text(); };
  ASSERT_FALSE(to.start(receiving));
  while (got.size() < sent.size()) loop.run_once();
  EXPECT_EQ(got, sent);
  EXPECT_EQ(writing.results.size(), 1u);
  EXPECT_EQ(writing.results[0].count(), sent.size());
}

TEST(Accepting, TakesAllThatWaitAndTellsWhoTheyAre) {
  gyre::loop loop;
  auto [socket, address] = gyre::test::loopback_listener();
  descriptor listener(loop, std::move(socket), handle_kind::stream_socket);
  noted<accept_request> accepting(listener.handle(), repeat::until_cancelled);
  std::vector<unique_fd> accepted;
  accepting.then = [&] {
    EXPECT_EQ(accepting.peer.ss_family, AF_INET);
    EXPECT_EQ(accepting.peer_size, sizeof(sockaddr_in));
    accepted.emplace_back(accepting.results.back().fd());
  };
  ASSERT_FALSE(listener.start(accepting));
  std::vector<std::unique_ptr<descriptor>> clients;
  std::vector<std::unique_ptr<noted<connect_request>>> connecting;
  for (int i = 0; i < 100; ++i) {
    clients.push_back(std::make_unique<descriptor>(
        loop, unique_fd(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)),
        handle_kind::stream_socket));
    connecting.push_back(std::make_unique<noted<connect_request>>(
        clients.back()->handle(), reinterpret_cast<const sockaddr*>(&address),
        static_cast<socklen_t>(sizeof address)));
    const auto connected = clients.back()->start(*connecting.back());
    if (connected) {
      EXPECT_TRUE(connected->ok());
      connecting.back()->results.push_back(*connected);
    }
  }
  const auto all_connected = [&] {
    return std::ranges::all_of(connecting, [](const auto& each) { return each->ended(); });
  };
  for (int turns = 0; turns < 1000 && (accepted.size() < 100 || !all_connected()); ++turns) {
    loop.run_for(1ms);
  }
  EXPECT_EQ(accepted.size(), 100u);
  for (const auto& each : connecting) EXPECT_TRUE(each->results.at(0).ok());
  EXPECT_TRUE(accepting.under_way());
}

TEST(Accepting, GoesOnAfterConnectionsThatEndedBefore) {
  gyre::loop loop;
  auto [socket, address] = gyre::test::loopback_listener();
  descriptor listener(loop, std::move(socket), handle_kind::stream_socket);
  noted<accept_request> accepting(listener.handle());
  ASSERT_FALSE(listener.start(accepting));
  const fault aborted("accept4", ECONNABORTED, {.times = 2});
  unique_fd client(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::connect(client.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address),
            0);
  while (!accepting.ended()) loop.run_once();
  ASSERT_TRUE(accepting.results[0].ok());
  const unique_fd accepted(accepting.results[0].fd());
  EXPECT_EQ(aborted.hits(), 2);
}

TEST(Accepting, TellsOfAnErrorThatDoesNotEnd) {
  gyre::loop loop;
  auto [socket, address] = gyre::test::loopback_listener();
  descriptor listener(loop, std::move(socket), handle_kind::stream_socket);
  const unique_fd client(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::connect(client.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address),
            0);
  for (const int error : {EPERM, ECONNABORTED, EMFILE}) {
    const fault failing("accept4", error, {.times = -1});
    noted<accept_request> accepting(listener.handle(), repeat::until_cancelled, true);
    ASSERT_FALSE(listener.start(accepting));
    while (!accepting.ended()) loop.run_once();
    EXPECT_EQ(accepting.results[0].error_number(), error);
    EXPECT_FALSE(accepting.under_way());
  }
}

// One event reports both the connection and its end.
TEST(Connecting, ToAPeerThatEndsAtOnceSeesTheEnd) {
  gyre::loop loop;
  auto [listener, address] = gyre::test::loopback_listener();
  descriptor client(loop, unique_fd(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0)),
                    handle_kind::stream_socket);
  noted<connect_request> connecting(client.handle(), reinterpret_cast<const sockaddr*>(&address),
                                    static_cast<socklen_t>(sizeof address));
  const auto at_once = client.start(connecting);
  {
    const unique_fd peer(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    ASSERT_EQ(::write(peer.get(), "hello", 5), 5);
  }
  while (!at_once && !connecting.ended()) loop.run_once();
  noted<receive_request> receiving(client.handle(), repeat::until_cancelled);
  ASSERT_FALSE(client.start(receiving));
  for (int turns = 0; receiving.under_way() && turns < 1000; ++turns) loop.run_for(1ms);
  EXPECT_FALSE(receiving.under_way()) << "the end never came";
  EXPECT_EQ(receiving.results.back().count(), 0u);
}

TEST(Connecting, ToNobodyIsRefused) {
  gyre::loop loop;
  auto [listener, address] = gyre::test::loopback_listener();
  listener.reset();
  descriptor client(loop, unique_fd(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0)),
                    handle_kind::stream_socket);
  noted<connect_request> connecting(client.handle(), reinterpret_cast<const sockaddr*>(&address),
                                    static_cast<socklen_t>(sizeof address));
  auto connected = client.start(connecting);
  while (!connected && !connecting.ended()) loop.run_once();
  if (!connected) connected = connecting.results[0];
  EXPECT_EQ(connected->error(), std::errc::connection_refused);
}

TEST(Pipes, AreReadAndWritten) {
  gyre::loop loop;
  auto [out, in] = gyre::test::pipe_pair();
  descriptor reader(loop, std::move(out), handle_kind::other);
  descriptor writer(loop, std::move(in), handle_kind::other);
  noted<receive_request> receiving(reader.handle(), repeat::until_cancelled);
  std::string got;
  receiving.then = [&] { got += receiving.data.text(); };
  ASSERT_FALSE(reader.start(receiving));
  noted<write_request> writing(writer.handle(), bytes("through"));
  ASSERT_EQ(writer.start(writing)->count(), 7u);
  while (got.size() < 7) loop.run_once();
  EXPECT_EQ(got, "through");
  writer.close();
  while (receiving.under_way()) loop.run_once();
  EXPECT_EQ(receiving.results.back().count(), 0u);
}

TEST(Datagrams, AnEmptyDatagramArrives) {
  gyre::loop loop;
  auto [left, right] = gyre::test::unix_pair(SOCK_DGRAM);
  descriptor to(loop, std::move(left), handle_kind::socket);
  std::array<std::byte, 8> memory;
  noted<read_request> reading(to.handle(), std::span<std::byte>(memory));
  ASSERT_FALSE(to.start(reading));
  ASSERT_EQ(::send(right.get(), "", 0, 0), 0);
  while (!reading.ended()) loop.run_once();
  ASSERT_TRUE(reading.results[0].ok());
  EXPECT_EQ(reading.results[0].count(), 0u);
}

TEST(Datagrams, ComeAndGoSeveralAtATime) {
  gyre::loop loop;
  auto [left, right] = gyre::test::unix_pair(SOCK_DGRAM);
  descriptor to(loop, std::move(left), handle_kind::socket);
  descriptor from(loop, std::move(right), handle_kind::socket);
  std::array<std::array<char, 8>, 4> memory{};
  std::array<iovec, 4> pieces;
  std::array<mmsghdr, 4> messages{};
  for (std::size_t i = 0; i < 4; ++i) {
    memory[i][0] = static_cast<char>('a' + i);
    pieces[i] = {memory[i].data(), i + 1};
    messages[i].msg_hdr.msg_iov = &pieces[i];
    messages[i].msg_hdr.msg_iovlen = 1;
  }
  noted<send_messages_request> sending(from.handle(), std::span(messages));
  ASSERT_EQ(from.start(sending)->count(), 4u);
  for (iovec& each : pieces) each.iov_len = 8;
  noted<receive_messages_request> receiving(to.handle(), std::span(messages));
  if (!to.start(receiving)) {
    while (!receiving.ended()) loop.run_once();
    EXPECT_EQ(receiving.results[0].count(), 4u);
  }
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(messages[i].msg_len, i + 1);
}

TEST(ReadyDescriptors, AreWaitedFor) {
  gyre::loop loop;
  auto [left, right] = gyre::test::tcp_pair();
  descriptor here(loop, std::move(left), handle_kind::stream_socket);
  noted<readiness_request> waiting(here.handle(), direction::read);
  ASSERT_FALSE(here.start(waiting));
  ASSERT_EQ(::write(right.get(), "x", 1), 1);
  while (!waiting.ended()) loop.run_once();
  EXPECT_TRUE(waiting.results[0].ok());
  EXPECT_TRUE(here.start(waiting)) << "it still is: nobody has read";
}

TEST(Backend, ALoopThatCannotReadSaysSo) {
  gyre::testing::virtual_time_loop virtual_time;
  auto [left, right] = gyre::test::tcp_pair();
  const int before = gyre::testing::open_descriptors();
  try {
    descriptor none(virtual_time.loop, std::move(left), handle_kind::stream_socket);
    FAIL();
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code(), std::errc::operation_not_supported);
  }
  EXPECT_EQ(gyre::testing::open_descriptors(), before - 1) << "the descriptor was ours to close";
}

TEST(Backend, AFileCannotBeServed) {
  gyre::loop loop;
  unique_fd file(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  try {
    descriptor none(loop, std::move(file), handle_kind::other);
    FAIL();
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code(), std::errc::operation_not_permitted);
  }
}

TEST(Backend, ADeviceThatIsAlwaysReadyIsServedTurnByTurn) {
  gyre::loop loop;
  descriptor zero(loop, unique_fd(::open("/dev/zero", O_RDWR | O_NONBLOCK | O_CLOEXEC)),
                  handle_kind::other);
  noted<receive_request> receiving(zero.handle(), repeat::until_cancelled);
  ASSERT_FALSE(zero.start(receiving));
  std::size_t turns = 0;
  for (; receiving.results.size() < 20; ++turns) loop.run_once();
  EXPECT_GE(turns, 5u);
  static_cast<void>(zero.cancel(receiving));
  EXPECT_TRUE(receiving.results.back().ok());
}

TEST(Backend, ADeviceThatIsAlwaysReadyIsTriedAgain) {
  gyre::loop loop;
  descriptor null(loop, unique_fd(::open("/dev/null", O_RDWR | O_NONBLOCK | O_CLOEXEC)),
                  handle_kind::other);
  const fault write_waits("write", EAGAIN);
  noted<write_request> writing(null.handle(), bytes("x"));
  ASSERT_FALSE(null.start(writing));
  const fault read_waits("read", EAGAIN);
  std::array<std::byte, 1> to;
  noted<read_request> reading(null.handle(), std::span<std::byte>(to));
  ASSERT_FALSE(null.start(reading));
  while (!writing.ended() || !reading.ended()) loop.run_once();
  EXPECT_EQ(writing.results[0].count(), 1u);
  EXPECT_EQ(reading.results[0].count(), 0u);
}

// Files that are sent to devices which take all bytes at once, so that only the shares limit them.
class SentFiles : public testing::Test {
 protected:
  static constexpr std::size_t mib = std::size_t{1} << 20;

  struct sending {
    sending(gyre::loop& loop, int file, std::size_t bytes)
        : sink(loop, unique_fd(::open("/dev/null", O_WRONLY | O_NONBLOCK | O_CLOEXEC)),
               handle_kind::other),
          request(sink.handle(), file, 0, bytes) {
      request.then = [this] {
        count(request.results.back());
        start();
      };
    }
    void start() {
      while (request.unsent_bytes > 0) {
        const std::optional<result> outcome = sink.start(request);
        if (!outcome) return;
        count(*outcome);
      }
    }
    void count(result outcome) {
      ASSERT_TRUE(outcome) << outcome.error_number();
      sent_bytes += outcome.count();
      ++parts;
    }

    descriptor sink;
    noted<send_file_request> request;
    std::size_t sent_bytes = 0;
    std::size_t parts = 0;
  };

  void begin(std::size_t count, std::size_t bytes) {
    ASSERT_EQ(::ftruncate(file_.get(), static_cast<off_t>(bytes)), 0);
    for (std::size_t i = 0; i < count; ++i) {
      files_.push_back(std::make_unique<sending>(loop_, file_.get(), bytes));
      files_.back()->start();
    }
  }
  std::size_t sent_bytes() const {
    std::size_t sum = 0;
    for (const auto& each : files_) sum += each->sent_bytes;
    return sum;
  }

  gyre::loop loop_{gyre::loop_options{.io_time = 24h}};
  unique_fd file_{::memfd_create("file", MFD_CLOEXEC)};
  std::vector<std::unique_ptr<sending>> files_;
};

TEST_F(SentFiles, AreNotSplitHoweverManyThereAre) {
  const std::size_t calls_before = calls_made("sendfile");
  const std::size_t polls_before = calls_made("poll");
  begin(100, mib);
  while (sent_bytes() < 100 * mib) loop_.run_once();
  for (const auto& each : files_) EXPECT_EQ(each->parts, 1u);
  if (std::string_view(loop_.metrics().io) == "uring") return;  // its work may interrupt a call
  EXPECT_EQ(calls_made("sendfile") - calls_before, 100u);
  EXPECT_EQ(calls_made("poll") - polls_before, 0u);
}

TEST_F(SentFiles, TakeNoMoreOfATurnThanOtherBytes) {
  constexpr std::size_t max_turn = 4 * mib;
  constexpr std::size_t max_visit = send_file_request::max_part + send_file_request::min_part;
  begin(100, 4 * mib);
  EXPECT_LE(sent_bytes(), max_visit) << "before the first turn";
  while (sent_bytes() < 400 * mib) {
    const std::size_t before = sent_bytes();
    loop_.run_once();
    EXPECT_LE(sent_bytes() - before, max_turn + max_visit);
    const auto sent =
        files_ | std::views::transform([](const auto& each) { return each->sent_bytes; });
    // The first one has a visit before the first turn, and another one before the first round.
    EXPECT_LE(std::ranges::max(sent) - std::ranges::min(sent), 3 * max_visit);
  }
}

TEST_F(SentFiles, EndWithTheFile) {
  begin(1, 100);
  EXPECT_EQ(sent_bytes(), 100u);
  sending longer(loop_, file_.get(), 101);
  ASSERT_EQ(longer.sink.start(longer.request)->count(), 100u);
  EXPECT_EQ(longer.sink.start(longer.request)->count(), 0u);
  EXPECT_EQ(longer.request.unsent_bytes, 1u);
}

TEST_F(Request, AFileWaitsForRoomAndIsSentWhole) {
  const unique_fd file(::memfd_create("file", MFD_CLOEXEC));
  constexpr std::size_t size = std::size_t{20} << 20;
  ASSERT_EQ(::ftruncate(file.get(), size), 0);
  noted<send_file_request> sending(target(), file.get(), 0, size);
  const auto start = [&] {
    while (sending.unsent_bytes > 0 && here->start(sending)) {
    }
  };
  sending.then = start;
  start();
  ASSERT_GT(sending.unsent_bytes, 0u);
  std::size_t received_bytes = 0;
  run_until([&] {
    received_bytes += peer_reads().size();
    return received_bytes == size;
  });
  EXPECT_EQ(sending.unsent_bytes, 0u);
}

TEST(Backend, CountsWhatItServes) {
  gyre::loop loop;
  auto [left, right] = gyre::test::tcp_pair();
  {
    descriptor here(loop, std::move(left), handle_kind::stream_socket);
    loop.poll();
    EXPECT_EQ(loop.metrics().descriptors_watched, 1u);
  }
  descriptor there(loop, std::move(right), handle_kind::stream_socket);
  const unique_fd again = there.release();
  EXPECT_TRUE(again);
  EXPECT_FALSE(there.is_open());
}

// Every failure of every call is reported to the requester once, and leaves no descriptor open.
struct failing_call {
  const char* call;
  int error;
};
void PrintTo(const failing_call& what, std::ostream* out) {
  *out << what.call << ' ' << what.error;
}

class FailingCall : public testing::TestWithParam<failing_call> {};

TEST_P(FailingCall, IsReportedOnceAndLeaksNothing) {
  const int before = gyre::testing::open_descriptors();
  const std::string_view call = GetParam().call;
  {
    gyre::loop loop;
    const bool datagrams = call.contains("mmsg");
    auto [left, right] = datagrams ? gyre::test::unix_pair(SOCK_DGRAM) : gyre::test::tcp_pair();
    if (call == "read" || call == "readv") {
      std::tie(left, right) = gyre::test::pipe_pair();
    } else if (call == "write" || call == "writev") {
      std::tie(right, left) = gyre::test::pipe_pair();
    }
    const bool is_pipe = call == "read" || call == "readv" || call == "write" || call == "writev";
    descriptor here(loop, std::move(left), is_pipe ? handle_kind::other : handle_kind::socket);
    std::array<std::byte, 8> memory{};
    const std::array<iovec, 1> pieces{iovec{memory.data(), memory.size()}};
    msghdr message{};
    message.msg_iov = const_cast<iovec*>(pieces.data());
    message.msg_iovlen = 1;
    std::array<mmsghdr, 1> messages{mmsghdr{message, 0}};

    noted<read_request> read(here.handle(), std::span<std::byte>(memory));
    noted<scatter_request> scatter(here.handle(), std::span<const iovec>(pieces));
    noted<receive_message_request> receive_message(here.handle(), message);
    noted<receive_messages_request> receive_messages(here.handle(), std::span(messages));
    noted<write_request> write(here.handle(), std::span<const std::byte>(memory));
    noted<gather_request> gather(here.handle(), std::span<const iovec>(pieces));
    noted<send_message_request> send_message(here.handle(), message);
    noted<send_messages_request> send_messages(here.handle(), std::span(messages));
    const auto ask = [&](auto& asked) {
      const fault failing(call, GetParam().error);
      if (!asked.writes()) {
        EXPECT_EQ(::write(right.get(), "x", 1), 1);
        while (loop.poll()) {
        }
      }
      auto what = here.start(asked);
      while (!what && !asked.ended()) loop.run_once();
      if (!what) what = asked.results.at(0);
      EXPECT_EQ(what->error_number(), GetParam().error);
      EXPECT_EQ(failing.hits(), 1);
      EXPECT_FALSE(asked.under_way());
    };
    if (call == "recv" || call == "read") ask(read);
    if (call == "readv") ask(scatter);
    if (call == "recvmsg") ask(receive_message);
    if (call == "recvmmsg") ask(receive_messages);
    if (call == "send" || call == "write") ask(write);
    if (call == "writev") ask(gather);
    if (call == "sendmsg") {
      ask(gather);
      ask(send_message);
    }
    if (call == "sendmmsg") ask(send_messages);
  }
  EXPECT_EQ(gyre::testing::open_descriptors(), before);
}

INSTANTIATE_TEST_SUITE_P(
    Transfers, FailingCall,
    testing::Values(failing_call{"recv", ECONNRESET}, failing_call{"recv", ETIMEDOUT},
                    failing_call{"recv", ENOMEM}, failing_call{"read", EIO},
                    failing_call{"readv", EIO}, failing_call{"recvmsg", ECONNREFUSED},
                    failing_call{"recvmmsg", ECONNREFUSED}, failing_call{"send", EPIPE},
                    failing_call{"send", ECONNRESET}, failing_call{"send", ENOBUFS},
                    failing_call{"write", EPIPE}, failing_call{"writev", ENOSPC},
                    failing_call{"sendmsg", EMSGSIZE}, failing_call{"sendmmsg", ENOBUFS}));

class InterruptedCall : public testing::TestWithParam<const char*> {};

TEST_P(InterruptedCall, IsMadeAgain) {
  gyre::loop loop;
  auto [left, right] = gyre::test::tcp_pair();
  descriptor here(loop, std::move(left), handle_kind::stream_socket);
  const fault interrupted(GetParam(), EINTR, {.times = 2});
  noted<receive_request> receiving(here.handle());
  noted<write_request> writing(here.handle(), bytes("x"));
  ASSERT_TRUE(here.start(writing)->ok());
  ASSERT_FALSE(here.start(receiving));
  ASSERT_EQ(::write(right.get(), "x", 1), 1);
  for (int turns = 0; !receiving.ended() && turns < 1000; ++turns) loop.run_for(1ms);
  ASSERT_TRUE(receiving.ended());
  EXPECT_EQ(receiving.data.text(), "x");
  EXPECT_EQ(interrupted.hits(), 2);
}

INSTANTIATE_TEST_SUITE_P(Calls, InterruptedCall, testing::Values("recv", "send"));

TEST(FailingSetUp, ALoopOnEpollLeaksNothing) {
  const int before = gyre::testing::open_descriptors();
  for (const char* call : {"epoll_create1", "eventfd", "epoll_ctl"}) {
    const fault failing(call, EMFILE);
    EXPECT_THROW(gyre::loop({.io = gyre::io_interface::epoll}), std::system_error) << call;
    EXPECT_EQ(failing.hits(), 1);
    EXPECT_EQ(gyre::testing::open_descriptors(), before) << call;
  }
}

TEST(FailingSetUp, ADescriptorLeaksNothing) {
  gyre::loop loop;
  const char* const watch = gyre::test::facts_of(loop).watch;
  if (watch == nullptr) GTEST_SKIP() << "a loop on io_uring serves every socket";
  const int before = gyre::testing::open_descriptors();
  auto [left, right] = gyre::test::tcp_pair();
  {
    const fault failing(watch, ENOSPC);
    EXPECT_THROW(descriptor(loop, std::move(left), handle_kind::socket), std::system_error);
  }
  descriptor still(loop, std::move(right), handle_kind::socket);
  EXPECT_EQ(gyre::testing::open_descriptors(), before + 1);
}

TEST(StreamSocket, IsRegisteredWhenItHasToWait) {
  gyre::loop loop({.io = gyre::io_interface::epoll});
  auto [left, right] = gyre::test::tcp_pair();
  ASSERT_EQ(::write(right.get(), "x", 1), 1);
  const auto before = gyre::testing::calls_made("epoll_ctl");
  {
    descriptor here(loop, std::move(left), handle_kind::stream_socket);
    noted<receive_request> receiving(here.handle());
    ASSERT_TRUE(here.start(receiving)) << "there are bytes";
    EXPECT_EQ(receiving.data.text(), "x");
    EXPECT_EQ(gyre::testing::calls_made("epoll_ctl"), before);

    noted<receive_request> waiting(here.handle());
    ASSERT_FALSE(here.start(waiting));
    EXPECT_EQ(gyre::testing::calls_made("epoll_ctl"), before + 1);
    ASSERT_EQ(::write(right.get(), "y", 1), 1);
    for (int turns = 0; !waiting.ended() && turns < 1000; ++turns) loop.run_for(1ms);
    ASSERT_TRUE(waiting.ended());
  }
  EXPECT_EQ(gyre::testing::calls_made("epoll_ctl"), before + 2);
}

TEST(StreamSocket, IsRegisteredByAnAttemptThatWouldWait) {
  gyre::loop loop({.io = gyre::io_interface::epoll});
  auto [left, right] = gyre::test::tcp_pair();
  descriptor here(loop, std::move(left), handle_kind::stream_socket);
  std::array<std::byte, 4> to;
  noted<read_request> reading(here.handle(), std::span<std::byte>(to));
  EXPECT_TRUE(loop.io()->attempt(reading).would_block());
  ASSERT_EQ(::write(right.get(), "x", 1), 1);
  gyre::io::result outcome = loop.io()->attempt(reading);
  for (int turns = 0; outcome.would_block() && turns < 1000; ++turns) {
    loop.run_for(1ms);
    outcome = loop.io()->attempt(reading);
  }
  EXPECT_EQ(outcome.count(), 1u);
}

TEST(StreamSocket, ThatCannotBeRegisteredEndsTheRequestThatWouldWait) {
  gyre::loop loop({.io = gyre::io_interface::epoll});
  auto [left, right] = gyre::test::tcp_pair();
  descriptor here(loop, std::move(left), handle_kind::stream_socket);
  std::array<std::byte, 4> to;
  noted<read_request> at_once(here.handle(), std::span<std::byte>(to));
  noted<receive_request> repeating(here.handle(), repeat::until_cancelled);
  {
    const fault failing("epoll_ctl", ENOSPC, {.times = 3});
    const auto refused = here.start(at_once);
    ASSERT_TRUE(refused);
    EXPECT_EQ(refused->error_number(), ENOSPC);
    ASSERT_FALSE(here.start(repeating));
    for (int turns = 0; !repeating.ended() && turns < 1000; ++turns) loop.run_for(1ms);
    ASSERT_TRUE(repeating.ended());
    EXPECT_EQ(repeating.results.back().error_number(), ENOSPC);
    EXPECT_EQ(failing.hits(), 3);
  }
  // It is of use again when there is room.
  noted<receive_request> waiting(here.handle());
  ASSERT_FALSE(here.start(waiting));
  ASSERT_EQ(::write(right.get(), "x", 1), 1);
  for (int turns = 0; !waiting.ended() && turns < 1000; ++turns) loop.run_for(1ms);
  ASSERT_TRUE(waiting.ended());
  EXPECT_EQ(waiting.data.text(), "x");
}

TEST(FailingWait, LeavesRunAndTheLoopGoesOn) {
  gyre::loop loop;
  auto [left, right] = gyre::test::tcp_pair();
  descriptor here(loop, std::move(left), handle_kind::stream_socket);
  noted<receive_request> receiving(here.handle());
  ASSERT_FALSE(here.start(receiving));
  {
    const fault failing(gyre::test::facts_of(loop).wait, EINVAL, {.times = -1});
    EXPECT_THROW(loop.run(), std::system_error);
  }
  ASSERT_EQ(::write(right.get(), "x", 1), 1);
  while (!receiving.ended()) loop.run_once();
  EXPECT_EQ(receiving.data.text(), "x");
}

}  // namespace
}  // namespace request_test
