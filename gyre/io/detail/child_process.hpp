// SPDX-License-Identifier: Apache-2.0
// child_process: a child's pidfd, its exit status once it was reaped, and the waits for its end.
#pragma once

#include <gyre/base/detail/slab_object.hpp>
#include <gyre/base/unique_fd.hpp>
#include <gyre/exec/detail/readable_line.hpp>
#include <gyre/exec/event_loop.hpp>
#include <gyre/io/exit_status.hpp>

#include <sys/types.h>

#include <expected>
#include <optional>
#include <system_error>
#include <utility>

namespace gyre::io::detail {

/// A child process of this process, and the waits for its end.
///
/// Thread-safety: the loop's thread, except send(), send_to_group() and id(): any thread.
class child_process : public gyre::detail::slab_object {
 public:
  using line = gyre::detail::readable_line<child_process, exit_status>;
  using wait = gyre::detail::readable_wait<child_process, exit_status>;
  static constexpr const char* wait_name = "gyre::io::process: wait";

  /// Takes the child over; kills and reaps it on error. `leads_group`: the child leads a process
  /// group of its own, which has its number. Throws std::system_error (EMFILE; ECHILD if the child
  /// is gone, or `id` is another process by now).
  child_process(event_loop& loop, pid_t id, bool leads_group);
  child_process& operator=(child_process&&) = delete;
  /// Kills the child, and its own group, unless it has ended, and lets it be reaped.
  ~child_process();

  pid_t id() const noexcept { return id_; }
  line& waits() noexcept { return waits_; }
  /// Sends a signal. Returns false if the child was reaped. Throws std::system_error.
  bool send(int signal);
  /// Sends a signal to the child's group. Throws std::system_error; std::logic_error without a
  /// group of its own.
  void send_to_group(int signal);
  /// Returns the status of a child that has ended, and reaps the child. The leader of a group is
  /// not reaped: until then, no other process or group can get its number.
  std::optional<std::expected<exit_status, std::error_code>> try_take() noexcept;
  unique_fd release() noexcept { return std::move(descriptor_); }

 private:
  const pid_t id_;
  const bool leads_group_;
  unique_fd descriptor_;
  std::optional<exit_status> status_;
  line waits_;
};

/// Ends a child that has no pidfd. If other code has reaped the child, its number may be another
/// process's.
void kill_and_reap(pid_t id) noexcept;

}  // namespace gyre::io::detail
