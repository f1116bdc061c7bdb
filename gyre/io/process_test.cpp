// SPDX-License-Identifier: Apache-2.0
// Tests of child processes: start, standard streams, end, and what a child inherits.
#include <gyre/io/process.hpp>

#include <gyre/base/unique_fd.hpp>
#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/io/buffer.hpp>
#include <gyre/pool/thread_pool.hpp>
#include <gyre/task/as_expected.hpp>
#include <gyre/task/schedule.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/task/stop_token.hpp>
#include <gyre/task/task.hpp>
#include <gyre/task/when_all.hpp>
#include <gyre/task/with_timeout.hpp>
#include <tests/support/temporary_folder.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <future>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

namespace process_test {
namespace {

using gyre::sync_wait;
using gyre::task;
using gyre::io::exit_status;
using gyre::io::process;
using gyre::io::process_options;
using gyre::io::stdio;
using gyre::io::stream;
using gyre::test::temporary_folder;

std::vector<std::string> shell(std::string script) { return {"/bin/sh", "-c", std::move(script)}; }

task<std::string> read_all(stream& from) {
  std::string all;
  std::array<char, 4096> room;
  for (;;) {
    const std::size_t count = co_await from.read_some(std::as_writable_bytes(std::span(room)));
    if (count == 0) co_return all;
    all.append(room.data(), count);
  }
}

task<> write_and_close(stream& to, std::string_view text) {
  co_await to.write_all(text);
  to.close();
}

// Whether there is such a process, a zombie counts.
bool exists(pid_t id) { return ::kill(id, 0) == 0; }

class Process : public testing::Test {
 protected:
  exit_status run(std::vector<std::string> arguments, const process_options& options = {}) {
    process child(loop_, arguments, options);
    return sync_wait(loop_, child.wait());
  }
  std::string output_of(std::vector<std::string> arguments, process_options options = {}) {
    options.output = stdio::pipe();
    process child(loop_, arguments, options);
    std::string all = sync_wait(loop_, read_all(child.output()));
    sync_wait(loop_, child.wait());
    return all;
  }
  void serve() {
    while (loop_.poll()) continue;
  }
  // Whether the pidfd is watched, besides the pipe of the child's input.
  bool is_waiting() const { return loop_.metrics().descriptors_watched == 2; }
  // Serves the loop until `id` has ended, and has not been reaped.
  static void wait_for_zombie(pid_t id) {
    siginfo_t info{};
    ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(id), &info, WEXITED | WNOWAIT), 0);
  }

  gyre::loop loop_;
};

int error_of_start(gyre::event_loop& loop, const std::vector<std::string>& arguments,
                   const process_options& options = {}) {
  try {
    const process child(loop, arguments, options);
  } catch (const std::system_error& error) {
    return error.code().value();
  }
  return 0;
}

std::string message_of_start(gyre::event_loop& loop, const std::vector<std::string>& arguments,
                             const process_options& options = {}) {
  try {
    const process child(loop, arguments, options);
  } catch (const std::system_error& error) {
    const std::string_view what = error.what();
    return std::string(what.substr(std::string_view("gyre::io::process: ").size()));
  }
  return "";
}

// ---- the end

TEST_F(Process, GivesTheExitCode) {
  EXPECT_EQ(run({"true"}), exit_status::exited(0)) << "found in PATH";
  EXPECT_TRUE(run({"true"}).success());
  const exit_status seven = run(shell("exit 7"));
  EXPECT_EQ(seven, exit_status::exited(7));
  EXPECT_EQ(seven.code(), 7);
  EXPECT_EQ(seven.signal(), std::nullopt);
  EXPECT_FALSE(seven.success());
}

TEST_F(Process, GivesTheSignalThatEndedIt) {
  const exit_status killed = run(shell("kill -KILL $$"));
  EXPECT_EQ(killed, exit_status::killed(SIGKILL));
  EXPECT_EQ(killed.code(), std::nullopt);
  EXPECT_EQ(killed.signal(), SIGKILL);
  EXPECT_FALSE(killed.success());
}

TEST_F(Process, IsEndedByKill) {
  process child(loop_, {"sleep", "1000"});
  EXPECT_TRUE(exists(child.pid()));
  EXPECT_TRUE(child.kill(SIGTERM));
  EXPECT_EQ(sync_wait(loop_, child.wait()), exit_status::killed(SIGTERM));
  EXPECT_FALSE(child.kill(SIGTERM)) << "its end is known";
  EXPECT_FALSE(exists(child.pid())) << "reaped";
}

TEST_F(Process, GivesItsEndToLaterWaits) {
  process child(loop_, shell("exit 3"));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(sync_wait(loop_, child.wait()), exit_status::exited(3));
}

TEST_F(Process, GivesItsEndToSeveralCoroutines) {
  process child(loop_, {"cat"}, {.input = stdio::pipe()});
  gyre::thread_pool pool({.workers = 2});
  std::vector<std::future<bool>> waits;
  const auto waits_on = [](process& of, gyre::executor& home) -> task<bool> {
    const exit_status status = co_await of.wait();
    co_return status.success() && home.running_here();
  };
  waits.push_back(gyre::spawn_future(loop_, waits_on(child, loop_)));
  for (int i = 0; i < 3; ++i) waits.push_back(gyre::spawn_future(pool, waits_on(child, pool)));
  serve();
  child.input().close();
  for (auto& each : waits) {
    while (each.wait_for(std::chrono::seconds(0)) != std::future_status::ready) loop_.poll();
    EXPECT_TRUE(each.get());
  }
  EXPECT_EQ(loop_.metrics().descriptors_watched, 0u);
}

TEST_F(Process, StopEndsTheWaitAndTheChildRunsOn) {
  process child(loop_, {"cat"}, {.input = stdio::pipe()});
  gyre::inplace_stop_source stop;
  auto first = gyre::spawn_future(loop_, child.wait(), stop.get_token());
  serve();
  EXPECT_TRUE(is_waiting());
  std::jthread([&] { stop.request_stop(); }).join();
  serve();
  EXPECT_THROW(first.get(), std::system_error);
  EXPECT_FALSE(is_waiting());
  EXPECT_TRUE(exists(child.pid()));
  child.input().close();
  EXPECT_EQ(sync_wait(loop_, child.wait()), exit_status::exited(0));
}

TEST_F(Process, EndBeforeTheStopIsGiven) {
  process child(loop_, {"cat"}, {.input = stdio::pipe()});
  gyre::inplace_stop_source stop;
  auto end = gyre::spawn_future(loop_, child.wait(), stop.get_token());
  serve();
  child.input().close();
  wait_for_zombie(child.pid());
  while (loop_.metrics().descriptors_watched > 0) loop_.poll();
  stop.request_stop();
  serve();
  EXPECT_EQ(end.get(), exit_status::exited(0));
}

TEST_F(Process, StopBeforeTheEndIsServedLeavesTheEndToTheNextWait) {
  process child(loop_, {"cat"}, {.input = stdio::pipe()});
  gyre::inplace_stop_source stop;
  auto end = gyre::spawn_future(loop_, child.wait(), stop.get_token());
  serve();
  child.input().close();
  wait_for_zombie(child.pid());
  stop.request_stop();
  while (end.wait_for(std::chrono::seconds(0)) != std::future_status::ready) loop_.poll();
  try {
    EXPECT_EQ(end.get(), exit_status::exited(0));
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code(), std::errc::operation_canceled);
  }
  EXPECT_EQ(sync_wait(loop_, child.wait()), exit_status::exited(0));
}

TEST_F(Process, WaitEndsAtATimeLimit) {
  process child(loop_, {"sleep", "1000"});
  const auto waits = [](process& of) -> task<exit_status> {
    try {
      co_await gyre::with_timeout(of.wait(), std::chrono::milliseconds(1));
    } catch (const std::system_error&) {
      of.kill(SIGKILL);
    }
    co_return co_await of.wait();
  };
  EXPECT_EQ(sync_wait(loop_, waits(child)), exit_status::killed(SIGKILL));
}

TEST_F(Process, WaitMayBeDestroyedBeforeTheEnd) {
  process child(loop_, {"cat"}, {.input = stdio::pipe()});
  {
    auto wait = child.wait();
    EXPECT_TRUE(wait.await_suspend(std::noop_coroutine()));
    serve();
    EXPECT_TRUE(is_waiting());
  }
  EXPECT_FALSE(is_waiting());
}

TEST_F(Process, TellsThatOtherCodeHasReapedTheChild) {
  process child(loop_, {"true"});
  ASSERT_EQ(::waitpid(child.pid(), nullptr, 0), child.pid());
  const auto waits = [](process& of) -> task<int> {
    const auto status = co_await gyre::as_expected(of.wait());
    co_return status ? 0 : status.error().value();
  };
  EXPECT_EQ(sync_wait(loop_, waits(child)), ECHILD);
}

// ---- the object

TEST_F(Process, DestructorKillsAndReapsTheChild) {
  pid_t id = -1;
  {
    process child(loop_, {"sleep", "1000"});
    id = child.pid();
  }
  while (exists(id)) std::this_thread::yield();  // also as a zombie
}

TEST_F(Process, DestructorReapsAChildThatHasEnded) {
  pid_t id = -1;
  {
    process child(loop_, {"true"});
    id = child.pid();
    wait_for_zombie(id);
  }
  EXPECT_FALSE(exists(id));
}

TEST_F(Process, ReleasedChildRunsOn) {
  std::optional<process> child(std::in_place, loop_, std::vector<std::string>{"cat"},
                               process_options{.input = stdio::pipe()});
  const pid_t id = child->pid();
  const gyre::unique_fd pidfd = child->release();
  EXPECT_EQ(child->pid(), -1);
  EXPECT_THROW(static_cast<void>(child->wait()), std::logic_error);
  EXPECT_THROW(child->kill(SIGTERM), std::logic_error);
  EXPECT_TRUE(exists(id));
  child.reset();  // closes its input
  siginfo_t info{};
  ASSERT_EQ(::waitid(static_cast<idtype_t>(3), static_cast<id_t>(pidfd.get()), &info, WEXITED), 0);
  EXPECT_EQ(info.si_code, CLD_EXITED);
}

TEST_F(Process, MayBeMovedWhileItIsAwaited) {
  process child(loop_, {"cat"}, {.input = stdio::pipe()});
  auto end = gyre::spawn_future(loop_, child.wait());
  serve();
  process moved = std::move(child);
  EXPECT_EQ(child.pid(), -1);  // NOLINT: it is meant
  moved.input().close();
  while (end.wait_for(std::chrono::seconds(0)) != std::future_status::ready) loop_.poll();
  EXPECT_TRUE(end.get().success());
}

// ---- errors of the start

TEST_F(Process, ThrowsIfTheProgramCannotStart) {
  EXPECT_EQ(error_of_start(loop_, {"/no/such/program"}), ENOENT);
  EXPECT_EQ(error_of_start(loop_, {"gyre-has-no-such-program"}), ENOENT);
  EXPECT_EQ(error_of_start(loop_, {"/etc/passwd"}), EACCES);
  EXPECT_EQ(error_of_start(loop_, {"true"}, {.directory = "/no/such/directory"}), ENOENT);
  EXPECT_EQ(error_of_start(loop_, {"true"}, {.output = stdio::copy_of(-1)}), EBADF);
  const temporary_folder folder;
  ASSERT_EQ(::chmod(folder.make_file("text", "no program\n").c_str(), 0700), 0);
  EXPECT_EQ(error_of_start(loop_, {folder / "text"}), ENOEXEC);
  EXPECT_EQ(error_of_start(loop_, {"true", std::string(10'000'000, 'x')}), E2BIG);
}

TEST_F(Process, NamesWhatIsMissing) {
  const temporary_folder folder;
  folder.make_file("script", "#!/no/such/shell\n");
  ASSERT_EQ(::chmod((folder / "script").c_str(), 0700), 0);
  EXPECT_EQ(message_of_start(loop_, {"gyre-has-no-such-program"}),
            "start gyre-has-no-such-program: No such file or directory");
  EXPECT_EQ(message_of_start(loop_, {"/no/such"}, {.directory = "/"}),
            "start /no/such: No such file or directory");
  EXPECT_EQ(message_of_start(loop_, {"true"}, {.directory = "/no/such"}),
            "start true (the directory /no/such): No such file or directory");
  EXPECT_EQ(message_of_start(loop_, {"true"}, {.directory = "/dev/null"}),
            "start true (the directory /dev/null): Not a directory");
  const std::string missing_shell =
      " (the interpreter or loader that it names): No such file or directory";
  EXPECT_EQ(message_of_start(loop_, {folder / "script"}),
            "start " + (folder / "script") + missing_shell);
  EXPECT_EQ(message_of_start(loop_, {"./script"}, {.directory = folder / "."}),
            "start ./script" + missing_shell);
}

TEST_F(Process, RefusesArgumentsThatCannotBePassed) {
  EXPECT_THROW(process(loop_, {}), std::invalid_argument);
  EXPECT_THROW(process(loop_, {"echo", std::string("a\0b", 3)}), std::invalid_argument);
  EXPECT_THROW(process(loop_, {"true"}, {.input = stdio::with_output()}), std::invalid_argument);
  const gyre::io::process_options cut{.directory = std::string("/tmp\0/b", 7)};
  EXPECT_THROW(process(loop_, {"true"}, cut), std::invalid_argument);
}

// ---- standard streams

TEST_F(Process, PipesItsOutput) {
  EXPECT_EQ(output_of({"echo", "a word", "and $more"}), "a word and $more\n");
}

TEST_F(Process, PipesEachStream) {
  process child(loop_, shell("read line; echo \"out $line\"; echo \"err $line\" >&2"),
                {.input = stdio::pipe(), .output = stdio::pipe(), .error = stdio::pipe()});
  sync_wait(loop_, write_and_close(child.input(), "text\n"));
  EXPECT_EQ(sync_wait(loop_, read_all(child.output())), "out text\n");
  EXPECT_EQ(sync_wait(loop_, read_all(child.error())), "err text\n");
  EXPECT_TRUE(sync_wait(loop_, child.wait()).success());
}

TEST_F(Process, StreamsThatAreNoPipesAreClosed) {
  process child(loop_, {"true"});
  EXPECT_FALSE(child.input().is_open() || child.output().is_open() || child.error().is_open());
}

TEST_F(Process, ErrorsGoWithTheOutput) {
  EXPECT_EQ(output_of(shell("echo out; echo err >&2"), {.error = stdio::with_output()}),
            "out\nerr\n");
}

TEST_F(Process, NullInputEndsAtOnce) {
  EXPECT_EQ(output_of({"cat"}, {.input = stdio::null()}), "");
  EXPECT_TRUE(run(shell("echo dropped; echo dropped >&2"),
                  {.output = stdio::null(), .error = stdio::null()})
                  .success());
}

TEST_F(Process, ClosedInputEndsTheChild) {
  process child(loop_, {"cat"}, {.input = stdio::pipe(), .output = stdio::pipe()});
  child.input().close();
  EXPECT_EQ(sync_wait(loop_, read_all(child.output())), "");
  EXPECT_TRUE(sync_wait(loop_, child.wait()).success());
}

TEST_F(Process, CopiesDescriptors) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  gyre::unique_fd read_end(ends[0]);
  gyre::unique_fd write_end(ends[1]);
  EXPECT_TRUE(run({"echo", "text"}, {.output = stdio::copy_of(write_end.get())}).success());
  write_end.reset();
  stream from(loop_, std::move(read_end));
  EXPECT_EQ(sync_wait(loop_, read_all(from)), "text\n");
}

TEST_F(Process, StandardStreamsMayBeSwapped) {
  // The error output becomes the output of this process, and the other way round.
  process child(loop_, shell("test -e /dev/fd/1 && test -e /dev/fd/2"),
                {.output = stdio::copy_of(STDERR_FILENO), .error = stdio::copy_of(STDOUT_FILENO)});
  EXPECT_TRUE(sync_wait(loop_, child.wait()).success());
}

TEST_F(Process, BigOutputIsReadAsItComes) {
  constexpr std::size_t bytes = 3'000'000;
  const std::string all = output_of({"head", "-c", std::to_string(bytes), "/dev/zero"});
  EXPECT_EQ(all.size(), bytes);
}

task<std::string> round_trip(process& through, std::string_view text) {
  auto [written, read] =
      co_await gyre::when_all(write_and_close(through.input(), text), read_all(through.output()));
  static_cast<void>(written);
  co_return read;
}

TEST_F(Process, WritesAndReadsAtOnceMoreThanPipesHold) {
  process child(loop_, {"cat"}, {.input = stdio::pipe(), .output = stdio::pipe()});
  std::string text;
  for (int i = 0; text.size() < 2'000'000; ++i) text += std::to_string(i) + '\n';
  EXPECT_EQ(sync_wait(loop_, round_trip(child, text)), text);
  EXPECT_TRUE(sync_wait(loop_, child.wait()).success());
}

// ---- inheritance

TEST_F(Process, HasTheGivenEnvironmentAndDirectory) {
  EXPECT_EQ(output_of(shell("echo $GYRE_ONE-$HOME; pwd"),
                      {.environment = {{"GYRE_ONE=1"}}, .directory = "/"}),
            "1-\n/\n");
  ASSERT_EQ(::setenv("GYRE_INHERITED", "yes", 1), 0);
  EXPECT_EQ(output_of(shell("echo $GYRE_INHERITED")), "yes\n");
  EXPECT_EQ(output_of(shell("echo $GYRE_INHERITED"), {.environment = {{}}}), "\n");
}

TEST_F(Process, InheritsNoOtherDescriptor) {
  const gyre::unique_fd open(::open("/dev/null", O_RDONLY));  // NOLINT: without O_CLOEXEC
  const std::string path = "/proc/self/fd/" + std::to_string(open.get());
  EXPECT_EQ(run(shell("test -e " + path)), exit_status::exited(1));
}

TEST_F(Process, HasNoBlockedSignalsAndTheDefaultForSigpipe) {
  sigset_t blocked;
  sigset_t before;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGTERM);
  sigaddset(&blocked, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &blocked, &before);
  const auto ignored_before = std::signal(SIGPIPE, SIG_IGN);
  const exit_status terminated = run(shell("kill -TERM $$"));
  const exit_status broken = run(shell("kill -PIPE $$"));
  std::signal(SIGPIPE, ignored_before);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  EXPECT_EQ(terminated, exit_status::killed(SIGTERM));
  EXPECT_EQ(broken, exit_status::killed(SIGPIPE));
}

// Restores the action of SIGCHLD.
class sigchld_action {
 public:
  explicit sigchld_action(void (*handler)(int), int flags = 0) {
    struct sigaction action{};
    action.sa_handler = handler;
    action.sa_flags = flags;
    ::sigaction(SIGCHLD, &action, &before_);
  }
  sigchld_action& operator=(sigchld_action&&) = delete;
  ~sigchld_action() { ::sigaction(SIGCHLD, &before_, nullptr); }

  static struct sigaction present() {
    struct sigaction action{};
    ::sigaction(SIGCHLD, nullptr, &action);
    return action;
  }

 private:
  struct sigaction before_{};
};

// The kernel reaps the children of a process that ignores SIGCHLD as they end.
TEST_F(Process, GivesTheExitCodeWhereSigchldWasIgnored) {
  const sigchld_action ignored(SIG_IGN);
  for (int code = 1; code <= 10; ++code) {
    EXPECT_EQ(run(shell("exit " + std::to_string(code))), exit_status::exited(code));
  }
  EXPECT_EQ(sigchld_action::present().sa_handler, SIG_DFL);
}

TEST_F(Process, GivesTheExitCodeWhereChildrenWereNotToWait) {
  const auto handler = [](int) {};
  const sigchld_action handled(handler, SA_NOCLDWAIT | SA_RESTART);
  EXPECT_EQ(run(shell("exit 3")), exit_status::exited(3));
  EXPECT_EQ(sigchld_action::present().sa_handler, +handler);
  EXPECT_EQ(sigchld_action::present().sa_flags & (SA_NOCLDWAIT | SA_RESTART), SA_RESTART);
}

// The first line of a child's output.
std::string line_of(gyre::event_loop& loop, process& child) {
  gyre::io::buffer line;
  sync_wait(loop, child.output().read_until(line, "\n"));
  std::string text(line.text());
  text.pop_back();
  return text;
}

TEST_F(Process, IsNotAnotherOneThatHasItsNumber) {
  process shell_of_another(loop_, shell("sleep 1000 & echo $!; read line"),
                           {.input = stdio::pipe(), .output = stdio::pipe()});
  const pid_t grandchild = std::stoi(line_of(loop_, shell_of_another));
  try {
    const gyre::io::detail::child_process not_ours(loop_, grandchild, false);
    ADD_FAILURE() << "took over a process that is no child";
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code().value(), ECHILD);
  }
  EXPECT_TRUE(exists(grandchild));
  ::kill(grandchild, SIGKILL);
}

TEST_F(Process, IsEndedWhenThereIsNoDescriptorForIt) {
  // A sanitizer needs descriptors where it meets an exception's type for the first time.
  ASSERT_EQ(error_of_start(loop_, {"/no/such/program"}), ENOENT);
  const pid_t child = ::fork();
  if (child == 0) {
    for (;;) ::pause();
  }
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{.rlim_cur = 0, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  int error = 0;
  try {
    const gyre::io::detail::child_process refused(loop_, child, false);
  } catch (const std::system_error& refusal) {
    error = refusal.code().value();
  }
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(error, EMFILE);
  EXPECT_FALSE(exists(child));
}

// ---- groups

using gyre::io::process_group;

// A shell that tells the number of a child of its own, and waits for the end of both.
process_options grouped(process_group group) {
  return {.input = stdio::pipe(), .output = stdio::pipe(), .group = group};
}
std::vector<std::string> parent_of_another() {
  return shell("sleep 1000 & echo $!; exec 1>&-; wait");
}

// Returns once the process, which is no child of this one, has ended.
void wait_for_end_of(const gyre::unique_fd& pidfd) {
  ::pollfd ended{.fd = pidfd.get(), .events = POLLIN, .revents = 0};
  while (::poll(&ended, 1, -1) < 0) continue;
}
gyre::unique_fd pidfd_of(pid_t id) {
  return gyre::unique_fd(static_cast<int>(::syscall(SYS_pidfd_open, id, 0)));
}

TEST_F(Process, BelongsToTheGroupAskedFor) {
  const auto group_and_session_of = [&](process_group group) {
    process child(loop_, shell("read line"), grouped(group));
    return std::tuple(child.pid(), ::getpgid(child.pid()), ::getsid(child.pid()));
  };
  {
    const auto [id, group, session] = group_and_session_of(process_group::inherit());
    EXPECT_EQ(std::pair(group, session), std::pair(::getpgrp(), ::getsid(0)));
  }
  {
    const auto [id, group, session] = group_and_session_of(process_group::own());
    EXPECT_EQ(std::pair(group, session), std::pair(id, ::getsid(0)));
  }
  {
    const auto [id, group, session] = group_and_session_of(process_group::own_session());
    EXPECT_EQ(std::pair(group, session), std::pair(id, id));
  }
  process leader(loop_, shell("read line"), grouped(process_group::own()));
  const auto [id, group, session] = group_and_session_of(process_group::of(leader.pid()));
  EXPECT_EQ(group, leader.pid());
  EXPECT_NE(id, group);
  EXPECT_NE(error_of_start(loop_, shell("exit"), {.group = process_group::of(1)}), 0);
}

TEST_F(Process, JoinsNoGroupWithoutAPositiveId) {
  const temporary_folder folder;
  for (const pid_t id : {0, -1, -2, std::numeric_limits<pid_t>::min()}) {
    const process_options options{.group = process_group::of(id)};
    EXPECT_EQ(error_of_start(loop_, {"touch", folder / "started"}, options), EINVAL) << id;
  }
  EXPECT_EQ(folder.entries(), 0U);
  process released(loop_, shell("read line"), grouped(process_group::own()));
  const pid_t id = released.pid();
  static_cast<void>(released.release());
  EXPECT_EQ(message_of_start(loop_, {"true"}, {.group = process_group::of(released.pid())}),
            "join process_group::of(-1): Invalid argument");
  released.input().close();
  EXPECT_EQ(::waitpid(id, nullptr, 0), id);
}

TEST_F(Process, ItsGroupIsKilledWithAllThatAreInIt) {
  for (const process_group group : {process_group::own(), process_group::own_session()}) {
    process child(loop_, parent_of_another(), grouped(group));
    const gyre::unique_fd grandchild = pidfd_of(std::stoi(line_of(loop_, child)));
    child.kill_group(SIGTERM);
    wait_for_end_of(grandchild);
    EXPECT_EQ(sync_wait(loop_, child.wait()), exit_status::killed(SIGTERM));
    child.kill_group(SIGTERM);
  }
}

TEST_F(Process, ItsGroupCanBeKilledAfterItsEnd) {
  process child(loop_, shell("sleep 1000 & echo $!"), grouped(process_group::own()));
  const gyre::unique_fd grandchild = pidfd_of(std::stoi(line_of(loop_, child)));
  EXPECT_EQ(sync_wait(loop_, child.wait()), exit_status::exited(0));
  EXPECT_TRUE(exists(child.pid())) << "its number must stay that of its group";
  child.kill_group(SIGKILL);
  wait_for_end_of(grandchild);
  EXPECT_EQ(sync_wait(loop_, child.wait()), exit_status::exited(0));
}

TEST_F(Process, DestructorKillsTheGroupAndReapsTheChild) {
  gyre::unique_fd grandchild;
  pid_t id = 0;
  {
    process child(loop_, parent_of_another(), grouped(process_group::own()));
    grandchild = pidfd_of(std::stoi(line_of(loop_, child)));
    id = child.pid();
  }
  wait_for_end_of(grandchild);
  while (exists(id)) std::this_thread::yield();
  process ended(loop_, shell("exit 1"), grouped(process_group::own()));
  sync_wait(loop_, ended.wait());
  id = ended.pid();
  {
    const process destroyed = std::move(ended);
  }
  EXPECT_FALSE(exists(id));
}

TEST_F(Process, HasNoGroupToKillUnlessItHasItsOwn) {
  process child(loop_, shell("read line"), grouped(process_group::inherit()));
  EXPECT_THROW(child.kill_group(SIGTERM), std::logic_error);
  process leader(loop_, shell("read line"), grouped(process_group::own()));
  process member(loop_, shell("read line"), grouped(process_group::of(leader.pid())));
  EXPECT_THROW(member.kill_group(SIGTERM), std::logic_error);
  EXPECT_THROW(leader.kill_group(-1), std::system_error);
  static_cast<void>(leader.release());
  EXPECT_THROW(leader.kill_group(SIGTERM), std::logic_error);
}

// ---- many

task<int> run_one(gyre::event_loop& loop, int code) {
  process child(loop, shell("read line; exit $line"), {.input = stdio::pipe()});
  co_await write_and_close(child.input(), std::to_string(code) + "\n");
  const exit_status status = co_await child.wait();
  co_return status.code() == code ? 1 : 0;
}

TEST_F(Process, ManyChildrenRunAtOnce) {
  std::vector<task<int>> children;
  for (int i = 0; i < 40; ++i) children.push_back(run_one(loop_, i));
  const auto runs = [](std::vector<task<int>> all) -> task<int> {
    int right = 0;
    const std::vector<int> ends = co_await gyre::when_all(std::move(all));
    for (const int each : ends) right += each;
    co_return right;
  };
  EXPECT_EQ(sync_wait(loop_, runs(std::move(children))), 40);
}

TEST_F(Process, ThreadsStartChildrenAtOnce) {
  std::vector<std::jthread> threads;
  std::array<int, 3> right{};
  for (int& mine : right) {
    threads.emplace_back([&mine] {
      gyre::loop loop;
      for (int i = 0; i < 5; ++i) mine += sync_wait(loop, run_one(loop, i));
    });
  }
  threads.clear();
  EXPECT_THAT(right, testing::Each(5));
}

}  // namespace
}  // namespace process_test
