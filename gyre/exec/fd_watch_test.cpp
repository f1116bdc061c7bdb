// SPDX-License-Identifier: Apache-2.0
// Tests of descriptor watches, on real descriptors.
#include <gyre/exec/fd_watch.hpp>

#include <gyre/base/unique_fd.hpp>
#include <gyre/exec/loop.hpp>
#include <gyre/exec/timer.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace fd_watch_test {
namespace {

using gyre::fd_watch;
using gyre::readiness;
using gyre::trigger;
using gyre::unique_fd;

constexpr readiness both = readiness::readable | readiness::writable;

// Two connected sockets.
struct connection {
  connection() {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) != 0) {
      throw std::system_error(errno, std::system_category());
    }
    near = unique_fd(ends[0]);
    far = unique_fd(ends[1]);
  }
  void arrive(char byte = 'x') const { EXPECT_EQ(::write(far.get(), &byte, 1), 1); }
  char take() const {
    char byte = 0;
    EXPECT_EQ(::read(near.get(), &byte, 1), 1);
    return byte;
  }
  unique_fd near;
  unique_fd far;
};

int error_of(fd_watch& watch, readiness interest = readiness::readable) {
  try {
    watch.start(interest);
    return 0;
  } catch (const std::system_error& error) {
    return error.code().value();
  }
}

class FdWatch : public testing::Test {
 protected:
  auto record() {
    return [this](readiness ready) { reports_.push_back(ready); };
  }
  // Every ready descriptor is served in one turn, however slow the machine is.
  gyre::loop loop_{{.io_time = std::chrono::hours(1)}};
  connection wire_;
  std::vector<readiness> reports_;
};

TEST_F(FdWatch, LevelReportsEveryTurnWhileReady) {
  fd_watch watch(loop_, wire_.near.get(), record());
  watch.start(readiness::readable);
  EXPECT_FALSE(loop_.poll());
  wire_.arrive();
  for (int turn = 0; turn < 3; ++turn) EXPECT_TRUE(loop_.poll());
  EXPECT_THAT(reports_,
              testing::ElementsAre(readiness::readable, readiness::readable, readiness::readable));
  wire_.take();
  EXPECT_FALSE(loop_.poll());
}

TEST_F(FdWatch, EdgeReportsOnceForEachArrival) {
  fd_watch watch(loop_, wire_.near.get(), record());
  watch.start(readiness::readable, trigger::edge);
  wire_.arrive();
  EXPECT_TRUE(loop_.poll());
  EXPECT_FALSE(loop_.poll());
  wire_.arrive();
  EXPECT_TRUE(loop_.poll());
  EXPECT_FALSE(loop_.poll());
  EXPECT_EQ(reports_.size(), 2u);
}

TEST_F(FdWatch, ReportsReadingAndWritingTogether) {
  fd_watch watch(loop_, wire_.near.get(), record());
  watch.start(both);
  wire_.arrive();
  loop_.poll();
  EXPECT_THAT(reports_, testing::ElementsAre(both));
}

TEST_F(FdWatch, ReadinessBeforeStartIsReported) {
  wire_.arrive();
  for (const trigger how : {trigger::level, trigger::edge}) {
    fd_watch watch(loop_, wire_.near.get(), record());
    watch.start(readiness::readable, how);
    EXPECT_TRUE(loop_.poll());
  }
  EXPECT_EQ(reports_.size(), 2u);
}

TEST_F(FdWatch, RunsOnTheLoopsThreadWhenAnotherThreadWrites) {
  fd_watch watch(loop_, wire_.near.get(), [&](readiness) {
    EXPECT_TRUE(loop_.in_loop_thread());
    wire_.take();
    loop_.stop();
  });
  watch.start(readiness::readable);
  std::jthread writer([&] { wire_.arrive(); });
  loop_.run();
  EXPECT_EQ(loop_.metrics().io_events, 1u);
}

TEST_F(FdWatch, ChangesWhatItReports) {
  fd_watch watch(loop_, wire_.near.get(), record());
  wire_.arrive();
  watch.start(readiness::readable);
  watch.start(readiness::writable);
  loop_.poll();
  watch.start(readiness::none);
  EXPECT_FALSE(loop_.poll());
  EXPECT_TRUE(watch.active());
  watch.start(both, trigger::edge);
  loop_.poll();
  EXPECT_FALSE(loop_.poll()) << "edge-triggered now";
  EXPECT_THAT(reports_, testing::ElementsAre(readiness::writable, both));
  EXPECT_EQ(loop_.metrics().descriptors_watched, 1u);
}

TEST_F(FdWatch, MayChangeItsInterestInItsFunction) {
  fd_watch watch(loop_, wire_.near.get(), [&](readiness ready) {
    reports_.push_back(ready);
    watch.start(readiness::writable);
  });
  wire_.arrive();
  watch.start(readiness::readable);
  loop_.poll();
  loop_.poll();
  EXPECT_THAT(reports_, testing::ElementsAre(readiness::readable, readiness::writable));
}

TEST_F(FdWatch, StopEndsItAndStartBeginsAnew) {
  fd_watch watch(loop_, wire_.near.get(), record());
  wire_.arrive();
  EXPECT_FALSE(watch.stop());
  watch.start(readiness::readable);
  EXPECT_TRUE(watch.stop());
  EXPECT_FALSE(watch.active());
  EXPECT_FALSE(watch.stop());
  EXPECT_FALSE(loop_.poll());
  EXPECT_EQ(loop_.metrics().descriptors_watched, 0u);
  watch.start(readiness::readable);
  EXPECT_TRUE(loop_.poll());
}

TEST_F(FdWatch, MayStopItself) {
  int calls = 0;
  fd_watch watch(loop_, wire_.near.get(), [&](readiness) {
    ++calls;
    EXPECT_TRUE(watch.stop());
  });
  wire_.arrive();
  watch.start(both);
  EXPECT_TRUE(loop_.poll());
  EXPECT_FALSE(loop_.poll());
  EXPECT_EQ(calls, 1) << "reading and writing are one call";
}

TEST_F(FdWatch, MayDestroyItselfInItsFunctionWhichGoesOn) {
  std::unique_ptr<fd_watch> watch;
  std::string after;
  watch = std::make_unique<fd_watch>(loop_, wire_.near.get(),
                                     [&, text = std::string(100, 'x')](readiness) {
                                       watch.reset();
                                       wire_.near.reset();
                                       after = text;
                                     });
  wire_.arrive();
  watch->start(both);
  EXPECT_TRUE(loop_.poll());
  EXPECT_FALSE(loop_.poll());
  EXPECT_EQ(after, std::string(100, 'x'));
  EXPECT_EQ(loop_.metrics().descriptors_watched, 0u);
}

// Two watches that are ready in the same wait; whichever is called first acts on the other.
class TwoWatches : public FdWatch {
 protected:
  void make(std::size_t index, gyre::move_only_function<void(std::size_t other)> act) {
    watches_[index] = std::make_unique<fd_watch>(
        loop_, wires_[index].near.get(), [this, index, act = std::move(act)](readiness) mutable {
          ++calls_;
          act(1 - index);
        });
    wires_[index].arrive();
    watches_[index]->start(readiness::readable);
  }
  std::array<connection, 2> wires_;
  std::array<std::unique_ptr<fd_watch>, 2> watches_;
  int calls_ = 0;
};

TEST_F(TwoWatches, TheFirstMayStopTheSecond) {
  for (std::size_t i = 0; i < 2; ++i) make(i, [&](std::size_t other) { watches_[other]->stop(); });
  EXPECT_TRUE(loop_.poll());
  EXPECT_EQ(calls_, 1);
}

TEST_F(TwoWatches, TheFirstMayDestroyTheSecond) {
  for (std::size_t i = 0; i < 2; ++i) make(i, [&](std::size_t other) { watches_[other].reset(); });
  EXPECT_TRUE(loop_.poll());
  EXPECT_EQ(calls_, 1);
}

TEST_F(TwoWatches, TheSecondStoppedAndStartedAnewIsNotToldOfTheOldReadiness) {
  for (std::size_t i = 0; i < 2; ++i) {
    make(i, [&](std::size_t other) {
      watches_[other]->stop();
      wires_[other].take();
      watches_[other]->start(readiness::readable);
    });
  }
  EXPECT_TRUE(loop_.poll());
  EXPECT_EQ(calls_, 1);
}

TEST_F(TwoWatches, TheSecondIsNotToldOfWhatTheFirstMadeItNoLongerAskFor) {
  for (std::size_t i = 0; i < 2; ++i) {
    make(i, [&](std::size_t other) { watches_[other]->start(readiness::none); });
  }
  EXPECT_TRUE(loop_.poll());
  EXPECT_EQ(calls_, 1);
}

TEST_F(TwoWatches, ANewWatchOnAClosedOnesNumberIsNotToldOfTheOldReadiness) {
  std::unique_ptr<fd_watch> successor;
  connection fresh;
  for (std::size_t i = 0; i < 2; ++i) {
    make(i, [&](std::size_t other) {
      const int number = wires_[other].near.get();
      watches_[1 - other]->stop();
      watches_[other].reset();
      ASSERT_EQ(::dup3(fresh.near.get(), number, O_CLOEXEC),
                number);  // closes the old one, takes its number
      successor = std::make_unique<fd_watch>(loop_, number, record());
      successor->start(readiness::readable);
    });
  }
  EXPECT_TRUE(loop_.poll());
  EXPECT_EQ(calls_, 1);
  EXPECT_TRUE(reports_.empty());
  fresh.arrive();
  loop_.poll();
  EXPECT_EQ(reports_.size(), 1u);
}

TEST_F(TwoWatches, OneMayStartAnother) {
  std::unique_ptr<fd_watch> started;
  make(0, [&](std::size_t) {
    watches_[0]->stop();
    started = std::make_unique<fd_watch>(loop_, wires_[1].near.get(), record());
    started->start(readiness::readable);
  });
  wires_[1].arrive();
  loop_.poll();
  loop_.poll();
  EXPECT_EQ(calls_, 1);
  EXPECT_EQ(reports_.size(), 1u);
}

TEST_F(FdWatch, OneForADescriptorAndLoop) {
  fd_watch first(loop_, wire_.near.get(), record());
  fd_watch second(loop_, wire_.near.get(), [](readiness) { FAIL(); });
  first.start(readiness::readable);
  EXPECT_EQ(error_of(second), EEXIST);
  EXPECT_FALSE(second.active());
  wire_.arrive();
  EXPECT_TRUE(loop_.poll());
  EXPECT_EQ(reports_.size(), 1u);

  gyre::loop other;
  fd_watch elsewhere(other, wire_.near.get(), record());
  EXPECT_EQ(error_of(elsewhere), 0);
  EXPECT_TRUE(other.poll());
}

TEST_F(FdWatch, RefusesARegularFileAndWhatIsNoDescriptor) {
  const unique_fd file(::memfd_create("gyre_test", MFD_CLOEXEC));
  fd_watch on_file(loop_, file.get(), record());
  EXPECT_EQ(error_of(on_file), EPERM);
  fd_watch on_nothing(loop_, -1, record());
  EXPECT_EQ(error_of(on_nothing), EBADF);
  EXPECT_FALSE(on_file.active() || on_nothing.active());
  EXPECT_EQ(loop_.metrics().descriptors_watched, 0u);
}

TEST_F(FdWatch, CloseAfterStopLeavesTheNumberToOthers) {
  fd_watch watch(loop_, wire_.near.get(), [](readiness) { FAIL(); });
  watch.start(readiness::readable);
  watch.stop();
  wire_.near.reset();
  connection next;
  fd_watch successor(loop_, next.near.get(), record());
  successor.start(readiness::readable);
  EXPECT_FALSE(watch.stop()) << "must not end the successor's watch of the same number";
  next.arrive();
  EXPECT_TRUE(loop_.poll());
  EXPECT_EQ(reports_.size(), 1u);
}

TEST_F(FdWatch, ReportsAHangUpToAReader) {
  fd_watch watch(loop_, wire_.near.get(), record());
  watch.start(readiness::readable);
  wire_.far.reset();
  loop_.poll();
  EXPECT_THAT(reports_, testing::ElementsAre(readiness::readable | readiness::hang_up));
}

TEST_F(FdWatch, ReportsAHangUpUnasked) {
  fd_watch watch(loop_, wire_.near.get(), record());
  watch.start(readiness::none);
  wire_.far.reset();
  loop_.poll();
  EXPECT_THAT(reports_, testing::ElementsAre(readiness::hang_up));
}

TEST_F(FdWatch, ReportsHalfAClose) {
  fd_watch watch(loop_, wire_.near.get(), record());
  watch.start(readiness::readable);
  ::shutdown(wire_.far.get(), SHUT_WR);
  loop_.poll();
  EXPECT_THAT(reports_, testing::ElementsAre(readiness::readable | readiness::hang_up));
}

TEST_F(FdWatch, ReportsAnErrorUnasked) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK), 0);
  unique_fd reader(ends[0]);
  const unique_fd writer(ends[1]);
  fd_watch watch(loop_, writer.get(), record());
  watch.start(readiness::none);
  EXPECT_FALSE(loop_.poll());
  reader.reset();
  loop_.poll();
  EXPECT_THAT(reports_, testing::ElementsAre(readiness::error));
}

TEST_F(FdWatch, MoreDescriptorsThanOneWaitReportsAreAllServed) {
  constexpr std::size_t many = 300;
  std::vector<unique_fd> descriptors;
  std::vector<std::unique_ptr<fd_watch>> watches;
  std::size_t calls = 0;
  for (std::size_t i = 0; i < many; ++i) {
    descriptors.emplace_back(::eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK));
    watches.push_back(std::make_unique<fd_watch>(loop_, descriptors[i].get(), [&, i](readiness) {
      ++calls;
      watches[i]->stop();
    }));
    watches[i]->start(readiness::readable);
  }
  EXPECT_EQ(loop_.metrics().descriptors_watched, many);
  EXPECT_TRUE(loop_.poll());
  EXPECT_TRUE(loop_.poll());
  EXPECT_EQ(calls, many);
  EXPECT_EQ(loop_.metrics().io_events, many);
}

TEST_F(FdWatch, EventsDuringABusyTurnAreServedBeforeTimersThatBecameDueMeanwhile) {
  const connection late;
  for (const bool others : {false, true}) {
    gyre::timer other(loop_, [] {});
    if (others) other.start_after(std::chrono::hours(1));
    gyre::timer limit(loop_, [] { ADD_FAILURE() << "what came was timed out"; });
    bool came = false;
    fd_watch waiting(loop_, late.near.get(), [&](readiness) {
      late.take();
      limit.cancel();
      came = true;
    });
    waiting.start(readiness::readable);
    fd_watch busy(loop_, wire_.near.get(), [&](readiness) {
      wire_.take();
      late.arrive();
      limit.start_at(std::chrono::steady_clock::now());
    });
    busy.start(readiness::readable);
    wire_.arrive();
    while (!came && !HasFailure()) loop_.run_once();
  }
}

TEST_F(FdWatch, IsStoppedByItsDestructor) {
  {
    fd_watch watch(loop_, wire_.near.get(), [](readiness) { FAIL(); });
    watch.start(readiness::readable);
    wire_.arrive();
  }
  EXPECT_FALSE(loop_.poll());
}

}  // namespace
}  // namespace fd_watch_test
