// SPDX-License-Identifier: Apache-2.0
// The files of a loop on io_uring: a ring of its own, which the loop's poller watches.
//
// It is apart from the ring of the sockets because it must not belong to one thread: a coroutine that
// waits for a file may be destroyed on any thread while the loop does not run, and that waits for what
// the kernel cannot take back. Each call is submitted as it begins, because most are over then: what is
// in the page cache is read within the call that submits it.
#pragma once

#include <gyre/base/intrusive_list.hpp>
#include <gyre/io/file_service.hpp>

#include <liburing.h>
#include <sys/types.h>

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace gyre::io::detail {

class file_ring final : public file_service {
 public:
  /// `entries`: how many completions the kernel keeps for us without allocating, twice; and no more
  /// than so many calls on files of one thread block in the kernel at a time. Throws std::system_error
  /// (EMFILE, ENOMEM; EPERM and ENOSYS where io_uring is forbidden or unknown).
  explicit file_ring(unsigned entries = 64);
  /// Waits for the end of what is under way, whose functions are not called.
  ~file_ring();

  bool can(file_call_kind kind) const noexcept override;
  std::optional<result> start(file_call& asked) noexcept override;
  void take_back(file_call& asked) noexcept override;
  std::optional<result> cancel(file_call& asked) noexcept override;

  // The poller's.
  /// Readable when there is something to reap() that the kernel has; another one after after_fork().
  int fd() const noexcept { return ring_.ring_fd; }
  /// Whether there is something to reap() already, of which the descriptor says nothing.
  bool pending() const noexcept { return !done_.empty(); }
  /// Calls that have begun and not been reported.
  std::size_t under_way() const noexcept { return under_way_; }
  /// Calls the functions of those that are over, and adds each to `completed` before. An exception of
  /// a function passes through; the next call goes on with the rest.
  void reap(std::size_t& completed);
  /// In a forked child: what is under way stays the parent's, and ends here with ECANCELED, to be
  /// reaped. Throws as the constructor does; then calls are made on the loop's thread.
  void after_fork();

 private:
  // Between two turns of the loop: so that nobody who reads what is cached keeps it from the others.
  static constexpr std::size_t most_at_once = 64;
  static constexpr std::size_t bytes_that_count_as_one = std::size_t{16} << 10;
  // Of one call that is carried out within the one that submits it.
  static constexpr std::size_t most_bytes_at_once = std::size_t{1} << 20;

  void open();
  static void prepare(io_uring_sqe& entry, const file_command& command) noexcept;
  io_uring_sqe* new_entry() noexcept;
  bool submit(file_call& asked) noexcept;
  bool enter(io_uring_sqe& newest) noexcept;
  void collect() noexcept;
  void finish(file_call& call, int returned) noexcept;
  void wait_for(file_call& call) noexcept;
  result take(file_call& call) noexcept;
  bool within_limits(const file_command& command) noexcept;

  io_uring ring_{};
  unsigned entries_;
  std::bitset<8> can_;
  std::size_t under_way_ = 0;
  std::size_t done_count_ = 0;
  std::size_t at_once_ = most_at_once;
  intrusive_list<file_call> begun_;
  intrusive_list<file_call> done_;
  ::pid_t process_ = 0;
};

}  // namespace gyre::io::detail
