// SPDX-License-Identifier: Apache-2.0
// Tests of files, and of the calls on a pool behind them.
#include <gyre/io/file.hpp>

#include <gyre/base/detail/sanitizer.hpp>
#include <gyre/base/slab.hpp>
#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/io/aligned_buffer.hpp>
#include <gyre/io/blocking_pool.hpp>
#include <gyre/io/uring_support.hpp>
#include <gyre/pool/thread_pool.hpp>
#include <gyre/task/as_expected.hpp>
#include <gyre/task/executor.hpp>
#include <gyre/task/schedule.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/task/sync_wait.hpp>
#include <gyre/task/when_all.hpp>
#include <gyre/testing/manual_executor.hpp>
#include <gyre/testing/system_call_faults.hpp>
#include <tests/support/awaited_error.hpp>
#include <tests/support/droppable.hpp>
#include <tests/support/file_ring_poller.hpp>
#include <tests/support/sanitizers.hpp>
#include <tests/support/stubborn_coroutines.hpp>
#include <tests/support/thread_executor.hpp>

#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <coroutine>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <expected>
#include <latch>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace file_test {
namespace {

using namespace std::string_view_literals;
using gyre::as_expected;
using gyre::sync_wait;
using gyre::task;
using gyre::io::buffer;
using gyre::io::file;
using gyre::io::open_options;
using gyre::io::read_whole;
using gyre::test::error_of;

constexpr open_options for_writing{.write = true, .create = true};

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

class File : public testing::Test {
 protected:
  void SetUp() override { ASSERT_NE(::mkdtemp(folder_.data()), nullptr); }
  void TearDown() override {
    static_cast<void>(::unlink(path_.c_str()));
    EXPECT_EQ(::rmdir(folder_.c_str()), 0);
  }
  const std::string& folder() const { return folder_; }
  const std::string& path() {
    path_ = folder_ + "/file";
    return path_;
  }
  bool exists() { return ::access(path().c_str(), F_OK) == 0; }
  file holding(std::string_view text) {
    file made = sync_wait(file::open(path(), for_writing));
    sync_wait(made.write_at(text, 0));
    return made;
  }
  std::string content() { return std::string(sync_wait(read_whole(path())).text()); }

 private:
  std::string folder_ = testing::TempDir() + "gyre_file_XXXXXX";
  std::string path_;
};

enum class carried_out { by_threads, by_the_ring };

// Properties that hold wherever the operations are carried out.
class EveryFile : public File, public testing::WithParamInterface<carried_out> {
 protected:
  void SetUp() override {
    File::SetUp();
    if (GetParam() == carried_out::by_threads) return;
    const gyre::io::uring_support& here = gyre::io::probe_uring();
    if (!here.features.files) GTEST_SKIP() << "no files on io_uring here: " << here.reason;
    auto poller = std::make_unique<gyre::test::file_ring_poller>();
    poller_ = poller.get();
    loop_ = std::make_unique<gyre::loop>(gyre::loop_options{}, std::move(poller));
  }
  void TearDown() override {
    if (loop_) {
      EXPECT_NE(poller_->ring(), nullptr) << "was not used";
    }
    File::TearDown();
  }

  template <class Awaitable>
  decltype(auto) run(Awaitable&& awaitable, gyre::inplace_stop_token stop = {}) {
    if (loop_) return gyre::sync_wait(*loop_, std::forward<Awaitable>(awaitable), stop);
    return sync_wait(std::forward<Awaitable>(awaitable), stop);
  }
  template <class Awaitable>
  std::error_code error_of(Awaitable&& awaitable) {
    const auto ended = run(as_expected(std::forward<Awaitable>(awaitable)));
    return ended ? std::error_code() : ended.error();
  }
  file open(open_options how = for_writing) { return run(file::open(path(), how)); }
  file holding(std::string_view text) {
    file made = open();
    run(made.write_at(text, 0));
    return made;
  }
  std::string content() { return std::string(run(read_whole(path())).text()); }

 private:
  std::unique_ptr<gyre::loop> loop_;
  gyre::test::file_ring_poller* poller_ = nullptr;
};

INSTANTIATE_TEST_SUITE_P(CarriedOut, EveryFile,
                         testing::Values(carried_out::by_threads, carried_out::by_the_ring),
                         [](const auto& tested) {
                           return tested.param == carried_out::by_threads ? "ByThreads"
                                                                          : "ByTheRing";
                         });

TEST_P(EveryFile, ReadsWhatWasWrittenAtItsOffsets) {
  const auto work = [](std::string path) -> task<std::string> {
    file both = co_await file::open(path, for_writing);
    co_await both.write_at("0123456789"sv, 0);
    co_await both.write_at("ABC"sv, 4);
    std::array<std::byte, 5> part{};
    const std::size_t count = co_await both.read_at(part, 3);
    const std::uint64_t size = co_await both.size();
    co_await both.sync_data();
    co_await both.sync();
    co_await both.close();
    EXPECT_FALSE(both);
    EXPECT_EQ(size, 10U);
    co_return std::string(text_of(part).substr(0, count));
  };
  EXPECT_EQ(run(work(path())), "3ABC7");
  EXPECT_EQ(content(), "0123ABC789");
}

TEST_P(EveryFile, ReadingToTheEndGivesLessAndThenNothing) {
  const file there = holding("0123456789");
  std::array<std::byte, 8> part{};
  EXPECT_EQ(run(there.read_at(part, 4)), 6U);
  EXPECT_EQ(text_of(part).substr(0, 6), "456789");
  EXPECT_EQ(run(there.read_some_at(part, 8)), 2U);
  EXPECT_EQ(run(there.read_some_at(part, 10)), 0U);
  EXPECT_EQ(run(there.read_at(part, 1'000'000)), 0U);
  EXPECT_EQ(run(there.read_at({}, 0)), 0U);
}

TEST_P(EveryFile, ReadsAllOfIt) {
  const std::string long_text(300'000, 'x');
  const file there = holding(long_text);
  EXPECT_EQ(run(there.read_whole()).text(), long_text);
  EXPECT_EQ(run(there.read_whole(long_text.size())).text(), long_text);
  EXPECT_EQ(error_of(there.read_whole(long_text.size() - 1)), std::errc::file_too_large);
  EXPECT_EQ(error_of(read_whole(path(), 10)), std::errc::file_too_large);
  run(there.truncate(0));
  EXPECT_TRUE(run(there.read_whole()).empty());
  EXPECT_TRUE(run(there.read_whole(0)).empty());
}

// The system does not report the size of these files.
TEST_P(EveryFile, ReadsAllOfFilesWithoutASize) {
  EXPECT_TRUE(run(read_whole("/proc/self/status")).text().starts_with("Name:"));
  EXPECT_EQ(error_of(read_whole("/proc/self/status", 20)), std::errc::file_too_large);
  EXPECT_EQ(error_of(read_whole("/dev/zero", 100'000)), std::errc::file_too_large);
}

// Files of sysfs have the size of a page.
TEST_P(EveryFile, ReadsAllOfFilesThatAreShorterThanTheirSize) {
  constexpr const char* processors = "/sys/devices/system/cpu/online";
  const gyre::unique_fd fd(::open(processors, O_RDONLY | O_CLOEXEC));
  if (!fd) GTEST_SKIP() << "no " << processors;
  std::string expected(4096, '\0');
  const auto count = ::pread(fd.get(), expected.data(), expected.size(), 0);
  ASSERT_GT(count, 0);
  expected.resize(static_cast<std::size_t>(count));
  EXPECT_EQ(run(read_whole(processors)).text(), expected);
  EXPECT_EQ(run(read_whole(processors, expected.size())).text(), expected);
  EXPECT_EQ(error_of(read_whole(processors, expected.size() - 1)), std::errc::file_too_large);
}

TEST_P(EveryFile, IsRefusedIfItIsFarTooLarge) {
  const file there = open();
  run(there.truncate(std::uint64_t{1} << 35));
  EXPECT_EQ(error_of(there.read_whole()), std::errc::file_too_large);
  EXPECT_EQ(error_of(there.read_whole(0)), std::errc::file_too_large);
  EXPECT_EQ(error_of(read_whole(path(), 10)), std::errc::file_too_large);
}

TEST_P(EveryFile, IsOpenedAsAsked) {
  EXPECT_EQ(error_of(file::open(path())), std::errc::no_such_file_or_directory);
  EXPECT_EQ(error_of(file::open(path(), {.read = false})), std::errc::invalid_argument);
  EXPECT_EQ(error_of(file::open(path(), {.truncate = true})), std::errc::invalid_argument);
  EXPECT_EQ(error_of(file::open(path() + '\0', {})), std::errc::invalid_argument);
  static_cast<void>(open({.read = false, .write = true, .create_new = true, .mode = 0600}));
  EXPECT_EQ(run(open({}).status()).st_mode, S_IFREG | 0600U);
  EXPECT_EQ(error_of(file::open(path(), {.write = true, .create_new = true})),
            std::errc::file_exists);
  static_cast<void>(holding("content"));
  const file emptied = open({.write = true, .truncate = true});
  EXPECT_EQ(run(emptied.size()), 0U);
  EXPECT_NE(::fcntl(emptied.fd(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST_P(EveryFile, AppendsWhateverTheOffset) {
  static_cast<void>(holding("one "));
  const file log = open({.write = true, .append = true});
  run(log.write_at("two "sv, 0));
  run(log.write_at("three"sv, 1));
  EXPECT_EQ(content(), "one two three");
}

TEST_P(EveryFile, TellsErrorsByExceptionsThatNameTheCall) {
  const file reading = holding("");
  const file only_read = open({});
  EXPECT_EQ(error_of(only_read.write_at("x"sv, 0)), std::errc::bad_file_descriptor);
  EXPECT_EQ(error_of(only_read.truncate(0)), std::errc::invalid_argument);
  EXPECT_EQ(error_of(reading.write_at("x"sv, std::uint64_t{1} << 63)), std::errc::invalid_argument);
  EXPECT_EQ(error_of(file().size()), std::errc::bad_file_descriptor);
  EXPECT_EQ(error_of(file().close()), std::errc::bad_file_descriptor);
  try {
    run(file::open("/no/such/file"));
    FAIL();
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code(), std::errc::no_such_file_or_directory);
    EXPECT_STREQ(error.what(), "open /no/such/file: No such file or directory");
  }
}

TEST_P(EveryFile, TakesADescriptorOverAndGivesItUp) {
  file there = holding("text");
  const int fd = there.fd();
  file taken(there.release());
  EXPECT_FALSE(there);
  EXPECT_EQ(taken.fd(), fd);
  EXPECT_EQ(run(taken.read_whole()).text(), "text");
  static_cast<void>(taken.close());  // never awaited
  EXPECT_EQ(::fcntl(fd, F_GETFD), -1);
}

TEST_P(EveryFile, TellsItsStatus) {
  const file there = holding("0123456789");
  const struct ::stat told = run(there.status());
  struct ::stat expected{};
  ASSERT_EQ(::fstat(there.fd(), &expected), 0);
  EXPECT_EQ(told.st_dev, expected.st_dev);
  EXPECT_EQ(told.st_ino, expected.st_ino);
  EXPECT_EQ(told.st_mode, expected.st_mode);
  EXPECT_EQ(told.st_nlink, expected.st_nlink);
  EXPECT_EQ(told.st_uid, expected.st_uid);
  EXPECT_EQ(told.st_gid, expected.st_gid);
  EXPECT_EQ(told.st_size, 10);
  EXPECT_EQ(told.st_blksize, expected.st_blksize);
  EXPECT_EQ(told.st_blocks, expected.st_blocks);
  EXPECT_EQ(told.st_mtim.tv_sec, expected.st_mtim.tv_sec);
  EXPECT_EQ(told.st_mtim.tv_nsec, expected.st_mtim.tv_nsec);
  const file device = run(file::open("/dev/null"));
  ASSERT_EQ(::fstat(device.fd(), &expected), 0);
  EXPECT_EQ(run(device.status()).st_rdev, expected.st_rdev);
}

TEST_P(EveryFile, IsCutAndLengthened) {
  const file there = holding("0123456789");
  run(there.truncate(4));
  EXPECT_EQ(content(), "0123");
  run(there.truncate(6));
  EXPECT_EQ(content(), "0123\0\0"sv);
}

TEST_P(EveryFile, TellsWhatTheSystemDoesNotDo) {
  const file directory = run(file::open(folder()));
  std::array<std::byte, 4> part{};
  EXPECT_EQ(error_of(directory.read_at(part, 0)), std::errc::is_a_directory);
  EXPECT_EQ(error_of(read_whole(folder())), std::errc::is_a_directory);
  EXPECT_EQ(error_of(read_whole(folder(), 0)), std::errc::is_a_directory);
  const file there = holding("text");
  // The largest offset, which for a ring would mean "no offset".
  EXPECT_EQ(error_of(there.write_at("x"sv, ~std::uint64_t{0})), std::errc::invalid_argument);
  EXPECT_EQ(error_of(there.read_at(part, ~std::uint64_t{0})), std::errc::invalid_argument);
  EXPECT_EQ(error_of(there.truncate(std::uint64_t{1} << 63)), std::errc::invalid_argument);
}

TEST_P(EveryFile, DoesNotGrowBeyondTheLimit) {
  const auto handled = std::signal(SIGXFSZ, SIG_IGN);
  ::rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const file there = holding("text");
  const ::rlimit small{.rlim_cur = 4096, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::error_code error = error_of(there.write_at("x"sv, 8192));
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handled);
  EXPECT_EQ(error, std::errc::file_too_large);
}

// A pipe's descriptor has no offset.
TEST_P(EveryFile, IsNoPipe) {
  static_cast<void>(holding("a file"));
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  const file reading((gyre::unique_fd(ends[0])));
  const file writing((gyre::unique_fd(ends[1])));
  ASSERT_EQ(::write(writing.fd(), "text", 4), 4);
  std::array<std::byte, 4> part{};
  EXPECT_EQ(error_of(reading.read_at(part, 0)), std::errc::invalid_seek);
  EXPECT_EQ(error_of(reading.read_whole()), std::errc::invalid_seek);
  EXPECT_EQ(error_of(writing.write_at("x"sv, 0)), std::errc::invalid_seek);
  EXPECT_EQ(::read(reading.fd(), part.data(), 4), 4) << "still there";
}

// lseek(2) succeeds with these descriptors, which have no offsets all the same.
TEST_P(EveryFile, IsNoEventDescriptor) {
  static_cast<void>(holding("a file"));
  const file events(gyre::unique_fd(::eventfd(1, EFD_CLOEXEC)));
  ::sigset_t none{};
  const file signals(gyre::unique_fd(::signalfd(-1, &none, SFD_CLOEXEC)));
  const file timer(gyre::unique_fd(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC)));
  const file set(gyre::unique_fd(::epoll_create1(EPOLL_CLOEXEC)));
  for (const file* const each : {&events, &signals, &timer, &set}) {
    ASSERT_TRUE(*each);
    ASSERT_FALSE(gyre::io::detail::suits_ring(each->fd()));
  }
  std::array<std::byte, 8> part{};
  EXPECT_EQ(error_of(events.read_at(part, 0)), std::errc::invalid_seek);
  EXPECT_EQ(error_of(events.read_whole()), std::errc::invalid_seek);
  EXPECT_EQ(error_of(events.write_at(part, 0)), std::errc::invalid_seek);
  EXPECT_EQ(::read(events.fd(), part.data(), part.size()), 8) << "still there";
}

TEST_P(EveryFile, MayBeADirectoryOrADevice) {
  static_cast<void>(holding("a file"));
  EXPECT_TRUE(gyre::io::detail::suits_ring(run(file::open(folder())).fd()));
  EXPECT_TRUE(gyre::io::detail::suits_ring(run(file::open("/dev/null")).fd()));
}

TEST_P(EveryFile, MayHaveBeenOpenedNotToWait) {
  static_cast<void>(holding("text"));
  const file there(gyre::unique_fd(::open(path().c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC)));
  run(there.write_at("more"sv, 4));
  EXPECT_EQ(run(there.read_whole()).text(), "textmore");
}

// Maps 3 GiB, backed only by the zero page as long as they are only read.
TEST_P(EveryFile, TakesMoreThanOneCallDoes) {
  constexpr std::size_t bytes = std::size_t{3} << 30;
  void* const memory =
      ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) GTEST_SKIP() << "no 3 GiB of addresses";
  const file nowhere = run(file::open("/dev/null", {.write = true}));
  run(nowhere.write_at(std::span(static_cast<const std::byte*>(memory), bytes), 0));
  ::munmap(memory, bytes);
}

TEST_P(EveryFile, ReadsMoreThanOneCallDoes) {
  constexpr std::size_t most_of_a_call = 0x7ffff000;
  constexpr std::size_t bytes = most_of_a_call + 5000;
  // Maps the same memory repeatedly.
  constexpr std::size_t piece = std::size_t{64} << 20;
  const gyre::unique_fd shared(::memfd_create("shared", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(shared.get(), piece), 0);
  void* const memory =
      ::mmap(nullptr, bytes + piece, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) GTEST_SKIP() << "no 2 GiB of addresses";
  auto* const begin = static_cast<std::byte*>(memory);
  for (std::size_t at = 0; at < bytes; at += piece) {
    ASSERT_NE(
        ::mmap(begin + at, piece, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, shared.get(), 0),
        MAP_FAILED);
  }
  const file zeros = run(file::open("/dev/zero"));
  EXPECT_EQ(run(zeros.read_at(std::span(begin, bytes), 0)), bytes);
  ::munmap(memory, bytes + piece);
}

// A frame that is larger than its memory would be allocated.
TEST_F(File, ReadsAllOfItWithTheFrameOfItsRoutineInTheOperation) {
#ifndef NDEBUG
  GTEST_SKIP() << "this build may not be optimised, and then frames are larger";
#endif
  gyre::io::detail::routine_memory memory;
  const std::size_t before = gyre::read_slab_stats().blocks_in_use;
  const auto routine = gyre::io::detail::read_content(memory, {.path = path()});
  EXPECT_EQ(gyre::read_slab_stats().blocks_in_use, before);
}

TEST_F(File, GoesOnOnTheLoopOfTheCoroutine) {
  gyre::loop loop;
  const auto work = [](std::string path) -> task<bool> {
    const std::thread::id here = gyre::test::this_thread_id();
    const file opened = co_await file::open(path, for_writing);
    bool stayed = gyre::test::this_thread_id() == here;
    co_await opened.write_at("text"sv, 0);
    stayed = stayed && gyre::test::this_thread_id() == here;
    co_return stayed;
  };
  EXPECT_TRUE(gyre::sync_wait(loop, work(path())));
  EXPECT_EQ(content(), "text");
}

TEST_F(File, UsesThePoolItWasGiven) {
  gyre::thread_pool pool(1);
  const file there = sync_wait(file::open(pool, path(), for_writing));
  sync_wait(there.write_at("text"sv, 0));
  EXPECT_EQ(pool.metrics().submitted, 2U);
  const file same(gyre::unique_fd(::dup(there.fd())), pool);
  EXPECT_EQ(sync_wait(same.size()), 4U);
  EXPECT_EQ(pool.metrics().submitted, 3U);
}

TEST_P(EveryFile, HasManyOperationsAtOnce) {
  constexpr std::size_t parts = 100;
  const auto copy_part = [](const file& of, std::size_t part) -> task<> {
    std::array<std::byte, 100> bytes{};
    co_await of.read_at(bytes, part * 100);
    co_await of.write_at(bytes, (parts + part) * 100);
  };
  const auto work = [&](const file& of) -> task<> {
    std::vector<task<>> copies;
    for (std::size_t part = 0; part < parts; ++part) copies.push_back(copy_part(of, part));
    co_await gyre::when_all(std::move(copies));
  };
  std::string text;
  for (std::size_t i = 0; text.size() < parts * 100; ++i) text += std::to_string(i);
  text.resize(parts * 100);
  const file there = holding(text);
  run(work(there));
  EXPECT_EQ(content(), text + text);
}

// ---- calls that fail

class FileFaults : public File {
 protected:
  // Makes its calls on the thread of the test, to which faults are limited.
  file there() { return {holding("text").release(), gyre::inline_executor()}; }

  // `make` makes an operation that needs `call`.
  template <class Make>
  void expect_handled(std::string_view call, Make make) {
    {
      const gyre::testing::fault broken(call, EIO);
      EXPECT_EQ(error_of(make()), std::errc::io_error) << call;
      EXPECT_EQ(broken.hits(), 1) << call;
    }
    const gyre::testing::fault interrupted(call, EINTR, {.times = 3});
    EXPECT_EQ(error_of(make()), std::error_code()) << call;
    EXPECT_EQ(interrupted.hits(), 3) << call;
  }

  std::array<std::byte, 2> part_{};
};

TEST_F(FileFaults, AreToldAndInterruptedCallsAreMadeAgain) {
  const file of = there();
  expect_handled("pread", [&] { return of.read_some_at(part_, 0); });
  expect_handled("pread", [&] { return of.read_at(part_, 0); });
  expect_handled("pread", [&] { return of.read_whole(); });
  expect_handled("pwrite", [&] { return of.write_at("more"sv, 4); });
  expect_handled("fsync", [&] { return of.sync(); });
  expect_handled("fdatasync", [&] { return of.sync_data(); });
  expect_handled("ftruncate", [&] { return of.truncate(6); });
  EXPECT_EQ(content(), "textmo");
}

TEST_F(FileFaults, OpenReportsItsError) {
  const int before = gyre::testing::open_descriptors();
  expect_handled("open", [&] { return file::open(gyre::inline_executor(), path(), for_writing); });
  EXPECT_EQ(gyre::testing::open_descriptors(), before);
}

TEST_F(FileFaults, CloseReportsEveryErrorButAnInterruption) {
  const int before = gyre::testing::open_descriptors();
  for (const auto& [failure, told] : {std::pair(EIO, EIO), std::pair(EINTR, 0)}) {
    file of = there();
    const gyre::testing::fault broken("close", failure);
    EXPECT_EQ(error_of(of.close()).value(), told);
    EXPECT_EQ(broken.hits(), 1);
    EXPECT_EQ(gyre::testing::open_descriptors(), before) << "it is closed all the same";
  }
}

TEST_F(FileFaults, ReadWholeReportsAnUnknownOffset) {
  const file of = there();
  const gyre::testing::fault broken("lseek", EIO);
  EXPECT_EQ(error_of(of.read_whole()), std::errc::io_error);
  EXPECT_EQ(broken.hits(), 1);
}

TEST_F(FileFaults, SizeAndStatusReportTheirErrors) {
  const file of = there();
  const gyre::testing::fault broken("statx", EIO, {.times = -1});
  EXPECT_EQ(error_of(of.size()), std::errc::io_error);
  EXPECT_EQ(error_of(of.status()), std::errc::io_error);
  EXPECT_EQ(error_of(of.read_whole()), std::errc::io_error);
}

TEST_F(FileFaults, LeaveNoDescriptorOpen) {
  const int before = gyre::testing::open_descriptors();
  const auto reading = [](std::string path) -> task<std::error_code> {
    auto whole = file::open(gyre::inline_executor(), path, for_writing);
    const file of = co_await std::move(whole);
    const gyre::testing::fault broken("pread", EIO);
    auto all = of.read_whole();
    const auto ended = co_await as_expected(std::move(all));
    co_return ended ? std::error_code() : ended.error();
  };
  EXPECT_EQ(sync_wait(reading(path())), std::errc::io_error);
  EXPECT_EQ(gyre::testing::open_descriptors(), before);
}

// The faults of FileFaults in calls that a ring makes.
class FileFaultsOnRing : public EveryFile {
 protected:
  template <class Make>
  void expect_told(std::string_view call, Make make) {
    const gyre::testing::fault broken(call, EIO);
    EXPECT_EQ(error_of(make()), std::errc::io_error) << call;
    EXPECT_EQ(broken.hits(), 1) << call;
  }
};

INSTANTIATE_TEST_SUITE_P(, FileFaultsOnRing, testing::Values(carried_out::by_the_ring),
                         [](const auto&) { return "ByTheRing"; });

TEST_P(FileFaultsOnRing, AreToldAndLeaveNoDescriptorOpen) {
  std::array<std::byte, 2> part{};
  std::optional<file> of = holding("text");
  const int before = gyre::testing::open_descriptors();
  expect_told("open", [&] { return file::open(path(), for_writing); });
  expect_told("pread", [&] { return of->read_some_at(part, 0); });
  expect_told("pread", [&] { return of->read_at(part, 0); });
  expect_told("pread", [&] { return of->read_whole(); });
  expect_told("pwrite", [&] { return of->write_at("more"sv, 0); });
  expect_told("fsync", [&] { return of->sync(); });
  expect_told("fdatasync", [&] { return of->sync_data(); });
  expect_told("statx", [&] { return of->size(); });
  expect_told("statx", [&] { return of->status(); });
  EXPECT_EQ(gyre::testing::open_descriptors(), before);
  expect_told("close", [&] { return of->close(); });
  EXPECT_EQ(gyre::testing::open_descriptors(), before - 1);
  EXPECT_EQ(content(), "text");
}

// ---- direct

class DirectFile : public EveryFile {
 protected:
  // Null where the file system has no O_DIRECT.
  std::optional<file> open_direct() {
    auto opened =
        run(as_expected(file::open(path(), {.write = true, .create = true, .direct = true})));
    if (!opened) {
      EXPECT_EQ(opened.error(), std::errc::invalid_argument);
      static_cast<void>(open());
      return std::nullopt;
    }
    return *std::move(opened);
  }
  template <class Call>
  std::string misuse_of(Call call) {
    try {
      run(call());
    } catch (const std::logic_error& error) {
      return error.what();
    }
    return "";
  }
};

INSTANTIATE_TEST_SUITE_P(CarriedOut, DirectFile,
                         testing::Values(carried_out::by_threads, carried_out::by_the_ring),
                         [](const auto& tested) {
                           return tested.param == carried_out::by_threads ? "ByThreads"
                                                                          : "ByTheRing";
                         });

TEST_P(DirectFile, ReadsAndWritesWholeBlocks) {
  const std::optional<file> direct = open_direct();
  if (!direct) GTEST_SKIP() << "no O_DIRECT here";
  const std::size_t alignment = direct->direct_alignment();
  EXPECT_TRUE(std::has_single_bit(alignment));
  EXPECT_GT(alignment, 1U);
  EXPECT_NE(::fcntl(direct->fd(), F_GETFL) & O_DIRECT, 0);
  gyre::io::aligned_buffer block(3 * alignment, alignment);
  std::ranges::fill(block.bytes(), std::byte{'x'});
  run(direct->write_at(block.bytes(), 0));
  run(direct->write_at(block.bytes().first(alignment), 3 * alignment));
  EXPECT_EQ(content(), std::string(4 * alignment, 'x'));
  std::ranges::fill(block.bytes(), std::byte{0});
  EXPECT_EQ(run(direct->read_some_at(block.bytes(), alignment)), 3 * alignment);
  EXPECT_EQ(text_of(block.bytes()), std::string(3 * alignment, 'x'));
}

TEST_P(DirectFile, ReadsTheRestOfABlockAtTheEnd) {
  const std::optional<file> direct = open_direct();
  if (!direct) GTEST_SKIP() << "no O_DIRECT here";
  const std::size_t alignment = direct->direct_alignment();
  const std::string text = std::string(alignment, 'a') + "the rest";
  run(open().write_at(text, 0));
  gyre::io::aligned_buffer block(4 * alignment, alignment);
  EXPECT_EQ(run(direct->read_at(block.bytes(), 0)), text.size());
  EXPECT_EQ(text_of(block.bytes()).substr(0, text.size()), text);
  EXPECT_EQ(run(direct->read_at(block.bytes(), alignment)), 8U);
  EXPECT_EQ(run(direct->read_at(block.bytes(), 2 * alignment)), 0U);
  run(direct->truncate(5));
  EXPECT_EQ(content(), "aaaaa");
}

TEST_P(DirectFile, TellsMisalignedArguments) {
  const std::optional<file> direct = open_direct();
  if (!direct) GTEST_SKIP() << "no O_DIRECT here";
  const std::size_t alignment = direct->direct_alignment();
  gyre::io::aligned_buffer block(2 * alignment, alignment);
  const std::string rest = " is no multiple of " + std::to_string(alignment) +
                           ", as a file opened with `direct` needs: see direct_alignment() and "
                           "aligned_buffer";
  EXPECT_EQ(misuse_of([&] { return direct->read_at(block.bytes(), 7); }),
            "read_at: the offset 7" + rest);
  EXPECT_EQ(misuse_of([&] { return direct->write_at(block.bytes().first(9), 0); }),
            "write_at: the size 9" + rest);
  const std::string text =
      misuse_of([&] { return direct->read_some_at(block.bytes().subspan(1, alignment), 0); });
  EXPECT_TRUE(text.starts_with("read_some_at: the address of the memory, ")) << text;
  EXPECT_TRUE(text.ends_with("," + rest)) << text;
  EXPECT_TRUE(misuse_of([&] { return direct->read_whole(); }).starts_with("read_whole: "));
}

TEST_F(FileFaults, OpenTellsThatAFileSystemMayNotHaveDirectAccess) {
  const gyre::testing::fault unknown("open", EINVAL);
  try {
    sync_wait(file::open(gyre::inline_executor(), "table", {.direct = true}));
    FAIL();
  } catch (const std::system_error& error) {
    EXPECT_STREQ(error.what(),
                 "open table (its file system may not have O_DIRECT): Invalid argument");
  }
}

TEST_P(DirectFile, TellsThatItAppendsOnlyToWholeBlocks) {
  static_cast<void>(holding("no whole block"));
  const auto opened = run(as_expected(
      file::open(path(), {.read = false, .write = true, .append = true, .direct = true})));
  if (!opened) GTEST_SKIP() << "the file system has no O_DIRECT";
  const gyre::io::aligned_buffer block(opened->direct_alignment(), opened->direct_alignment());
  try {
    run(opened->write_at(block.bytes(), 0));  // some file systems can
  } catch (const std::system_error& error) {
    EXPECT_STREQ(error.what(),
                 "write (`direct` appends only to a file whose size is a multiple of "
                 "direct_alignment()): Invalid argument");
  }
}

TEST_F(FileFaults, OpenNamesTheOptionsThatContradictEachOther) {
  try {
    sync_wait(file::open(gyre::inline_executor(), "table", {.read = false}));
    FAIL();
  } catch (const std::system_error& error) {
    EXPECT_STREQ(error.what(),
                 "open table (needs `read` or `write`; `truncate` needs `write`): "
                 "Invalid argument");
  }
}

TEST_F(FileFaults, TheDirectAlignmentIsThatOfAPageWhereTheSystemTellsNone) {
  static_cast<void>(holding("text"));
  const gyre::testing::fault unknown("statx", EINVAL);
  const auto direct =
      sync_wait(as_expected(file::open(gyre::inline_executor(), path(), {.direct = true})));
  if (!direct) GTEST_SKIP() << "no O_DIRECT here";
  EXPECT_EQ(direct->direct_alignment(), 4096U);
  EXPECT_EQ(file().direct_alignment(), 1U);
}

// ---- stop requests

class FileStopped : public File {
 protected:
  // Opens the file; `pool_` makes the call when the test says so.
  void start() {
    const auto work = [](FileStopped& test, std::string path) -> task<> {
      auto opening = file::open(test.pool_, std::move(path), for_writing);
      try {
        co_await std::move(opening);
      } catch (const gyre::operation_cancelled&) {
        test.error_ = std::make_error_code(std::errc::operation_canceled);
      }
      test.ended_ = true;
    };
    gyre::spawn(home_, work(*this, path()), {.stop = source_.get_token()});
    home_.run_all();
  }

  gyre::inplace_stop_source source_;
  gyre::testing::manual_executor pool_;
  gyre::testing::manual_executor home_;
  bool ended_ = false;
  std::error_code error_;
};

TEST_F(FileStopped, BeforeIsNotBegun) {
  source_.request_stop();
  start();
  EXPECT_TRUE(ended_);
  EXPECT_EQ(error_, std::errc::operation_canceled);
  EXPECT_EQ(pool_.posts(), 0U);
}

TEST_F(FileStopped, WhileItWaitsForAThreadGoesOnAtOnce) {
  start();
  EXPECT_EQ(pool_.pending(), 1U);
  source_.request_stop();
  EXPECT_FALSE(ended_) << "goes on in the executor, not in request_stop()";
  home_.run_all();
  EXPECT_TRUE(ended_);
  EXPECT_EQ(error_, std::errc::operation_canceled);
  pool_.run_all();
  EXPECT_FALSE(exists());
}

TEST_F(FileStopped, AfterItsEndHasTheResult) {
  start();
  pool_.run_all();
  source_.request_stop();
  home_.run_all();
  EXPECT_TRUE(ended_);
  EXPECT_EQ(error_, std::error_code());
  EXPECT_TRUE(exists());
}

TEST_F(FileStopped, ClosesAllTheSame) {
  file there = holding("text");
  const int fd = there.fd();
  source_.request_stop();
  sync_wait(there.close(), source_.get_token());
  EXPECT_EQ(::fcntl(fd, F_GETFD), -1);
}

TEST_P(EveryFile, ThatIsStoppedEndsALoopThatLogsErrors) {
  gyre::inplace_stop_source source;
  source.request_stop();
  const file there = holding("text");
  const auto read = [&]() -> task<> {
    std::array<std::byte, 4> bytes{};
    auto reading = there.read_at(bytes, 0);
    co_await std::move(reading);
  };
  int errors = 0;
  EXPECT_THROW(run(gyre::test::log_errors(read, errors), source.get_token()), std::system_error);
  EXPECT_EQ(errors, 0);
}

TEST_F(FileStopped, GivesWayWhenItsCancellationIsSwallowedAgainAndAgain) {
  source_.request_stop();
  const file there = holding("text");
  const auto read = [&]() -> task<> {
    std::array<std::byte, 4> bytes{};
    auto reading = there.read_at(bytes, 0);
    co_await std::move(reading);
  };
  bool enough = false;
  int swallowed = 0;
  gyre::test::swallow_until_others_run(home_, read, swallowed, enough, source_.get_token());
  home_.run_all();
  EXPECT_TRUE(enough);
  EXPECT_GE(swallowed, 1);
}

TEST_F(FileStopped, RacesTheBeginningAndTheEnd) {
  gyre::test::thread_executor home;
  const file there = holding("text");
  for (int round = 0; round < 300; ++round) {
    gyre::inplace_stop_source source;
    const std::jthread stops([&] { source.request_stop(); });
    const auto work = [](const file& of) -> task<std::error_code> {
      std::array<std::byte, 4> bytes{};
      auto reading = of.read_at(bytes, 0);
      try {
        co_await std::move(reading);
      } catch (const gyre::operation_cancelled&) {
        co_return std::make_error_code(std::errc::operation_canceled);
      }
      EXPECT_EQ(text_of(bytes), "text");
      co_return std::error_code();
    };
    const std::error_code error = sync_wait(gyre::on(home, work(there)), source.get_token());
    EXPECT_TRUE(!error || error == std::errc::operation_canceled) << error.message();
  }
}

// ---- the calls themselves

template <class Function>
class function_steps final : public gyre::io::detail::file_steps {
 public:
  using value_type = void;
  explicit function_steps(Function function) : function_(std::move(function)) {}
  next begin() noexcept override {
    function_();
    return {};
  }
  next advance(gyre::io::result) noexcept override { return {}; }

 private:
  Function function_;
};

template <class Function>
auto call(gyre::executor& pool, Function function) {
  return gyre::io::detail::file_operation("call", {.pool = &pool},
                                          function_steps(std::move(function)));
}

TEST(BlockingCall, RunsToItsEndOnceItHasBegun) {
  std::latch begun(1);
  std::latch asked(1);
  gyre::inplace_stop_source source;
  const std::jthread stops([&] {
    begun.wait();
    source.request_stop();
    asked.count_down();
  });
  bool ended = false;
  sync_wait(call(gyre::io::blocking_pool(),
                 [&]() noexcept {
                   begun.count_down();
                   asked.wait();
                   ended = true;
                 }),
            source.get_token());
  EXPECT_TRUE(ended);
}

TEST(BlockingCall, IsNotMadeWhenTheCoroutineIsDestroyedBefore) {
  gyre::testing::manual_executor pool;
  bool made = false;
  {
    auto waiting = call(pool, [&]() noexcept { made = true; });
    EXPECT_TRUE(waiting.await_suspend(std::noop_coroutine()));
  }
  pool.run_all();
  EXPECT_FALSE(made);
}

bool sleeps(::pid_t thread) {
  const std::string path = "/proc/self/task/" + std::to_string(thread) + "/stat";
  const std::string text(sync_wait(read_whole(path)).text());
  return text.substr(text.rfind(')') + 1).starts_with(" S");
}

TEST(BlockingCall, IsWaitedForWhenTheCoroutineIsDestroyedMeanwhile) {
  gyre::test::thread_executor pool;
  std::latch begun(1);
  std::latch released(1);
  std::atomic<bool> destroying = false;
  bool ended = false;
  const ::pid_t self = ::gettid();
  const std::jthread releases([&] {
    destroying.wait(false);
    while (!sleeps(self)) std::this_thread::yield();
    released.count_down();
  });
  {
    auto waiting = call(pool, [&]() noexcept {
      begun.count_down();
      released.wait();
      ended = true;
    });
    EXPECT_TRUE(waiting.await_suspend(std::noop_coroutine()));
    begun.wait();
    destroying = true;
    destroying.notify_one();
  }
  EXPECT_TRUE(ended);
}

template <class Function>
gyre::test::droppable coroutine_that_calls(gyre::executor&, gyre::inplace_stop_token,
                                           gyre::executor& pool, Function function) {
  auto calling = as_expected(call(pool, std::move(function)));
  const auto ended = co_await std::move(calling);
  ADD_FAILURE() << "went on: " << ended.has_value();
}

TEST(BlockingCall, MayHaveEndedWhenTheCoroutineIsDestroyed) {
  gyre::testing::manual_executor pool;
  gyre::testing::manual_executor home;
  bool made = false;
  auto waiting = coroutine_that_calls(home, {}, pool, [&]() noexcept { made = true; });
  pool.run_all();
  EXPECT_TRUE(made);
  EXPECT_EQ(home.pending(), 1U);
  waiting.drop();
  home.run_all();
}

TEST(BlockingCall, MayHaveBeenStoppedWhenTheCoroutineIsDestroyed) {
  gyre::testing::manual_executor pool;
  gyre::testing::manual_executor home;
  gyre::inplace_stop_source source;
  bool made = false;
  auto waiting =
      coroutine_that_calls(home, source.get_token(), pool, [&]() noexcept { made = true; });
  source.request_stop();
  EXPECT_EQ(home.pending(), 1U);
  waiting.drop();
  home.run_all();
  pool.run_all();
  EXPECT_FALSE(made);
}

TEST(BlockingCall, MayEndWhileTheCoroutineIsDestroyed) {
  gyre::test::thread_executor pool;
  for (int round = 0; round < 300; ++round) {
    gyre::testing::manual_executor home;
    std::atomic<bool> made = false;
    auto waiting = coroutine_that_calls(home, {}, pool, [&]() noexcept { made = true; });
    while (!made) std::this_thread::yield();
    waiting.drop();
    home.run_all();
  }
}

TEST(BlockingPool, IsOneForAll) {
  EXPECT_EQ(&gyre::io::blocking_pool(), &gyre::io::blocking_pool());
  EXPECT_EQ(gyre::io::blocking_pool().workers(), gyre::io::blocking_pool_workers);
}

TEST(BlockingPool, AForkedChildHasOneOfItsOwn) {
  if (gyre::test::thread_sanitizer_is_on)
    GTEST_SKIP() << "TSan lets a forked child start no threads";
  if (gyre::detail::asan_is_on) GTEST_SKIP() << "a lock of ASan's may have been held at the fork";
  EXPECT_FALSE(sync_wait(read_whole("/proc/self/status")).empty());
  const ::pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);
    ::_exit(sync_wait(read_whole("/proc/self/status")).empty() ? 1 : 0);
  }
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace file_test
