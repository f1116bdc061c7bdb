// SPDX-License-Identifier: Apache-2.0
#include <gyre/io/borrowed_descriptor.hpp>

#include <gyre/exec/loop.hpp>
#include <gyre/exec/loop_thread.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/io/error.hpp>
#include <gyre/net/socket.hpp>
#include <gyre/pool/thread_pool.hpp>
#include <gyre/task/as_result.hpp>
#include <gyre/task/join_handle.hpp>
#include <gyre/task/schedule.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/task/task.hpp>
#include <gyre/task/with_timeout.hpp>

#include <tests/support/droppable.hpp>

#include <gtest/gtest.h>

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <exception>
#include <memory>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <utility>

namespace borrowed_descriptor_test {
namespace {

using namespace std::chrono_literals;
using gyre::contains;
using gyre::readiness;
using gyre::task;
using gyre::io::borrowed_descriptor;
using gyre::net::socket;

// Both ends of a connection, of which the test owns `near`, and so decides when it is closed.
class BorrowedDescriptor : public testing::Test {
 protected:
  static void send(const socket& sender, char byte = 'x') {
    EXPECT_EQ(::send(sender.fd(), &byte, 1, MSG_NOSIGNAL), 1);
  }
  static void take(const socket& receiver) {
    char byte = 0;
    EXPECT_EQ(::recv(receiver.fd(), &byte, 1, 0), 1);
  }
  static void fill(const socket& sender) {
    const char bytes[4096] = {};
    while (::send(sender.fd(), bytes, sizeof bytes, MSG_NOSIGNAL | MSG_DONTWAIT) > 0) {
    }
  }
  static void drain(const socket& receiver) {
    char bytes[4096];
    while (::recv(receiver.fd(), bytes, sizeof bytes, MSG_DONTWAIT) > 0) {
    }
  }
  // Runs the loop until nothing is ready.
  void settle() {
    while (loop.poll()) {
    }
  }
  std::error_code error_of(task<readiness> waiting) {
    try {
      gyre::sync_wait(loop, std::move(waiting));
      return {};
    } catch (const std::system_error& error) {
      return error.code();
    }
  }
  static std::error_code error_of(gyre::join_handle<readiness>& waiting) {
    try {
      gyre::sync_wait(waiting.join());
      return {};
    } catch (const std::system_error& error) {
      return error.code();
    }
  }
  gyre::join_handle<readiness> start(task<readiness> waiting) {
    auto started = gyre::spawn_joinable(loop, std::move(waiting));
    settle();
    return started;
  }

  gyre::loop loop;
  std::pair<socket, socket> wire = gyre::net::socket_pair();
  socket& near = wire.first;
  socket& far = wire.second;
  borrowed_descriptor lent{loop, near.fd()};
};

TEST_F(BorrowedDescriptor, AWaitEndsWhenBytesHaveCome) {
  auto waiting = start(lent.wait_readable());
  EXPECT_FALSE(waiting.is_done());
  send(far);
  EXPECT_EQ(gyre::sync_wait(loop, waiting.join()), readiness::readable);
}

TEST_F(BorrowedDescriptor, AWaitEndsAtOnceWhileBytesAreLeft) {
  send(far, 'a');
  send(far, 'b');
  EXPECT_EQ(gyre::sync_wait(loop, lent.wait_readable()), readiness::readable);
  take(near);
  EXPECT_EQ(gyre::sync_wait(loop, lent.wait_readable()), readiness::readable);
  take(near);
  EXPECT_FALSE(start(lent.wait_readable()).is_done());
}

TEST_F(BorrowedDescriptor, AWaitForRoomEndsWhenThePeerHasRead) {
  EXPECT_EQ(gyre::sync_wait(loop, lent.wait_writable()), readiness::writable);
  fill(near);
  auto waiting = start(lent.wait_writable());
  EXPECT_FALSE(waiting.is_done());
  drain(far);
  EXPECT_EQ(gyre::sync_wait(loop, waiting.join()), readiness::writable);
}

TEST_F(BorrowedDescriptor, OneWaitForSeveralEventsTellsThoseThatHaveCome) {
  constexpr readiness both = readiness::readable | readiness::writable;
  EXPECT_EQ(gyre::sync_wait(loop, lent.wait(both)), readiness::writable);
  send(far);
  EXPECT_EQ(gyre::sync_wait(loop, lent.wait(both)), both);
  fill(near);
  EXPECT_EQ(gyre::sync_wait(loop, lent.wait(both)), readiness::readable);
}

TEST_F(BorrowedDescriptor, UrgentDataIsAPriorityEvent) {
  const gyre::net::endpoint any(gyre::net::ip_address::loopback_v4(), 0);
  const socket listener =
      socket::open(gyre::net::address_family::ipv4, gyre::net::socket_type::stream);
  listener.bind(any);
  listener.listen();
  const socket sender =
      socket::open(gyre::net::address_family::ipv4, gyre::net::socket_type::stream);
  static_cast<void>(sender.connect(listener.local_endpoint()));
  borrowed_descriptor listening(loop, listener.fd());
  gyre::sync_wait(loop, listening.wait_readable());
  const gyre::unique_fd receiver(::accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC));
  ASSERT_TRUE(receiver);
  borrowed_descriptor received(loop, receiver.get());
  auto waiting = start(received.wait_priority());
  send(sender, 'n');
  settle();
  EXPECT_FALSE(waiting.is_done());
  ASSERT_EQ(::send(sender.fd(), "u", 1, MSG_OOB), 1);
  EXPECT_EQ(gyre::sync_wait(loop, waiting.join()), readiness::priority);
  char byte = 0;
  ASSERT_EQ(::recv(receiver.get(), &byte, 1, MSG_OOB), 1);
  EXPECT_EQ(byte, 'u');
}

TEST_F(BorrowedDescriptor, ThePeersEndIsReadableAndAHangUp) {
  auto waiting = start(lent.wait_readable());
  far.close();
  const readiness events = gyre::sync_wait(loop, waiting.join());
  EXPECT_TRUE(contains(events, readiness::readable));
  EXPECT_TRUE(contains(events, readiness::hang_up));
  EXPECT_TRUE(contains(gyre::sync_wait(loop, lent.wait_priority()), readiness::hang_up));
}

TEST_F(BorrowedDescriptor, EachOfTwoWaitersGetsItsEvents) {
  fill(near);
  auto reader = start(lent.wait_readable());
  auto writer = start(lent.wait_writable());
  EXPECT_FALSE(reader.is_done() || writer.is_done());
  drain(far);
  settle();
  EXPECT_TRUE(writer.is_done());
  EXPECT_FALSE(reader.is_done());
  send(far);
  EXPECT_EQ(gyre::sync_wait(loop, reader.join()), readiness::readable);
}

TEST_F(BorrowedDescriptor, TwoWaitersForTheSameEventAreBothResumed) {
  auto one = start(lent.wait_readable());
  auto other = start(lent.wait_readable());
  send(far);
  settle();
  EXPECT_TRUE(one.is_done());
  EXPECT_TRUE(other.is_done());
}

TEST_F(BorrowedDescriptor, ReleaseEndsTheWaitsAndRefusesLaterOnes) {
  auto reader = start(lent.wait_readable());
  auto other = start(lent.wait_priority());
  lent.release();
  near.close();  // its number may be used again from here on
  settle();
  EXPECT_EQ(error_of(reader), gyre::io::errc::closed);
  EXPECT_EQ(error_of(other), gyre::io::errc::closed);
  EXPECT_EQ(error_of(lent.wait_readable()), gyre::io::errc::not_open);
  EXPECT_EQ(lent.fd(), -1);
  lent.release();
}

TEST_F(BorrowedDescriptor, TheDestructorEndsTheWaits) {
  auto own = std::make_unique<borrowed_descriptor>(loop, far.fd());
  auto waiting = start(own->wait_readable());
  own.reset();
  settle();
  EXPECT_EQ(error_of(waiting), gyre::io::errc::closed);
}

TEST_F(BorrowedDescriptor, ItsOwnerMayCloseTheDescriptorWheneverNobodyWaits) {
  send(far);
  gyre::sync_wait(loop, lent.wait_readable());
  near.close();
  // Takes the number of the closed descriptor, as a C library may that connects again.
  std::pair<socket, socket> next = gyre::net::socket_pair();
  ASSERT_TRUE(next.first.fd() == lent.fd() || next.second.fd() == lent.fd());
  const socket& peer = next.first.fd() == lent.fd() ? next.second : next.first;
  borrowed_descriptor successor(loop, lent.fd());
  auto waiting = start(successor.wait_readable());
  lent.release();
  send(peer);
  EXPECT_EQ(gyre::sync_wait(loop, waiting.join()), readiness::readable);
}

TEST_F(BorrowedDescriptor, AStopEndsTheWait) {
  auto waiting = start(lent.wait_readable());
  waiting.request_stop();
  settle();
  EXPECT_EQ(error_of(waiting), std::errc::operation_canceled);
  send(far);
  EXPECT_EQ(gyre::sync_wait(loop, lent.wait_readable()), readiness::readable);
}

TEST_F(BorrowedDescriptor, ATimeLimitEndsTheWait) {
  auto limited = gyre::with_timeout(lent.wait_readable(), 1ms);
  EXPECT_THROW(gyre::sync_wait(loop, std::move(limited)), std::system_error);
  send(far);
  EXPECT_EQ(gyre::sync_wait(loop, gyre::with_timeout(lent.wait_readable(), 1h)),
            readiness::readable);
}

TEST_F(BorrowedDescriptor, AWaitingCoroutineMayBeDestroyed) {
  const auto wait = [](gyre::executor&, task<readiness> work) -> gyre::test::droppable {
    co_await std::move(work);
  };
  auto other = start(lent.wait_writable());
  gyre::executor& here = loop;
  gyre::test::droppable waiting = wait(here, lent.wait_readable());
  waiting.drop();
  EXPECT_EQ(gyre::sync_wait(loop, other.join()), readiness::writable);
  near.close();
  settle();
}

TEST_F(BorrowedDescriptor, AWaitWithoutEventsIsAnError) {
  EXPECT_THROW(gyre::sync_wait(loop, lent.wait(readiness::none)), std::invalid_argument);
  EXPECT_THROW(gyre::sync_wait(loop, lent.wait(readiness::hang_up)), std::invalid_argument);
}

TEST_F(BorrowedDescriptor, DescriptorsThatCannotBeWatchedAreReported) {
  borrowed_descriptor none(loop, -1);
  EXPECT_EQ(error_of(none.wait_readable()), std::errc::bad_file_descriptor);
  const gyre::unique_fd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  borrowed_descriptor always_ready(loop, null.get());
  EXPECT_EQ(error_of(always_ready.wait_writable()), std::errc::operation_not_permitted);
  borrowed_descriptor second(loop, near.fd());
  auto waiting = start(lent.wait_readable());
  EXPECT_EQ(error_of(second.wait_readable()), std::errc::file_exists);
  send(far);
  EXPECT_EQ(gyre::sync_wait(loop, waiting.join()), readiness::readable);
  EXPECT_EQ(gyre::sync_wait(loop, second.wait_readable()), readiness::readable);
}

TEST_F(BorrowedDescriptor, AnotherExecutorIsRefused) {
  gyre::thread_pool pool({.workers = 1});
  const auto result = gyre::sync_wait(gyre::as_result(gyre::on(pool, lent.wait_readable())));
  ASSERT_FALSE(result.has_value());
  EXPECT_THROW(
      {
        try {
          std::rethrow_exception(result.error());
        } catch (const std::system_error& error) {
          EXPECT_EQ(error.code(), gyre::io::errc::wrong_thread);
          throw;
        }
      },
      std::system_error);
}

TEST_F(BorrowedDescriptor, AStopOnAnotherThreadMayRaceWithTheEvents) {
  gyre::loop_thread thread;
  borrowed_descriptor remote(thread.loop(), far.fd());
  int stops = 0;
  for (int round = 0; round < 300; ++round) {
    auto waiting = gyre::spawn_joinable(thread.loop(), remote.wait_readable());
    if (round % 2 == 0) std::this_thread::yield();
    send(near);
    waiting.request_stop();
    const auto ended = gyre::sync_wait(gyre::as_result(waiting.join()));
    if (!ended) ++stops;
    take(far);
  }
  EXPECT_LE(stops, 300);
  // The loop's thread has left the list before the descriptor's owner goes.
  gyre::sync_wait(gyre::on(thread.loop(), [](borrowed_descriptor& descriptor) -> task<> {
    descriptor.release();
    co_return;
  }(remote)));
}

}  // namespace
}  // namespace borrowed_descriptor_test
