// SPDX-License-Identifier: Apache-2.0
// uring_poller: the poller on io_uring(7).
#pragma once

#include <gyre/base/detail/wake_event.hpp>
#include <gyre/io/detail/file_ring.hpp>
#include <gyre/io/detail/readiness_set.hpp>
#include <gyre/io/detail/thread_parker.hpp>
#include <gyre/io/detail/uring_requests.hpp>
#include <gyre/io/uring_support.hpp>

#include <cstdint>

namespace gyre::io {

/// The poller on io_uring(7), the default where that is fast.
///
/// New connections, and messages of less than 8 KiB, come through the ring; the loop finds them by
/// reading memory that it shares with the kernel. After a larger message the ring only reports
/// readiness, and a system call receives. Watches of readiness (fd_watch) are left to an epoll
/// instance, which the ring watches. While nothing is watched, the poller waits on a futex, like
/// epoll_poller.
///
/// The ring belongs to the thread that runs the loop. run() cancels the ring's requests before it
/// returns, so that another thread may run the loop next. poll(), run_once(), run_for() and
/// run_until() do not: if another thread then runs the loop, it makes a new ring (some 50 us), and
/// the kernel releases descriptors that were closed since, and their ports, a moment later.
///
/// When a ring is closed, the kernel interrupts threads that have used it and still run: one wait
/// of such a thread, such as epoll_wait(2) or recv(2) with a time limit, fails with EINTR. Threads
/// that make and destroy loops without running them are not interrupted.
///
/// Thread-safety, Errors: as poller.
class uring_poller final : public poller, detail::ring_owner {
 public:
  /// Uses those of `features` that are true, and no others; the kernel must have them. Throws
  /// std::system_error (EMFILE, ENFILE, ENOMEM, EPERM, ENOSYS; EAGAIN: too many threads, as a
  /// short-lived one makes the ring), std::bad_alloc.
  explicit uring_poller(const uring_features& features = probe_uring().features);

  steady_time now() const noexcept override { return gyre::detail::monotonic_now(); }
  std::size_t wait(steady_time deadline) override;
  void complete(std::size_t& completions) override;
  void wake() noexcept override;
  void watch(readiness_operation& op, readiness interest, trigger mode) override {
    watches_.watch(op, interest, mode);
  }
  void rewatch(readiness_operation& op, readiness interest, trigger mode) override {
    watches_.rewatch(op, interest, mode);
  }
  void unwatch(readiness_operation& op) noexcept override { watches_.unwatch(op); }
  std::size_t watched() const noexcept override;
  io::backend* io() noexcept override { return &requests_; }
  void leave() noexcept override;
  void after_fork() override;
  const char* name() const noexcept override { return "uring"; }

 private:
  static constexpr std::size_t max_events = 256;

  void abandon_ring() noexcept override;
  file_service* file_calls() noexcept override;
  void save_completions() noexcept;
  void note_completion(std::uint8_t tag) noexcept;
  void open_ring();
  void close_ring() noexcept;
  void open_epoll();
  int submit_and_wait(steady_time deadline) noexcept;
  steady_time bound_by_retry(steady_time deadline) noexcept;
  void retry_short_reads() noexcept;
  std::size_t pending() const noexcept;
  bool watch_descriptors() noexcept;
  bool watch_descriptor(int fd, std::uint8_t tag) noexcept;
  void serve(const io_uring_cqe& completion, std::size_t& completions);
  bool report_watches(std::size_t& completions);
  bool serve_ring(std::size_t& completions);
  void reap_files(std::size_t& completions);

  gyre::detail::thread_parker parker_;
  const uring_features features_;
  gyre::detail::wake_event wake_;
  unique_fd epoll_;
  std::array<epoll_event, max_events> events_;
  // The events of epoll that were not yet reported.
  std::span<epoll_event> reports_;
  detail::readiness_set watches_{reports_};
  detail::uring ring_;
  gyre::detail::pending_message message_;  // the message that wake() sends
  bool must_not_wait_ = false;      // whether a wake-up came before its wait, or may have been lost
  unsigned unconfirmed_waits_ = 0;  // how many waits have passed since short reads were tried again
  unsigned unserved_completions_ = 0;  // how many completions of this turn are to be served
  // Whether the ring watches the wake-up, the epoll instance and the ring for files.
  bool is_wake_watched_ = false;
  bool is_epoll_watched_ = false;
  bool are_files_watched_ = false;
  bool has_ready_files_ = false;  // whether files_ has something to reap
  detail::uring_requests requests_;
  std::optional<detail::file_ring> files_;  // the first call on a file makes it
};

}  // namespace gyre::io
