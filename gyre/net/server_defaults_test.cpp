// SPDX-License-Identifier: Apache-2.0
// Tests of the lines that servers print on stderr.
#include <gyre/net/detail/server_defaults.hpp>

#include <gyre/base/clock.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <system_error>

namespace server_defaults_test {
namespace {

constinit gyre::steady_time present = gyre::steady_time::min();
gyre::steady_time now() noexcept { return present; }

TEST(ServerDefaults, PausesOfAcceptingDoNotFillALogAndAreCounted) {
  using namespace std::chrono_literals;
  present = gyre::steady_time(1h);
  auto print = gyre::net::detail::print_accept_errors("doorman", &now);
  const auto printed_by = [&](int pauses) {
    testing::internal::CaptureStderr();
    for (int i = 0; i < pauses; ++i) {
      print(std::make_error_code(std::errc::too_many_files_open));
    }
    return testing::internal::GetCapturedStderr();
  };
  const std::string first = printed_by(30);
  EXPECT_EQ(std::ranges::count(first, '\n'), 10) << first;
  EXPECT_EQ(printed_by(1), "");
  present += 1s;
  const std::string second = printed_by(2);
  EXPECT_EQ(std::ranges::count(second, '\n'), 2) << second;
  EXPECT_THAT(second,
              testing::StartsWith("gyre: doorman: 21 more pauses of accepting, not printed\n"
                                  "gyre: doorman: accepting pauses: "));
  present += 1s;
  EXPECT_THAT(printed_by(1), testing::StartsWith("gyre: doorman: 1 more pauses"));
}

}  // namespace
}  // namespace server_defaults_test
