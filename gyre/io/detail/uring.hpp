// SPDX-License-Identifier: Apache-2.0
// A ring of io_uring(7), as liburing sets it up, for one thread at a time.
#pragma once

#include <liburing.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include <gyre/base/clock.hpp>
#include <gyre/io/uring_support.hpp>

namespace gyre::io::detail {

/// The kernel ties a ring to the thread that first enters it, and ends what that thread began when the
/// thread ends. So for another thread, and after a fork, the ring is closed and another one opened.
class uring {
 public:
  static constexpr unsigned submissions = 256;
  static constexpr unsigned completions = 4096;

  /// Throws std::system_error (EMFILE, ENFILE, ENOMEM, EPERM, ENOSYS).
  explicit uring(const uring_features& features);
  uring(const uring&) = delete;
  uring& operator=(const uring&) = delete;
  ~uring();

  /// The same number for as long as this lives. Any thread.
  int fd() const noexcept { return number_; }
  io_uring& raw() noexcept { return ring_; }

  /// Whether it is of no thread yet, or of the calling one.
  bool usable_here() const noexcept;
  /// Ends all that the kernel was asked for; what came of it until then is ready() to be taken.
  void end_all() noexcept;
  /// Closes it. Its number then refers to what `stand_in` does, until open().
  void close(int stand_in) noexcept;
  /// A new ring, of no thread yet, in the place of a closed one. Throws as the constructor.
  void open();

  /// Has a ring, of whichever process, tell of a completion with that result and `user_data`: for
  /// threads without a ring of their own. False: it could not. Any thread; async-signal-safe.
  static bool send_message(int ring, unsigned result, std::uint64_t user_data) noexcept;

  /// Where to write the next submission; null if there is no room and none can be made.
  io_uring_sqe* next_submission() noexcept;
  /// Whether something is known to have become ready that is not ready() yet: enter() makes it so.
  bool has_news() const noexcept;
  /// Whether enter() might do anything now.
  bool has_business() const noexcept;
  /// Submits, and looks at what has become ready. 0, or errno's number.
  int enter() noexcept;
  /// The same, and waits until there is a completion, or until `deadline` (steady_time::max(): without
  /// end). EINTR when a signal handler ran.
  int enter_and_wait(steady_time present, steady_time deadline) noexcept;

  /// Completions that wait to be taken; the kernel may keep more (see has_business()).
  unsigned ready() const noexcept {
    return set_aside_count() + (open_ ? io_uring_cq_ready(&ring_) : 0);
  }
  /// The oldest; `ready()` must not be 0.
  io_uring_cqe take() noexcept;
  /// How many have been taken so far: the number of the oldest that is ready.
  std::uint64_t taken() const noexcept { return taken_; }
  /// The one that is `place` behind the oldest; it may be written.
  io_uring_cqe& at(unsigned place) noexcept;
  /// Whether the kernel has no room for more completions.
  bool full() const noexcept { return open_ && io_uring_cq_ready(&ring_) >= completions; }
  /// Makes room for as many completions as the kernel may have kept for want of it. False: no memory.
  bool set_aside() noexcept;

 private:
  unsigned set_aside_count() const noexcept {
    return static_cast<unsigned>(aside_.size() - aside_taken_);
  }
  // The one that is `place` behind the oldest in the ring itself.
  io_uring_cqe& in_ring(unsigned place) noexcept {
    return ring_.cq.cqes[(*ring_.cq.khead + place) & *ring_.cq.kring_mask];
  }
  int begin_use() noexcept;

  uring_features features_;
  int number_ = -1;
  io_uring ring_{};
  std::uint64_t thread_ = 0;  // that uses it; 0: none yet
  bool open_ = false;
  std::vector<io_uring_cqe> aside_;  // older than those in the ring
  std::size_t aside_taken_ = 0;
  std::uint64_t taken_ = 0;
};

}  // namespace gyre::io::detail
