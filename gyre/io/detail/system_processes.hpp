// SPDX-License-Identifier: Apache-2.0
// system_processes: the system calls on processes and signals.
//
// This header is part of the seam, with the rules of system_files.hpp: a program that defines all
// functions of this header can replace child processes and signals.
#pragma once

#include <gyre/base/unique_fd.hpp>
#include <gyre/io/detail/system_files.hpp>

#include <sys/types.h>
#include <sys/wait.h>

#include <array>
#include <csignal>
#include <optional>

namespace gyre::io::detail::system {

inline constexpr int standard_streams = 3;

/// A program to be started, and what it inherits from this process.
struct spawn_plan {
  /// The arguments as execvp(3) takes them, with a null pointer at the end. The first argument is
  /// the program, which is looked up in PATH.
  char* const* arguments;
  /// The variables as execve(2) takes them. Null: those of this process.
  char* const* environment = nullptr;
  /// The working directory. Empty: that of this process.
  const char* directory = "";
  /// The descriptors that become the program's standard streams; none may be a standard stream of
  /// this process. Negative: the same stream as in this process.
  std::array<int, standard_streams> streams = {-1, -1, -1};
  /// The process group that the program joins. Zero: a new group. Nothing: that of this process.
  std::optional<::pid_t> group = {};
  bool makes_session = false;
};

/// Returns the id of this process.
[[nodiscard]] ::pid_t process_id() noexcept;

/// Starts a program by posix_spawnp(3), with no signal blocked, the default actions for SIGPIPE and
/// SIGCHLD, and no descriptors but its standard streams. Returns its process id. From the call on,
/// ended children of this process stay until they are reaped, even if SIGCHLD was ignored.
[[nodiscard]] expected<::pid_t> spawn(const spawn_plan& plan) noexcept;
/// pidfd_open(2): a descriptor that names a process.
[[nodiscard]] expected<unique_fd> open_process(::pid_t process) noexcept;
/// waitid(2): `si_pid` is zero if WNOHANG was set and no process is in a state of `flags`.
[[nodiscard]] expected<::siginfo_t> wait_for(::idtype_t kind, ::id_t id, int flags) noexcept;
/// The kind of an id of wait_for() that is a pidfd (P_PIDFD, which glibc has since 2.36).
inline constexpr auto by_pidfd = static_cast<::idtype_t>(3);
/// Sends a signal to the process of a pidfd.
int send_signal(int pidfd, int signal) noexcept;
/// kill(2): a negative `process` is a group, zero the group of this process.
int kill(::pid_t process, int signal) noexcept;

/// sigaction(2). Returns the present action, or the action before a change.
[[nodiscard]] expected<struct ::sigaction> signal_action(int signal) noexcept;
expected<struct ::sigaction> set_signal_action(int signal,
                                               const struct ::sigaction& action) noexcept;
/// pthread_sigmask(3): changes the calling thread's blocked signals. Returns the former ones.
::sigset_t change_signal_mask(int action, const ::sigset_t& signals) noexcept;
/// signalfd(2): makes a non-blocking queue of `signals`, which must be blocked. read() returns a
/// signalfd_siginfo for each pending signal.
[[nodiscard]] expected<unique_fd> open_signal_queue(const ::sigset_t& signals) noexcept;
/// Discards one pending signal of `signals`, which must be blocked, if there is one.
void discard_pending_signal(const ::sigset_t& signals) noexcept;

}  // namespace gyre::io::detail::system
