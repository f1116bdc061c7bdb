// SPDX-License-Identifier: Apache-2.0
#include <gyre/io/detail/child_process.hpp>

#include <gyre/base/error.hpp>
#include <gyre/io/blocking_pool.hpp>
#include <gyre/io/detail/system_processes.hpp>

#include <cerrno>
#include <csignal>
#include <stdexcept>

namespace gyre::io::detail {
namespace {

using system::by_pidfd;

exit_status status_of(const siginfo_t& info) noexcept {
  return info.si_code == CLD_EXITED ? exit_status::exited(info.si_status)
                                    : exit_status::killed(info.si_status);
}

void reap(int pidfd) noexcept {
  static_cast<void>(system::wait_for(by_pidfd, static_cast<id_t>(pidfd), WEXITED));
}

/// Whether `kind` and `id`, as for waitid(2), name a child of this process that was not reaped.
bool is_child(idtype_t kind, id_t id) noexcept {
  return system::wait_for(kind, id, WEXITED | WNOHANG | WNOWAIT).has_value();
}

}  // namespace

void kill_and_reap(pid_t id) noexcept {
  if (!is_child(P_PID, static_cast<id_t>(id))) return;
  system::kill(id, SIGKILL);
  static_cast<void>(system::wait_for(P_PID, static_cast<id_t>(id), WEXITED));
}

namespace {

unique_fd open_or_kill(pid_t id) {
  auto pidfd = system::open_process(id);
  if (pidfd && is_child(by_pidfd, static_cast<id_t>(pidfd->get()))) return *std::move(pidfd);
  if (pidfd || pidfd.error() == ESRCH) {
    gyre::detail::throw_system_error(ECHILD, "gyre::io::process: other code has reaped the child");
  }
  kill_and_reap(id);
  gyre::detail::throw_system_error(pidfd.error(), "gyre::io::process: pidfd_open");
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
  if (leads_group_) system::kill(-id_, SIGKILL);
  system::send_signal(descriptor_.get(), SIGKILL);  // the child may have joined another group
  const auto id = static_cast<id_t>(descriptor_.get());
  const auto info = system::wait_for(by_pidfd, id, WEXITED | WNOHANG);
  if (!info || info->si_pid != 0) return;
  // The reaping is left to others: the kernel frees the child's memory first, and the loop must not
  // wait for that.
  const int pidfd = descriptor_.release();
  const auto reap_and_close = [pidfd] {
    reap(pidfd);
    system::close(pidfd);
  };
  try {
    blocking_pool().post(reap_and_close);
  } catch (...) {
    reap_and_close();
  }
}

bool child_process::send(int signal) {
  const int error = system::send_signal(descriptor_.get(), signal);
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
  const int error = system::kill(-id_, signal);
  if (error != 0 && error != ESRCH) {
    gyre::detail::throw_system_error(error, "gyre::io::process: kill_group");
  }
}

std::optional<std::expected<exit_status, std::error_code>> child_process::try_take() noexcept {
  if (status_) return *status_;
  const int flags = WEXITED | WNOHANG | (leads_group_ ? WNOWAIT : 0);
  const auto info = system::wait_for(by_pidfd, static_cast<id_t>(descriptor_.get()), flags);
  if (!info) return std::unexpected(std::error_code(info.error(), std::system_category()));
  if (info->si_pid == 0) return std::nullopt;
  return *(status_ = status_of(*info));
}

}  // namespace gyre::io::detail
