// SPDX-License-Identifier: Apache-2.0
// process: a child process for coroutines.
//
//     gyre::io::process sort(loop, {"sort", "-r"},
//                            {.input = gyre::io::stdio::pipe(), .output = gyre::io::stdio::pipe()});
//     co_await sort.input().write_all("a\nb\n");
//     sort.input().close();  // the end of its input
//     co_await sort.output().read_until(sorted, "a\n");
//     gyre::io::exit_status status = co_await sort.wait();
#pragma once

#include <gyre/base/unique_fd.hpp>
#include <gyre/exec/event_loop.hpp>
#include <gyre/io/detail/child_process.hpp>
#include <gyre/io/exit_status.hpp>
#include <gyre/io/stream.hpp>

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace gyre::io {

/// A standard stream of a child process.
class stdio {
 public:
  /// The stream of this process.
  static constexpr stdio inherit() noexcept { return stdio(kind::inherit); }
  /// /dev/null: input ends at once, output is dropped.
  static constexpr stdio null() noexcept { return stdio(kind::null); }
  /// A pipe, whose other end is a stream of the process object.
  static constexpr stdio pipe() noexcept { return stdio(kind::pipe); }
  /// A copy of `descriptor`, which must be open until the constructor of process returns.
  static constexpr stdio copy_of(int descriptor) noexcept {
    return stdio(kind::descriptor, descriptor);
  }
  /// Only for the error output: sends it to the same place as the child's output, like `2>&1` in a
  /// shell.
  static constexpr stdio with_output() noexcept { return stdio(kind::with_output); }

 private:
  friend class process;
  enum class kind : std::uint8_t { inherit, null, pipe, descriptor, with_output };
  constexpr explicit stdio(kind value, int descriptor = -1) noexcept
      : kind_(value), descriptor_(descriptor) {}

  kind kind_;
  int descriptor_;
};

/// The process group of a child process, to which a terminal and kill_group() send signals.
class process_group {
 public:
  /// The group of this process: a terminal's Ctrl-C reaches the child, too.
  static constexpr process_group inherit() noexcept { return process_group(kind::inherit); }
  /// A new group, which the child leads. Programs that the child starts belong to it, too, unless
  /// they leave it. The terminal stops its members that read from it (SIGTTIN).
  static constexpr process_group own() noexcept { return process_group(kind::own); }
  /// A new session, and in it a new group, which the child leads; it has no controlling terminal.
  static constexpr process_group own_session() noexcept { return process_group(kind::own_session); }
  /// An existing group of this session. `leader`: the process id of a child that was started with
  /// own() and whose process object still exists. The constructor of process refuses zero and
  /// negative numbers, such as pid() after release().
  static constexpr process_group of(pid_t leader) noexcept {
    return process_group(kind::of, leader);
  }

 private:
  friend class process;
  enum class kind : std::uint8_t { inherit, own, own_session, of };
  constexpr explicit process_group(kind value, pid_t id = 0) noexcept : kind_(value), id_(id) {}
  constexpr bool is_own() const noexcept {
    return kind_ == kind::own || kind_ == kind::own_session;
  }

  kind kind_;
  pid_t id_;
};

/// Settings of a child process.
struct process_options {
  stdio input = stdio::inherit();
  stdio output = stdio::inherit();
  stdio error = stdio::inherit();
  /// The environment, as "NAME=value". Nothing: the environment of this process.
  std::optional<std::vector<std::string>> environment = {};
  /// The working directory. Empty: the directory of this process.
  std::string directory = {};
  process_group group = process_group::inherit();
};

/// A child process, which starts with the constructor and ends, at the latest, with the destructor.
///
/// The child has an empty signal mask, the default actions for SIGPIPE and SIGCHLD, and no
/// descriptors besides its standard streams (before glibc 2.34, also those without FD_CLOEXEC). It
/// runs in the process group of this process, so a terminal's Ctrl-C reaches it, too, unless
/// process_options::group is set.
///
/// A program that reads all input before it writes, or the reverse, works in any order. With a
/// program that does both at once, such as cat, write and read concurrently (when_all), or both
/// processes wait for ever once the pipes are full. Writing to a child that no longer reads raises
/// SIGPIPE, like writing to any pipe without a reader: see stream.
///
/// Thread-safety: kill(), kill_group() and pid(): any thread, but not during the destruction.
/// wait(): any thread. The rest: the loop's thread; while no thread runs the loop, one thread at a
/// time.
/// Lifetime: the loop must outlive the object, and the object the coroutines that wait for it. The
/// destructor kills a child that has not ended (SIGKILL), with its group if that is its own, and
/// lets blocking_pool() reap it: without a call that blocks, and without a zombie. To let a child
/// run on, release() it. No other code of the program may reap all children, as by wait(2), or
/// ignore SIGCHLD. If SIGCHLD is ignored when a child is started, or SA_NOCLDWAIT is set, as a
/// program may inherit it, the constructor ends that for the whole process: ended children then
/// stay until they are reaped.
/// Complexity: the constructor blocks until the child runs its program, some 1 ms, as for vfork(2)
/// however much memory this process has; a descriptor and a block of the slab for each child.
class process {
 public:
  /// Starts the program `arguments[0]`, with all of `arguments`. Without a slash in its name it is
  /// looked up in this process's PATH; a relative path begins at process_options::directory.
  ///
  /// Errors: std::invalid_argument without arguments. std::system_error: ENOENT if there is no such
  /// program, interpreter of a script, or directory, which what() then names; EACCES if it may not
  /// be executed; ENOEXEC for a file that is not a program, such as a script without "#!"; E2BIG,
  /// EAGAIN (RLIMIT_NPROC), EMFILE, ENFILE, ENOMEM, EBADF for a descriptor that is not open, EPERM
  /// or ESRCH for a process_group that cannot be joined, EINVAL for the group of an id that is not
  /// positive, ECHILD if other code has reaped the child, ENOSYS on Linux before 5.4. The pidfd and
  /// memory for the child are obtained after its start. After EMFILE, ENFILE, ENOMEM or
  /// std::bad_alloc the program may therefore have run for a moment, until it was killed.
  process(event_loop& loop, const std::vector<std::string>& arguments,
          const process_options& options = {});
  process(process&& other) noexcept = default;
  process& operator=(process&& other) noexcept = default;
  ~process() = default;

  /// Returns the process id; -1 after release(), and once moved from.
  pid_t pid() const noexcept { return child_ != nullptr ? child_->id() : -1; }

  /// Returns the other end of the child's standard stream, if that is a pipe; otherwise a closed
  /// stream. Close input() to end the child's input.
  stream& input() noexcept { return input_; }
  stream& output() noexcept { return output_; }
  stream& error() noexcept { return error_; }

  /// Awaited, gives the exit_status once the child has ended, at once if it was given before. A
  /// stop ends only the wait: the child continues, and can be awaited again. Several coroutines may
  /// wait.
  ///
  /// Errors: throws gyre::operation_cancelled when asked to stop; std::system_error: ECHILD if
  /// other code has reaped the child; std::logic_error after release().
  /// Complexity: two system calls to watch, one to reap; no allocation.
  [[nodiscard]] detail::child_process::wait wait() {
    return detail::child_process::wait(child().waits());
  }

  /// Sends `signal`, such as SIGTERM. Returns false if a wait() has already given the child's
  /// status. Throws std::system_error: EINVAL, EPERM; std::logic_error after release().
  bool kill(int signal) { return child().send(signal); }

  /// Sends `signal` to all processes of the child's own group that have not ended, even after the
  /// child's end. A child with a group of its own stays a zombie until this object is destroyed, so
  /// that no other group can get its number. Throws std::system_error: EINVAL, EPERM if the signal
  /// may be sent to none of them; std::logic_error without process_group::own() or own_session(),
  /// and after release().
  void kill_group(int signal) { child().send_to_group(signal); }

  /// Lets the child continue: nothing kills or reaps it any more. Returns its pidfd, for
  /// waitid(P_PIDFD, …): the child stays a zombie from its end until the caller reaps it. The
  /// standard streams stay open. Must not be called while a coroutine waits.
  [[nodiscard]] unique_fd release() noexcept;

 private:
  class starter;

  /// Returns the child. Throws std::logic_error without one.
  detail::child_process& child() const;

  std::unique_ptr<detail::child_process> child_;
  stream input_;
  stream output_;
  stream error_;
};

}  // namespace gyre::io
