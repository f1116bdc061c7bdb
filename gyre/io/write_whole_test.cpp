// SPDX-License-Identifier: Apache-2.0
#include <gyre/io/write_whole.hpp>

#include <gyre/base/slab.hpp>
#include <gyre/base/unique_fd.hpp>
#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/io/file.hpp>
#include <gyre/io/uring_support.hpp>
#include <gyre/task/as_expected.hpp>
#include <gyre/task/executor.hpp>
#include <gyre/task/operation_cancelled.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/task/sync_wait.hpp>
#include <gyre/testing/manual_executor.hpp>
#include <gyre/testing/system_call_faults.hpp>
#include <tests/support/awaited_error.hpp>
#include <tests/support/file_ring_poller.hpp>
#include <tests/support/temporary_folder.hpp>

#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace write_whole_test {
namespace {

using namespace std::string_literals;
using namespace std::string_view_literals;
using gyre::as_expected;
using gyre::sync_wait;
using gyre::task;
using gyre::io::replace_options;
using gyre::io::replace_whole;
using gyre::io::write_whole;
using gyre::test::error_of;
using gyre::test::temporary_folder;
using gyre::testing::open_descriptors;

::mode_t mode_of(const std::string& path) {
  struct ::stat status{};
  EXPECT_EQ(::lstat(path.c_str(), &status), 0);
  return status.st_mode & 07777;
}

TEST(WriteWhole, CreatesAFileAndOverwritesIt) {
  const temporary_folder folder;
  sync_wait(write_whole(folder / "file", "a long text"sv));
  EXPECT_EQ(folder.content("file"), "a long text");
  sync_wait(write_whole(folder / "file", "short"sv));
  EXPECT_EQ(folder.content("file"), "short");
  sync_wait(write_whole(folder / "file", ""sv));
  EXPECT_EQ(folder.content("file"), "");
}

TEST(WriteWhole, WritesByARing) {
  if (!gyre::io::probe_uring().features.files) GTEST_SKIP() << "no files on io_uring here";
  const temporary_folder folder;
  auto poller = std::make_unique<gyre::test::file_ring_poller>();
  gyre::test::file_ring_poller& used = *poller;
  gyre::loop loop(gyre::loop_options{}, std::move(poller));
  const std::string text(3'000'000, 'x');
  gyre::sync_wait(loop, write_whole(folder / "file", text));
  EXPECT_NE(used.ring(), nullptr);
  EXPECT_EQ(folder.content("file"), text);
  const int before = open_descriptors();
  for (const char* const call : {"open", "pwrite", "close"}) {
    const gyre::testing::fault broken(call, EIO);
    const auto ended = gyre::sync_wait(loop, as_expected(write_whole(folder / "file", text)));
    ASSERT_FALSE(ended) << call;
    EXPECT_EQ(ended.error(), std::errc::io_error);
  }
  EXPECT_EQ(open_descriptors(), before);
}

// A frame that is larger than its memory would be allocated.
TEST(WriteWhole, HasTheFrameOfItsRoutineInTheOperation) {
#ifndef NDEBUG
  GTEST_SKIP() << "this build may not be optimised, and then frames are larger";
#endif
  gyre::io::detail::routine_memory memory;
  const std::size_t before = gyre::read_slab_stats().blocks_in_use;
  const auto routine = gyre::io::detail::write_content(memory, {.path = "not opened"});
  EXPECT_EQ(gyre::read_slab_stats().blocks_in_use, before);
}

TEST(WriteWhole, WritesToNoPipe) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK), 0);
  const gyre::unique_fd reader(ends[0]);
  const gyre::unique_fd writer(ends[1]);
  const std::string path = "/proc/self/fd/" + std::to_string(writer.get());
  EXPECT_EQ(error_of(write_whole(path, "x"sv)), std::errc::invalid_seek);
  if (!gyre::io::probe_uring().features.files) GTEST_SKIP() << "no files on io_uring here";
  gyre::loop loop(gyre::loop_options{}, std::make_unique<gyre::test::file_ring_poller>());
  int open = 0;
  for (int round = 0; round < 2; ++round) {
    const auto written = gyre::sync_wait(loop, as_expected(write_whole(path, "x"sv)));
    ASSERT_FALSE(written);
    EXPECT_EQ(written.error(), std::errc::invalid_seek);
    if (round == 0) open = open_descriptors();  // with those of the ring
  }
  EXPECT_EQ(open_descriptors(), open);
}

TEST(WriteWhole, TellsErrors) {
  const temporary_folder folder;
  EXPECT_EQ(error_of(write_whole(folder.path(), "x"sv)), std::errc::is_a_directory);
  EXPECT_EQ(error_of(write_whole(folder.path() + "/a\0b"s, "x"sv)), std::errc::invalid_argument);
  try {
    sync_wait(write_whole("/no/such/file", "x"sv));
    FAIL();
  } catch (const std::system_error& error) {
    EXPECT_STREQ(error.what(), "write /no/such/file: No such file or directory");
  }
}

TEST(ReplaceWhole, CreatesAFileOrReplacesIt) {
  const temporary_folder folder;
  sync_wait(replace_whole(folder / "file", "one"sv, {.mode = 0640}));
  EXPECT_EQ(folder.content("file"), "one");
  EXPECT_EQ(mode_of(folder / "file") & ~037U, 0640U & ~037U);
  sync_wait(replace_whole(folder / "file", "two"sv, {.sync = false}));
  EXPECT_EQ(folder.content("file"), "two");
  EXPECT_EQ(folder.entries(), 1U);
}

TEST(ReplaceWhole, KeepsPermissions) {
  const temporary_folder folder;
  ASSERT_EQ(::chmod(folder.make_file("file").c_str(), 0604), 0);
  sync_wait(replace_whole(folder / "file", "new"sv));
  EXPECT_EQ(mode_of(folder / "file"), 0604U);
}

TEST(ReplaceWhole, LeavesTheOldContentToItsReaders) {
  const temporary_folder folder;
  const gyre::io::file old = sync_wait(gyre::io::file::open(folder.make_file("file", "old")));
  sync_wait(replace_whole(folder / "file", "new"sv));
  EXPECT_EQ(sync_wait(old.read_whole()).text(), "old");
  EXPECT_EQ(folder.content("file"), "new");
}

TEST(ReplaceWhole, ReplacesASymlinkNotItsTarget) {
  const temporary_folder folder;
  folder.make_file("file", "old");
  folder.link("link", "file");
  sync_wait(replace_whole(folder / "link", "new"sv));
  EXPECT_EQ(folder.content("file"), "old");
  EXPECT_EQ(folder.content("link"), "new");
  EXPECT_EQ(mode_of(folder / "link") & 0111, 0U);
}

TEST(ReplaceWhole, ReplacesInTheCurrentDirectory) {
  const temporary_folder folder;
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  sync_wait(replace_whole("file", "text"sv));
  std::filesystem::current_path(before);
  EXPECT_EQ(folder.content("file"), "text");
}

TEST(ReplaceWhole, TellsErrorsAndLeavesTheOldContentAlone) {
  const temporary_folder folder;
  folder.make_file("file", "old");
  folder.make_folder("folder");
  EXPECT_EQ(error_of(replace_whole(folder / "folder", "x"sv)), std::errc::is_a_directory);
  EXPECT_EQ(error_of(replace_whole(folder / "folder/", "x"sv)), std::errc::is_a_directory);
  EXPECT_EQ(error_of(replace_whole("", "x"sv)), std::errc::no_such_file_or_directory);
  EXPECT_EQ(error_of(replace_whole(folder / "file/x", "x"sv)), std::errc::not_a_directory);
  EXPECT_EQ(error_of(replace_whole(folder.path() + "/a\0b"s, "x"sv)), std::errc::invalid_argument);
  const int before = open_descriptors();
  for (const char* const call :
       {"open", "openat", "getrandom", "fchmod", "pwrite", "fsync", "close", "renameat2"}) {
    const gyre::testing::fault broken(call, EIO);
    auto replacing = replace_whole(folder / "file", "new"sv, {}, &gyre::inline_executor());
    EXPECT_EQ(error_of(std::move(replacing)), std::errc::io_error) << call;
    EXPECT_EQ(broken.hits(), 1) << call;
    EXPECT_EQ(folder.content("file"), "old") << call;
    EXPECT_EQ(folder.entries(), 2U) << call;
  }
  EXPECT_EQ(open_descriptors(), before);
}

TEST(ReplaceWhole, TellsThatTheFolderCouldNotBeFlushed) {
  const temporary_folder folder;
  folder.make_file("file", "old");
  gyre::executor* const here = &gyre::inline_executor();
  {
    const gyre::testing::fault broken("fsync", EIO, {.after = 1});
    EXPECT_EQ(error_of(replace_whole(folder / "file", "new"sv, {}, here)), std::errc::io_error);
    EXPECT_EQ(folder.content("file"), "new");
  }
  const gyre::testing::fault unknown("fsync", EINVAL, {.after = 1});
  EXPECT_EQ(error_of(replace_whole(folder / "file", "newer"sv, {}, here)), std::error_code());
  EXPECT_EQ(unknown.hits(), 1);
}

TEST(ReplaceWhole, IsCancelledOnlyBeforeAThreadHasBegun) {
  const temporary_folder folder;
  for (const bool has_begun : {false, true}) {
    folder.make_file("file", "old");
    gyre::testing::manual_executor pool;
    gyre::testing::manual_executor home;
    gyre::inplace_stop_source source;
    bool cancelled = false;
    const auto work = [&]() -> task<> {
      auto replacing = replace_whole(folder / "file", "new"sv, {}, &pool);
      try {
        co_await std::move(replacing);
      } catch (const gyre::operation_cancelled&) {
        cancelled = true;
      }
    };
    gyre::spawn(home, work(), {.stop = source.get_token()});
    home.run_all();
    if (has_begun) pool.run_all();
    source.request_stop();
    pool.run_all();
    home.run_all();
    EXPECT_EQ(cancelled, !has_begun);
    EXPECT_EQ(folder.content("file"), has_begun ? "new" : "old");
  }
}

TEST(ReplaceWhole, ReadersFindOneContentOrTheOther) {
  const temporary_folder folder;
  const std::string a(20'000, 'a');
  const std::string b(30'000, 'b');
  folder.make_file("file", a);
  std::vector<std::jthread> writers;
  for (const std::string& text : {std::cref(a), std::cref(b)}) {
    writers.emplace_back([&folder, &text] {
      for (int round = 0; round < 100; ++round) {
        sync_wait(replace_whole(folder / "file", text, {.sync = false}));
      }
    });
  }
  for (int round = 0; round < 200; ++round) {
    const auto found = sync_wait(gyre::io::read_whole(folder / "file"));
    EXPECT_TRUE(found.text() == a || found.text() == b) << found.size();
  }
  writers.clear();
  EXPECT_EQ(folder.entries(), 1U);
}

}  // namespace
}  // namespace write_whole_test
