// SPDX-License-Identifier: Apache-2.0
#include <gyre/io/detail/file_ring.hpp>

#include <gyre/base/error.hpp>
#include <gyre/io/detail/this_thread.hpp>

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>
#include <span>
#include <utility>

namespace gyre::io::detail {
namespace {

// The kernel's number of ftruncate, of Linux 6.9; headers may be older.
constexpr int opcode_ftruncate = 55;

constexpr std::array all_kinds = {file_call_kind::open,     file_call_kind::read,
                                  file_call_kind::write,    file_call_kind::status,
                                  file_call_kind::sync,     file_call_kind::sync_data,
                                  file_call_kind::truncate, file_call_kind::close};

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

file_ring::file_ring(unsigned entries) : entries_(entries) { open(); }

void file_ring::open() {
  ring_.ring_fd = -1;
  io_uring made{};
  if (const int error = io_uring_queue_init(entries_, &made, 0); error < 0) {
    gyre::detail::throw_system_error(-error, "io_uring_setup");
  }
  ring_ = made;
  process_ = ::getpid();
  can_.reset();
  io_uring_probe* const probe = io_uring_get_probe_ring(&ring_);
  if (probe == nullptr) return;
  for (const file_call_kind kind : all_kinds) {
    if (io_uring_opcode_supported(probe, opcode_of(kind))) can_.set(std::to_underlying(kind));
  }
  io_uring_free_probe(probe);
}

file_ring::~file_ring() {
  if (fd() >= 0) {
    if (process_ == ::getpid()) {
      while (!begun_.empty()) static_cast<void>(cancel(begun_.front()));
    }
    io_uring_queue_exit(&ring_);
  }
  begun_.clear();
  done_.clear();
}

bool file_ring::can(file_call_kind kind) const noexcept {
  return can_.test(std::to_underlying(kind));
}

std::optional<result> file_ring::start(file_call& asked) noexcept {
  const file_command& command = asked.command;
  // The largest of all offsets has a meaning of its own for a ring.
  if (command.offset > std::uint64_t{std::numeric_limits<std::int64_t>::max()}) {
    return result::failure(EINVAL);
  }
  asked.taken_back = false;
  // Where the kernel has no memory to wait with.
  if (!submit(asked)) return perform(command);
  collect();
  if (!asked.ended || !within_limits(command)) return {};
  return take(asked);
}

bool file_ring::within_limits(const file_command& command) noexcept {
  const std::size_t weight =
      1 + (moves_bytes(command) ? command.size / bytes_that_count_as_one : 0);
  return std::exchange(at_once_, at_once_ - std::min(at_once_, weight)) > 0;
}

void file_ring::prepare(io_uring_sqe& entry, const file_command& command) noexcept {
  using enum file_call_kind;
  // What one call of the system takes at most, too.
  constexpr std::size_t most_bytes = 0x7ffff000;
  const auto bytes = static_cast<unsigned>(std::min(command.size, most_bytes));
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
  // So that copying much does not hold the loop up.
  if (moves_bytes(command) && bytes > most_bytes_at_once) entry.flags |= IOSQE_ASYNC;
}

io_uring_sqe* file_ring::new_entry() noexcept {
  if (io_uring_sqe* const entry = io_uring_get_sqe(&ring_)) return entry;
  io_uring_submit(&ring_);  // what the kernel has not taken before
  return io_uring_get_sqe(&ring_);
}

bool file_ring::submit(file_call& asked) noexcept {
  if (fd() < 0) return false;
  io_uring_sqe* const entry = new_entry();
  if (entry == nullptr) return false;
  prepare(*entry, asked.command);
  io_uring_sqe_set_data(entry, &asked);
  asked.ended.reset();
  asked.thread = this_thread();
  begun_.push_back(asked);
  ++under_way_;
  if (enter(*entry)) return true;
  asked.unlink();
  --under_way_;
  return false;
}

// Whether the kernel has taken all entries. If not, it must not take the newest one later.
bool file_ring::enter(io_uring_sqe& newest) noexcept {
  for (bool again = true; again;) {
    const int submitted = io_uring_submit(&ring_);
    if (io_uring_sq_ready(&ring_) == 0) return true;
    again = submitted == -EINTR;
    if (submitted == -EBUSY) {  // before it has told what is done
      const std::size_t before = done_count_;
      collect();
      again = done_count_ != before;
    }
  }
  io_uring_prep_nop(&newest);
  io_uring_sqe_set_data(&newest, nullptr);
  return false;
}

void file_ring::collect() noexcept {
  std::array<io_uring_cqe*, 32> found;
  // This also has the kernel tell what did not fit into the queue.
  while (const unsigned count = io_uring_peek_batch_cqe(&ring_, found.data(), found.size())) {
    for (const io_uring_cqe* const each : std::span(found).first(count)) {
      auto* const call = static_cast<file_call*>(io_uring_cqe_get_data(each));
      if (call != nullptr) finish(*call, each->res);
    }
    io_uring_cq_advance(&ring_, count);
  }
}

void file_ring::finish(file_call& call, int returned) noexcept {
  call.unlink();
  call.ended =
      returned >= 0 ? result::of(static_cast<std::size_t>(returned)) : result::failure(-returned);
  done_.push_back(call);
  ++done_count_;
}

result file_ring::take(file_call& call) noexcept {
  call.unlink();
  --under_way_;
  --done_count_;
  return *std::exchange(call.ended, std::nullopt);
}

void file_ring::take_back(file_call& asked) noexcept {
  if (!asked.is_linked() || asked.ended) return;
  asked.taken_back = true;
  io_uring_sqe* const entry = new_entry();
  if (entry == nullptr) return;
  io_uring_prep_cancel(entry, &asked, 0);
  io_uring_sqe_set_data(entry, nullptr);
  static_cast<void>(enter(*entry));
}

void file_ring::wait_for(file_call& call) noexcept {
  for (collect(); !call.ended; collect()) {
    ::pollfd ring{.fd = fd(), .events = POLLIN, .revents = 0};
    ::poll(&ring, 1, -1);
  }
}

std::optional<result> file_ring::cancel(file_call& asked) noexcept {
  if (!asked.is_linked()) return {};
  take_back(asked);
  if (!asked.ended) wait_for(asked);
  return take(asked);
}

void file_ring::reap(std::size_t& completed) {
  if (fd() >= 0) collect();
  at_once_ = most_at_once;
  // What is over now: the functions may begin more, and another turn is theirs.
  for (std::size_t left = done_count_; left > 0 && !done_.empty(); --left) {
    file_call& call = done_.front();
    const result made = take(call);
    // What the kernel does for a thread that has ended, it gives up with these.
    const int error = made.error_number();
    if ((error == EFAULT || error == ECANCELED) && !call.taken_back &&
        call.thread != this_thread() && submit(call)) {
      continue;
    }
    ++completed;
    call.complete(made);
  }
}

void file_ring::after_fork() {
  // It unmaps and closes, and asks nothing of the kernel.
  if (fd() >= 0) io_uring_queue_exit(&ring_);
  ring_.ring_fd = -1;
  while (!begun_.empty()) {
    file_call& call = begun_.front();
    call.thread = this_thread();  // not to be made again
    finish(call, -ECANCELED);
  }
  open();
}

}  // namespace gyre::io::detail
