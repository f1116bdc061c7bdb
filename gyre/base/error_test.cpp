// SPDX-License-Identifier: Apache-2.0
//
// Tests of the exceptions that failed system calls become.
#include <gyre/base/error.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <functional>
#include <system_error>

namespace error_test {
namespace {

std::system_error caught(const std::function<void()>& thrower) {
  try {
    thrower();
  } catch (const std::system_error& error) {
    return error;
  }
  throw std::runtime_error{"nothing was thrown"};
}

TEST(Error, CarriesTheSystemsNumberAndTheNameOfTheCall) {
  const auto error = caught([] { gyre::detail::throw_system_error(ECONNREFUSED, "connect"); });
  EXPECT_EQ(error.code(), std::errc::connection_refused);
  EXPECT_EQ(error.code().category(), std::system_category());
  EXPECT_THAT(error.what(), testing::StartsWith("connect: "));
}

TEST(Error, ThrowErrnoTakesTheCurrentErrno) {
  const auto error = caught([] {
    errno = EMFILE;
    gyre::detail::throw_errno("socket");
  });
  EXPECT_EQ(error.code(), std::errc::too_many_files_open);
}

}  // namespace
}  // namespace error_test
