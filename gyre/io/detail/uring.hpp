// SPDX-License-Identifier: Apache-2.0
// uring: a ring of io_uring(7), for one thread at a time.
#pragma once

#include <gyre/base/clock.hpp>
#include <gyre/io/uring_support.hpp>

#include <liburing.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace gyre::io::detail {

/// Returns the number of the calling thread, not 0. Unlike the system's numbers it is never used
/// again, and the kernel assigns the requests of rings to threads.
inline std::uint64_t this_thread() noexcept {
  static constinit std::atomic<std::uint64_t> last = 0;
  static constinit thread_local std::uint64_t number = 0;
  // relaxed: the numbers only have to be unique.
  if (number == 0) number = last.fetch_add(1, std::memory_order_relaxed) + 1;
  return number;
}

/// A ring for one thread. The kernel binds a ring to the thread that first enters it, and ends the
/// thread's requests when the thread ends. So for another thread, and after a fork, the ring is
/// closed and a new one opened.
class uring {
 public:
  static constexpr unsigned submissions = 256;
  static constexpr unsigned completions = 4096;
  /// If at least this many completions are due, at least this many are reported at a time, as by
  /// epoll.
  static constexpr unsigned enough_completions = 256;
  /// Throws std::system_error (EMFILE, ENFILE, ENOMEM, EPERM, ENOSYS; EAGAIN: no thread for the
  /// ring).
  explicit uring(const uring_features& features);
  uring& operator=(uring&&) = delete;
  ~uring();
  /// Returns the descriptor's number, which does not change while this object lives. Any thread.
  int fd() const noexcept { return fd_; }
  io_uring& raw() noexcept { return ring_; }
  bool is_open() const noexcept { return is_open_; }
  /// Returns whether the ring belongs to no thread yet, or to the calling thread.
  bool usable_here() const noexcept {
    return is_open_ && (thread_ == 0 || thread_ == this_thread());
  }
  /// Ends all requests; their completions are ready() to be taken afterwards.
  void end_all() noexcept;
  /// Closes the ring. Its number then refers to the file of `replacement`, until open().
  void close(int replacement) noexcept;
  /// Replaces a closed ring by a new one, which belongs to no thread yet. Called by the thread that
  /// will use the ring. Throws like the constructor.
  void open();
  /// Returns whether the owner has begun to use the ring, which refuses messages before that. Any
  /// thread, which may read a stale value; async-signal-safe.
  bool takes_messages() const noexcept {
    return is_in_use_.load(std::memory_order_relaxed);  // relaxed: the result is a hint
  }
  /// Posts a completion to a ring, of any process, without a ring of the caller's. Returns whether
  /// that succeeded. Any thread; async-signal-safe.
  static bool send_message(int ring, unsigned result, std::uint64_t user_data) noexcept;
  /// Returns the next free submission; null if there is no room and none can be made.
  io_uring_sqe* next_submission() noexcept;
  /// Returns whether enter() may submit requests, or make the kernel's completions ready().
  bool has_work() const noexcept;
  /// Submits the pending requests and reaps the completions that are due. Makes no further system
  /// call once `enough_completions` are ready. Returns 0 or an errno value.
  int enter() noexcept;
  /// Does what enter() does, and waits for a completion or `deadline` (steady_time::max(): none).
  /// EINTR when a signal handler ran.
  int enter_and_wait(steady_time current_time, steady_time deadline) noexcept;
  /// Returns the number of completions to take; the kernel may keep more (see has_work()).
  unsigned ready() const noexcept {
    return set_aside_count() + (is_open_ ? io_uring_cq_ready(&ring_) : 0);
  }
  /// Takes the oldest completion; `ready()` must not be 0.
  io_uring_cqe take() noexcept;
  /// Returns the number of completions taken so far, which is the number of the oldest ready one.
  std::uint64_t taken() const noexcept { return taken_completions_; }
  /// Returns the completion at `index`, counted from the oldest; the caller may write to it.
  io_uring_cqe& at(unsigned index) noexcept;
  /// Returns whether the kernel has no room for more completions.
  bool full() const noexcept { return is_open_ && io_uring_cq_ready(&ring_) >= completions; }
  /// Moves the ring's completions into memory, which makes room in the ring. Returns false without
  /// memory.
  bool set_aside() noexcept;

 private:
  unsigned set_aside_count() const noexcept {
    return static_cast<unsigned>(old_completions_.size() - aside_taken_);
  }
  // Returns the completion in the ring itself at `index`, counted from the oldest.
  io_uring_cqe& in_ring(unsigned index) noexcept {
    return ring_.cq.cqes[(*ring_.cq.khead + index) & *ring_.cq.kring_mask];
  }
  int begin_use() noexcept;
  // Returns whether completions are due that another call would deliver, and fewer than
  // `enough_completions` are ready.
  bool has_uncollected() const noexcept;
  int wait_for_completion(steady_time current_time, steady_time deadline) noexcept;

  uring_features features_;
  int fd_ = -1;
  io_uring ring_{};
  std::uint64_t thread_ = 0;            // the thread that owns the ring; 0: none yet
  std::atomic<bool> is_in_use_{false};  // whether a thread owns the ring
  bool is_open_ = false;
  // Completions that set_aside() has moved out of the ring. They are older than those in the ring.
  std::vector<io_uring_cqe> old_completions_;
  std::size_t aside_taken_ = 0;
  std::uint64_t taken_completions_ = 0;
};

}  // namespace gyre::io::detail
