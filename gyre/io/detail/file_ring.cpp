// SPDX-License-Identifier: Apache-2.0
#include <gyre/io/detail/file_ring.hpp>

#include <gyre/base/detail/short_lived_thread.hpp>
#include <gyre/base/error.hpp>
#include <gyre/io/detail/uring.hpp>

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>

namespace gyre::io::detail {
namespace {

// The operation exists since Linux 6.9; headers may be older.
constexpr int opcode_ftruncate = 55;

int opcode_of(file_call_kind kind) noexcept {
  using enum file_call_kind;
  switch (kind) {
    case open: return IORING_OP_OPENAT;
    case read: return IORING_OP_READ;
    case write: return IORING_OP_WRITE;
    case status: return IORING_OP_STATX;
    case sync:
    case sync_data: return IORING_OP_FSYNC;
    case truncate: return opcode_ftruncate;
    case close: return IORING_OP_CLOSE;
  }
  std::unreachable();
}

bool moves_bytes(const file_command& command) noexcept {
  return command.kind == file_call_kind::read || command.kind == file_call_kind::write;
}

}  // namespace

file_ring::file_ring(unsigned entries) : entries_(entries) {
  gyre::detail::call_on_short_lived_thread([this] { open(); });
}

void file_ring::open() {
  ring_.ring_fd = -1;
  io_uring ring{};
  if (const int error = io_uring_queue_init(entries_, &ring, 0); error < 0) {
    gyre::detail::throw_system_error(-error, "io_uring_setup");
  }
  ring_ = ring;
  process_ = ::getpid();
  supported_.reset();
  io_uring_probe* const probe = io_uring_get_probe_ring(&ring_);
  if (probe == nullptr) return;
  for (std::size_t kind = 0; kind < supported_.size(); ++kind) {
    const int opcode = opcode_of(static_cast<file_call_kind>(kind));
    if (io_uring_opcode_supported(probe, opcode)) supported_.set(kind);
  }
  io_uring_free_probe(probe);
}

file_ring::~file_ring() {
  if (fd() >= 0) {
    if (process_ == ::getpid()) {
      while (!pending_calls_.empty()) static_cast<void>(cancel(pending_calls_.front()));
    }
    io_uring_queue_exit(&ring_);
  }
  pending_calls_.clear();
  completed_calls_.clear();
}

std::optional<result> file_ring::start(file_call& call) noexcept {
  const file_command& command = call.command;
  // io_uring takes the offset -1 for the file's own position, so offsets beyond the signed range
  // are refused.
  if (command.offset > std::uint64_t{std::numeric_limits<std::int64_t>::max()}) {
    return result::failure(EINVAL);
  }
  call.cancelled = false;
  // Without memory in the kernel, this thread makes the call.
  if (!submit(call)) return perform(command);
  collect();
  if (!call.completion || !within_limits(command)) return {};
  return take(call);
}

bool file_ring::within_limits(const file_command& command) noexcept {
  const std::size_t weight =
      1 + (moves_bytes(command) ? command.size / bytes_that_count_as_one : 0);
  return std::exchange(at_once_, at_once_ - std::min(at_once_, weight)) > 0;
}

void file_ring::prepare_entry(io_uring_sqe& entry, const file_command& command) noexcept {
  using enum file_call_kind;
  // read(2) and write(2) transfer at most as many bytes at once.
  constexpr std::size_t max_bytes = 0x7ffff000;
  const auto bytes = static_cast<unsigned>(std::min(command.size, max_bytes));
  switch (command.kind) {
    case open:
      io_uring_prep_openat(&entry, AT_FDCWD, static_cast<const char*>(command.memory),
                           command.flags, command.mode);
      break;
    case read: io_uring_prep_read(&entry, command.fd, command.memory, bytes, command.offset); break;
    case write:
      io_uring_prep_write(&entry, command.fd, command.memory, bytes, command.offset);
      break;
    case status:
      io_uring_prep_statx(&entry, command.fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS,
                          static_cast<struct ::statx*>(command.memory));
      break;
    case sync: io_uring_prep_fsync(&entry, command.fd, 0); break;
    case sync_data: io_uring_prep_fsync(&entry, command.fd, IORING_FSYNC_DATASYNC); break;
    case truncate:
      io_uring_prep_rw(opcode_ftruncate, &entry, command.fd, nullptr, 0, command.offset);
      break;
    case close: io_uring_prep_close(&entry, command.fd); break;
  }
  // A large copy within the system call would delay the loop.
  if (moves_bytes(command) && bytes > max_bytes_at_once) entry.flags |= IOSQE_ASYNC;
}

io_uring_sqe* file_ring::new_entry() noexcept {
  if (io_uring_sqe* const entry = io_uring_get_sqe(&ring_)) return entry;
  io_uring_submit(&ring_);  // the call makes room, as the kernel has not taken some entries yet
  return io_uring_get_sqe(&ring_);
}

bool file_ring::submit(file_call& call) noexcept {
  if (fd() < 0) return false;
  io_uring_sqe* const entry = new_entry();
  if (entry == nullptr) return false;
  prepare_entry(*entry, call.command);
  io_uring_sqe_set_data(entry, &call);
  call.completion.reset();
  call.thread = this_thread();
  pending_calls_.push_back(call);
  ++under_way_;
  if (enter(*entry)) return true;
  call.unlink();
  --under_way_;
  return false;
}

// Returns whether the kernel has taken all entries. If not, the newest entry becomes a no-op,
// because the kernel must not take it later.
bool file_ring::enter(io_uring_sqe& entry) noexcept {
  for (bool submits_again = true; submits_again;) {
    const int result = io_uring_submit(&ring_);
    if (io_uring_sq_ready(&ring_) == 0) return true;
    submits_again = result == -EINTR;
    if (result == -EBUSY) {  // the completions must be taken first
      const std::size_t count = done_count_;
      collect();
      submits_again = done_count_ != count;
    }
  }
  io_uring_prep_nop(&entry);
  io_uring_sqe_set_data(&entry, nullptr);
  return false;
}

void file_ring::collect() noexcept {
  std::array<io_uring_cqe*, 32> completions;
  // io_uring_peek_batch_cqe() also brings completions that did not fit into the queue.
  while (const unsigned count =
             io_uring_peek_batch_cqe(&ring_, completions.data(), completions.size())) {
    for (const io_uring_cqe* const completion : std::span(completions).first(count)) {
      auto* const call = static_cast<file_call*>(io_uring_cqe_get_data(completion));
      if (call != nullptr) finish_call(*call, completion->res);
    }
    io_uring_cq_advance(&ring_, count);
  }
}

// Returns whether `error` is one by which the kernel internally repeats an interrupted call: a
// worker of the ring that is cancelled within a call, such as the open(2) of a FIFO, leaves such an
// error in the completion.
constexpr bool is_interruption(int error) noexcept {
  constexpr int restart_sys = 512;
  constexpr int restart_nointr = 513;
  constexpr int restart_nohand = 514;
  constexpr int restart_block = 516;
  return error == restart_sys || error == restart_nointr || error == restart_nohand ||
         error == restart_block;
}

void file_ring::finish_call(file_call& call, int value) noexcept {
  if (is_interruption(-value)) value = -EINTR;
  call.unlink();
  call.completion =
      value >= 0 ? result::of(static_cast<std::size_t>(value)) : result::failure(-value);
  completed_calls_.push_back(call);
  ++done_count_;
}

result file_ring::take(file_call& call) noexcept {
  call.unlink();
  --under_way_;
  --done_count_;
  return *std::exchange(call.completion, std::nullopt);
}

void file_ring::request_cancel(file_call& call) noexcept {
  if (!call.is_linked() || call.completion) return;
  call.cancelled = true;
  io_uring_sqe* const entry = new_entry();
  if (entry == nullptr) return;
  io_uring_prep_cancel(entry, &call, 0);
  io_uring_sqe_set_data(entry, nullptr);
  static_cast<void>(enter(*entry));
}

std::optional<result> file_ring::cancel(file_call& call) noexcept {
  if (!call.is_linked()) return {};
  request_cancel(call);
  if (!call.completion) collect();
  for (; !call.completion; collect()) {
    ::pollfd ring{.fd = fd(), .events = POLLIN, .revents = 0};
    ::poll(&ring, 1, -1);
  }
  return take(call);
}

void file_ring::reap(std::size_t& completions) {
  if (fd() >= 0) collect();
  at_once_ = max_at_once;
  // Serves only the calls that are done now: calls that the callbacks begin wait for the next turn.
  for (std::size_t count = done_count_; count > 0 && !completed_calls_.empty(); --count) {
    file_call& call = completed_calls_.front();
    const result outcome = take(call);
    // The kernel ends the calls of a thread that has exited with these errors.
    const int error = outcome.error_number();
    if ((error == EFAULT || error == ECANCELED) && !call.cancelled &&
        call.thread != this_thread() && submit(call)) {
      continue;
    }
    ++completions;
    call.complete(outcome);
  }
}

void file_ring::recreate_ring_in_child() {
  // In the child this unmaps and closes the ring, and does not affect the parent's calls.
  if (fd() >= 0) io_uring_queue_exit(&ring_);
  ring_.ring_fd = -1;
  while (!pending_calls_.empty()) {
    file_call& call = pending_calls_.front();
    call.thread = this_thread();  // a call without a thread is not made again by reap()
    finish_call(call, -ECANCELED);
  }
  open();
}

}  // namespace gyre::io::detail
