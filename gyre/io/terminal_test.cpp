// SPDX-License-Identifier: Apache-2.0
// Tests of terminals: settings, their end, job control, streams that leave the shell's as it is.
#include <gyre/io/terminal.hpp>

#include <gyre/base/unique_fd.hpp>
#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/task/task.hpp>

#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

namespace terminal_test {
namespace {

using gyre::sync_wait;
using gyre::task;
using gyre::unique_fd;
using gyre::io::stream;
using gyre::io::terminal_mode;
using gyre::io::terminal_setting;

/// A pseudo-terminal, which is not the controlling one.
class Terminal : public testing::Test {
 protected:
  void SetUp() override {
    master_ = unique_fd(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
    ASSERT_TRUE(master_);
    ASSERT_EQ(::grantpt(master_.get()), 0);
    ASSERT_EQ(::unlockpt(master_.get()), 0);
    std::array<char, 64> name{};
    ASSERT_EQ(::ptsname_r(master_.get(), name.data(), name.size()), 0);
    name_ = name.data();
    terminal_ = unique_fd(::open(name_.c_str(), O_RDWR | O_NOCTTY | O_CLOEXEC));
    ASSERT_TRUE(terminal_);
  }

  tcflag_t local_flags() const {
    ::termios attributes{};
    EXPECT_EQ(::tcgetattr(terminal_.get(), &attributes), 0);
    return attributes.c_lflag;
  }
  bool is_raw() const { return (local_flags() & (ICANON | ECHO | ISIG)) == 0; }
  bool is_as_before() const {
    return (local_flags() & (ICANON | ECHO | ISIG)) == (ICANON | ECHO | ISIG);
  }
  void type(std::string_view keys) const {
    ASSERT_EQ(::write(master_.get(), keys.data(), keys.size()), static_cast<ssize_t>(keys.size()));
  }
  // Blocks until the terminal has written as much.
  std::string shown(std::size_t bytes) const {
    std::string text(bytes, '\0');
    for (std::size_t done = 0; done < bytes;) {
      const ssize_t count = ::read(master_.get(), text.data() + done, bytes - done);
      if (count <= 0) return "error";
      done += static_cast<std::size_t>(count);
    }
    return text;
  }
  // The status of a child that runs `work`.
  static int status_of_child(const std::function<void()>& work) {
    const pid_t child = ::fork();
    if (child == 0) {
      work();
      ::_exit(0);
    }
    int status = -1;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    return status;
  }

  unique_fd master_;
  unique_fd terminal_;
  std::string name_;
  gyre::loop loop_;
};

task<std::string> read_keys(stream& from, std::size_t count) {
  std::string keys(count, '\0');
  const std::size_t read = co_await from.read_some(std::as_writable_bytes(std::span(keys)));
  keys.resize(read);
  co_return keys;
}

template <class F>
int error_of(F call) {
  try {
    call();
  } catch (const std::system_error& error) {
    return error.code().value();
  }
  return 0;
}

// ---- settings

TEST_F(Terminal, RawTakesEachKeyAndIsRestored) {
  {
    const terminal_mode raw(terminal_.get(), terminal_setting::raw);
    EXPECT_TRUE(is_raw());
    type("\x03");
    char key = 0;
    EXPECT_EQ(::read(terminal_.get(), &key, 1), 1) << "without a line's end";
    EXPECT_EQ(key, 3) << "Ctrl-C is a key";
  }
  EXPECT_TRUE(is_as_before());
}

TEST_F(Terminal, CbreakTakesEachKeyAndKeepsSignalsAndOutput) {
  const terminal_mode cbreak(terminal_.get(), terminal_setting::cbreak);
  EXPECT_EQ(local_flags() & (ICANON | ECHO | ISIG), static_cast<tcflag_t>(ISIG));
  ASSERT_EQ(::write(terminal_.get(), "a\n", 2), 2);
  EXPECT_EQ(shown(3), "a\r\n");
}

TEST_F(Terminal, CbreakLeavesTheTerminalItsTranslationsOfInput) {
  const terminal_mode cbreak(terminal_.get(), terminal_setting::cbreak);
  ::termios attributes{};
  ASSERT_EQ(::tcgetattr(terminal_.get(), &attributes), 0);
  EXPECT_NE(attributes.c_iflag & IXON, 0u);
  EXPECT_NE(attributes.c_iflag & ICRNL, 0u);
}

TEST_F(Terminal, NoEchoTakesLinesAndShowsOnlyTheirEnd) {
  const terminal_mode hidden(terminal_.get(), terminal_setting::no_echo);
  type("secret\n");
  std::array<char, 64> line{};
  EXPECT_EQ(::read(terminal_.get(), line.data(), line.size()), 7);
  EXPECT_STREQ(line.data(), "secret\n");
  EXPECT_EQ(shown(2), "\r\n");
}

TEST_F(Terminal, NestedSettingsEndInReverse) {
  const terminal_mode cbreak(terminal_.get(), terminal_setting::cbreak);
  {
    const terminal_mode raw(terminal_.get(), terminal_setting::raw);
    EXPECT_TRUE(is_raw());
  }
  EXPECT_FALSE(is_raw());
  EXPECT_FALSE(is_as_before());
}

TEST_F(Terminal, SettingIsGivenUpAndTakenAgain) {
  terminal_mode raw(terminal_.get(), terminal_setting::raw);
  raw.restore();
  raw.restore();
  EXPECT_TRUE(is_as_before());
  raw.apply();
  raw.apply();
  EXPECT_TRUE(is_raw());
}

TEST_F(Terminal, SettingMovesAndOutlivesTheDescriptor) {
  std::optional<terminal_mode> moved;
  unique_fd copy(::fcntl(terminal_.get(), F_DUPFD_CLOEXEC, 0));
  terminal_mode raw(copy.get(), terminal_setting::raw);
  copy.reset();
  moved = std::move(raw);
  EXPECT_TRUE(is_raw());
  EXPECT_THROW(raw.apply(), std::logic_error);  // NOLINT: moved from
  raw.restore();                                // NOLINT
  EXPECT_TRUE(is_raw()) << "belongs to the other object";
  moved.reset();
  EXPECT_TRUE(is_as_before());
}

TEST_F(Terminal, SettingOfADescriptorThatIsNoTerminalIsAnError) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  const unique_fd read_end(ends[0]);
  const unique_fd write_end(ends[1]);
  const int pipe = read_end.get();
  EXPECT_EQ(error_of([&] { const terminal_mode refused(pipe, terminal_setting::raw); }), ENOTTY);
  EXPECT_EQ(error_of([&] { const terminal_mode refused(-1, terminal_setting::raw); }), EBADF);
  EXPECT_EQ(error_of([&] { static_cast<void>(gyre::io::terminal_size(pipe)); }), ENOTTY);
  EXPECT_EQ(error_of([&] { static_cast<void>(gyre::io::open_terminal(loop_, pipe)); }), ENOTTY);
  EXPECT_FALSE(gyre::io::is_terminal(pipe));
  EXPECT_FALSE(gyre::io::is_terminal(-1));
  EXPECT_TRUE(gyre::io::is_terminal(terminal_.get()));
}

TEST_F(Terminal, HungUpTerminalIsAnErrorOfApplyAndNoneOfRestore) {
  terminal_mode raw(terminal_.get(), terminal_setting::raw);
  master_.reset();
  raw.restore();
  EXPECT_EQ(error_of([&] { raw.apply(); }), EIO);
  EXPECT_EQ(error_of([&] { const terminal_mode other(terminal_.get(), terminal_setting::raw); }),
            EIO);
}

// ---- the end of the program

TEST_F(Terminal, ExitRestoresTheSetting) {
  constexpr int was_not_raw = 8;
  const int status = status_of_child([&] {
    static const terminal_mode* kept = nullptr;  // never destroyed
    kept = new terminal_mode(terminal_.get(), terminal_setting::raw);
    if (kept == nullptr || !is_raw()) ::_exit(was_not_raw);
    std::exit(0);
  });
  // LeakSanitizer may change the status: other tests' threads do not run in the child.
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_NE(WEXITSTATUS(status), was_not_raw);
  EXPECT_TRUE(is_as_before());
}

TEST_F(Terminal, ForkedChildLeavesTheSettingToItsParent) {
  const terminal_mode raw(terminal_.get(), terminal_setting::raw);
  status_of_child([] { std::exit(0); });
  EXPECT_TRUE(is_raw());
}

TEST_F(Terminal, ForkedChildThatAppliesItsParentsSettingLeavesIt) {
  terminal_mode raw(terminal_.get(), terminal_setting::raw);
  raw.restore();
  status_of_child([&] {
    raw.apply();
    std::exit(0);
  });
  EXPECT_TRUE(is_raw()) << "an object of the child's own would restore it";
}

// ---- job control

struct started_job {
  int terminal;
  pid_t group;
};

// Begins a session, whose controlling terminal is `name` and whose shell is the present process.
// `work(terminal)` runs in a job of it, in the background, and gives the status to exit with.
template <class Function>
started_job start_job(const std::string& name, Function work) {
  if (::setsid() < 0) ::_exit(1);
  const int terminal = ::open(name.c_str(), O_RDWR);
  if (terminal < 0 || ::tcgetpgrp(terminal) != ::getpgrp()) ::_exit(2);
  const pid_t group = ::fork();
  if (group == 0) {
    ::setpgid(0, 0);
    ::_exit(work(terminal));
  }
  return {terminal, group};
}

// The status to exit with, as of the other functions with jobs.
int stops_in_the_background(const std::string& name) {
  const auto [terminal, job] = start_job(name, [](int own) {
    // Another thread blocks the signal, as gyre's threads do.
    ::sigset_t sigttou;
    ::sigemptyset(&sigttou);
    ::sigaddset(&sigttou, SIGTTOU);
    ::pthread_sigmask(SIG_BLOCK, &sigttou, nullptr);
    const terminal_mode raw(own, terminal_setting::raw);
    ::raise(SIGSTOP);
    return ::tcgetpgrp(own) == ::getpgrp() ? 0 : 9;
  });
  int status = 0;
  if (::waitpid(job, &status, WUNTRACED) != job) return 3;
  if (!WIFSTOPPED(status) || WSTOPSIG(status) != SIGTTOU) return 4;
  ::termios attributes{};
  ::tcgetattr(terminal, &attributes);
  if ((attributes.c_lflag & ICANON) == 0) return 5;
  ::tcsetpgrp(terminal, job);
  ::kill(-job, SIGCONT);
  if (::waitpid(job, &status, WUNTRACED) != job || !WIFSTOPPED(status)) return 6;
  ::tcgetattr(terminal, &attributes);
  if ((attributes.c_lflag & ICANON) != 0) return 7;
  ::kill(-job, SIGCONT);
  if (::waitpid(job, &status, 0) != job || !WIFEXITED(status)) return 8;
  return WEXITSTATUS(status);
}

TEST_F(Terminal, ProgramInTheBackgroundIsStoppedBeforeItChangesTheTerminal) {
  const int status = status_of_child([&] { ::_exit(stops_in_the_background(name_)); });
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

// Runs a job that sets the terminal raw; the shell takes the terminal back before the job restores
// it. Returns 0 if the shell's setting stays.
int leaves_the_shells_setting(const std::string& name) {
  ::signal(SIGTTOU, SIG_IGN);  // as a shell, to take the terminal back
  const auto [terminal, job] = start_job(name, [](int own) {
    ::tcsetpgrp(own, ::getpgrp());
    const terminal_mode raw(own, terminal_setting::raw);
    ::raise(SIGSTOP);
    return 0;
  });
  int status = 0;
  if (::waitpid(job, &status, WUNTRACED) != job || !WIFSTOPPED(status)) return 3;
  ::tcsetpgrp(terminal, ::getpgrp());
  ::termios own{};
  ::tcgetattr(terminal, &own);
  if ((own.c_lflag & ICANON) != 0) return 4;
  ::kill(-job, SIGCONT);
  if (::waitpid(job, &status, 0) != job || !WIFEXITED(status)) return 5;
  ::tcgetattr(terminal, &own);
  return (own.c_lflag & ICANON) == 0 ? 0 : 6;
}

TEST_F(Terminal, RestoringInTheBackgroundLeavesTheShellsSetting) {
  const int status = status_of_child([&] { ::_exit(leaves_the_shells_setting(name_)); });
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

enum class when_handled : std::uint8_t { returns, stops };
volatile std::sig_atomic_t handled = 0;
volatile std::sig_atomic_t stops_when_handled = 0;

// Runs a job with a handler of SIGTTOU, whose flags are those of sigaction(2), in the background.
// Returns the error of the job's change of the terminal.
int tells_a_job_that_handles_sigttou(const std::string& name, when_handled handler, int flags) {
  const auto [terminal, job] = start_job(name, [&](int own) {
    stops_when_handled = handler == when_handled::stops ? 1 : 0;
    struct ::sigaction action{};
    action.sa_flags = flags;
    action.sa_handler = [](int) {
      handled = handled + 1;
      if (stops_when_handled != 0) ::raise(SIGSTOP);
    };
    ::sigaction(SIGTTOU, &action, nullptr);
    const int error = error_of([&] { const terminal_mode raw(own, terminal_setting::raw); });
    return handled == 1 ? error : 100;
  });
  int status = 0;
  if (handler == when_handled::stops) {
    if (::waitpid(job, &status, WUNTRACED) != job) return 101;
    if (!WIFSTOPPED(status) || WSTOPSIG(status) != SIGSTOP) return 102;
    ::tcsetpgrp(terminal, job);
    ::kill(-job, SIGCONT);
  }
  if (::waitpid(job, &status, 0) != job || !WIFEXITED(status)) return 103;
  return WEXITSTATUS(status);
}

TEST_F(Terminal, JobInTheBackgroundWhoseHandlerOfSigttouReturnsIsInterrupted) {
  for (const int flags : {0, SA_RESTART}) {
    const int status = status_of_child(
        [&] { ::_exit(tells_a_job_that_handles_sigttou(name_, when_handled::returns, flags)); });
    ASSERT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), EINTR) << flags;
  }
}

TEST_F(Terminal, JobThatItsHandlerOfSigttouStopsGoesOnInTheForeground) {
  for (const int flags : {0, SA_RESTART}) {
    const int status = status_of_child(
        [&] { ::_exit(tells_a_job_that_handles_sigttou(name_, when_handled::stops, flags)); });
    ASSERT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 0) << flags;
  }
}

TEST_F(Terminal, MasterIsRestoredWhileAnotherSessionHasTheTerminal) {
  std::array<int, 2> ready{};
  std::array<int, 2> done{};
  ASSERT_EQ(::pipe2(ready.data(), O_CLOEXEC), 0);
  ASSERT_EQ(::pipe2(done.data(), O_CLOEXEC), 0);
  const unique_fd ready_read(ready[0]);
  unique_fd ready_write(ready[1]);
  const unique_fd done_read(done[0]);
  unique_fd done_write(done[1]);
  const pid_t session = ::fork();
  if (session == 0) {
    done_write.reset();
    if (::setsid() < 0 || ::open(name_.c_str(), O_RDWR) < 0) ::_exit(1);
    char any = 0;
    if (::write(ready_write.get(), &any, 1) != 1) ::_exit(2);
    ::_exit(::read(done_read.get(), &any, 1) == 0 ? 0 : 3);
  }
  ready_write.reset();
  char any = 0;
  EXPECT_EQ(::read(ready_read.get(), &any, 1), 1);
  EXPECT_GT(::tcgetpgrp(master_.get()), 0) << "the foreground of the other session";
  {
    const terminal_mode raw(master_.get(), terminal_setting::raw);
    EXPECT_TRUE(is_raw());
  }
  EXPECT_TRUE(is_as_before());
  done_write.reset();
  int status = -1;
  ASSERT_EQ(::waitpid(session, &status, 0), session);
  EXPECT_EQ(status, 0);
}

// ---- size

TEST_F(Terminal, TellsItsSize) {
  EXPECT_EQ(gyre::io::terminal_size(terminal_.get()), gyre::io::terminal_extent());
  const ::winsize size{.ws_row = 24, .ws_col = 80, .ws_xpixel = 0, .ws_ypixel = 0};
  ASSERT_EQ(::ioctl(master_.get(), TIOCSWINSZ, &size), 0);
  const gyre::io::terminal_extent extent = gyre::io::terminal_size(terminal_.get());
  EXPECT_EQ(extent.columns, 80);
  EXPECT_EQ(extent.rows, 24);
}

// ---- streams

TEST_F(Terminal, StreamOfATerminalLeavesTheSharedOneBlocking) {
  const unique_fd shell(::fcntl(terminal_.get(), F_DUPFD_CLOEXEC, 0));
  stream keys = gyre::io::open_terminal(loop_, terminal_.get());
  EXPECT_NE(::fcntl(keys.fd(), F_GETFL) & O_NONBLOCK, 0);
  EXPECT_EQ(::fcntl(terminal_.get(), F_GETFL) & O_NONBLOCK, 0);
  EXPECT_EQ(::fcntl(shell.get(), F_GETFL) & O_NONBLOCK, 0);
  EXPECT_TRUE(gyre::io::is_terminal(keys.fd()));
  keys.close();
  EXPECT_EQ(::fcntl(shell.get(), F_GETFL) & O_NONBLOCK, 0);
}

TEST_F(Terminal, StreamOfADuplicateMakesTheSharedOneNonBlocking) {
  // The reason for open_terminal().
  stream keys(loop_, unique_fd(::fcntl(terminal_.get(), F_DUPFD_CLOEXEC, 0)));
  EXPECT_NE(::fcntl(terminal_.get(), F_GETFL) & O_NONBLOCK, 0);
}

TEST_F(Terminal, StreamReadsKeysOneByOneAndWrites) {
  stream keys = gyre::io::open_terminal(loop_, terminal_.get());
  const terminal_mode raw(keys.fd(), terminal_setting::raw);
  std::jthread typist([&] { type("k"); });
  EXPECT_EQ(sync_wait(loop_, read_keys(keys, 16)), "k");
  typist.join();
  type("\x1b[A");
  EXPECT_EQ(sync_wait(loop_, read_keys(keys, 16)), "\x1b[A");
  sync_wait(loop_, keys.write_all("text"));
  EXPECT_EQ(shown(4), "text");
}

TEST_F(Terminal, MasterIsAStreamAndNotOpenedAnew) {
  EXPECT_EQ(error_of([&] { static_cast<void>(gyre::io::open_terminal(loop_, master_.get())); }),
            EINVAL);
  stream screen(loop_, std::move(master_));
  ASSERT_EQ(::write(terminal_.get(), "text", 4), 4);
  EXPECT_EQ(sync_wait(loop_, read_keys(screen, 16)), "text");
}

TEST_F(Terminal, MasterEndsWhenTheTerminalIsClosed) {
  stream screen(loop_, std::move(master_));
  ASSERT_EQ(::write(terminal_.get(), "text", 4), 4);
  terminal_.reset();
  EXPECT_EQ(sync_wait(loop_, read_keys(screen, 16)), "text");
  EXPECT_EQ(sync_wait(loop_, read_keys(screen, 16)), "");
  EXPECT_TRUE(sync_wait(loop_, screen.receive()).empty());
}

}  // namespace
}  // namespace terminal_test
