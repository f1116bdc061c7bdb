// SPDX-License-Identifier: Apache-2.0
// epoll_poller: the poller on epoll(7) and eventfd(2).
#pragma once

#include <gyre/base/unique_fd.hpp>
#include <gyre/exec/poller.hpp>
#include <gyre/io/detail/epoll_requests.hpp>
#include <gyre/io/detail/readiness_set.hpp>
#include <gyre/io/detail/thread_parker.hpp>
#include <gyre/io/detail/wake_event.hpp>

#include <sys/epoll.h>

#include <array>
#include <cstddef>
#include <optional>
#include <span>

namespace gyre::io {

/// The poller for loops where io_uring is missing, forbidden or slower; loops take it by themselves
/// there, or by io_interface::epoll. Consists of an epoll instance and an eventfd for wake-ups.
///
/// The eventfd is watched edge-triggered and never read, so a wake-up costs one write(2) of the
/// waker. While no descriptor is watched, the poller waits on a futex instead, which wakes faster.
/// Timeouts are in nanoseconds where the kernel has epoll_pwait2 (Linux 5.11), else rounded up to
/// milliseconds.
class epoll_poller final : public poller {
 public:
  /// Throws std::system_error (EMFILE, ENFILE, ENOMEM).
  epoll_poller();

  steady_time now() const noexcept override;
  std::size_t wait(steady_time deadline) override;
  void complete(std::size_t& completed) override;
  void wake() noexcept override;
  void watch(readiness_operation& op, readiness interest, trigger mode) override {
    watches_.watch(op, interest, mode);
  }
  void rewatch(readiness_operation& op, readiness interest, trigger mode) override {
    watches_.rewatch(op, interest, mode);
  }
  void unwatch(readiness_operation& op) noexcept override { watches_.unwatch(op); }
  std::size_t watched() const noexcept override { return watches_.size() + requests_.attached(); }
  io::backend* io() noexcept override { return &requests_; }
  void after_fork() override;
  const char* name() const noexcept override { return "epoll"; }

 private:
  static constexpr std::size_t most_events = 256;

  void open();
  bool serve_reported(std::size_t& completed);
  int wait_for_events(steady_time deadline);

  gyre::detail::thread_parker parker_;
  unique_fd epoll_;
  std::optional<detail::wake_event> wake_;
  bool has_nanosecond_wait_ = true;
  std::array<epoll_event, most_events> events_;
  // Events of the last wait that have not been completed yet.
  std::span<epoll_event> reported_;
  detail::readiness_set watches_{reported_};
  detail::epoll_requests requests_{reported_};
};

}  // namespace gyre::io
