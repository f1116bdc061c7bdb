// SPDX-License-Identifier: Apache-2.0
#include <gyre/io/detail/system_processes.hpp>

#include <gyre/base/detail/retry_interrupted.hpp>

#include <pthread.h>
#include <spawn.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <ctime>
#include <mutex>

namespace gyre::io::detail::system {
namespace {

// Makes the kernel keep ended children until they are reaped. While SIGCHLD is ignored, as the
// parent of this program may have set it, the kernel reaps children as they end: their status would
// be lost, and their numbers free for other processes.
void keep_ended_children() noexcept {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  auto action = signal_action(SIGCHLD);
  if (!action) return;
  const bool is_ignored = (action->sa_flags & SA_SIGINFO) == 0 && action->sa_handler == SIG_IGN;
  if (!is_ignored && (action->sa_flags & SA_NOCLDWAIT) == 0) return;
  if (is_ignored) action->sa_handler = SIG_DFL;
  action->sa_flags &= ~SA_NOCLDWAIT;
  static_cast<void>(set_signal_action(SIGCHLD, *action));
}

// Adds the steps that the child takes before it runs its program. Returns an error number, or zero.
int add_actions(posix_spawn_file_actions_t& actions, const spawn_plan& plan) noexcept {
  int error = 0;
  for (int number = 0; number < standard_streams && error == 0; ++number) {
    const int source = plan.streams[static_cast<std::size_t>(number)];
    if (source >= 0) error = ::posix_spawn_file_actions_adddup2(&actions, source, number);
  }
  if (*plan.directory != '\0' && error == 0) {
    error = ::posix_spawn_file_actions_addchdir_np(&actions, plan.directory);
  }
#if defined(__GLIBC_PREREQ)
#if __GLIBC_PREREQ(2, 34)
  // Closes descriptors of this program that lack FD_CLOEXEC.
  if (error == 0) error = ::posix_spawn_file_actions_addclosefrom_np(&actions, standard_streams);
#endif
#endif
  return error;
}

// Fills in attributes that need no memory, so that they cannot fail and need no destruction.
posix_spawnattr_t attributes_of(const spawn_plan& plan) noexcept {
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  int flags = POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF;
  ::sigset_t signals;
  ::sigemptyset(&signals);
  ::posix_spawnattr_setsigmask(&attributes, &signals);
  ::sigaddset(&signals, SIGPIPE);
  ::sigaddset(&signals, SIGCHLD);
  ::posix_spawnattr_setsigdefault(&attributes, &signals);
  if (plan.group) {
    ::posix_spawnattr_setpgroup(&attributes, *plan.group);
    flags |= POSIX_SPAWN_SETPGROUP;
  }
  if (plan.makes_session) flags |= POSIX_SPAWN_SETSID;
  ::posix_spawnattr_setflags(&attributes, static_cast<short>(flags));
  return attributes;
}

}  // namespace

::pid_t process_id() noexcept { return ::getpid(); }

expected<::pid_t> spawn(const spawn_plan& plan) noexcept {
  posix_spawn_file_actions_t actions;
  int error = ::posix_spawn_file_actions_init(&actions);
  if (error != 0) return std::unexpected(error);
  const posix_spawnattr_t attributes = attributes_of(plan);
  keep_ended_children();
  ::pid_t process = -1;
  error = add_actions(actions, plan);
  if (error == 0) {
    error = ::posix_spawnp(&process, plan.arguments[0], &actions, &attributes, plan.arguments,
                           plan.environment != nullptr ? plan.environment : environ);
  }
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return std::unexpected(error);
  return process;
}

expected<unique_fd> open_process(::pid_t process) noexcept {
  // The kernel sets FD_CLOEXEC on this descriptor.
  unique_fd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, process, 0)));
  if (!pidfd) return std::unexpected(errno);
  return pidfd;
}

expected<::siginfo_t> wait_for(::idtype_t kind, ::id_t id, int flags) noexcept {
  expected<::siginfo_t> info;
  const int result =
      gyre::detail::retry_interrupted([&] { return ::waitid(kind, id, &*info, flags); });
  if (result < 0) info = std::unexpected(errno);
  return info;
}

int send_signal(int pidfd, int signal) noexcept {
  return ::syscall(SYS_pidfd_send_signal, pidfd, signal, nullptr, 0) == 0 ? 0 : errno;
}

int kill(::pid_t process, int signal) noexcept { return ::kill(process, signal) == 0 ? 0 : errno; }

expected<struct ::sigaction> signal_action(int signal) noexcept {
  expected<struct ::sigaction> action;
  if (::sigaction(signal, nullptr, &*action) != 0) action = std::unexpected(errno);
  return action;
}

expected<struct ::sigaction> set_signal_action(int signal,
                                               const struct ::sigaction& action) noexcept {
  expected<struct ::sigaction> old_action;
  if (::sigaction(signal, &action, &*old_action) != 0) old_action = std::unexpected(errno);
  return old_action;
}

::sigset_t change_signal_mask(int action, const ::sigset_t& signals) noexcept {
  ::sigset_t old_mask;
  ::pthread_sigmask(action, &signals, &old_mask);
  return old_mask;
}

expected<unique_fd> open_signal_queue(const ::sigset_t& signals) noexcept {
  unique_fd queue(::signalfd(-1, &signals, SFD_NONBLOCK | SFD_CLOEXEC));
  if (!queue) return std::unexpected(errno);
  return queue;
}

void discard_pending_signal(const ::sigset_t& signals) noexcept {
  const ::timespec at_once{};
  ::sigtimedwait(&signals, nullptr, &at_once);
}

}  // namespace gyre::io::detail::system
