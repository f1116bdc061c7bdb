// SPDX-License-Identifier: Apache-2.0
#include <gyre/io/directory.hpp>

#include <gyre/io/file_type.hpp>
#include <gyre/task/as_expected.hpp>
#include <gyre/task/executor.hpp>
#include <gyre/task/operation_cancelled.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/task/sync_wait.hpp>
#include <gyre/testing/manual_executor.hpp>
#include <gyre/testing/system_call_faults.hpp>
#include <tests/support/droppable.hpp>
#include <tests/support/temporary_folder.hpp>

#include <gtest/gtest.h>

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace directory_test {
namespace {

using gyre::as_expected;
using gyre::sync_wait;
using gyre::task;
using gyre::io::directory_entry;
using gyre::io::directory_reader;
using gyre::io::file_type;
using gyre::io::read_directory;
using gyre::test::temporary_folder;
using gyre::testing::open_descriptors;

task<std::map<std::string, file_type>> types_in(std::string path, gyre::executor* pool = nullptr) {
  std::map<std::string, file_type> types;
  auto entries = read_directory(std::move(path), pool);
  while (directory_entry* const entry = co_await entries.next()) {
    EXPECT_TRUE(types.emplace(std::move(entry->name), entry->type).second) << "twice";
  }
  co_return types;
}

task<std::error_code> error_of_reading(std::string path, gyre::executor* pool = nullptr) {
  try {
    static_cast<void>(co_await types_in(std::move(path), pool));
  } catch (const std::system_error& error) {
    co_return error.code();
  }
  co_return std::error_code();
}

TEST(ReadDirectory, GivesEveryNameWithItsType) {
  const temporary_folder folder;
  folder.make_file("file");
  folder.make_folder("folder");
  folder.link("link", "folder");
  folder.link("dangling", "nowhere");
  ASSERT_EQ(::mkfifo((folder / "fifo").c_str(), 0600), 0);
  EXPECT_EQ(sync_wait(types_in(folder.path())),
            (std::map<std::string, file_type>{{"file", file_type::regular},
                                              {"folder", file_type::directory},
                                              {"link", file_type::symlink},
                                              {"dangling", file_type::symlink},
                                              {"fifo", file_type::fifo}}));
  EXPECT_EQ(sync_wait(types_in(folder / "link")).size(), 0U) << "a symlink to a directory";
}

TEST(ReadDirectory, GivesDevicesAndSockets) {
  EXPECT_EQ(sync_wait(types_in("/dev")).at("null"), file_type::character);
  const temporary_folder folder;
  const gyre::unique_fd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ::sockaddr_un name{};
  name.sun_family = AF_UNIX;
  const std::string path = folder / "socket";
  ASSERT_LT(path.size(), sizeof name.sun_path);
  std::memcpy(name.sun_path, path.c_str(), path.size());
  ASSERT_EQ(::bind(listener.get(), reinterpret_cast<::sockaddr*>(&name), sizeof name), 0);
  EXPECT_EQ(sync_wait(types_in(folder.path())).at("socket"), file_type::socket);
}

TEST(ReadDirectory, GivesInodes) {
  const temporary_folder folder;
  struct ::stat status{};
  ASSERT_EQ(::stat(folder.make_file("file").c_str(), &status), 0);
  auto entries = read_directory(folder.path());
  const directory_entry* const entry = sync_wait(entries.next());
  ASSERT_NE(entry, nullptr);
  EXPECT_EQ(entry->inode, status.st_ino);
}

TEST(ReadDirectory, GivesNamesOfAnyBytesAndOfTheGreatestLength) {
  const temporary_folder folder;
  const std::set<std::string> names{"two\nlines", "\xff\xfe", " ",
                                    "...",        "-rf *",    std::string(255, 'x')};
  for (const std::string& each : names) folder.make_file(each);
  std::set<std::string> found;
  for (const auto& [name, type] : sync_wait(types_in(folder.path()))) found.insert(name);
  EXPECT_EQ(found, names);
}

TEST(ReadDirectory, GivesNothingOfAnEmptyOne) {
  const temporary_folder folder;
  EXPECT_TRUE(sync_wait(types_in(folder.path())).empty());
}

TEST(ReadDirectory, TellsErrors) {
  const temporary_folder folder;
  EXPECT_EQ(sync_wait(error_of_reading(folder / "none")), std::errc::no_such_file_or_directory);
  EXPECT_EQ(sync_wait(error_of_reading(folder.make_file("file"))), std::errc::not_a_directory);
  EXPECT_EQ(sync_wait(error_of_reading(folder.path() + '\0')), std::errc::invalid_argument);
  folder.link("loop", folder / "loop");
  EXPECT_EQ(sync_wait(error_of_reading(folder / "loop")), std::errc::too_many_symbolic_link_levels);
  try {
    sync_wait(types_in("/no/such/folder"));
    FAIL();
  } catch (const std::system_error& error) {
    EXPECT_STREQ(error.what(), "read_directory /no/such/folder: No such file or directory");
  }
}

TEST(ReadDirectory, TellsFaultsAndRepeatsInterruptedCalls) {
  const temporary_folder folder;
  folder.make_file("file");
  gyre::executor* const here = &gyre::inline_executor();
  const int before = open_descriptors();
  for (const char* const call : {"open", "getdents64"}) {
    const gyre::testing::fault broken(call, EIO);
    EXPECT_EQ(sync_wait(error_of_reading(folder.path(), here)), std::errc::io_error) << call;
    EXPECT_EQ(broken.hits(), 1) << call;
  }
  for (const char* const call : {"open", "getdents64"}) {
    const gyre::testing::fault interrupted(call, EINTR, {.times = 3});
    EXPECT_EQ(sync_wait(types_in(folder.path(), here)).size(), 1U) << call;
    EXPECT_EQ(interrupted.hits(), 3) << call;
  }
  EXPECT_EQ(open_descriptors(), before);
}

TEST(ReadDirectory, HasNoEntriesOnceTheDirectoryIsRemoved) {
  const temporary_folder folder;
  auto reader = sync_wait(directory_reader::open(folder.make_folder("folder")));
  ASSERT_EQ(::rmdir((folder / "folder").c_str()), 0);
  EXPECT_TRUE(sync_wait(reader.next_batch()).empty());
}

TEST(ReadDirectory, ReadsALargeOneInBatchesOfBoundedSize) {
  const temporary_folder folder;
  folder.make_files("many", 3000);
  const directory_reader reader = sync_wait(directory_reader::open(folder / "many"));
  std::set<std::string> names;
  std::size_t batches = 0;
  for (;; ++batches) {
    const std::span<directory_entry> batch = sync_wait(reader.next_batch());
    if (batch.empty()) break;
    EXPECT_LE(batch.size(), 1400U);
    for (directory_entry& each : batch) names.insert(std::move(each.name));
  }
  EXPECT_EQ(names.size(), 3000U);
  EXPECT_GE(batches, 3U);
  EXPECT_TRUE(sync_wait(reader.next_batch()).empty()) << "stays at the end";
}

TEST(ReadDirectory, MayBeAbandonedHalfway) {
  const temporary_folder folder;
  folder.make_files("many", 2000);
  const int before = open_descriptors();
  {
    auto entries = read_directory(folder / "many");
    EXPECT_NE(sync_wait(entries.next()), nullptr);
    EXPECT_EQ(open_descriptors(), before + 1);
  }
  EXPECT_EQ(open_descriptors(), before);
}

TEST(DirectoryReader, WithoutADirectoryFails) {
  const directory_reader none;
  EXPECT_FALSE(none);
  const auto batch = sync_wait(as_expected(none.next_batch()));
  ASSERT_FALSE(batch);
  EXPECT_EQ(batch.error(), std::errc::bad_file_descriptor);
}

TEST(DirectoryReader, MayBeMovedBetweenBatches) {
  const temporary_folder folder;
  folder.make_file("file");
  directory_reader reader = sync_wait(directory_reader::open(folder.path()));
  directory_reader moved = std::move(reader);
  EXPECT_TRUE(moved);
  EXPECT_EQ(sync_wait(moved.next_batch()).size(), 1U);
}

// ---- stop requests and destruction; `pool` makes calls when the test says so

class DirectoryStopped : public testing::Test {
 protected:
  void start() {
    const auto work = [](DirectoryStopped& test) -> task<> {
      try {
        auto entries = read_directory(test.folder_.path(), &test.pool_);
        while (co_await entries.next() != nullptr) ++test.found_;
      } catch (const gyre::operation_cancelled&) {
        test.cancelled_ = true;
      }
      test.ended_ = true;
    };
    gyre::spawn(home_, work(*this), {.stop = source_.get_token()});
    home_.run_all();
  }
  void make_a_call() {
    pool_.run_all();
    home_.run_all();
  }

  temporary_folder folder_;
  gyre::inplace_stop_source source_;
  gyre::testing::manual_executor pool_;
  gyre::testing::manual_executor home_;
  int found_ = 0;
  bool ended_ = false;
  bool cancelled_ = false;
};

TEST_F(DirectoryStopped, WhileItWaitsForAThreadEndsAtOnceAndClosesTheDirectory) {
  folder_.make_file("file");
  const int before = open_descriptors();
  start();
  make_a_call();  // open
  EXPECT_EQ(open_descriptors(), before + 1);
  source_.request_stop();
  home_.run_all();
  EXPECT_TRUE(ended_);
  EXPECT_TRUE(cancelled_);
  pool_.run_all();
  EXPECT_EQ(open_descriptors(), before);
}

TEST_F(DirectoryStopped, AfterTheCallHasTheBatch) {
  folder_.make_file("file");
  start();
  make_a_call();
  pool_.run_all();  // reads
  source_.request_stop();
  home_.run_all();
  EXPECT_EQ(found_, 1);
  EXPECT_TRUE(cancelled_) << "of the next batch";
}

TEST_F(DirectoryStopped, BeforeTheCallHasNothing) {
  folder_.make_file("file");
  start();
  make_a_call();
  source_.request_stop();
  pool_.run_all();
  home_.run_all();
  EXPECT_EQ(found_, 0);
  EXPECT_TRUE(cancelled_);
}

gyre::test::droppable reads_first(gyre::executor&, std::string path, gyre::executor* pool) {
  auto entries = read_directory(std::move(path), pool);
  while (co_await entries.next() != nullptr) ADD_FAILURE() << "went on";
}

TEST(ReadDirectory, MayBeDestroyedWhileItWaits) {
  const temporary_folder folder;
  gyre::testing::manual_executor pool;
  gyre::testing::manual_executor home;
  const int before = open_descriptors();
  for (const int calls : {0, 1, 2, 3}) {  // to open; resumed; to read; resumed
    auto waiting = reads_first(home, folder.path(), &pool);
    for (int each = 0; each < calls; ++each) each % 2 == 0 ? pool.run_all() : home.run_all();
    waiting.drop();
    pool.run_all();
    home.run_all();
    EXPECT_EQ(open_descriptors(), before) << calls;
  }
}

TEST(ReadDirectory, IsReadBySeveralThreads) {
  const temporary_folder folder;
  folder.make_files("many", 1500);
  std::vector<std::jthread> threads;
  for (int each = 0; each < 4; ++each) {
    threads.emplace_back([&] {
      for (int round = 0; round < 5; ++round) {
        EXPECT_EQ(sync_wait(types_in(folder / "many")).size(), 1500U);
      }
    });
  }
}

}  // namespace
}  // namespace directory_test
