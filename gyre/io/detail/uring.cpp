// SPDX-License-Identifier: Apache-2.0
#include <gyre/io/detail/uring.hpp>

#include <gyre/base/detail/short_lived_thread.hpp>
#include <gyre/base/error.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace gyre::io::detail {
namespace {

int error_of(int value) noexcept { return value < 0 ? -value : 0; }

unsigned setup_flags(const uring_features& features) noexcept {
  unsigned flags = IORING_SETUP_R_DISABLED | IORING_SETUP_CQSIZE | IORING_SETUP_CLAMP;
  if (features.deferred_task_running) {
    flags |= IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_TASKRUN_FLAG;
  } else if (features.cooperative_task_running) {
    flags |= IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG;
  }
  return flags;
}

}  // namespace

// Opens the ring without an owner: the thread that makes a loop need not be the one that runs the
// loop, and must not be interrupted when the ring is closed.
uring::uring(const uring_features& features) : features_(features) {
  gyre::detail::call_on_short_lived_thread([this] { open(); });
}

uring::~uring() {
  if (is_open_) {
    io_uring_queue_exit(&ring_);
  } else {
    ::close(fd_);
  }
}

// Opens a new ring under the same descriptor number, to which other threads may be sending
// messages.
void uring::open() {
  io_uring ring{};
  io_uring_params parameters{};
  parameters.flags = setup_flags(features_);
  parameters.cq_entries = completions;
  const int error = io_uring_queue_init_params(submissions, &ring, &parameters);
  if (error < 0) gyre::detail::throw_system_error(-error, "io_uring_setup");
  if (fd_ < 0) {
    fd_ = ring.ring_fd;
  } else {
    ::dup3(ring.ring_fd, fd_, O_CLOEXEC);  // cannot fail: both descriptors are open
    ::close(ring.ring_fd);
    ring.ring_fd = ring.enter_ring_fd = fd_;
  }
  ring_ = ring;
  is_open_ = true;
  thread_ = 0;
}

// Ends all requests before the ring is closed. A ring that defers completions makes none between
// two calls; other rings continue to receive while they are closed, and those completions would be
// lost.
void uring::end_all() noexcept {
  if (!is_open_ || features_.deferred_task_running) return;
  io_uring_sync_cancel_reg request{};
  request.flags = IORING_ASYNC_CANCEL_ALL | IORING_ASYNC_CANCEL_ANY;
  request.timeout = {.tv_sec = -1, .tv_nsec = -1};
  io_uring_register_sync_cancel(&ring_, &request);
  while (io_uring_cq_has_overflow(&ring_) && set_aside() && io_uring_get_events(&ring_) >= 0) {
  }
}

void uring::close(int replacement) noexcept {
  if (!is_open_) return;
  const int spare = ::fcntl(fd_, F_DUPFD_CLOEXEC, 0);
  ::dup3(replacement, fd_, O_CLOEXEC);
  // Closes the ring by its spare number. If there was none, dup3() has closed the ring.
  ring_.ring_fd = ring_.enter_ring_fd = spare;
  io_uring_queue_exit(&ring_);
  old_completions_.clear();
  aside_taken_ = 0;
  is_open_ = false;
  thread_ = 0;
  is_in_use_.store(false, std::memory_order_relaxed);
}

io_uring_cqe uring::take() noexcept {
  const io_uring_cqe completion = at(0);
  ++taken_completions_;
  if (set_aside_count() == 0) {
    io_uring_cq_advance(&ring_, 1);
  } else if (++aside_taken_ == old_completions_.size()) {
    old_completions_.clear();
    aside_taken_ = 0;
  }
  return completion;
}

io_uring_cqe& uring::at(unsigned index) noexcept {
  const unsigned count = set_aside_count();
  if (index < count) return old_completions_[aside_taken_ + index];
  return in_ring(index - count);
}

bool uring::set_aside() noexcept try {
  const unsigned count = io_uring_cq_ready(&ring_);
  const std::size_t new_size = old_completions_.size() + count;
  if (old_completions_.capacity() < new_size) old_completions_.reserve(2 * new_size);
  for (unsigned i = 0; i < count; ++i) old_completions_.push_back(in_ring(i));
  io_uring_cq_advance(&ring_, count);
  return true;
} catch (...) {
  return false;
}

bool uring::send_message(int ring, unsigned result, std::uint64_t user_data) noexcept {
  constexpr unsigned register_send_msg_ring = 31;  // newer than liburing 2.3
  io_uring_sqe message{};
  io_uring_prep_msg_ring(&message, ring, result, user_data, 0);
  return io_uring_register(static_cast<unsigned>(-1), register_send_msg_ring, &message, 1) == 0;
}

int uring::begin_use() noexcept {
  if (thread_ != 0) [[likely]]
    return 0;
  // liburing 2.3 declares a function for this that its library does not export.
  const int error = io_uring_register(static_cast<unsigned>(ring_.ring_fd),
                                      IORING_REGISTER_ENABLE_RINGS, nullptr, 0);
  if (error < 0) return -error;
  thread_ = this_thread();
  is_in_use_.store(true, std::memory_order_relaxed);
  return 0;
}

io_uring_sqe* uring::next_submission() noexcept {
  if (io_uring_sqe* const entry = io_uring_get_sqe(&ring_)) [[likely]]
    return entry;
  if (begin_use() != 0) return nullptr;
  io_uring_submit(&ring_);
  return io_uring_get_sqe(&ring_);
}

bool uring::has_work() const noexcept {
  // Without these features, only a system call shows whether completions are due.
  const bool has_flags = features_.deferred_task_running || features_.cooperative_task_running;
  if (!has_flags || io_uring_sq_ready(&ring_) != 0) return true;
  const unsigned flags = IO_URING_READ_ONCE(*ring_.sq.kflags);
  return (flags & (IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW)) != 0;
}

bool uring::has_uncollected() const noexcept {
  if (!features_.deferred_task_running || io_uring_cq_ready(&ring_) >= enough_completions)
    return false;
  return (IO_URING_READ_ONCE(*ring_.sq.kflags) & IORING_SQ_TASKRUN) != 0;
}

// Submits and collects. With deferred completions, Linux 6.14 and later deliver 20 completions per
// call. The number of calls is bounded, because more completions may arrive meanwhile.
int uring::enter() noexcept {
  constexpr unsigned max_calls = 32;
  if (const int error = begin_use()) return error;
  for (unsigned calls = 1;; ++calls) {
    const int error = error_of(io_uring_submit_and_get_events(&ring_));
    if (error != 0 || calls == max_calls || !has_uncollected()) return error;
  }
}

int uring::enter_and_wait(steady_time current_time, steady_time deadline) noexcept {
  if (const int error = begin_use()) return error;
  const int error = wait_for_completion(current_time, deadline);
  return error == 0 && has_uncollected() ? enter() : error;
}

int uring::wait_for_completion(steady_time current_time, steady_time deadline) noexcept {
  if (deadline == steady_time::max()) return error_of(io_uring_submit_and_wait(&ring_, 1));
  const auto duration =
      deadline > current_time ? deadline - current_time : steady_time::duration::zero();
  const timespec length = gyre::detail::to_timespec(duration);
  __kernel_timespec timeout{};
  timeout.tv_sec = length.tv_sec;
  timeout.tv_nsec = length.tv_nsec;
  io_uring_cqe* first = nullptr;
  const int result = io_uring_submit_and_wait_timeout(&ring_, &first, 1, &timeout, nullptr);
  return error_of(result == -ETIME ? 0 : result);
}

}  // namespace gyre::io::detail
