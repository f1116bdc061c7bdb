// SPDX-License-Identifier: Apache-2.0
// A ring of io_uring as the bare loops on it use one, with liburing: Linux 6.1 or later.
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

/// What a function of liburing returned; throws std::system_error naming `what` when that is
/// negative.
inline int uring_checked(int returned, const char* what) {
  if (returned < 0) throw std::system_error(-returned, std::generic_category(), what);
  return returned;
}

/// The ring of one thread, which alone uses it: so the kernel may leave all work until that thread
/// asks for completions (deferred task running), and finds the ring without looking up a
/// descriptor.
class uring {
 public:
  /// Throws std::system_error.
  uring() {
    // Completions that do not fit would end multishot requests, so there is room for very many.
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
      throw cannot_run(std::string("io_uring is not to be had: ") + problem.what());
    }
  }

  /// A request to be filled in. Those before it are submitted when there is no room for one more.
  io_uring_sqe& request() {
    for (;;) {
      if (io_uring_sqe* const free = io_uring_get_sqe(&ring_)) return *free;
      submitted(io_uring_submit(&ring_));
    }
  }

  /// Submits what was requested, waits until something is complete, and calls `use(io_uring_cqe&)`
  /// for each that is: a system call a turn, as long as the requests of a turn fit.
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
  static void submitted(int returned) {
    // EBUSY, EAGAIN: completions are to be taken first; what was requested stays.
    if (returned != -EINTR && returned != -EBUSY && returned != -EAGAIN) {
      uring_checked(returned, "io_uring_enter");
    }
  }

  io_uring ring_{};
};

/// Buffers that the kernel takes from a ring of their own when there is something to put in.
template <unsigned Buffers, unsigned Bytes>
class provided_buffers {
 public:
  static constexpr std::uint16_t group = 0;

  /// Throws std::system_error. Use it no longer than `ring`.
  explicit provided_buffers(uring& ring)
      : ring_(static_cast<io_uring_buf_ring*>(allocate(Buffers * sizeof(io_uring_buf)))),
        memory_(static_cast<std::byte*>(allocate(std::size_t{Buffers} * Bytes))) {
    io_uring_buf_reg place{};
    place.ring_addr = reinterpret_cast<std::uintptr_t>(ring_);
    place.ring_entries = Buffers;
    place.bgid = group;
    uring_checked(io_uring_register_buf_ring(ring.get(), &place, 0), "io_uring_register_buf_ring");
    io_uring_buf_ring_init(ring_);
    for (unsigned id = 0; id < Buffers; ++id) give(id);
  }

  provided_buffers(const provided_buffers&) = delete;
  provided_buffers& operator=(const provided_buffers&) = delete;

  /// Which one the kernel took for this completion, and what it put in.
  static unsigned id(const io_uring_cqe& of) { return of.flags >> IORING_CQE_BUFFER_SHIFT; }
  std::span<std::byte> filled(const io_uring_cqe& by) {
    return {at(id(by)), static_cast<std::size_t>(by.res)};
  }

  /// The kernel may take it again.
  void give(unsigned id) {
    io_uring_buf_ring_add(ring_, at(id), Bytes, static_cast<std::uint16_t>(id),
                          io_uring_buf_ring_mask(Buffers), 0);
    io_uring_buf_ring_advance(ring_, 1);
  }

 private:
  static_assert((Buffers & (Buffers - 1)) == 0, "the kernel wants a power of two");

  // Pages, as the kernel wants its ring to begin with one. They are there until the process ends,
  // as are the loops that use them.
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
