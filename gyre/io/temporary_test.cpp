// SPDX-License-Identifier: Apache-2.0
#include <gyre/io/temporary.hpp>

#include <gyre/io/file.hpp>
#include <gyre/task/executor.hpp>
#include <gyre/task/operation_cancelled.hpp>
#include <gyre/task/sync_wait.hpp>
#include <gyre/testing/manual_executor.hpp>
#include <gyre/testing/system_call_faults.hpp>
#include <tests/support/awaited_error.hpp>
#include <tests/support/temporary_folder.hpp>

#include <gtest/gtest.h>

#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace temporary_test {
namespace {

using namespace std::string_view_literals;
using gyre::sync_wait;
using gyre::task;
using gyre::io::file;
using gyre::io::temporary_directory;
using gyre::io::temporary_file;
using gyre::test::error_of;
using gyre::test::temporary_folder;
using gyre::testing::open_descriptors;

bool is_empty(const temporary_folder& folder) { return std::filesystem::is_empty(folder.path()); }

void expect_scratch(const file& scratch) {
  sync_wait(scratch.write_at("text"sv, 0));
  EXPECT_EQ(sync_wait(scratch.read_whole()).text(), "text");
  const struct ::stat status = sync_wait(scratch.status());
  EXPECT_EQ(status.st_mode, S_IFREG | 0600U);
  EXPECT_EQ(status.st_nlink, 0U);
}

TEST(TemporaryFile, HasNoName) {
  const temporary_folder folder;
  const file scratch = sync_wait(temporary_file(folder.path()));
  EXPECT_TRUE(is_empty(folder));
  expect_scratch(scratch);
}

TEST(TemporaryFile, HasNoNameOnFileSystemsThatCannotMakeSuchFiles) {
  const temporary_folder folder;
  for (const int error : {EOPNOTSUPP, EISDIR}) {
    const gyre::testing::fault unknown("open", error);
    const file scratch = sync_wait(temporary_file(folder.path(), &gyre::inline_executor()));
    EXPECT_EQ(unknown.hits(), 1);
    EXPECT_TRUE(is_empty(folder));
    expect_scratch(scratch);
  }
}

TEST(TemporaryFile, IsInTheFolderOfTheEnvironmentByDefault) {
  const temporary_folder folder;
  const char* const before = ::getenv("TMPDIR");
  const std::optional<std::string> kept =
      before ? std::optional<std::string>(before) : std::nullopt;
  ::setenv("TMPDIR", (folder / "none").c_str(), 1);
  try {
    sync_wait(temporary_file());
    ADD_FAILURE();
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.what(), "temporary_file " + (folder / "none") + ": No such file or directory");
  }
  ::setenv("TMPDIR", "", 1);
  EXPECT_TRUE(sync_wait(temporary_file()));
  kept ? ::setenv("TMPDIR", kept->c_str(), 1) : ::unsetenv("TMPDIR");
}

TEST(TemporaryFile, TellsErrors) {
  const temporary_folder folder;
  EXPECT_EQ(error_of(temporary_file(folder.make_file("file"))), std::errc::not_a_directory);
  gyre::executor* const here = &gyre::inline_executor();
  const int before = open_descriptors();
  {
    const gyre::testing::fault full("open", ENOSPC);
    EXPECT_EQ(error_of(temporary_file(folder.path(), here)), std::errc::no_space_on_device);
  }
  const gyre::testing::fault unknown("open", EOPNOTSUPP);
  {
    const gyre::testing::fault broken("getrandom", EIO);
    EXPECT_EQ(error_of(temporary_file(folder.path(), here)), std::errc::io_error);
  }
  const gyre::testing::fault again("open", EOPNOTSUPP);
  const gyre::testing::fault interrupted("getrandom", EINTR, {.times = 3});
  const gyre::testing::fault kept("unlinkat", EIO);
  EXPECT_EQ(error_of(temporary_file(folder.path(), here)), std::errc::io_error);
  EXPECT_EQ(interrupted.hits(), 3);
  EXPECT_EQ(open_descriptors(), before);
}

TEST(TemporaryDirectory, IsRemovedWithAllThatIsInIt) {
  const temporary_folder folder;
  const auto work = [](std::string where) -> task<> {
    auto directory = co_await temporary_directory::create(where);
    struct ::stat status{};
    EXPECT_EQ(::stat(directory.path().c_str(), &status), 0);
    EXPECT_EQ(status.st_mode, S_IFDIR | 0700U);
    EXPECT_TRUE(directory.path().starts_with(where + "/gyre-"));
    std::filesystem::create_directories(directory / "a/b");
    co_await directory.remove();
    EXPECT_TRUE(directory.path().empty());
  };
  sync_wait(work(folder.path()));
  EXPECT_TRUE(is_empty(folder));
}

TEST(TemporaryDirectory, IsRemovedByItsDestructorToo) {
  const temporary_folder folder;
  {
    const auto directory = sync_wait(temporary_directory::create(folder.path() + '/'));
    std::filesystem::create_directories(directory / "a/b");
    EXPECT_FALSE(is_empty(folder));
  }
  EXPECT_TRUE(is_empty(folder));
}

TEST(TemporaryDirectory, IsRemovedByItsDestructorWithoutAFreeDescriptorIfItIsEmpty) {
  const temporary_folder folder;
  std::optional directory = sync_wait(temporary_directory::create(folder.path()));
  {
    const gyre::testing::fault none_left("open", EMFILE, {.times = -1});
    const gyre::testing::fault none_left_in_a_folder("openat", EMFILE, {.times = -1});
    directory.reset();
  }
  EXPECT_TRUE(is_empty(folder));
}

TEST(TemporaryDirectory, IsRemovedOnceWhenItWasMoved) {
  const temporary_folder folder;
  auto one = sync_wait(temporary_directory::create(folder.path()));
  auto two = sync_wait(temporary_directory::create(folder.path()));
  const std::string path = two.path();
  EXPECT_NE(one.path(), path);
  one = std::move(two);
  EXPECT_EQ(one.path(), path);
  EXPECT_EQ(folder.entries(), 1U);
  temporary_directory moved(std::move(one));
  moved = temporary_directory();
  EXPECT_TRUE(is_empty(folder));
}

TEST(TemporaryDirectory, StaysWhenItIsMovedToItself) {
  auto directory = sync_wait(temporary_directory::create());
  temporary_directory& same = directory;
  directory = std::move(same);
  EXPECT_TRUE(std::filesystem::exists(directory.path()));
}

TEST(TemporaryDirectory, WithoutADirectoryHasNoPathsInIt) {
  const temporary_directory none;
  EXPECT_THROW(static_cast<void>(none / "name"), std::logic_error);
}

TEST(TemporaryDirectory, HasAnAbsolutePath) {
  const std::filesystem::path folder =
      std::filesystem::relative(std::filesystem::temp_directory_path());
  const auto directory = sync_wait(temporary_directory::create(folder.string()));
  EXPECT_TRUE(directory.path().starts_with('/')) << directory.path();
}

TEST(TemporaryDirectory, StaysWhenItIsReleased) {
  const temporary_folder folder;
  const std::string path = sync_wait(temporary_directory::create(folder.path())).release();
  EXPECT_TRUE(std::filesystem::exists(path));
}

TEST(TemporaryDirectory, IsNotRemovedByAForkedChild) {
  const temporary_folder folder;
  const auto directory =
      sync_wait(temporary_directory::create(folder.path(), &gyre::inline_executor()));
  const ::pid_t child = ::fork();
  if (child == 0) {
    directory.~temporary_directory();
    ::_exit(0);
  }
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(std::filesystem::exists(directory.path()));
}

TEST(TemporaryDirectory, TellsErrors) {
  const temporary_folder folder;
  EXPECT_EQ(error_of(temporary_directory::create(folder / "none")),
            std::errc::no_such_file_or_directory);
  gyre::executor* const here = &gyre::inline_executor();
  {
    const gyre::testing::fault taken("mkdirat", EEXIST, {.times = 2});
    EXPECT_EQ(error_of(temporary_directory::create(folder.path(), here)), std::error_code());
    EXPECT_EQ(taken.hits(), 2) << "another name is tried";
  }
  {
    const gyre::testing::fault taken("mkdirat", EEXIST, {.times = -1});
    EXPECT_EQ(error_of(temporary_directory::create(folder.path(), here)), std::errc::file_exists);
  }
  auto directory = sync_wait(temporary_directory::create(folder.path()));
  {
    const gyre::testing::fault broken("unlinkat", EBUSY);
    EXPECT_EQ(error_of(directory.remove(here)), std::errc::device_or_resource_busy);
  }
  EXPECT_FALSE(directory.path().empty()) << "to be tried again";
}

TEST(TemporaryDirectory, IsRemovedByItsDestructorWhenRemoveWasStopped) {
  const temporary_folder folder;
  gyre::testing::manual_executor pool;
  gyre::inplace_stop_source source;
  bool cancelled = false;
  const auto work = [&]() -> task<> {
    auto directory = co_await temporary_directory::create(folder.path());
    auto removing = directory.remove(&pool);
    source.request_stop();
    try {
      co_await std::move(removing);
    } catch (const gyre::operation_cancelled&) {
      cancelled = true;
    }
  };
  sync_wait(work(), source.get_token());
  EXPECT_TRUE(cancelled);
  EXPECT_TRUE(is_empty(folder));
}

TEST(TemporaryDirectory, HasANameOfItsOwnOnEachThread) {
  const temporary_folder folder;
  std::vector<std::jthread> threads;
  for (int each = 0; each < 4; ++each) {
    threads.emplace_back([&] {
      for (int round = 0; round < 20; ++round) {
        sync_wait(sync_wait(temporary_directory::create(folder.path())).remove());
      }
    });
  }
  threads.clear();
  EXPECT_TRUE(is_empty(folder));
}

}  // namespace
}  // namespace temporary_test
