// SPDX-License-Identifier: Apache-2.0
// Tests of the ring for file operations, alone and with a loop. A pipe and an event descriptor
// replace files whose reads block for as long as a test needs.
#include <gyre/io/detail/file_ring.hpp>

#include <gyre/base/unique_fd.hpp>
#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/io/blocking_pool.hpp>
#include <gyre/io/file.hpp>
#include <gyre/io/uring_support.hpp>
#include <gyre/task/as_expected.hpp>
#include <gyre/task/operation_cancelled.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/task/stop_token.hpp>
#include <gyre/task/when_all.hpp>
#include <gyre/testing/system_call_faults.hpp>
#include <tests/support/droppable.hpp>
#include <tests/support/file_ring_poller.hpp>
#include <tests/support/refused_system_calls.hpp>

#include <gtest/gtest.h>

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
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

namespace file_ring_test {
namespace {

using namespace std::string_view_literals;
using gyre::as_expected;
using gyre::task;
using gyre::io::file;
using gyre::io::file_call;
using gyre::io::file_command;
using gyre::io::result;
using gyre::io::detail::file_ring;

class WithFilesOnRing : public testing::Test {
 protected:
  void SetUp() override {
    const gyre::io::uring_support& here = gyre::io::probe_uring();
    if (!here.features.files) GTEST_SKIP() << "no files on io_uring here: " << here.reason;
  }
};

// ---- by itself

struct recorded_call : file_call {
  explicit recorded_call(const file_command& what) : file_call(&on_completion) { command = what; }
  static void on_completion(file_call& completed, result made) {
    auto& self = static_cast<recorded_call&>(completed);
    ++self.completions;
    self.came = made;
    if (self.throws) throw std::runtime_error("from a function");
  }
  int completions = 0;
  result came = result::of(0);
  bool throws = false;
};

struct open_pipe {
  open_pipe() {
    std::array<int, 2> ends{};
    EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
    reader = gyre::unique_fd(ends[0]);
    writer = gyre::unique_fd(ends[1]);
  }
  void put(std::string_view text) const {
    EXPECT_EQ(::write(writer.get(), text.data(), text.size()), std::ssize(text));
  }
  file_command read(std::span<std::byte> to) const {
    return file_command::read(reader.get(), to, 0);
  }
  gyre::unique_fd reader;
  gyre::unique_fd writer;
};

class FileRing : public WithFilesOnRing {
 protected:
  static bool is_readable(const file_ring& ring) {
    ::pollfd watched{.fd = ring.fd(), .events = POLLIN, .revents = 0};
    return ::poll(&watched, 1, 0) == 1;
  }
  static void wait_and_reap(file_ring& ring) {
    ::pollfd watched{.fd = ring.fd(), .events = POLLIN, .revents = 0};
    while (::poll(&watched, 1, -1) != 1) {
    }
    std::size_t completed = 0;
    ring.reap(completed);
  }

  std::array<std::byte, 4> bytes_{};
  open_pipe pipe_;
};

TEST_F(FileRing, DoesAtOnceWhatNeedNotWait) {
  file_ring ring;
  pipe_.put("text");
  recorded_call reading(pipe_.read(bytes_));
  const std::optional<result> made = ring.start(reading);
  ASSERT_TRUE(made);
  EXPECT_EQ(made->count(), 4U);
  EXPECT_EQ(ring.under_way(), 0U);
  EXPECT_FALSE(ring.pending());
  EXPECT_FALSE(is_readable(ring));
}

TEST_F(FileRing, TellsTheRestWhenItIsReaped) {
  file_ring ring;
  recorded_call reading(pipe_.read(bytes_));
  EXPECT_FALSE(ring.start(reading));
  EXPECT_EQ(ring.under_way(), 1U);
  EXPECT_FALSE(is_readable(ring));
  pipe_.put("text");
  wait_and_reap(ring);
  EXPECT_EQ(reading.completions, 1);
  EXPECT_EQ(reading.came.count(), 4U);
  EXPECT_EQ(ring.under_way(), 0U);
}

TEST_F(FileRing, LeavesTheLoopItsTurn) {
  file_ring ring;
  const gyre::unique_fd zeros(::open("/dev/zero", O_RDONLY | O_CLOEXEC));
  int at_once = 0;
  recorded_call reading(file_command::read(zeros.get(), bytes_, 0));
  while (at_once < 1000 && ring.start(reading)) ++at_once;
  EXPECT_GT(at_once, 0);
  EXPECT_LT(at_once, 1000);
  EXPECT_TRUE(ring.pending());
  std::size_t completed = 0;
  ring.reap(completed);
  EXPECT_EQ(completed, 1U);
  EXPECT_EQ(reading.completions, 1);
  EXPECT_TRUE(ring.start(reading)) << "in the next turn";
}

TEST_F(FileRing, TakesBackWhatTheKernelHasNotGotTo) {
  file_ring ring;
  recorded_call reading(pipe_.read(bytes_));
  ASSERT_FALSE(ring.start(reading));
  ring.request_cancel(reading);
  wait_and_reap(ring);
  EXPECT_EQ(reading.completions, 1);
  EXPECT_EQ(reading.came.error_number(), ECANCELED);
  pipe_.put("text");
  EXPECT_EQ(::read(pipe_.reader.get(), bytes_.data(), 4), 4) << "still there";
}

TEST_F(FileRing, CancelsWithoutCallingTheFunction) {
  file_ring ring;
  recorded_call reading(pipe_.read(bytes_));
  EXPECT_FALSE(ring.cancel(reading)) << "not begun";
  ASSERT_FALSE(ring.start(reading));
  const std::optional<result> made = ring.cancel(reading);
  ASSERT_TRUE(made);
  EXPECT_EQ(made->error_number(), ECANCELED);
  EXPECT_EQ(ring.under_way(), 0U);
  std::size_t completed = 0;
  ring.reap(completed);
  EXPECT_EQ(completed, 0U);
  EXPECT_EQ(reading.completions, 0);
}

TEST_F(FileRing, SaysWhatCameOfACallThatIsCancelledTooLate) {
  file_ring ring;
  recorded_call reading(pipe_.read(bytes_));
  ASSERT_FALSE(ring.start(reading));
  pipe_.put("text");
  while (!is_readable(ring)) std::this_thread::yield();
  const std::optional<result> made = ring.cancel(reading);
  ASSERT_TRUE(made);
  EXPECT_EQ(made->count(), 4U);
}

// Other calls are found complete while the end of the cancelled call is awaited.
TEST_F(FileRing, CancelsOneWithoutLosingTheOthers) {
  file_ring ring;
  const open_pipe silent;
  recorded_call first(pipe_.read(bytes_));
  recorded_call second(silent.read(bytes_));
  ASSERT_FALSE(ring.start(first));
  ASSERT_FALSE(ring.start(second));
  pipe_.put("text");
  while (!is_readable(ring)) std::this_thread::yield();
  EXPECT_TRUE(ring.cancel(second));
  EXPECT_TRUE(ring.pending());
  std::size_t completed = 0;
  ring.reap(completed);
  EXPECT_EQ(first.completions, 1);
  EXPECT_EQ(first.came.count(), 4U);
}

TEST_F(FileRing, GoesOnAfterAnException) {
  file_ring ring;
  std::array<std::byte, 1> byte{};
  std::vector<std::unique_ptr<recorded_call>> calls;
  for (int i = 0; i < 3; ++i) {
    calls.push_back(std::make_unique<recorded_call>(pipe_.read(byte)));
    ASSERT_FALSE(ring.start(*calls.back()));
  }
  calls[0]->throws = true;
  pipe_.put("abc");
  int thrown = 0;
  for (std::size_t completed = 0; completed < 3;) {
    try {
      ring.reap(completed);
    } catch (const std::runtime_error&) {
      ++thrown;
    }
  }
  EXPECT_EQ(thrown, 1);
  for (const auto& call : calls) EXPECT_EQ(call->completions, 1);
}

TEST_F(FileRing, MayHaveMoreUnderWayThanItsQueueTakes) {
  file_ring ring(1);
  constexpr std::size_t count = 100;
  std::array<std::byte, count> bytes{};
  std::vector<std::unique_ptr<recorded_call>> calls;
  for (std::size_t i = 0; i < count; ++i) {
    calls.push_back(std::make_unique<recorded_call>(pipe_.read(std::span(bytes).subspan(i, 1))));
    ASSERT_FALSE(ring.start(*calls.back()));
  }
  pipe_.put(std::string(count, 'x'));
  while (ring.under_way() > 0) wait_and_reap(ring);
  for (const auto& call : calls) {
    EXPECT_EQ(call->completions, 1);
    EXPECT_EQ(call->came.ok() ? call->came.count() : 0, 1U);
  }
  EXPECT_TRUE(std::ranges::all_of(bytes, [](std::byte b) { return b == std::byte{'x'}; }));
}

TEST_F(FileRing, WaitsForTheKernelWhenItIsDestroyed) {
  recorded_call reading(pipe_.read(bytes_));
  {
    file_ring ring;
    ASSERT_FALSE(ring.start(reading));
  }
  EXPECT_FALSE(reading.is_linked());
  EXPECT_EQ(reading.completions, 0);
  pipe_.put("text");
  EXPECT_EQ(::read(pipe_.reader.get(), bytes_.data(), 4), 4) << "nobody else reads it";
}

// The kernel usually cancels a thread's requests when the thread ends; this call must survive.
TEST_F(FileRing, OutlivesTheThreadThatStartedACall) {
  file_ring ring;
  recorded_call reading(pipe_.read(bytes_));
  std::thread([&] { EXPECT_FALSE(ring.start(reading)); }).join();
  pipe_.put("text");
  while (reading.completions == 0) wait_and_reap(ring);
  EXPECT_EQ(reading.came.error_number(), 0);
  EXPECT_EQ(reading.came.ok() ? reading.came.count() : 0, 4U);
}

TEST_F(FileRing, MakesTheCallsItselfWhereTheKernelTakesNone) {
  if (!gyre::test::can_refuse_system_calls()) GTEST_SKIP() << "the kernel has no seccomp";
  file_ring ring;
  const gyre::unique_fd log(::memfd_create("log", MFD_CLOEXEC));
  ASSERT_EQ(::fcntl(log.get(), F_SETFL, O_APPEND), 0);
  const file_command append = file_command::write(log.get(), bytes_, 0);
  const auto refused = [&](int error) {
    const gyre::test::refused_call enter{.number = SYS_io_uring_enter, .error = error};
    EXPECT_TRUE(gyre::test::refuse(enter));
    for (int i = 0; i < 100; ++i) {
      recorded_call writing(append);
      const std::optional<result> made = ring.start(writing);
      EXPECT_TRUE(made && made->ok() && made->count() == 4);
    }
  };
  std::thread(refused, EAGAIN).join();
  std::thread(refused, EBUSY).join();
  EXPECT_EQ(::lseek(log.get(), 0, SEEK_END), 200 * 4);
  recorded_call reading(pipe_.read(bytes_));
  EXPECT_FALSE(ring.start(reading)) << "the kernel takes calls again";
  static_cast<void>(ring.cancel(reading));
  EXPECT_EQ(::lseek(log.get(), 0, SEEK_END), 200 * 4) << "but not those that were made";
}

TEST_F(FileRing, LeavesTheParentItsCallsAfterAFork) {
  file_ring ring;
  recorded_call reading(pipe_.read(bytes_));
  ASSERT_FALSE(ring.start(reading));
  const ::pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);
    ring.recreate_ring_in_child();
    std::size_t completed = 0;
    ring.reap(completed);
    const bool ended = completed == 1 && reading.came.error_number() == ECANCELED;
    const open_pipe own;
    own.put("mine");
    recorded_call again(own.read(bytes_));
    const std::optional<result> made = ring.start(again);
    ::_exit(ended && made && made->ok() && made->count() == 4 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_EQ(reading.completions, 0);
  pipe_.put("text");
  wait_and_reap(ring);
  EXPECT_EQ(reading.came.ok() ? reading.came.count() : 0, 4U);
}

// ---- under a loop

class FilesOfALoop : public WithFilesOnRing {
 protected:
  explicit FilesOfALoop(unsigned entries = 64) {
    auto poller = std::make_unique<gyre::test::file_ring_poller>(entries);
    poller_ = poller.get();
    loop_ = std::make_unique<gyre::loop>(gyre::loop_options{}, std::move(poller));
  }
  void SetUp() override {
    WithFilesOnRing::SetUp();
    if (IsSkipped()) return;
    ASSERT_NE(::mkdtemp(folder_.data()), nullptr);
    path_ = folder_ + "/file";
  }
  void TearDown() override {
    static_cast<void>(::unlink(path_.c_str()));
    static_cast<void>(::rmdir(folder_.c_str()));
  }
  file open() {
    return gyre::sync_wait(*loop_, file::open(path_, {.write = true, .create = true}));
  }
  std::size_t under_way() const {
    return poller_->ring() != nullptr ? poller_->ring()->under_way() : 0;
  }

  std::unique_ptr<gyre::loop> loop_;
  gyre::test::file_ring_poller* poller_;
  std::string folder_ = testing::TempDir() + "gyre_file_ring_XXXXXX";
  std::string path_;
};

// A read of it returns eight bytes, once there are some. No io::file, as that leaves event
// descriptors to the pool.
class slow_file {
 public:
  int fd() const { return events_.get(); }
  auto read_some_at(std::span<std::byte> bytes, std::uint64_t offset) const {
    return gyre::io::detail::file_operation(
        "read", {.kind = gyre::io::file_call_kind::read},
        gyre::io::detail::read_steps(fd(), bytes, offset, false));
  }

 private:
  gyre::unique_fd events_{::eventfd(0, EFD_CLOEXEC)};
};
void let_go_on(const slow_file& slow) { EXPECT_EQ(::eventfd_write(slow.fd(), 1), 0); }

task<std::error_code> read_slowly(const slow_file& slow) {
  std::array<std::byte, 8> bytes{};
  auto reading = slow.read_some_at(bytes, 0);
  try {
    const auto count = co_await as_expected(std::move(reading));
    co_return count ? std::error_code() : count.error();
  } catch (const gyre::operation_cancelled&) {
    co_return std::make_error_code(std::errc::operation_canceled);
  }
}

gyre::test::droppable read_forever(gyre::executor&, gyre::inplace_stop_token,
                                   const slow_file& slow) {
  std::array<std::byte, 8> bytes{};
  auto reading = slow.read_some_at(bytes, 0);
  const auto count = co_await as_expected(std::move(reading));
  ADD_FAILURE() << "went on: " << count.has_value();
}

TEST_F(FilesOfALoop, NeedNoThreads) {
  const std::uint64_t before = gyre::io::blocking_pool().metrics().submitted;
  const auto work = [](std::string path) -> task<> {
    file there = co_await file::open(path, {.write = true, .create = true});
    co_await there.write_at("text"sv, 0);
    std::array<std::byte, 4> bytes{};
    EXPECT_EQ(co_await there.read_at(bytes, 0), 4U);
    EXPECT_EQ(co_await there.size(), 4U);
    co_await there.sync_data();
    co_await there.close();
    const gyre::io::buffer all = co_await gyre::io::read_whole(path);
    EXPECT_EQ(all.text(), "text");
  };
  gyre::sync_wait(*loop_, work(path_));
  EXPECT_EQ(gyre::io::blocking_pool().metrics().submitted, before);
  EXPECT_EQ(under_way(), 0U);
}

TEST_F(FilesOfALoop, AreLeftToThePoolWhereThereIsNoLoop) {
  const std::uint64_t before = gyre::io::blocking_pool().metrics().submitted;
  EXPECT_FALSE(gyre::sync_wait(gyre::io::read_whole("/proc/self/status")).empty());
  EXPECT_EQ(gyre::io::blocking_pool().metrics().submitted, before + 1);
}

// Writes and reads one block of a file, as many coroutines do at the same time.
task<> write_and_read(const file& of, std::size_t block, std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::uint32_t round = 0; round < 3; ++round) {
    auto value = static_cast<std::uint32_t>(block) * 2654435761U + round;
    for (std::byte& each : bytes)
      each = static_cast<std::byte>((value = value * 1664525 + 1) >> 24);
    auto writing = of.write_at(bytes, block * size);
    co_await std::move(writing);
    std::vector<std::byte> back(size);
    auto reading = of.read_at(back, block * size);
    const std::size_t count = co_await std::move(reading);
    EXPECT_EQ(count, size);
    EXPECT_TRUE(back == bytes) << "block " << block;
  }
}

class FilesOfASmallRing : public FilesOfALoop {
 protected:
  FilesOfASmallRing() : FilesOfALoop(1) {}
};

TEST_F(FilesOfASmallRing, AreWrittenAndReadByManyAtOnce) {
  const auto work = [](const file& of) -> task<> {
    std::vector<task<>> all;
    for (std::size_t block = 0; block < 300; ++block)
      all.push_back(write_and_read(of, block, 5000));
    co_await gyre::when_all(std::move(all));
  };
  const file there = open();
  gyre::sync_wait(*loop_, work(there));
  EXPECT_EQ(gyre::sync_wait(*loop_, there.size()), 300U * 5000);
}

TEST_F(FilesOfALoop, MayBeLarge) {
  const file there = open();
  gyre::sync_wait(*loop_, write_and_read(there, 1, std::size_t{2} << 20));
}

TEST_F(FilesOfALoop, DoNotKeepTheLoopFromItsTasks) {
  const file there = gyre::sync_wait(*loop_, file::open("/dev/zero"));
  bool task_ran = false;
  loop_->post([&] { task_ran = true; });
  const auto work = [](const file& zeros, const bool& ran) -> task<int> {
    std::array<std::byte, 16> bytes{};
    int reads = 0;
    for (; !ran && reads < 10'000; ++reads) {
      auto reading = zeros.read_at(bytes, 0);
      co_await std::move(reading);
    }
    co_return reads;
  };
  EXPECT_LT(gyre::sync_wait(*loop_, work(there, task_ran)), 10'000);
}

TEST_F(FilesOfALoop, AStopTakesBack) {
  const slow_file slow;
  gyre::inplace_stop_source source;
  std::jthread stops([&] { source.request_stop(); });
  EXPECT_EQ(gyre::sync_wait(*loop_, read_slowly(slow), source.get_token()),
            std::errc::operation_canceled);
  EXPECT_EQ(under_way(), 0U);
  stops.join();
  EXPECT_EQ(gyre::sync_wait(*loop_, read_slowly(slow), source.get_token()),
            std::errc::operation_canceled)
      << "before it began";
}

TEST_F(FilesOfALoop, AStopRacesTheEnd) {
  const slow_file slow;
  int stopped = 0;
  for (int round = 0; round < 300; ++round) {
    gyre::inplace_stop_source source;
    std::jthread stops([&] { source.request_stop(); });
    std::jthread goes_on([&] { let_go_on(slow); });
    const std::error_code error = gyre::sync_wait(*loop_, read_slowly(slow), source.get_token());
    EXPECT_TRUE(!error || error == std::errc::operation_canceled) << error.message();
    goes_on.join();
    if (error) {
      ++stopped;
      EXPECT_FALSE(gyre::sync_wait(*loop_, read_slowly(slow))) << "what was not read is there";
    }
  }
  EXPECT_EQ(under_way(), 0U);
  RecordProperty("stopped", stopped);
}

TEST_F(FilesOfALoop, ACoroutineMayBeDestroyedWhileItWaits) {
  const slow_file slow;
  gyre::test::droppable waiting = read_forever(*loop_, {}, slow);
  EXPECT_EQ(under_way(), 1U);
  waiting.drop();
  EXPECT_EQ(under_way(), 0U);
  let_go_on(slow);
  EXPECT_FALSE(gyre::sync_wait(*loop_, read_slowly(slow))) << "nobody has read it";
}

TEST_F(FilesOfALoop, ACoroutineMayBeDestroyedWhenItWasStopped) {
  const slow_file slow;
  gyre::inplace_stop_source source;
  gyre::test::droppable waiting = read_forever(*loop_, source.get_token(), slow);
  source.request_stop();
  waiting.drop();
  EXPECT_EQ(under_way(), 0U);
  while (loop_->poll()) {
  }
}

// Opens a file, and reads another one slowly before the first is closed.
gyre::io::detail::file_routine<std::size_t> open_and_read(
    gyre::io::detail::routine_memory&, const gyre::io::detail::file_arguments& arguments) {
  using gyre::io::file_command;
  const gyre::io::result opened =
      co_await file_command::open(arguments.path.c_str(), O_RDONLY | O_CLOEXEC, 0);
  if (!opened) co_return gyre::io::detail::failure_of(opened);
  const gyre::unique_fd file(opened.fd());
  std::array<std::byte, 8> bytes{};
  const gyre::io::result outcome = co_await file_command::read(arguments.fd, bytes, 0);
  if (!outcome) co_return gyre::io::detail::failure_of(outcome);
  co_return outcome.count();
}
auto open_and_read_slowly(const std::string& path, const slow_file& slow) {
  return gyre::io::detail::file_operation(
      "read", {.kind = gyre::io::file_call_kind::read},
      gyre::io::detail::routine_steps(&open_and_read, {.path = path, .fd = slow.fd()}));
}

TEST_F(FilesOfALoop, ARoutineMayBeStoppedBetweenItsCalls) {
  static_cast<void>(open());
  const slow_file slow;
  const int before = gyre::testing::open_descriptors();
  gyre::inplace_stop_source source;
  const auto work = [](std::string path, const slow_file& other) -> task<std::error_code> {
    auto reading = open_and_read_slowly(path, other);
    try {
      const std::size_t count = co_await std::move(reading);
      ADD_FAILURE() << "went on with " << count << " bytes";
    } catch (const gyre::operation_cancelled&) {
      co_return std::make_error_code(std::errc::operation_canceled);
    }
    co_return std::error_code();
  };
  loop_->post([&] { source.request_stop(); });
  EXPECT_EQ(gyre::sync_wait(*loop_, work(path_, slow), source.get_token()),
            std::errc::operation_canceled);
  EXPECT_EQ(under_way(), 0U);
  EXPECT_EQ(gyre::testing::open_descriptors(), before);
}

TEST_F(FilesOfALoop, ARoutineMayBeDestroyedBetweenItsCalls) {
  static_cast<void>(open());
  const slow_file slow;
  const int before = gyre::testing::open_descriptors();
  const auto work = [](gyre::executor&, gyre::inplace_stop_token, std::string path,
                       const slow_file& other) -> gyre::test::droppable {
    auto reading = open_and_read_slowly(path, other);
    static_cast<void>(co_await std::move(reading));
    ADD_FAILURE() << "went on";
  };
  gyre::test::droppable waiting = work(*loop_, {}, path_, slow);
  EXPECT_EQ(under_way(), 1U);
  waiting.drop();
  EXPECT_EQ(under_way(), 0U);
  EXPECT_EQ(gyre::testing::open_descriptors(), before);
  let_go_on(slow);
  EXPECT_FALSE(gyre::sync_wait(*loop_, read_slowly(slow))) << "nobody has read it";
}

// Calls that threads of the kernel make cannot be cancelled; their end is awaited.
TEST_F(FilesOfALoop, MemoryIsNotTouchedAfterItsCoroutineWasDestroyed) {
  constexpr std::size_t size = std::size_t{2} << 20;
  const file there = open();
  const std::vector<std::byte> ones(size, std::byte{1});
  gyre::sync_wait(*loop_, there.write_at(ones, 0));
  std::vector<std::byte> bytes(size);
  const auto reads = [&](gyre::executor&, int) -> gyre::test::droppable {
    auto reading = as_expected(there.read_at(bytes, 0));
    static_cast<void>(co_await std::move(reading));
  };
  const std::vector<std::byte> twos(size, std::byte{2});
  for (int round = 0; round < 50; ++round) {
    gyre::test::droppable waiting = reads(*loop_, round);
    for (int turns = round % 7; turns > 0; --turns) std::this_thread::yield();
    waiting.drop();
    std::ranges::copy(twos, bytes.begin());
    std::this_thread::yield();
    ASSERT_TRUE(bytes == twos);
  }
}

TEST_F(FilesOfALoop, ALoopMayEndWhileCallsAreUnderWay) {
  const slow_file slow;
  gyre::test::droppable waiting = read_forever(*loop_, {}, slow);
  gyre::test::droppable another = read_forever(*loop_, {}, slow);
  EXPECT_EQ(under_way(), 2U);
  loop_.reset();
  let_go_on(slow);
  std::uint64_t value = 0;
  EXPECT_EQ(::eventfd_read(slow.fd(), &value), 0);
  EXPECT_EQ(value, 1U) << "nobody else has read it";
}

TEST_F(FilesOfALoop, AForkedChildLosesWhatIsUnderWay) {
  const slow_file slow;
  std::optional<std::error_code> ended;
  const auto work = [](const slow_file& of, std::optional<std::error_code>& to) -> task<> {
    to = co_await read_slowly(of);
  };
  gyre::spawn(*loop_, work(slow, ended));
  loop_->poll();
  ASSERT_EQ(under_way(), 1U);
  const ::pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);
    loop_->after_fork_in_child();
    while (!ended) loop_->run_once();
    const bool lost = *ended == std::errc::operation_canceled;
    const bool goes_on = !gyre::sync_wait(*loop_, gyre::io::read_whole("/proc/self/stat")).empty();
    ::_exit(lost && goes_on ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_FALSE(ended);
  let_go_on(slow);
  while (!ended) loop_->run_once();
  EXPECT_FALSE(*ended);
}

TEST_F(FilesOfALoop, AreLeftToThePoolWhereARingCannotBeMadeOrCannotSayWhatItCan) {
  const file there = gyre::sync_wait(file::open("/dev/zero"));
  const auto reads = [&] {
    std::array<std::byte, 4> bytes{};
    const std::uint64_t before = gyre::io::blocking_pool().metrics().submitted;
    EXPECT_EQ(gyre::sync_wait(*loop_, there.read_at(bytes, 0)), 4U);
    return gyre::io::blocking_pool().metrics().submitted - before;
  };
  for (const char* call : {"io_uring_queue_init", "io_uring_get_probe_ring"}) {
    const gyre::testing::fault failing(call, ENOMEM);
    EXPECT_EQ(reads(), 1U) << call;
    EXPECT_EQ(failing.hits(), 1) << call;
  }
  const int before = gyre::testing::open_descriptors();
  EXPECT_EQ(reads(), 1U) << "as it has a ring that can do nothing";
  EXPECT_EQ(gyre::testing::open_descriptors(), before);
}

TEST_F(FilesOfALoop, AreLeftToThePoolWhereThereIsNoDescriptorForARing) {
  if (!gyre::test::can_refuse_system_calls()) GTEST_SKIP() << "the kernel has no seccomp";
  const file there = gyre::sync_wait(file::open("/dev/zero"));
  const auto reads = [&] {
    std::array<std::byte, 4> bytes{};
    const std::uint64_t before = gyre::io::blocking_pool().metrics().submitted;
    EXPECT_EQ(gyre::sync_wait(*loop_, there.read_at(bytes, 0)), 4U);
    return gyre::io::blocking_pool().metrics().submitted - before;
  };
  std::thread([&] {
    const gyre::test::refused_call setup{.number = SYS_io_uring_setup, .error = EMFILE};
    EXPECT_TRUE(gyre::test::refuse(setup));
    EXPECT_EQ(reads(), 1U);
    EXPECT_EQ(poller_->ring(), nullptr);
  }).join();
  EXPECT_EQ(reads(), 0U) << "as soon as there is a ring";
}

}  // namespace
}  // namespace file_ring_test
