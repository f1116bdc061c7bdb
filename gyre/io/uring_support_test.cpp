// SPDX-License-Identifier: Apache-2.0
// Tests of the probe of io_uring's features, on kernels that refuse some of its calls.
#include <gyre/io/uring_support.hpp>

#include <gyre/base/unique_fd.hpp>
#include <gyre/testing/system_call_faults.hpp>
#include <tests/support/few_descriptors.hpp>
#include <tests/support/refused_system_calls.hpp>
#include <tests/support/ring_interruptions.hpp>
#include <tests/support/sanitizers.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <liburing.h>

#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

// Writes the coverage profile, in a build that keeps one: _exit() does not.
extern "C" [[gnu::weak]] int __llvm_profile_write_file();

namespace uring_support_test {
namespace {

using gyre::io::probe_uring;
using gyre::io::uring_features;
using gyre::io::uring_support;
using gyre::test::refused_call;
using testing::StartsWith;

std::string phrase(int error, std::string_view sysctl) {
  const std::system_error refusal(error, std::system_category(), "io_uring_setup");
  return gyre::io::detail::why_no_uring(refusal, sysctl);
}

TEST(UringRefusal, IsPutDownToTheSysctlThatForbidsIt) {
  EXPECT_EQ(phrase(EPERM, "2"), "the sysctl kernel.io_uring_disabled is 2");
  EXPECT_THAT(phrase(EPERM, "1"), StartsWith("the sysctl kernel.io_uring_disabled is 1, and this"));
}

TEST(UringRefusal, IsAPolicyWhereTheSysctlAllowsIt) {
  for (const std::string_view sysctl : {"0", ""}) {
    EXPECT_EQ(phrase(EPERM, sysctl),
              "forbidden (seccomp, or a container's policy): Operation not permitted");
  }
  EXPECT_EQ(phrase(EACCES, "0"), "forbidden (seccomp, or a container's policy): Permission denied");
}

TEST(UringRefusal, TellsOldKernelsAndShortagesFromWhatIsForbidden) {
  EXPECT_EQ(phrase(ENOSYS, ""), "this kernel has no io_uring");
  EXPECT_EQ(phrase(EMFILE, "0"), "io_uring_setup: Too many open files");
  EXPECT_EQ(phrase(ENOMEM, "0"), "io_uring_setup: Cannot allocate memory");
}

// Whether a ring with these flags can be made.
bool can_set_up(unsigned flags) {
  io_uring ring;
  const bool made = io_uring_queue_init(2, &ring, flags) == 0;
  if (made) io_uring_queue_exit(&ring);
  return made;
}

TEST(UringProbe, SaysEitherWhyNotOrNothing) {
  const uring_support support = probe_uring();
  EXPECT_EQ(support.usable, support.reason.empty()) << support.reason;
  if (support.usable) {
    EXPECT_TRUE(can_set_up(0));
  } else {
    EXPECT_EQ(support.features, uring_features{});
  }
}

TEST(UringProbe, FindsTheSetupsThatTheKernelTakes) {
  const uring_support support = probe_uring();
  if (!support.usable) GTEST_SKIP() << support.reason;
  const uring_features& has = support.features;
  EXPECT_EQ(has.cooperative_task_running, can_set_up(IORING_SETUP_COOP_TASKRUN));
  EXPECT_EQ(has.single_issuer, can_set_up(IORING_SETUP_SINGLE_ISSUER));
  EXPECT_EQ(has.deferred_task_running,
            can_set_up(IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN));
}

// Linux added the features in this order, so a newer one implies all older ones.
TEST(UringProbe, FindsNothingNewerWithoutWhatIsOlder) {
  const uring_support support = probe_uring();
  if (!support.usable) GTEST_SKIP() << support.reason;
  const uring_features& has = support.features;
  const std::vector<bool> by_age{has.files, has.cooperative_task_running && has.multishot_accept,
                                 has.single_issuer && has.multishot_receive,
                                 has.deferred_task_running, has.message_from_anywhere};
  EXPECT_TRUE(std::ranges::is_sorted(by_age, std::greater<>()));
}

int next_descriptor() {
  const gyre::unique_fd next(::eventfd(0, EFD_CLOEXEC));
  return next.get();
}

TEST(UringProbe, LeavesNoDescriptorOpen) {
  const int before = next_descriptor();
  probe_uring();
  EXPECT_EQ(next_descriptor(), before);
}

TEST(UringProbe, AnswersAllThreadsAlike) {
  if (gyre::test::thread_sanitizer_is_on)
    GTEST_SKIP() << "it does not see that liburing unmaps one ring before another gets its address";
  std::vector<uring_support> answers(4);
  {
    std::vector<std::jthread> threads;
    for (uring_support& answer : answers) threads.emplace_back([&] { answer = probe_uring(); });
  }
  for (const uring_support& answer : answers) {
    EXPECT_EQ(answer.features, answers[0].features);
    EXPECT_EQ(answer.reason, answers[0].reason);
  }
}

[[noreturn]] void end_process(int status) {
  if (__llvm_profile_write_file != nullptr) __llvm_profile_write_file();
  ::_exit(status);
}

TEST(UringProbe, AnswersAForkedChildWhatItAnsweredTheParent) {
  const uring_support before = probe_uring();
  const pid_t child = ::fork();
  if (child == 0) end_process(probe_uring().features == before.features ? 0 : 1);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

std::string describe(const uring_support& support) {
  if (!support.usable) return support.reason;
  const uring_features& has = support.features;
  std::string text = "usable";
  for (const auto& [feature, name] : {std::pair{has.single_issuer, "single_issuer"},
                                      {has.deferred_task_running, "deferred"},
                                      {has.cooperative_task_running, "cooperative"},
                                      {has.multishot_accept, "accept"},
                                      {has.multishot_receive, "receive"},
                                      {has.message_from_anywhere, "message"},
                                      {has.files, "files"}}) {
    if (feature) (text += ' ') += name;
  }
  return text;
}

// Runs in processes of their own, which have not probed yet.
class UringProbeDeathTest : public testing::Test {
 protected:
  void SetUp() override {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    if (!gyre::test::can_refuse_system_calls()) GTEST_SKIP() << "no seccomp filters here";
  }

  // Prints the result of the probe on stderr when the kernel refuses a call.
  [[noreturn]] static void find_without(const refused_call& call) {
    if (!gyre::test::refuse(call)) end_process(1);
    std::fprintf(stderr, "%s\n", describe(probe_uring()).c_str());
    end_process(0);
  }

  static auto succeeds() { return testing::ExitedWithCode(0); }
};

TEST_F(UringProbeDeathTest, FindsIoUringForbidden) {
  const char* const forbidden =
      "forbidden (seccomp, or a container's policy): Operation not permitted\n";
  EXPECT_EXIT(find_without({SYS_io_uring_setup, EPERM}), succeeds(), testing::Eq(forbidden));
  if (!can_set_up(0)) GTEST_SKIP() << "no rings here";
  EXPECT_EXIT(find_without({SYS_io_uring_enter, EPERM}), succeeds(), testing::Eq(forbidden));
}

TEST_F(UringProbeDeathTest, FindsKernelsWithoutIoUring) {
  EXPECT_EXIT(find_without({SYS_io_uring_setup, ENOSYS}), succeeds(),
              testing::Eq("this kernel has no io_uring\n"));
}

TEST_F(UringProbeDeathTest, FindsKernelsThatAreTooOld) {
  if (!can_set_up(0)) GTEST_SKIP() << "no rings here";
  EXPECT_EXIT(find_without({SYS_io_uring_register, EINVAL, IORING_REGISTER_PROBE}), succeeds(),
              testing::Eq("the io_uring of this kernel is too old: it lacks "
                          "IORING_REGISTER_PROBE\n"));
}

// Matches the features that this process finds, except one that is refused.
auto all_but(bool uring_features::* missed) {
  return testing::Truly([missed](const std::string& found) {
    uring_support support = probe_uring();
    support.features.*missed = false;
    return found == describe(support) + '\n';
  });
}

TEST_F(UringProbeDeathTest, MissesOnlyWhatTheKernelRefuses) {
  EXPECT_EXIT(find_without({SYS_io_uring_register, EINVAL, IORING_REGISTER_PBUF_RING}), succeeds(),
              all_but(&uring_features::multishot_receive));
  constexpr std::uint32_t send_message = 31;
  EXPECT_EXIT(find_without({SYS_io_uring_register, EINVAL, send_message}), succeeds(),
              all_but(&uring_features::message_from_anywhere));
}

// Probes with only `spare` descriptors left, and then with many.
[[noreturn]] void find_with_too_few_descriptors(std::size_t spare) {
  // A sanitizer needs descriptors where it meets an exception's type for the first time.
  phrase(EMFILE, "");
  std::optional<gyre::test::few_descriptors> few(spare);
  const uring_support refused = probe_uring();
  few.reset();
  const uring_support found = probe_uring();
  std::fprintf(stderr, "%s, then %s\n", refused.reason.c_str(), found.usable ? "usable" : "not");
  end_process(0);
}

TEST_F(UringProbeDeathTest, AsksAgainAfterAShortage) {
  if (!can_set_up(0)) GTEST_SKIP() << "no rings here";
  const char* const calls[] = {"io_uring_setup", "eventfd", "socketpair", "socketpair"};
  for (std::size_t spare = 0; spare < std::size(calls); ++spare) {
    EXPECT_EXIT(find_with_too_few_descriptors(spare), succeeds(),
                testing::Eq(std::string(calls[spare]) + ": Too many open files, then usable\n"));
  }
}

// Prints the result of a probe in which only the first `call` fails.
[[noreturn]] void find_where_one_fails(const char* call, int error) {
  std::optional<gyre::testing::fault> failing(std::in_place, call, error);
  const uring_support first = probe_uring();
  const int hits = failing->hits();
  failing.reset();
  const uring_support second = probe_uring();
  std::fprintf(stderr, "%d %s, then %s\n", hits, describe(first).c_str(),
               second.usable ? "usable" : "not");
  end_process(0);
}

[[noreturn]] void count_interruptions_after_a_probe() {
  // Another thread than that of SetUp(), which has made a ring.
  std::thread([] {
    static_cast<void>(probe_uring());
    std::fprintf(stderr, "%d\n", gyre::test::interruptions_until_rings_are_gone());
  }).join();
  end_process(0);
}

auto finds(const std::string& what) { return testing::Eq("1 " + what + '\n'); }

// Runs in processes of their own, which have not probed yet.
class UringProbeFaultsDeathTest : public testing::Test {
 protected:
  void SetUp() override {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    if (!can_set_up(0)) GTEST_SKIP() << "no rings here";
  }
  static auto succeeds() { return testing::ExitedWithCode(0); }
};

TEST_F(UringProbeFaultsDeathTest, ForWantOfMemoryAreToldAndNotRemembered) {
  const std::pair<const char*, const char*> calls[] = {
      {"io_uring_queue_init", "io_uring_setup"},
      {"io_uring_submit", "io_uring_enter"},
      {"io_uring_wait_cqe_timeout", "io_uring_enter"},
      {"mmap", "mmap"},
      {"eventfd", "eventfd"},
      {"io_uring_register_buf_ring", "io_uring_register"},
      {"socketpair", "socketpair"},
      {"send", "send"}};
  for (const auto& [call, told] : calls) {
    EXPECT_EXIT(find_where_one_fails(call, ENOMEM), succeeds(),
                finds(std::string(told) + ": Cannot allocate memory, then usable"))
        << call;
  }
}

TEST_F(UringProbeFaultsDeathTest, TheThreadThatProbesIsNotInterruptedLater) {
  EXPECT_EXIT(count_interruptions_after_a_probe(), succeeds(), testing::Eq("0\n"));
}

TEST_F(UringProbeFaultsDeathTest, AnInterruptedWaitIsRetried) {
  EXPECT_EXIT(find_where_one_fails("io_uring_wait_cqe_timeout", EINTR), succeeds(),
              testing::Truly([](const std::string& found) {
                return found == "1 " + describe(probe_uring()) + ", then usable\n";
              }));
}

TEST_F(UringProbeFaultsDeathTest, AFailedProbeMeansThatTheKernelIsTooOld) {
  EXPECT_EXIT(find_where_one_fails("io_uring_get_probe_ring", EINVAL), succeeds(),
              finds("the io_uring of this kernel is too old: it lacks IORING_REGISTER_PROBE, then "
                    "not"));
}

TEST_F(UringProbeFaultsDeathTest, AnUnreadableSysctlLeavesTheRestOfTheReason) {
  const int before = gyre::testing::open_descriptors();
  const std::system_error refusal(EPERM, std::system_category());
  for (const char* call : {"open", "read"}) {
    const gyre::testing::fault failing(call, EACCES);
    EXPECT_EQ(gyre::io::detail::why_no_uring(refusal),
              "forbidden (seccomp, or a container's policy): Operation not permitted");
    EXPECT_EQ(failing.hits(), 1) << call;
  }
  EXPECT_EQ(gyre::testing::open_descriptors(), before);
}

}  // namespace
}  // namespace uring_support_test
