// SPDX-License-Identifier: Apache-2.0
#include <gyre/io/error.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <system_error>

namespace error_test {
namespace {

TEST(IoError, AnIdleConnectionDoesNotReadAsOneThatCouldNotBeMade) {
  const std::error_code idle = gyre::io::errc::idle_timeout;
  EXPECT_THAT(idle.message(), testing::HasSubstr("idle"));
  EXPECT_NE(idle.message(), std::make_error_code(std::errc::timed_out).message());
  EXPECT_EQ(idle, std::errc::timed_out);  // for code that does not distinguish time limits
  EXPECT_NE(std::error_code(gyre::io::errc::limit_exceeded), std::errc::timed_out);
}

}  // namespace
}  // namespace error_test
