// SPDX-License-Identifier: Apache-2.0
// Tests of the choice of a loop's poller: the requested one, or the available one.
#include <gyre/exec/poller.hpp>

#include <gyre/exec/loop.hpp>
#include <gyre/io/uring_support.hpp>
#include <gyre/testing/system_call_faults.hpp>
#include <tests/support/few_descriptors.hpp>
#include <tests/support/refused_system_calls.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <liburing.h>

#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>

// Writes the coverage profile, in a build that keeps one: _exit() does not.
extern "C" [[gnu::weak]] int __llvm_profile_write_file();

namespace make_poller_test {
namespace {

using gyre::io_interface;
using gyre::make_poller;
using gyre::io::probe_uring;
using testing::HasSubstr;
using testing::ThrowsMessage;

// Sets GYRE_IO for the lifetime of the object.
class environment {
 public:
  explicit environment(const char* value) {
    if (const char* before = std::getenv(name)) before_ = before;
    set(value);
  }
  environment(const environment&) = delete;
  environment& operator=(const environment&) = delete;
  ~environment() { set(before_ ? before_->c_str() : nullptr); }

 private:
  static constexpr const char* name = "GYRE_IO";
  static void set(const char* value) {
    value == nullptr ? ::unsetenv(name) : ::setenv(name, value, 1);
  }
  std::optional<std::string> before_;
};

std::string made_for(io_interface wanted) { return make_poller(wanted)->name(); }

std::string best_for_uring() { return probe_uring().usable ? "uring" : "epoll"; }

TEST(MakePoller, DoesWhatTheProgramSaysWhateverTheEnvironmentSays) {
  for (const char* other : {"epoll", "uring", "auto", "nonsense"}) {
    const environment says(other);
    EXPECT_EQ(made_for(io_interface::epoll), "epoll");
    EXPECT_EQ(made_for(io_interface::uring), best_for_uring());
  }
}

TEST(MakePoller, DoesWhatTheEnvironmentSaysIfTheProgramDoesNotMind) {
  {
    const environment says("epoll");
    EXPECT_STREQ(make_poller()->name(), "epoll");
  }
  const environment says("uring");
  EXPECT_EQ(make_poller()->name(), best_for_uring());
}

TEST(MakePoller, ChoosesByItselfIfNobodySays) {
  const environment silent(nullptr);
  const std::string chosen = make_poller()->name();
  for (const char* as_good_as_nothing : {"", "auto"}) {
    const environment says(as_good_as_nothing);
    EXPECT_EQ(make_poller()->name(), chosen);
  }
}

TEST(MakePoller, RefusesOtherWords) {
  for (const char* word : {"fast", "EPOLL", "io_uring", " epoll", "0"}) {
    const environment says(word);
    EXPECT_THAT([] { make_poller(); },
                ThrowsMessage<std::invalid_argument>("gyre: GYRE_IO is \"" + std::string(word) +
                                                     "\"; it can be auto, epoll or uring"));
  }
}

TEST(MakePoller, IsHowLoopsGetTheirs) {
  const environment says("uring");
  const gyre::loop on_epoll({.io = io_interface::epoll});
  EXPECT_STREQ(on_epoll.metrics().io, "epoll");
  const gyre::loop on_what_is_said;
  EXPECT_EQ(on_what_is_said.metrics().io, best_for_uring());
}

[[noreturn]] void end_process(bool success) {
  if (__llvm_profile_write_file != nullptr) __llvm_profile_write_file();
  ::_exit(success ? 0 : 1);
}

// Simulates a kernel without `call`, or without the ring flags that are tried first.
[[noreturn]] void choose_where_there_is_no(const char* call) {
  bool as_it_should = false;
  {
    const environment silent(nullptr);
    const gyre::testing::fault unknown(call, EINVAL);
    as_it_should = made_for(io_interface::automatic) == "epoll" && unknown.hits() == 1;
  }
  as_it_should = as_it_should && made_for(io_interface::uring) == "uring";
  const environment says("uring");
  end_process(as_it_should && made_for(io_interface::automatic) == "uring");
}

TEST(MakePollerOnAnOldKernelDeathTest, TakesItsRingsOnlyIfTheyAreAskedFor) {
  // probe_uring() would remember its result.
  io_uring ring;
  if (io_uring_queue_init(2, &ring, 0) != 0) GTEST_SKIP() << "no rings here";
  io_uring_queue_exit(&ring);
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  for (const char* call : {"io_uring_queue_init", "io_uring_register_buf_ring"}) {
    EXPECT_EXIT(choose_where_there_is_no(call), testing::ExitedWithCode(0), testing::IsEmpty())
        << call;
  }
}

// Runs in processes of their own, which have not requested a ring yet.
class MakePollerDeathTest : public testing::Test {
 protected:
  void SetUp() override {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    if (!gyre::test::can_refuse_system_calls()) GTEST_SKIP() << "no seccomp filters here";
  }

  // Whether some loops, the last of them made at the same time by two threads, do I/O on epoll.
  static bool all_on_epoll(io_interface wanted) {
    const auto one = [&] {
      return std::string(gyre::loop({.io = wanted}).metrics().io) == "epoll";
    };
    if (!one() || !one()) return false;
    bool others[] = {false, false};
    {
      const std::jthread first([&] { others[0] = one(); });
      const std::jthread second([&] { others[1] = one(); });
    }
    return others[0] && others[1];
  }

  // Makes loops where the kernel refuses rings with `error`.
  [[noreturn]] static void make_loops_without_rings(int error, io_interface wanted,
                                                    const char* environment_says = nullptr) {
    const environment says(environment_says);
    end_process(gyre::test::refuse({SYS_io_uring_setup, error}) && all_on_epoll(wanted));
  }

  static auto succeeds() { return testing::ExitedWithCode(0); }

  static auto says(const std::string& reason) {
    return testing::Eq("gyre: io_uring cannot be used, using epoll: " + reason + '\n');
  }
  static constexpr const char* forbidden =
      "forbidden (seccomp, or a container's policy): Operation not permitted";
};

TEST_F(MakePollerDeathTest, FallsBackOnEpollWithOneLineIfRingsAreForbidden) {
  EXPECT_EXIT(make_loops_without_rings(EPERM, io_interface::uring), succeeds(), says(forbidden));
  EXPECT_EXIT(make_loops_without_rings(EPERM, io_interface::automatic, "uring"), succeeds(),
              says(forbidden));
}

TEST_F(MakePollerDeathTest, FallsBackOnEpollWithOneLineIfTheKernelHasNoRings) {
  EXPECT_EXIT(make_loops_without_rings(ENOSYS, io_interface::uring), succeeds(),
              says("this kernel has no io_uring"));
}

TEST_F(MakePollerDeathTest, FallsBackOnEpollSilentlyIfNobodyAskedForRings) {
  for (const char* word : {"", "auto"}) {
    EXPECT_EXIT(make_loops_without_rings(EPERM, io_interface::automatic, word), succeeds(),
                testing::IsEmpty());
  }
}

TEST_F(MakePollerDeathTest, FallsBackOnEpollIfRingsAreForbiddenLater) {
  if (best_for_uring() != "uring") GTEST_SKIP() << "no rings here";
  const auto enter_a_sandbox = [] {
    end_process(made_for(io_interface::uring) == "uring" &&
                gyre::test::refuse({SYS_io_uring_setup, EPERM}) &&
                all_on_epoll(io_interface::uring));
  };
  EXPECT_EXIT(enter_a_sandbox(), succeeds(), says(forbidden));
}

// The poller that is made with only `spare` descriptors left.
std::string made_with_descriptors(std::size_t spare) {
  // A sanitizer needs descriptors where it meets an exception's type for the first time.
  gyre::io::detail::why_no_uring(std::system_error(EMFILE, std::system_category()), "");
  const gyre::test::few_descriptors few(spare);
  try {
    return made_for(io_interface::uring);
  } catch (const std::system_error& error) {
    return error.code().message();
  }
}

TEST_F(MakePollerDeathTest, FallsBackOnEpollIfThereAreTooFewDescriptorsForARing) {
  const auto with = [](std::size_t spare, const std::string& expected) {
    end_process(made_with_descriptors(spare) == expected);
  };
  EXPECT_EXIT(with(2, "epoll"), succeeds(), HasSubstr("Too many open files\n"));
  EXPECT_EXIT(with(0, "Too many open files"), succeeds(), HasSubstr("Too many open files\n"));
}

}  // namespace
}  // namespace make_poller_test
