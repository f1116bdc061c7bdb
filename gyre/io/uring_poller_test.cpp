// SPDX-License-Identifier: Apache-2.0
// Tests of errors that only a loop on io_uring can make: bytes and connections that the kernel
// takes before they are requested, buffers on loan, subscriptions that are still active when their
// handle is closed, rings that change threads. On this kernel's io_uring, and on variants with
// fewer features.
#include <gyre/io/uring_poller.hpp>

#include <gyre/exec/loop.hpp>
#include <gyre/io/backend.hpp>
#include <gyre/io/descriptor.hpp>
#include "gyre/testing/system_call_faults.hpp"
#include "tests/support/ring_interruptions.hpp"
#include "tests/support/socket_pairs.hpp"
#include "tests/support/uring_variants.hpp"

#include <gtest/gtest.h>

#include <netinet/in.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <semaphore>
#include <span>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace uring_poller_test {
namespace {

using namespace gyre::io;
using namespace std::chrono_literals;
using gyre::unique_fd;
using gyre::test::fd_pair;

// The expected byte at an offset of a stream, which reveals lost, duplicated and reordered bytes.
std::byte pattern(std::uint64_t stream, std::uint64_t place) {
  return static_cast<std::byte>((place + stream) * 0x9e3779b97f4a7c15u >> 56);
}

// The numbers of bytes of a stream that were sent and received.
class checked_stream {
 public:
  explicit checked_stream(std::uint64_t number) : number_(number) {}

  std::span<const std::byte> next(std::size_t count) {
    piece_.resize(count);
    for (std::byte& each : piece_) each = pattern(number_, sent_++);
    return piece_;
  }
  void check(std::span<const std::byte> came) {
    for (const std::byte each : came) {
      if (each != pattern(number_, got_)) ++wrong_;
      ++got_;
    }
  }
  // Sends by a plain call as much as the socket has room for.
  void send(int fd, std::size_t count) {
    const auto bytes = next(count);
    const auto done = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    sent_ -= bytes.size() - static_cast<std::size_t>(std::max<ssize_t>(done, 0));
  }
  void skip(std::uint64_t count) { sent_ += count; }
  std::uint64_t sent() const { return sent_; }
  std::uint64_t got() const { return got_; }
  bool all_came() const { return got_ == sent_ && wrong_ == 0; }
  std::uint64_t wrong() const { return wrong_; }

 private:
  std::uint64_t number_;
  std::uint64_t sent_ = 0;
  std::uint64_t got_ = 0;
  std::uint64_t wrong_ = 0;
  std::vector<std::byte> piece_;
};

// A request that calls the test.
template <class Request>
struct asking : Request {
  template <class... Arguments>
  explicit asking(handle& target, Arguments&&... arguments)
    requires std::constructible_from<Request, handle&, Arguments..., request::function>
      : Request(target, std::forward<Arguments>(arguments)..., &report) {}
  asking(handle& target, repeat how) : Request(target, &report, how) {}
  asking(handle& target, repeat how, bool ahead) : Request(target, &report, how, ahead) {}
  asking(handle& target, std::span<std::byte> to, bool whole)
      : Request(target, to, &report, whole) {}
  asking(handle& target, std::span<const std::byte> from, bool whole)
      : Request(target, from, &report, whole) {}

  static void report(request& self, result made) {
    auto& own = static_cast<asking&>(self);
    if (own.then) own.then(made);
  }
  std::function<void(result)> then;
};

class Uring : public testing::TestWithParam<gyre::test::uring_variant> {
 protected:
  void SetUp() override {
    const uring_support here = probe_uring();
    if (!here.usable) GTEST_SKIP() << here.reason;
    make_loop();
  }
  void TearDown() override { loop_.reset(); }

  void make_loop() {
    loop_.reset();
    // A turn serves all, however long it takes.
    loop_ = std::make_unique<gyre::loop>(gyre::loop_options{.io_time = 1h},
                                         std::make_unique<uring_poller>(GetParam().features));
  }
  gyre::loop& loop() { return *loop_; }
  template <class Done>
  void run_until(Done done) {
    for (int turns = 0; !done(); ++turns) {
      ASSERT_LT(turns, 20'000) << "nothing came of it";
      if (!loop().poll()) loop().run_for(100us);
    }
  }
  // Turns the loop without waiting.
  template <class Done>
  void poll_until(Done done, int most_turns) {
    for (int turns = 0; !done(); ++turns) {
      ASSERT_LT(turns, most_turns) << "nothing came of it without a wait";
      loop().poll();
    }
  }
  void settle() {
    while (loop().poll()) {
    }
  }

 private:
  std::unique_ptr<gyre::loop> loop_;
};

INSTANTIATE_TEST_SUITE_P(, Uring, testing::ValuesIn(gyre::test::uring_variants()),
                         [](const auto& tested) { return tested.param.name; });

// ---- streams

// Receives a stream with all kinds of requests, one after another, with pauses.
class fickle_receiver {
 public:
  fickle_receiver(descriptor& from, checked_stream& stream, unsigned seed)
      : from_(from), stream_(stream), random_(seed) {}
  ~fickle_receiver() { pause(); }

  bool ended() const { return ended_; }
  // Pauses or begins at random, from outside the functions of its requests.
  void change_its_mind() {
    if (ended_ || !one_in(3)) return;
    if (under_way_ != nullptr && one_in(2)) pause();
    if (under_way_ == nullptr) begin();
  }
  void go_on() {
    if (!ended_ && under_way_ == nullptr) begin();
  }

 private:
  bool one_in(unsigned many) { return random_() % many == 0; }

  void pause() {
    if (under_way_ == nullptr) return;
    EXPECT_FALSE(from_.cancel(*under_way_));
    // The bytes that a read for a whole buffer had got so far.
    if (reading_ && under_way_ == &*reading_) stream_.check(std::span(to_).first(reading_->done));
    under_way_ = nullptr;
    forget();
  }
  void forget() {
    const auto forget_one = [this](auto& asked) {
      if (asked && &*asked != calling_) asked.reset();
    };
    forget_one(receiving_);
    forget_one(reading_);
    forget_one(scattering_);
    forget_one(message_);
    forget_one(messages_);
    forget_one(waiting_);
  }

  void begin() {
    for (int tries = 0; tries < 8 && !ended_ && under_way_ == nullptr; ++tries) {
      forget();
      begin_one();
    }
  }
  void begin_one() {
    switch (random_() % 10) {
      case 0:
      case 1:
      case 2:
      case 3: return receive(repeat::until_cancelled);
      case 4: return receive(repeat::once);
      case 5: return read(false);
      case 6: return read(true);
      case 7: return scatter();
      case 8: return one_in(2) ? receive_message() : receive_messages();
      default: return wait();
    }
  }

  template <class Request, class Took, class... Arguments>
  void start(std::optional<Request>& asked, Took took, Arguments&&... arguments) {
    if (asked) return;  // its function is running
    asked.emplace(from_.handle(), std::forward<Arguments>(arguments)...);
    asked->then = [this, &own = *asked, took](result made) {
      if (!own.under_way()) under_way_ = nullptr;
      calling_ = &own;
      took(made);
      if (under_way_ != nullptr && one_in(5)) {
        EXPECT_FALSE(from_.cancel(own));
        under_way_ = nullptr;
      }
      if (under_way_ == nullptr && !ended_ && one_in(2)) {
        if (own.repeats()) {
          under_way_ = &own;
          EXPECT_FALSE(from_.start(own));
        } else {
          begin();
        }
      }
      calling_ = nullptr;
    };
    under_way_ = &*asked;
    if (const auto at_once = from_.start(*asked)) {
      under_way_ = nullptr;
      took(*at_once);
    }
  }
  void took(result made, std::span<const std::byte> bytes) {
    if (!made) {
      ADD_FAILURE() << made.error().message();
      ended_ = true;
    } else if (made.count() == 0) {
      ended_ = true;
    } else {
      stream_.check(bytes);
    }
  }

  auto took_them() {
    return [this](result made) { took(made, std::span(to_).first(made ? made.count() : 0)); };
  }
  void receive(repeat how) {
    const auto took_it = [this](result made) {
      took(made, receiving_->data.bytes());
      if (one_in(4)) kept_.push_back(std::move(receiving_->data));
      if (kept_.size() > 5) kept_.erase(kept_.begin());
    };
    start(receiving_, took_it, how);
  }
  std::span<std::byte> somewhere() { return std::span(to_).first(1 + random_() % to_.size()); }
  void read(bool whole) {
    const std::span<std::byte> to = somewhere();
    const auto took_it = [this, to](result made) {
      took(made, to.first(made ? made.count() : 0));
      if (made && reading_->whole() && made.count() < to.size()) ended_ = true;
    };
    start(reading_, took_it, to, whole);
  }
  void scatter() {
    cut_into_pieces();
    start(scattering_, took_them(), std::span<const iovec>(pieces_));
  }
  void cut_into_pieces() {
    const std::size_t first = 1 + random_() % (to_.size() - 1);
    const std::size_t second = std::min<std::size_t>(to_.size() - first, 1 + random_() % 5000);
    pieces_ = {iovec{to_.data(), first}, iovec{to_.data() + first, second}};
  }
  void receive_message() {
    cut_into_pieces();
    header_ = {};
    header_.msg_hdr.msg_iov = pieces_.data();
    header_.msg_hdr.msg_iovlen = pieces_.size();
    start(message_, took_them(), header_.msg_hdr);
  }
  void receive_messages() {
    cut_into_pieces();
    header_ = {};
    header_.msg_hdr.msg_iov = pieces_.data();
    header_.msg_hdr.msg_iovlen = pieces_.size();
    const auto took_it = [this](result made) {
      took(made ? result::of(header_.msg_len) : made, std::span(to_).first(header_.msg_len));
    };
    start(messages_, took_it, std::span(&header_, 1));
  }
  void wait() {
    const auto took_it = [](result made) { EXPECT_TRUE(made) << made.error().message(); };
    start(waiting_, took_it, direction::read);
  }

  descriptor& from_;
  checked_stream& stream_;
  std::minstd_rand random_;
  bool ended_ = false;
  request* under_way_ = nullptr;
  request* calling_ = nullptr;  // its function is running
  std::optional<asking<receive_request>> receiving_;
  std::optional<asking<read_request>> reading_;
  std::optional<asking<scatter_request>> scattering_;
  std::optional<asking<receive_message_request>> message_;
  std::optional<asking<receive_messages_request>> messages_;
  std::optional<asking<readiness_request>> waiting_;
  std::array<std::byte, 50'000> to_;
  std::array<iovec, 2> pieces_;
  mmsghdr header_;
  std::vector<received> kept_;
};

// Sends messages of all sizes, small and large ones in turns, and then the end.
class fickle_sender {
 public:
  fickle_sender(descriptor& to, checked_stream& stream, std::size_t total, unsigned seed)
      : to_(to), stream_(stream), total_(total), random_(seed) {}

  bool done() const { return done_; }
  void send_some() {
    for (unsigned left = random_() % 8; left > 0 && !done_; --left) {
      if (writing_ && writing_->under_way()) return;
      if (stream_.sent() >= total_) {
        done_ = true;
        EXPECT_EQ(::shutdown(to_.fd(), SHUT_WR), 0);
        return;
      }
      if (random_() % 30 == 0) large_ = !large_;
      const std::size_t bytes = 1 + random_() % (large_ ? 65'536 : 3'000);
      writing_.emplace(to_.handle(), stream_.next(bytes), true);
      writing_->then = [](result made) { EXPECT_TRUE(made); };
      const auto made = to_.start(*writing_);
      EXPECT_TRUE(!made || *made);
    }
  }

 private:
  descriptor& to_;
  checked_stream& stream_;
  std::size_t total_;
  std::minstd_rand random_;
  bool large_ = false;
  bool done_ = false;
  std::optional<asking<write_request>> writing_;
};

// One end of a connection; both ends share the streams.
struct fickle_end {
  fickle_end(gyre::loop& loop, unique_fd fd, checked_stream& in, checked_stream& out, unsigned seed)
      : here(loop, std::move(fd), handle_kind::stream_socket),
        receiver(here, in, seed),
        sender(here, out, 150'000, seed + 1) {}
  void step() {
    sender.send_some();
    receiver.change_its_mind();
  }
  bool done() const { return receiver.ended() && sender.done(); }

  descriptor here;
  fickle_receiver receiver;
  fickle_sender sender;
};

// Runs the loop until both ends have sent and received everything.
void run_to_the_end(gyre::loop& loop, std::vector<std::unique_ptr<fickle_end>>& ends) {
  const auto done = [&] {
    return std::ranges::all_of(ends, [](const auto& each) { return each->done(); });
  };
  const auto give_up = gyre::detail::monotonic_now() + 60s;
  while (!done() && gyre::detail::monotonic_now() < give_up) {
    for (const auto& each : ends) each->step();
    if (!loop.poll()) loop.run_for(200us);
  }
  EXPECT_TRUE(done()) << "something never came";
}

TEST_P(Uring, NoByteIsLostHoweverAStreamIsReceived) {
  gyre::loop second(gyre::loop_options{}, std::make_unique<uring_poller>(GetParam().features));
  std::vector<checked_stream> streams;
  for (std::uint64_t i = 0; i < 8; ++i) streams.emplace_back(i);
  std::vector<std::unique_ptr<fickle_end>> left_ends;
  std::vector<std::unique_ptr<fickle_end>> right_ends;
  for (unsigned i = 0; i < 4; ++i) {
    auto [left, right] = i % 2 == 1 ? gyre::test::tcp_pair(8192) : gyre::test::tcp_pair();
    checked_stream& one = streams[2 * i];
    checked_stream& other = streams[2 * i + 1];
    left_ends.push_back(
        std::make_unique<fickle_end>(loop(), std::move(left), one, other, 10 * i + 1));
    right_ends.push_back(
        std::make_unique<fickle_end>(second, std::move(right), other, one, 10 * i + 5));
  }
  std::thread other([&] { run_to_the_end(second, right_ends); });
  run_to_the_end(loop(), left_ends);
  other.join();
  for (const checked_stream& each : streams) {
    EXPECT_TRUE(each.all_came()) << each.got() << " of " << each.sent();
    EXPECT_EQ(each.wrong(), 0u);
  }
}

// ---- early data: received before it is requested

// Both ends of a connection: the loop's end, which receives, and the test's.
struct receiving_end {
  receiving_end(gyre::loop& loop, fd_pair pair, std::uint64_t name = 0)
      : number(name),
        here(loop, std::move(pair.first), handle_kind::stream_socket),
        peer(std::move(pair.second)),
        stream(name),
        receiving(here.handle(), repeat::until_cancelled) {
    receiving.then = [this](result made) {
      ended = !made || made.count() == 0;
      if (ended) return;
      stream.check(receiving.data.bytes());
      newest = receiving.data.data();
    };
  }
  explicit receiving_end(gyre::loop& loop, std::uint64_t name = 0)
      : receiving_end(loop, gyre::test::tcp_pair(), name) {}
  void begin() { EXPECT_FALSE(here.start(receiving)); }
  void pause() { EXPECT_FALSE(here.cancel(receiving)); }
  void peer_sends(std::size_t count) { stream.send(peer.get(), count); }

  // Sends on a thread other than the loop's.
  void send_ahead(std::size_t count) {
    checked_stream ahead(number);
    ahead.skip(sent_ahead);
    ahead.send(peer.get(), count);
    sent_ahead = ahead.sent();
  }
  bool all_ahead_came() const { return stream.got() == sent_ahead; }

  std::uint64_t number;
  std::atomic<std::uint64_t> sent_ahead = 0;
  descriptor here;
  unique_fd peer;
  checked_stream stream;
  asking<receive_request> receiving;
  bool ended = false;
  const std::byte* newest = nullptr;  // the place of the newest bytes
};

TEST_P(Uring, BytesReceivedDuringAPauseAreDeliveredAfterIt) {
  receiving_end one(loop());
  one.begin();
  settle();
  for (int i = 0; i < 50; ++i) {
    one.peer_sends(100);
    one.pause();
    settle();
    one.peer_sends(200);
    settle();
    EXPECT_LE(one.stream.got(), one.stream.sent() - 300) << "told during a pause";
    one.begin();
    run_until([&] { return one.stream.got() == one.stream.sent(); });
  }
  EXPECT_TRUE(one.stream.all_came());
}

TEST_P(Uring, ALoanIsNotTouchedWhileOthersComeAndGo) {
  receiving_end one(loop());
  std::vector<std::pair<std::uint64_t, received>> kept;
  one.receiving.then = [&](result made) {
    const std::uint64_t from = one.stream.got();
    one.stream.check(one.receiving.data.bytes());
    if (kept.size() < 300) kept.emplace_back(from, std::move(one.receiving.data));
    EXPECT_TRUE(made);
  };
  one.begin();
  settle();
  // Sends far more messages than there are buffers.
  const auto send_many = [&](int many) {
    for (int i = 0; i < many; ++i) {
      one.peer_sends(64);
      run_until([&] { return one.stream.got() == one.stream.sent(); });
    }
  };
  send_many(350);
  EXPECT_EQ(kept.size(), 300u);
  for (const auto& [from, loan] : kept) {
    for (std::size_t i = 0; i < loan.size(); ++i) ASSERT_EQ(loan.data()[i], pattern(0, from + i));
  }
  // Every other buffer is returned, and then all.
  for (std::size_t i = 0; i < kept.size(); i += 2) kept[i].second.reset();
  send_many(50);
  kept.clear();
  send_many(50);
  EXPECT_TRUE(one.stream.all_came());
}

// The memory for calls is not touched as long as the kernel receives into the ring's buffers.
TEST_P(Uring, BuffersOfWhatNobodyTookGoBack) {
  if (!GetParam().features.multishot_receive) GTEST_SKIP() << "has no such buffers";
  for (int i = 0; i < 100; ++i) {
    receiving_end one(loop());
    one.begin();
    settle();
    for (int n = 0; n < 4; ++n) {
      if (n == 2) one.pause();
      one.peer_sends(10);
      if (i % 2 == 0) settle();
    }
  }
  receiving_end last(loop());
  last.begin();
  settle();
  const std::byte* const block = last.here.io().memory().room().data();
  last.peer_sends(10);
  run_until([&] { return last.stream.all_came(); });
  EXPECT_NE(last.newest, block) << "by a call";
}

TEST_P(Uring, TheRingReceivesAgainWhenLoansAreBackAndMessagesAreSmall) {
  if (!GetParam().features.multishot_receive) GTEST_SKIP() << "has no such buffers";
  std::vector<received> kept;
  receiving_end one(loop());
  one.begin();
  settle();
  const auto send = [&](std::size_t count) {
    one.peer_sends(count);
    run_until([&] { return one.stream.all_came(); });
  };
  send(60'000);
  for (int i = 0; i < 100; ++i) send(100);
  const std::byte* const block = one.here.io().memory().room().data();
  send(100);
  EXPECT_NE(one.newest, block) << "by a call";
}

TEST_P(Uring, AnErrorComesAfterTheBytesBeforeItAndOnce) {
  for (const bool at_once : {false, true}) {
    receiving_end one(loop());
    one.begin();
    settle();
    one.pause();
    one.peer_sends(100);
    if (!at_once) settle();
    const linger now{.l_onoff = 1, .l_linger = 0};
    ASSERT_EQ(::setsockopt(one.peer.get(), SOL_SOCKET, SO_LINGER, &now, sizeof now), 0);
    one.peer.reset();
    settle();
    asking<readiness_request> waiting(one.here.handle(), direction::read);
    std::optional<result> waited;
    waiting.then = [&](result made) { waited = made; };
    if (const auto made = one.here.start(waiting)) waited = made;
    run_until([&] { return waited.has_value(); });
    EXPECT_TRUE(*waited) << "a wait takes nothing";
    int error = 0;
    one.receiving.then = [&](result made) {
      if (made && made.count() > 0) one.stream.check(one.receiving.data.bytes());
      if (!made) error = made.error_number();
    };
    one.begin();
    run_until([&] { return !one.receiving.under_way(); });
    EXPECT_EQ(error, ECONNRESET) << at_once;
    EXPECT_EQ(one.stream.wrong(), 0u);
  }
}

// No turn of the loop lies between the pause and the error.
TEST_P(Uring, AWaitLeavesAnErrorThatCameDuringAPause) {
  receiving_end one(loop());
  one.begin();
  settle();
  const linger now{.l_onoff = 1, .l_linger = 0};
  ASSERT_EQ(::setsockopt(one.peer.get(), SOL_SOCKET, SO_LINGER, &now, sizeof now), 0);
  one.pause();
  one.peer.reset();
  loop().poll();
  asking<readiness_request> waiting(one.here.handle(), direction::read);
  std::optional<result> waited;
  waiting.then = [&](result made) { waited = made; };
  if (const auto made = one.here.start(waiting)) waited = made;
  run_until([&] { return waited.has_value(); });
  EXPECT_TRUE(*waited) << "a wait takes nothing";
  std::optional<result> came;
  one.receiving.then = [&](result made) { came = made; };
  one.begin();
  run_until([&] { return came.has_value(); });
  EXPECT_EQ(came->error_number(), ECONNRESET);
}

TEST_P(Uring, UrgentDataHidesNothing) {
  receiving_end one(loop());
  one.begin();
  settle();
  for (int i = 0; i < 20; ++i) {
    one.peer_sends(50);
    ASSERT_EQ(::send(one.peer.get(), "!", 1, MSG_OOB), 1);
    one.peer_sends(50);
    run_until([&] { return one.stream.got() >= one.stream.sent(); });
  }
  EXPECT_TRUE(one.stream.all_came());
}

// A read stops at urgent data. Regression: the bytes behind it came only when nothing else had come
// for 10 ms, so never to a loop that does not wait. When no completion shows the urgent data, as
// when the kernel completes each of the three segments by itself, the bytes take more than a
// thousand turns: only a loop that never retries exceeds the bound of this test.
TEST_P(Uring, BytesBehindUrgentDataAreFoundWithoutAWait) {
  auto [left, right] = gyre::test::tcp_pair(16'384);
  descriptor here(loop(), std::move(left), handle_kind::stream_socket);
  std::array<std::byte, 100> room;
  std::size_t came = 0;
  std::optional<asking<read_request>> reading;
  const auto read = [&] {
    for (;;) {
      reading.emplace(here.handle(), std::span<std::byte>(room), false);
      reading->then = [&](result made) { came += made.count(); };
      const std::optional<result> made = here.start(*reading);
      if (!made) return;
      came += made->count();
    }
  };
  read();
  settle();
  ASSERT_EQ(::send(right.get(), "abc", 3, 0), 3);
  ASSERT_EQ(::send(right.get(), "!", 1, MSG_OOB), 1);
  ASSERT_EQ(::send(right.get(), "def", 3, 0), 3);
  poll_until(
      [&] {
        if (!reading->under_way()) read();
        return came >= 6;
      },
      20'000);
  EXPECT_EQ(came, 6u);
}

TEST_P(Uring, AShortReadIsRepeatedOnlyWhereItMayHaveStoppedAtUrgentData) {
  for (const bool known : {true, false}) {
    auto [left, right] = gyre::test::tcp_pair(16'384);
    descriptor here(loop(), std::move(left), handle_kind::stream_socket);
    std::array<std::byte, 100> room;
    asking<read_request> first(here.handle(), std::span<std::byte>(room), false);
    std::optional<result> made = here.start(first);
    first.then = [&](result later) { made = later; };
    ASSERT_EQ(::send(right.get(), "abc", 3, 0), 3);
    run_until([&] { return made.has_value(); });
    const gyre::testing::fault failing("sockatmark", ENOTTY, {.times = known ? 0 : -1});
    asking<read_request> second(here.handle(), std::span<std::byte>(room), false);
    ASSERT_FALSE(here.start(second));
    const std::size_t questions = gyre::testing::calls_made("sockatmark");
    const std::size_t reads = gyre::testing::calls_made("recv");
    poll_until([&] { return gyre::testing::calls_made("sockatmark") != questions; }, 20'000);
    settle();
    EXPECT_EQ(gyre::testing::calls_made("recv") - reads, known ? 0u : 1u);
    here.cancel(second);
  }
}

TEST_P(Uring, AWriterGoesOnWhoseReaderHasEndedItsOwnDirection) {
  auto [left, right] = gyre::test::tcp_pair(16'384);
  descriptor here(loop(), std::move(left), handle_kind::stream_socket);
  ASSERT_EQ(::shutdown(right.get(), SHUT_WR), 0);
  checked_stream stream(7);
  asking<write_request> writing(here.handle(), stream.next(500'000), true);
  bool written = false;
  writing.then = [&](result made) { written = made.ok(); };
  ASSERT_FALSE(here.start(writing));
  std::array<std::byte, 50'000> to;
  run_until([&] {
    const auto count = ::read(right.get(), to.data(), to.size());
    if (count > 0) stream.check(std::span(to).first(static_cast<std::size_t>(count)));
    return written && stream.got() == stream.sent();
  });
  EXPECT_TRUE(stream.all_came());
}

// ---- many things at a time

TEST_P(Uring, BusyHandlesDoNotStarveOthers) {
  receiving_end busy(loop());
  busy.receiving.then = [&](result) {
    busy.stream.check(busy.receiving.data.bytes());
    busy.peer_sends(10);
  };
  busy.begin();
  settle();
  busy.peer_sends(10);
  for (int i = 0; i < 20; ++i) loop().poll();
  receiving_end other(loop(), 1);
  other.peer_sends(10);
  other.begin();
  poll_until([&] { return other.stream.all_came(); }, 100);
  EXPECT_EQ(busy.stream.wrong(), 0u);
}

// The kernel checks a limited number of handles at a time, all of which may be old ones.
TEST_P(Uring, NewEventsBehindManyOldOnesAreFoundWithoutAWait) {
  std::vector<std::unique_ptr<descriptor>> here;
  std::vector<std::unique_ptr<asking<readiness_request>>> waiting;
  std::vector<unique_fd> peers;
  std::size_t told = 0;
  for (std::size_t i = 0; i < 100; ++i) {
    auto [left, right] = gyre::test::tcp_pair();
    here.push_back(
        std::make_unique<descriptor>(loop(), std::move(left), handle_kind::stream_socket));
    peers.push_back(std::move(right));
    waiting.push_back(
        std::make_unique<asking<readiness_request>>(here.back()->handle(), direction::read));
    waiting.back()->then = [&](result made) { told += made.ok(); };
    ASSERT_FALSE(here.back()->start(*waiting.back()));
  }
  settle();
  std::array<char, 8> some;
  for (std::size_t i = 0; i < 100; ++i) {
    ASSERT_EQ(::write(peers[i].get(), "x", 1), 1);
    if (i >= 90) continue;
    ASSERT_EQ(::read(here[i]->fd(), some.data(), some.size()), 1);
  }
  poll_until([&] { return told >= 10; }, 200);
  EXPECT_EQ(told, 10u);
}

// The kernel may hand out only some events a call: a turn that served those first would make the
// others wait for all the bytes that it moves.
TEST_P(Uring, ATurnBeginsWithAllThatIsReady) {
  constexpr std::size_t many = 200;
  std::vector<std::unique_ptr<descriptor>> here;
  std::vector<std::unique_ptr<asking<readiness_request>>> waiting;
  std::size_t told = 0;
  for (std::size_t i = 0; i < many; ++i) {
    here.push_back(std::make_unique<descriptor>(
        loop(), unique_fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), handle_kind::other));
    waiting.push_back(
        std::make_unique<asking<readiness_request>>(here.back()->handle(), direction::read));
    waiting.back()->then = [&](result) { ++told; };
    ASSERT_FALSE(here.back()->start(*waiting.back()));
  }
  settle();
  for (const auto& each : here) ASSERT_EQ(::eventfd_write(each->fd(), 1), 0);
  loop().poll();
  EXPECT_EQ(told, many);
}

// Whether this process may open that many descriptors.
bool can_open(rlim_t count) {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_cur >= count) return true;
  limit.rlim_cur = std::min(limit.rlim_max, count);
  return ::setrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur >= count;
}

// More handles than a ring has room for, all of which become ready between two turns.
class crowd {
 public:
  static constexpr std::size_t many = 4300;

  explicit crowd(gyre::loop& loop) {
    for (std::size_t i = 0; i < many; ++i) {
      here_.push_back(std::make_unique<descriptor>(
          loop, unique_fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), handle_kind::other));
      waiting_.push_back(
          std::make_unique<asking<readiness_request>>(here_.back()->handle(), direction::read));
      waiting_.back()->then = [this, i](result made) {
        EXPECT_TRUE(made);
        ++told_[i];
        if (then) then();
      };
      EXPECT_FALSE(here_.back()->start(*waiting_.back()));
    }
  }
  void make_ready() const {
    for (const auto& each : here_) {
      if (each) {
        EXPECT_EQ(::eventfd_write(each->fd(), 1), 0);
      }
    }
  }
  void close(std::size_t one) { here_[one].reset(); }
  bool all_told() const {
    for (std::size_t i = 0; i < many; ++i) {
      if (here_[i] && told_[i] != 1) return false;
    }
    return true;
  }
  std::function<void()> then;

 private:
  std::vector<std::unique_ptr<descriptor>> here_;
  std::vector<std::unique_ptr<asking<readiness_request>>> waiting_;
  std::array<int, many> told_{};
};

TEST_P(Uring, NothingIsLostThatTheRingHasNoRoomForAndHandlesMayBeClosed) {
  if (!can_open(crowd::many + 500)) GTEST_SKIP() << "cannot open that many descriptors";
  receiving_end before(loop(), 1);
  receiving_end after(loop(), 2);
  before.begin();
  after.begin();
  crowd all(loop());
  settle();
  before.peer_sends(3000);
  all.make_ready();
  after.peer_sends(3000);
  for (std::size_t i = 0; i < 20; ++i) all.close(i * 7);
  std::size_t next = 1000;
  all.then = [&] {
    if (next < 1100) all.close(next++);
  };
  run_until([&] { return all.all_told(); });
  run_until([&] { return before.stream.all_came() && after.stream.all_came(); });
}

// Regression: each close scanned all pending completions, so closing many handles took quadratic
// time. The first handle stays open, and with it a completion in front of all others.
TEST_P(Uring, ClosingManyHandlesLooksAtEachCompletionOnce) {
  if (!can_open(crowd::many + 500)) GTEST_SKIP() << "cannot open that many descriptors";
  crowd all(loop());
  settle();
  all.make_ready();
  for (std::size_t i = 1; i < crowd::many; ++i) all.close(i);
  const auto& requests = static_cast<const detail::uring_requests&>(*loop().io());
  // Each handle has three completions: readable, no longer watched, and the cancellation's result.
  EXPECT_LE(requests.examined_completions(), 3 * crowd::many);
  run_until([&] { return all.all_told(); });
}

// Completions that the kernel kept because the ring was full are lost with the ring; a new ring
// reports them again.
TEST_P(Uring, EventsLeftInAnAbandonedRingAreReportedByTheNextOne) {
  if (!can_open(crowd::many + 500)) GTEST_SKIP() << "cannot open that many descriptors";
  crowd all(loop());
  settle();
  all.make_ready();
  std::thread([&] {
    const gyre::testing::fault failing("io_uring_get_events", EBUSY, {.times = -1});
    loop().poll();
    EXPECT_EQ(failing.hits(), GetParam().features.deferred_task_running ? 0 : 1);
  }).join();
  run_until([&] { return all.all_told(); });
}

// ---- listeners

struct listening_end {
  explicit listening_end(gyre::loop& loop)
      : listening_end(loop, gyre::test::loopback_listener(1000)) {}
  listening_end(gyre::loop& loop, std::pair<unique_fd, sockaddr_in> listener)
      : address(listener.second),
        here(loop, std::move(listener.first), handle_kind::socket),
        accepting(here.handle(), repeat::until_cancelled, true) {
    accepting.then = [this](result made) {
      results.push_back(made);
      if (made) accepted.emplace_back(made.fd());
    };
  }
  unique_fd connect() const {
    unique_fd client(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::connect(client.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address),
              0);
    return client;
  }
  void begin() { EXPECT_FALSE(here.start(accepting)); }

  sockaddr_in address;
  descriptor here;
  asking<accept_request> accepting;
  std::vector<result> results;
  std::vector<unique_fd> accepted;
};

// Whether the other side has closed.
bool is_over(const unique_fd& client) {
  char some;
  return ::recv(client.get(), &some, 1, MSG_DONTWAIT) == 0 || errno == ECONNRESET;
}

TEST_P(Uring, ConnectionsThatCameDuringAPauseComeAfterIt) {
  listening_end server(loop());
  std::vector<unique_fd> clients;
  server.begin();
  settle();
  for (int i = 0; i < 10; ++i) {
    clients.push_back(server.connect());
    EXPECT_FALSE(server.here.cancel(server.accepting));
    clients.push_back(server.connect());
    settle();
    EXPECT_EQ(server.accepted.size(), clients.size() - 2);
    clients.push_back(server.connect());
    settle();
    server.begin();
    run_until([&] { return server.accepted.size() == clients.size(); });
  }
}

TEST_P(Uring, ConnectionsThatNobodyTookEndWithTheirListener) {
  const int before = gyre::testing::open_descriptors();
  {
    std::optional<listening_end> server(std::in_place, loop());
    std::vector<unique_fd> clients;
    server->begin();
    settle();
    for (int i = 0; i < 10; ++i) clients.push_back(server->connect());
    server->here.cancel(server->accepting);
    for (int i = 0; i < 5; ++i) loop().poll();
    for (int i = 0; i < 10; ++i) clients.push_back(server->connect());
    EXPECT_TRUE(server->accepted.empty());
    server.reset();
    for (const unique_fd& each : clients) EXPECT_TRUE(is_over(each));
  }
  EXPECT_EQ(gyre::testing::open_descriptors(), before);
}

TEST_P(Uring, AListenerWithoutDescriptorsSaysSoAndGoesOnLater) {
  listening_end server(loop());
  const auto clients = std::to_array({server.connect(), server.connect(), server.connect()});
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit few{.rlim_cur = 64, .rlim_max = limit.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  std::vector<unique_fd> taken;
  do taken.emplace_back(::eventfd(0, EFD_CLOEXEC));
  while (taken.back());
  taken.resize(taken.size() - 2);  // leaves a descriptor for one of the three
  server.begin();
  poll_until([&] { return server.results.size() >= 2; }, 1000);
  EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  ASSERT_EQ(server.results.size(), 2u);
  EXPECT_TRUE(server.results[0]);
  EXPECT_EQ(server.results[1].error_number(), EMFILE);
  server.begin();
  run_until([&] { return server.accepted.size() == 3; });
}

// A port is free as soon as its listener closes, although the kernel's subscription holds the
// socket.
TEST_P(Uring, TheAddressOfAClosedListenerIsFree) {
  const auto can_bind = [](const sockaddr_in& address) {
    const unique_fd another(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    return ::bind(another.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) ==
               0 &&
           ::listen(another.get(), 1) == 0;
  };
  for (int i = 0; i < 20; ++i) {
    std::optional<listening_end> server(std::in_place, loop());
    server->begin();
    settle();
    const sockaddr_in address = server->address;
    EXPECT_FALSE(can_bind(address));
    server.reset();
    EXPECT_TRUE(can_bind(address));
  }
  // The listener is closed by a thread other than the loop's, after its run().
  std::optional<listening_end> server(std::in_place, loop());
  server->begin();
  std::thread([&] {
    loop().post([&] { loop().post([&] { loop().stop(); }); });
    loop().run();
  }).join();
  const sockaddr_in address = server->address;
  server.reset();
  EXPECT_TRUE(can_bind(address));
}

// ---- threads

// A thread that runs a loop alternately with others; every thread lives on during the others'
// turns.
class turn_taker {
 public:
  explicit turn_taker(gyre::loop& loop) : loop_(loop) {}
  ~turn_taker() {
    ended_ = true;
    begin_.release();
  }
  void run(std::chrono::microseconds time) {
    time_ = time;
    begin_.release();
    done_.acquire();
  }

 private:
  gyre::loop& loop_;
  std::chrono::microseconds time_{};
  bool ended_ = false;
  std::binary_semaphore begin_{0};
  std::binary_semaphore done_{0};
  std::jthread thread_{[this] {
    for (begin_.acquire(); !ended_; begin_.acquire()) {
      loop_.run_for(time_);
      done_.release();
    }
  }};
};

TEST_P(Uring, NoByteIsLostWhenThreadsTakeTurns) {
  constexpr int connections = 8;
  std::vector<std::unique_ptr<receiving_end>> all;
  for (std::uint64_t i = 0; i < connections; ++i) {
    all.push_back(std::make_unique<receiving_end>(loop(), i));
    all.back()->begin();
  }
  {
    turn_taker first(loop());
    turn_taker second(loop());
    // Sends the bytes that the streams of the loop's side only check.
    std::jthread sender([&](const std::stop_token& stop) {
      for (std::minstd_rand random(1); !stop.stop_requested();) {
        receiving_end& one = *all[random() % connections];
        if (one.sent_ahead.load() < 1'000'000) one.send_ahead(1 + random() % 400);
      }
    });
    for (int i = 0; i < 60; ++i) (i % 2 == 0 ? first : second).run(300us);
  }
  run_until([&] {
    return std::ranges::all_of(all, [](const auto& each) { return each->all_ahead_came(); });
  });
  for (const auto& each : all) EXPECT_EQ(each->stream.wrong(), 0u);
}

TEST_P(Uring, NoConnectionIsLostWhenThreadsTakeTurns) {
  const int before = gyre::testing::open_descriptors();
  std::optional<listening_end> server(std::in_place, loop());
  std::vector<unique_fd> clients;
  server->begin();
  {
    turn_taker first(loop());
    turn_taker second(loop());
    std::jthread connector([&](const std::stop_token& stop) {
      while (!stop.stop_requested() && clients.size() < 200) clients.push_back(server->connect());
    });
    for (int i = 0; i < 50; ++i) (i % 2 == 0 ? first : second).run(200us);
  }
  run_until([&] { return server->accepted.size() == clients.size(); });
  server.reset();
  clients.clear();
  settle();
  EXPECT_EQ(gyre::testing::open_descriptors(), before);
}

TEST_P(Uring, HandlesMayBeClosedByAnyThreadWhileNoneRunsTheLoop) {
  const int before = gyre::testing::open_descriptors();
  for (int i = 0; i < 10; ++i) {
    std::vector<std::unique_ptr<receiving_end>> all;
    for (std::uint64_t n = 0; n < 5; ++n) {
      all.push_back(std::make_unique<receiving_end>(loop(), n));
      all.back()->begin();
    }
    std::thread([&] { loop().run_for(100us); }).join();
    for (const auto& each : all) each->peer_sends(500);
    std::thread([&] { loop().run_for(100us); }).join();
    std::thread([&] { all.erase(all.begin(), all.begin() + 3); }).join();
    for (const auto& each : all) each->peer_sends(500);
    run_until([&] {
      return std::ranges::all_of(all, [](const auto& each) { return each->stream.all_came(); });
    });
  }
  EXPECT_EQ(gyre::testing::open_descriptors(), before);
}

TEST_P(Uring, AHandleMayComeFromAnEpollLoop) {
  const auto [near, far] = gyre::test::unix_pair();
  gyre::loop former(gyre::loop_options{.io = gyre::io_interface::epoll});
  handle moved(near.get(), handle_kind::stream_socket);
  backend_of(former).attach(moved);
  backend_of(former).detach(moved);
  backend_of(loop()).attach(moved);
  std::array<std::byte, 8> room;
  read_request reading(moved, room, nullptr);
  EXPECT_TRUE(backend_of(loop()).attempt(reading).would_block());
  backend_of(loop()).detach(moved);
}

// A thread that leaves the loop without a turn must not drop the requests of another thread.
TEST_P(Uring, AThreadThatMakesAndDestroysLoopsIsNotInterruptedLater) {
  int interruptions = -1;
  std::thread([&] {
    const auto poller = [] { return std::make_unique<uring_poller>(GetParam().features); };
    {
      const gyre::loop not_run({}, poller());
    }
    {
      gyre::loop run_by_another({}, poller());
      receiving_end one(run_by_another, 0);
      one.begin();
      std::thread([&] { run_by_another.run_for(100us); }).join();
    }
    {
      const gyre::io::detail::file_ring not_used;
    }
    interruptions = gyre::test::interruptions_until_rings_are_gone();
  }).join();
  EXPECT_EQ(interruptions, 0);
}

TEST_P(Uring, AThreadThatLeavesAtOnceDisturbsNothing) {
  receiving_end one(loop());
  one.begin();
  turn_taker other(loop());
  for (int i = 0; i < 20; ++i) {
    other.run(100us);
    one.peer_sends(3000);
    loop().stop();
    std::thread([&] { loop().run(); }).join();
    loop().restart();
    one.peer_sends(3000);
    other.run(100us);
  }
  run_until([&] { return one.stream.got() >= one.stream.sent(); });
  EXPECT_TRUE(one.stream.all_came());
}

}  // namespace
}  // namespace uring_poller_test
