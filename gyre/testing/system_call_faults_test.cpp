// SPDX-License-Identifier: Apache-2.0
#include <gyre/testing/system_call_faults.hpp>

#include <gyre/base/unique_fd.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <stdexcept>
#include <thread>

namespace system_call_faults_test {
namespace {

using gyre::testing::fault;

int error_of_eventfd() {
  const gyre::unique_fd made(::eventfd(0, EFD_CLOEXEC));
  return made ? 0 : errno;
}

TEST(Fault, TheNextCallFailsOnce) {
  const fault failing("eventfd", EMFILE);
  EXPECT_EQ(error_of_eventfd(), EMFILE);
  EXPECT_EQ(error_of_eventfd(), 0);
  EXPECT_EQ(failing.hits(), 1);
}

TEST(Fault, TheNthCallsFail) {
  const fault failing("eventfd", ENFILE, {.after = 2, .times = 2});
  for (const int error : {0, 0, ENFILE, ENFILE, 0}) EXPECT_EQ(error_of_eventfd(), error);
  EXPECT_EQ(failing.hits(), 2);
}

TEST(Fault, AllCallsFailUntilItIsDestroyed) {
  {
    const fault failing("eventfd", ENOMEM, {.times = -1});
    for (int i = 0; i < 10; ++i) EXPECT_EQ(error_of_eventfd(), ENOMEM);
  }
  EXPECT_EQ(error_of_eventfd(), 0);
}

TEST(Fault, ConcernsItsThreadOnly) {
  const fault failing("eventfd", EMFILE);
  int elsewhere = -1;
  std::thread([&] { elsewhere = error_of_eventfd(); }).join();
  EXPECT_EQ(elsewhere, 0);
  EXPECT_EQ(failing.hits(), 0);
}

TEST(Fault, RefusesACallThatItDoesNotKnow) {
  EXPECT_THROW(fault("nonsense", EMFILE), std::invalid_argument);
  EXPECT_THROW(gyre::testing::calls_made("nonsense"), std::invalid_argument);
  EXPECT_THAT(fault::known_calls(), testing::Contains("accept4"));
}

TEST(Fault, CallsAreCounted) {
  const std::size_t before = gyre::testing::calls_made("eventfd");
  error_of_eventfd();
  error_of_eventfd();
  EXPECT_EQ(gyre::testing::calls_made("eventfd") - before, 2u);
}

TEST(Fault, OpenDescriptorsAreCounted) {
  const int before = gyre::testing::open_descriptors();
  const gyre::unique_fd one(::eventfd(0, EFD_CLOEXEC));
  EXPECT_EQ(gyre::testing::open_descriptors(), before + 1);
}

}  // namespace
}  // namespace system_call_faults_test
