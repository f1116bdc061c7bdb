// SPDX-License-Identifier: Apache-2.0
// The poller on epoll(7) and eventfd(2).
#pragma once

#include <sys/epoll.h>

#include <array>
#include <cstddef>
#include <span>

#include <gyre/base/intrusive_list.hpp>
#include <gyre/base/unique_fd.hpp>
#include <gyre/exec/poller.hpp>
#include <gyre/io/detail/parking_place.hpp>

namespace gyre::io {

/// One epoll instance and one eventfd. The eventfd is watched edge-triggered and never read, so a
/// wake-up costs one write(2) on the waker's side and nothing but the return of the wait on ours.
/// While no descriptor is watched, it waits on a futex instead, which wakes faster. Waits with
/// nanosecond timeouts where the kernel has epoll_pwait2 (Linux 5.11), else rounds up to milliseconds.
class epoll_poller final : public poller {
 public:
  /// Throws std::system_error (EMFILE, ENFILE, ENOMEM).
  epoll_poller();
  ~epoll_poller() override;

  steady_time now() const noexcept override;
  std::size_t wait(steady_time deadline) override;
  void complete(std::size_t& completed) override;
  void wake() noexcept override;
  void watch(readiness_operation& op, readiness interest, trigger how) override;
  void rewatch(readiness_operation& op, readiness interest, trigger how) override;
  void unwatch(readiness_operation& op) noexcept override;
  std::size_t watched() const noexcept override { return watched_count_; }
  void after_fork() override;
  const char* name() const noexcept override { return "epoll"; }

 private:
  static constexpr std::size_t most_events = 256;

  void open();
  void control(int request, readiness_operation& op, readiness interest, trigger how);
  int wait_for_events(steady_time deadline);

  detail::parking_place parking_;
  unique_fd epoll_;
  unique_fd wake_;
  intrusive_list<readiness_operation> watched_;
  std::size_t watched_count_ = 0;
  bool has_nanosecond_wait_ = true;
  std::array<epoll_event, most_events> events_;
  // What the last wait found and has not been completed yet.
  std::span<epoll_event> reported_;
};

}  // namespace gyre::io
