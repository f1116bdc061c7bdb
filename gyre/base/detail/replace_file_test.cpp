// SPDX-License-Identifier: Apache-2.0
#include <gyre/base/detail/replace_file.hpp>

#include <gyre/base/detail/read_file.hpp>
#include <tests/support/temporary_folder.hpp>

#include <gtest/gtest.h>

#include <sys/stat.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <string>

namespace replace_file_test {
namespace {

using gyre::detail::last_write_time;
using gyre::detail::read_file;
using gyre::detail::replace_file;

TEST(ReplaceFile, MakesAndReplacesAFile) {
  const gyre::test::temporary_folder folder;
  const std::string path = folder / "file";
  EXPECT_EQ(replace_file(path, std::string(100'000, 'a')), 0);
  EXPECT_EQ(read_file(path.c_str()), std::string(100'000, 'a'));
  EXPECT_EQ(replace_file(path, ""), 0);
  EXPECT_EQ(read_file(path.c_str()), "");
  EXPECT_FALSE(std::filesystem::exists(path + ".tmp"));
}

TEST(ReplaceFile, LetsOthersNotReadIt) {
  const gyre::test::temporary_folder folder;
  const std::string path = folder.make_file("file", "old");
  std::filesystem::permissions(path, std::filesystem::perms(0666));
  EXPECT_EQ(replace_file(path, "new"), 0);
  struct stat status{};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777U, 0600U);
}

TEST(ReplaceFile, LeavesTheOldFileAfterAnError) {
  const gyre::test::temporary_folder folder;
  const std::string path = folder / "folder";
  std::filesystem::create_directory(path);
  EXPECT_EQ(replace_file(path, "new"), EISDIR);
  EXPECT_FALSE(std::filesystem::exists(path + ".tmp"));
  EXPECT_EQ(replace_file(folder / "none/file", "new"), ENOENT);
}

TEST(LastWriteTime, IsThatOfTheFile) {
  const gyre::test::temporary_folder folder;
  const std::string path = folder.make_file("file", "old");
  const auto now = last_write_time(path.c_str());
  ASSERT_TRUE(now);
  const auto file_time = std::filesystem::last_write_time(path);
  std::filesystem::last_write_time(path, file_time - std::chrono::hours(1));
  EXPECT_EQ(last_write_time(path.c_str()), *now - std::chrono::hours(1));
  EXPECT_FALSE(last_write_time((folder / "none").c_str()));
}

}  // namespace
}  // namespace replace_file_test
