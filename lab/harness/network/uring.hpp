// SPDX-License-Identifier: Apache-2.0
// The io_uring ring of the bare loops, by liburing: Linux 6.1 or later.
#pragma once

#include <lab/harness/contender.hpp>

#include <liburing.h>

#include <sys/mman.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <system_error>

namespace lab::network {

/// Returns the result of a function of liburing.
/// Errors: throws std::system_error with the name `call` when the result is negative.
inline int uring_checked(int result, const char* call) {
  if (result < 0) throw std::system_error(-result, std::generic_category(), call);
  return result;
}

/// The ring of one thread, its only user: the kernel therefore defers all work until that thread
/// asks for completions (deferred task running), and finds the ring without looking up a
/// descriptor.
class uring {
 public:
  /// Throws std::system_error.
  uring() {
    // A completion queue that overflows would end multishot requests, so it is very long.
    io_uring_params wanted{};
    wanted.flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_CQSIZE |
                   IORING_SETUP_CLAMP;
    wanted.cq_entries = 32'768;
    uring_checked(io_uring_queue_init_params(1024, &ring_, &wanted), "io_uring_queue_init_params");
    uring_checked(io_uring_register_ring_fd(&ring_), "io_uring_register_ring_fd");
  }

  uring(const uring&) = delete;
  uring& operator=(const uring&) = delete;
  ~uring() { io_uring_queue_exit(&ring_); }

  /// Throws cannot_run when this machine's kernel has no such ring, or allows none.
  static void probe() {
    try {
      uring();
    } catch (const std::system_error& problem) {
      throw cannot_run(std::string("io_uring is not available: ") + problem.what());
    }
  }

  /// A request to be filled in. A full queue is submitted first.
  io_uring_sqe& request() {
    for (;;) {
      if (io_uring_sqe* const free = io_uring_get_sqe(&ring_)) return *free;
      submitted(io_uring_submit(&ring_));
    }
  }

  /// Submits the requests, waits for a completion, and calls `use(io_uring_cqe&)` for each one that
  /// is there: one system call a turn, as long as the requests of a turn fit.
  template <class Use>
  void turn(Use use) {
    submitted(io_uring_submit_and_wait(&ring_, 1));
    unsigned head;
    unsigned seen = 0;
    io_uring_cqe* done;
    io_uring_for_each_cqe(&ring_, head, done) {
      use(*done);
      ++seen;
    }
    io_uring_cq_advance(&ring_, seen);
  }

  io_uring* get() { return &ring_; }

 private:
  static void submitted(int result) {
    // EBUSY, EAGAIN: completions must be consumed first; the requests stay queued.
    if (result != -EINTR && result != -EBUSY && result != -EAGAIN) {
      uring_checked(result, "io_uring_enter");
    }
  }

  io_uring ring_{};
};

/// A ring of buffers from which the kernel takes one when data has arrived.
template <unsigned Buffers, unsigned Bytes>
class provided_buffers {
 public:
  static constexpr std::uint16_t group = 0;

  /// Errors: throws std::system_error. Lifetime: `ring` must outlive the buffers.
  explicit provided_buffers(uring& ring)
      : ring_(static_cast<io_uring_buf_ring*>(allocate(Buffers * sizeof(io_uring_buf)))),
        memory_(static_cast<std::byte*>(allocate(std::size_t{Buffers} * Bytes))) {
    io_uring_buf_reg registration{};
    registration.ring_addr = reinterpret_cast<std::uintptr_t>(ring_);
    registration.ring_entries = Buffers;
    registration.bgid = group;
    uring_checked(io_uring_register_buf_ring(ring.get(), &registration, 0),
                  "io_uring_register_buf_ring");
    io_uring_buf_ring_init(ring_);
    for (unsigned id = 0; id < Buffers; ++id) give(id);
  }

  provided_buffers(const provided_buffers&) = delete;
  provided_buffers& operator=(const provided_buffers&) = delete;

  /// The buffer that the kernel took for this completion, and the bytes in it.
  static unsigned id(const io_uring_cqe& done) { return done.flags >> IORING_CQE_BUFFER_SHIFT; }
  std::span<std::byte> filled(const io_uring_cqe& done) {
    return {at(id(done)), static_cast<std::size_t>(done.res)};
  }

  /// Returns the buffer to the kernel.
  void give(unsigned id) {
    io_uring_buf_ring_add(ring_, at(id), Bytes, static_cast<std::uint16_t>(id),
                          io_uring_buf_ring_mask(Buffers), 0);
    io_uring_buf_ring_advance(ring_, 1);
  }

 private:
  static_assert((Buffers & (Buffers - 1)) == 0, "the kernel wants a power of two");

  // Pages, as the ring must begin on a page boundary. They live until the process ends, as do the
  // loops that use them.
  static void* allocate(std::size_t size) {
    void* const pages = mmap(nullptr, size, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (pages == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "mmap");
    return pages;
  }

  std::byte* at(unsigned id) { return memory_ + std::size_t{id} * Bytes; }

  io_uring_buf_ring* ring_;
  std::byte* memory_;
};

}  // namespace lab::network
