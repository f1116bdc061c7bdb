// SPDX-License-Identifier: Apache-2.0
#include <gyre/base/detail/process_threads.hpp>

#include <tests/support/sanitizers.hpp>

#include <gtest/gtest.h>

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

namespace process_threads_test {
namespace {

using gyre::detail::is_single_threaded;

TEST(ProcessThreads, ForkedChildHasOne) {
  if (gyre::test::thread_sanitizer_is_on) {
    GTEST_SKIP() << "ThreadSanitizer's runtime has a thread of its own";
  }
  std::atomic<bool> ends = false;
  std::jthread second([&] { ends.wait(false); });
  EXPECT_FALSE(is_single_threaded());
  const ::pid_t child = ::fork();
  if (child == 0) ::_exit(is_single_threaded() ? 0 : 1);
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  ends = true;
  ends.notify_one();
}

// A signal ends getdents64(2) early, which would hide threads from a listing.
TEST(ProcessThreads, SignalsHideNone) {
  struct ::sigaction ignoring{};
  ignoring.sa_handler = [](int) {};
  struct ::sigaction before{};
  ASSERT_EQ(::sigaction(SIGUSR1, &ignoring, &before), 0);
  std::atomic<bool> ends = false;
  const ::pthread_t tested = ::pthread_self();
  std::jthread sender([&] {
    while (!ends) ::pthread_kill(tested, SIGUSR1);
  });
  constexpr int calls = gyre::test::unless_sanitized(5'000, 5);
  int mistakes = 0;
  for (int call = 0; call != calls; ++call) mistakes += is_single_threaded() ? 1 : 0;
  ends = true;
  sender.join();
  EXPECT_EQ(mistakes, 0);
  ASSERT_EQ(::sigaction(SIGUSR1, &before, nullptr), 0);
}

}  // namespace
}  // namespace process_threads_test
