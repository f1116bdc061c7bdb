// SPDX-License-Identifier: Apache-2.0
#include <gyre/base/detail/read_file.hpp>

#include <gtest/gtest.h>

#include <unistd.h>

#include <cerrno>
#include <string>

namespace read_file_test {
namespace {

using gyre::detail::read_file;

TEST(ReadKernelFile, ReadsAFileWhoseSizeIsZero) {
  const auto status = read_file("/proc/self/status");
  ASSERT_TRUE(status);
  EXPECT_TRUE(status->contains("\nPid:\t" + std::to_string(::getpid()) + "\n"));
}

TEST(ReadKernelFile, TellsWhyItCannot) {
  EXPECT_EQ(read_file("/proc/self/no such file").error(), ENOENT);
  EXPECT_EQ(read_file("/proc/self").error(), EISDIR);
}

}  // namespace
}  // namespace read_file_test
