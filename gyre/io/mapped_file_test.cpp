// SPDX-License-Identifier: Apache-2.0
#include <gyre/io/mapped_file.hpp>

#include <gyre/io/file.hpp>
#include <gyre/io/write_whole.hpp>
#include <gyre/task/executor.hpp>
#include <gyre/task/sync_wait.hpp>
#include <gyre/testing/manual_executor.hpp>
#include <gyre/testing/system_call_faults.hpp>
#include <tests/support/awaited_error.hpp>
#include <tests/support/droppable.hpp>
#include <tests/support/sanitizers.hpp>
#include <tests/support/temporary_folder.hpp>

#include <gtest/gtest.h>

#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace mapped_file_test {
namespace {

using namespace std::string_view_literals;
using gyre::sync_wait;
using gyre::io::file;
using gyre::io::mapped_file;
using gyre::io::mapping_advice;
using gyre::io::mapping_options;
using gyre::test::error_of;
using gyre::test::temporary_folder;

// Several pages, in which no two positions nearby look alike.
std::string long_text() {
  std::string text;
  for (int each = 0; text.size() < 100'000; ++each) text += std::to_string(each) + ' ';
  return text;
}

TEST(MappedFile, HasTheWholeContent) {
  const temporary_folder folder;
  const std::string text = long_text();
  const mapped_file mapped = sync_wait(mapped_file::open(folder.make_file("file", text)));
  EXPECT_EQ(mapped.text(), text);
  EXPECT_EQ(mapped.size(), text.size());
  EXPECT_FALSE(mapped.empty());
}

TEST(MappedFile, HasAPartFromAnyOffset) {
  const temporary_folder folder;
  const std::string text = long_text();
  const file there = sync_wait(file::open(folder.make_file("file", text)));
  for (const std::size_t offset : {0UZ, 1UZ, 4095UZ, 4096UZ, 4097UZ, 65'536UZ, 99'999UZ}) {
    for (const std::size_t size : {1UZ, 4096UZ, 10'000UZ, 1'000'000UZ}) {
      const mapped_file mapped(there, {.offset = offset, .size = size});
      EXPECT_EQ(mapped.text(), std::string_view(text).substr(offset, size));
    }
  }
}

TEST(MappedFile, IsEmptyWhereTheFileHasNoBytes) {
  const temporary_folder folder;
  const std::string path = folder.make_file("file", "text");
  for (const std::uint64_t offset : {std::uint64_t{4}, std::uint64_t{4096}, ~std::uint64_t{0}}) {
    EXPECT_TRUE(sync_wait(mapped_file::open(path, {.offset = offset})).empty());
  }
  EXPECT_TRUE(sync_wait(mapped_file::open(path, {.size = 0})).empty());
  EXPECT_TRUE(sync_wait(mapped_file::open(folder.make_file("empty"))).empty());
  EXPECT_TRUE(sync_wait(mapped_file::open("/proc/self/status")).empty()) << "has no size";
  EXPECT_EQ(mapped_file().text(), "");
}

TEST(MappedFile, TakesAdvice) {
  const temporary_folder folder;
  const std::string path = folder.make_file("file", "text");
  for (const mapping_advice advice : {mapping_advice::normal, mapping_advice::sequential,
                                      mapping_advice::random, mapping_advice::will_need}) {
    mapped_file mapped = sync_wait(mapped_file::open(path, {.advice = advice}));
    mapped.advise(advice);
    EXPECT_EQ(mapped.text(), "text");
  }
  mapped_file().advise(mapping_advice::random);
  const gyre::testing::fault ignored("madvise", EIO);
  const mapped_file mapped = sync_wait(
      mapped_file::open(path, {.advice = mapping_advice::random}, &gyre::inline_executor()));
  EXPECT_EQ(mapped.text(), "text");
  EXPECT_EQ(ignored.hits(), 1);
}

TEST(MappedFile, OutlivesTheFileAndMoves) {
  const temporary_folder folder;
  mapped_file mapped;
  {
    const file there = sync_wait(file::open(folder.make_file("file", "text")));
    mapped = mapped_file(there);
  }
  ASSERT_EQ(::unlink((folder / "file").c_str()), 0);
  const std::byte* const where = mapped.bytes().data();
  mapped_file moved(std::move(mapped));
  EXPECT_EQ(moved.text(), "text");
  EXPECT_EQ(moved.bytes().data(), where);
  mapped_file& same = moved;
  moved = std::move(same);
  EXPECT_EQ(moved.text(), "text");
  moved = mapped_file();
  EXPECT_TRUE(moved.empty());
}

TEST(MappedFile, KeepsTheContentOfAFileThatIsReplaced) {
  const temporary_folder folder;
  const mapped_file mapped = sync_wait(mapped_file::open(folder.make_file("file", "old")));
  sync_wait(gyre::io::replace_whole(folder / "file", "new and longer"sv));
  EXPECT_EQ(mapped.text(), "old");
}

TEST(MappedFile, RaisesSigbusBehindTheEndOfAShortenedFile) {
  const temporary_folder folder;
  const std::string path = folder.make_file("file", std::string(20'000, 'x'));
  const mapped_file mapped = sync_wait(mapped_file::open(path, {}, &gyre::inline_executor()));
  ASSERT_EQ(::truncate(path.c_str(), 100), 0);
  EXPECT_EQ(mapped.bytes()[50], std::byte{'x'});
  EXPECT_EQ(mapped.bytes()[200], std::byte{0});
  const ::pid_t child = ::fork();
  if (child == 0) {
    std::signal(SIGBUS, SIG_DFL);
    const volatile std::byte* const bytes = mapped.bytes().data();
    ::_exit(bytes[15'000] == std::byte{} ? 1 : 2);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status)) << status;
  EXPECT_EQ(WTERMSIG(status), SIGBUS);
}

TEST(MappedFile, TellsErrors) {
  const temporary_folder folder;
  EXPECT_EQ(error_of(mapped_file::open(folder / "none")), std::errc::no_such_file_or_directory);
  EXPECT_EQ(error_of(mapped_file::open(folder.path())), std::errc::is_a_directory);
  EXPECT_EQ(error_of(mapped_file::open("/dev/null")), std::errc::no_such_device);
  EXPECT_EQ(error_of(mapped_file::open(folder.path() + '\0')), std::errc::invalid_argument);
  ASSERT_EQ(::mkfifo((folder / "fifo").c_str(), 0600), 0);
  EXPECT_EQ(error_of(mapped_file::open(folder / "fifo")), std::errc::no_such_device);
  try {
    const mapped_file none((file()));
    FAIL();
  } catch (const std::system_error& error) {
    EXPECT_STREQ(error.what(), "map: Bad file descriptor");
  }
  try {
    sync_wait(mapped_file::open("/no/such/file"));
    FAIL();
  } catch (const std::system_error& error) {
    EXPECT_STREQ(error.what(), "map /no/such/file: No such file or directory");
  }
}

TEST(MappedFile, RefusesMoreThanTheAddressSpaceHas) {
  const file sparse(gyre::unique_fd(::memfd_create("sparse", MFD_CLOEXEC)));
  sync_wait(sparse.truncate(std::uint64_t{1} << 62));
  try {
    const mapped_file none(sparse);
    FAIL();
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code(), std::errc::not_enough_memory);
  }
  const mapped_file part(sparse, {.offset = (std::uint64_t{1} << 62) - 5});
  EXPECT_EQ(part.size(), 5U);
}

TEST(MappedFile, ClosesTheFileAfterAnyFault) {
  const temporary_folder folder;
  const std::string path = folder.make_file("file", "text");
  const int before = gyre::testing::open_descriptors();
  for (const char* const call : {"open", "statx", "mmap"}) {
    if (gyre::test::thread_sanitizer_is_on && call == "mmap"sv) continue;
    const gyre::testing::fault broken(call, ENOMEM);
    EXPECT_EQ(error_of(mapped_file::open(path, {}, &gyre::inline_executor())),
              std::errc::not_enough_memory)
        << call;
  }
  EXPECT_EQ(gyre::testing::open_descriptors(), before);
}

gyre::test::droppable maps(gyre::executor&, std::string path, gyre::executor* pool) {
  auto mapping = mapped_file::open(std::move(path), {}, pool);
  static_cast<void>(co_await std::move(mapping));
  ADD_FAILURE() << "went on";
}

TEST(MappedFile, MayBeAbandonedWhileItIsMapped) {
  const temporary_folder folder;
  const std::string path = folder.make_file("file", "text");
  gyre::testing::manual_executor pool;
  gyre::testing::manual_executor home;
  const int before = gyre::testing::open_descriptors();
  for (const bool has_ended : {false, true}) {
    auto waiting = maps(home, path, &pool);
    if (has_ended) pool.run_all();
    waiting.drop();
    pool.run_all();
    home.run_all();
  }
  EXPECT_EQ(gyre::testing::open_descriptors(), before);
}

TEST(MappedFile, IsReadBySeveralThreads) {
  const temporary_folder folder;
  const std::string text = long_text();
  const mapped_file mapped = sync_wait(mapped_file::open(folder.make_file("file", text)));
  std::vector<std::jthread> threads;
  for (int each = 0; each < 4; ++each) {
    threads.emplace_back([&] { EXPECT_EQ(mapped.text(), text); });
  }
}

}  // namespace
}  // namespace mapped_file_test
