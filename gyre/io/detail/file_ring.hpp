// SPDX-License-Identifier: Apache-2.0
// file_ring: the file service of a loop on io_uring: a ring that the loop's poller watches.
//
// The sockets' ring belongs to one thread, and this one must not: a coroutine that waits for a file
// may be destroyed on any thread while the loop does not run, and then waits for calls that the
// kernel cannot cancel. Each call is submitted when it begins, because most calls complete
// immediately: cached pages are read within the system call that submits the read.
#pragma once

#include <gyre/base/intrusive_list.hpp>
#include <gyre/io/file_service.hpp>

#include <liburing.h>

#include <bitset>
#include <utility>

namespace gyre::io::detail {

class file_ring final : public file_service {
 public:
  /// `entries`: half the completions that the kernel keeps without allocating, and the largest
  /// number of one thread's calls that block in the kernel at a time. Throws std::system_error
  /// (EMFILE, ENOMEM; EPERM and ENOSYS where io_uring is forbidden or unknown).
  explicit file_ring(unsigned entries = 64);
  /// Waits for the end of calls under way, whose callbacks are not called.
  ~file_ring();

  bool can(file_call_kind kind) const noexcept override {
    return supported_.test(std::to_underlying(kind));
  }
  std::optional<result> start(file_call& call) noexcept override;
  void request_cancel(file_call& call) noexcept override;
  std::optional<result> cancel(file_call& call) noexcept override;

  // The poller calls the functions below.
  /// Returns the descriptor, readable when the kernel has something to reap().
  /// recreate_ring_in_child() changes it.
  int fd() const noexcept { return ring_.ring_fd; }
  /// Whether there is something to reap() that the descriptor does not show.
  bool pending() const noexcept { return !completed_calls_.empty(); }
  /// Returns the number of calls that have begun and not been reported.
  std::size_t under_way() const noexcept { return under_way_; }
  /// Calls the callbacks of calls that are done, and before each of them increments `completions`.
  /// An exception of a callback passes through; the next reap() calls the remaining callbacks.
  void reap(std::size_t& completions);
  /// Replaces the ring in a forked child. Calls under way continue in the parent; in the child they
  /// end with ECANCELED, to be reaped. Throws like the constructor; then calls are made on the
  /// loop's thread.
  void recreate_ring_in_child();

 private:
  // The number of calls that may complete immediately in a turn of the loop, so that a reader of
  // cached pages does not delay other handles.
  static constexpr std::size_t max_at_once = 64;
  static constexpr std::size_t bytes_that_count_as_one = std::size_t{16} << 10;
  // The largest size in bytes of a call that is carried out within the system call that submits it.
  static constexpr std::size_t max_bytes_at_once = std::size_t{1} << 20;

  void open();
  static void prepare_entry(io_uring_sqe& entry, const file_command& command) noexcept;
  io_uring_sqe* new_entry() noexcept;
  bool submit(file_call& call) noexcept;
  bool enter(io_uring_sqe& entry) noexcept;
  void collect() noexcept;
  void finish_call(file_call& call, int value) noexcept;
  result take(file_call& call) noexcept;
  bool within_limits(const file_command& command) noexcept;

  io_uring ring_{};
  unsigned entries_;
  std::bitset<8> supported_;  // whether the ring supports a call, indexed by file_call_kind
  std::size_t under_way_ = 0;
  std::size_t done_count_ = 0;
  std::size_t at_once_ = max_at_once;
  intrusive_list<file_call> pending_calls_;
  intrusive_list<file_call> completed_calls_;
  ::pid_t process_ = 0;
};

}  // namespace gyre::io::detail
