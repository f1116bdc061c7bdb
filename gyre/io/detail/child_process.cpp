// SPDX-License-Identifier: Apache-2.0
#include <gyre/io/detail/child_process.hpp>

#include <gyre/base/error.hpp>
#include <gyre/io/blocking_pool.hpp>

#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <stdexcept>

namespace gyre::io::detail {
namespace {

// Known to the C library's headers only from glibc 2.36 on.
constexpr auto by_pidfd = static_cast<idtype_t>(3);  // P_PIDFD

int open_pidfd(pid_t id) noexcept {
  return static_cast<int>(::syscall(SYS_pidfd_open, id, 0));  // with FD_CLOEXEC
}

// 0, or the error's number.
int send_signal(int pidfd, int signal) noexcept {
  return ::syscall(SYS_pidfd_send_signal, pidfd, signal, nullptr, 0) == 0 ? 0 : errno;
}

exit_status status_of(const siginfo_t& info) noexcept {
  return info.si_code == CLD_EXITED ? exit_status::exited(info.si_status)
                                    : exit_status::killed(info.si_status);
}

void reap(idtype_t kind, id_t id) noexcept {
  siginfo_t info{};
  while (::waitid(kind, id, &info, WEXITED) != 0 && errno == EINTR) continue;
}

void reap(int pidfd) noexcept { reap(by_pidfd, static_cast<id_t>(pidfd)); }

/// Whether `kind` and `id`, as for waitid(2), name a child of this process that was not reaped.
bool is_child(idtype_t kind, id_t id) noexcept {
  siginfo_t info{};
  return ::waitid(kind, id, &info, WEXITED | WNOHANG | WNOWAIT) == 0;
}

}  // namespace

void kill_and_reap(pid_t id) noexcept {
  if (!is_child(P_PID, static_cast<id_t>(id))) return;
  ::kill(id, SIGKILL);
  reap(P_PID, static_cast<id_t>(id));
}

namespace {

unique_fd open_or_kill(pid_t id) {
  unique_fd descriptor(open_pidfd(id));
  if (descriptor && is_child(by_pidfd, static_cast<id_t>(descriptor.get()))) return descriptor;
  if (descriptor || errno == ESRCH) {
    gyre::detail::throw_system_error(ECHILD, "gyre::io::process: other code has reaped the child");
  }
  const int error = errno;
  kill_and_reap(id);
  gyre::detail::throw_system_error(error, "gyre::io::process: pidfd_open");
}

}  // namespace

child_process::child_process(event_loop& loop, pid_t id, bool leads_group)
    : id_(id),
      leads_group_(leads_group),
      descriptor_(open_or_kill(id)),
      waits_(loop, descriptor_.get(), *this) {}

child_process::~child_process() {
  if (!descriptor_) return;
  if (status_) {
    if (leads_group_) reap(descriptor_.get());
    return;
  }
  if (leads_group_) ::kill(-id_, SIGKILL);
  send_signal(descriptor_.get(), SIGKILL);  // it may have joined another group
  siginfo_t info{};
  const auto id = static_cast<id_t>(descriptor_.get());
  if (::waitid(by_pidfd, id, &info, WEXITED | WNOHANG) != 0 || info.si_pid != 0) return;
  // The kernel frees the child's memory first, so the loop must not wait.
  const int pidfd = descriptor_.release();
  try {
    blocking_pool().post([pidfd] {
      reap(pidfd);
      ::close(pidfd);
    });
  } catch (...) {
    reap(pidfd);
    ::close(pidfd);
  }
}

bool child_process::send(int signal) {
  const int error = send_signal(descriptor_.get(), signal);
  if (error != 0 && error != ESRCH) {
    gyre::detail::throw_system_error(error, "gyre::io::process: kill");
  }
  return error == 0;
}

void child_process::send_to_group(int signal) {
  if (!leads_group_) {
    throw std::logic_error(
        "gyre::io::process: kill_group() needs process_group::own() or own_session()");
  }
  if (::kill(-id_, signal) != 0 && errno != ESRCH) {
    gyre::detail::throw_errno("gyre::io::process: kill_group");
  }
}

std::optional<std::expected<exit_status, std::error_code>> child_process::try_take() noexcept {
  if (status_) return *status_;
  siginfo_t info{};
  const int flags = WEXITED | WNOHANG | (leads_group_ ? WNOWAIT : 0);
  if (::waitid(by_pidfd, static_cast<id_t>(descriptor_.get()), &info, flags) != 0) {
    return std::unexpected(std::error_code(errno, std::system_category()));
  }
  if (info.si_pid == 0) return std::nullopt;
  return *(status_ = status_of(info));
}

}  // namespace gyre::io::detail
