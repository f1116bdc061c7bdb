// SPDX-License-Identifier: Apache-2.0
// wait_until_rings_are_gone: counts the waits of a thread that the kernel interrupts because a ring
// of io_uring was closed.
#pragma once

#include <gyre/base/unique_fd.hpp>

#include <gtest/gtest.h>
#include <liburing.h>

#include <sys/epoll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <thread>

namespace gyre::test {

/// Waits in epoll_wait(2) until the kernel has freed a ring that it makes and closes on another
/// thread, which it does after the rings that were closed before. Returns how often the wait was
/// interrupted; no signal handler must run.
inline int interruptions_until_rings_are_gone() {
  std::array<int, 2> ends{};
  if (::pipe(ends.data()) != 0) ADD_FAILURE() << "pipe";
  const unique_fd reader(ends[0]);
  unique_fd writer(ends[1]);
  // The ring holds the writer until the kernel frees it.
  std::thread([&] {
    io_uring last{};
    ASSERT_EQ(io_uring_queue_init(2, &last, 0), 0);
    const int held = writer.get();
    EXPECT_EQ(io_uring_register_files(&last, &held, 1), 0);
    io_uring_queue_exit(&last);
  }).join();
  writer.reset();
  const unique_fd events(::epoll_create1(EPOLL_CLOEXEC));
  epoll_event event{};
  EXPECT_EQ(::epoll_ctl(events.get(), EPOLL_CTL_ADD, reader.get(), &event), 0);
  int interruptions = 0;
  for (int found = 0; found != 1;) {
    found = ::epoll_wait(events.get(), &event, 1, -1);
    if (found < 0) {
      EXPECT_EQ(errno, EINTR);
      ++interruptions;
    }
  }
  return interruptions;
}

}  // namespace gyre::test
