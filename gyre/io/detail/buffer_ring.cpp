// SPDX-License-Identifier: Apache-2.0
#include <gyre/io/detail/buffer_ring.hpp>

#include <sys/mman.h>

#include <algorithm>
#include <cassert>
#include <cstring>
#include <new>
#include <utility>

namespace gyre::io::detail {
namespace {

constexpr std::size_t shared_bytes = buffer_ring::buffers * sizeof(io_uring_buf);
constexpr std::size_t data_bytes = buffer_ring::buffers * buffer_ring::bytes_each;

static_assert((buffer_ring::buffers & (buffer_ring::buffers - 1)) == 0);
static_assert(shared_bytes % 4096 == 0, "so that the data begins on a page");

}  // namespace

buffer_ring::buffer_ring() : states_(std::make_unique<buffer[]>(buffers)) {
  void* const mapped = ::mmap(nullptr, shared_bytes + data_bytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) throw std::bad_alloc();
  shared_ = static_cast<io_uring_buf_ring*>(mapped);
  data_ = static_cast<std::byte*>(mapped) + shared_bytes;
  for (unsigned index = 0; index < buffers; ++index) states_[index].ring = this;
}

buffer_ring::~buffer_ring() {
  assert(lent_ == 0 && "received bytes outlived their loop");
  ::munmap(shared_, shared_bytes + data_bytes);
}

int buffer_ring::provide_to(io_uring& ring) noexcept {
  io_uring_buf_reg registration{};
  registration.ring_addr = reinterpret_cast<std::uintptr_t>(shared_);
  registration.ring_entries = buffers;
  registration.bgid = group;
  const int error = io_uring_register_buf_ring(&ring, &registration, 0);
  if (error < 0) return -error;
  io_uring_buf_ring_init(shared_);
  for (unsigned index = 0; index < used_; ++index) {
    if (states_[index].leases == 0) recycle(static_cast<std::uint16_t>(index));
  }
  return 0;
}

void buffer_ring::recycle(std::uint16_t index) noexcept {
  io_uring_buf_ring_add(shared_, bytes_of(index), bytes_each, index,
                        io_uring_buf_ring_mask(buffers), 0);
  io_uring_buf_ring_advance(shared_, 1);
}

void buffer_ring::add_buffer() noexcept {
  if (used_ < buffers) recycle(static_cast<std::uint16_t>(used_++));
}

buffer_ring::buffer& buffer_ring::begin_loan(std::uint16_t index) noexcept {
  buffer& lent = states_[index];
  assert(lent.leases == 0 && "lent twice");
  ++lent.leases;
  if (++lent_ == used_) [[unlikely]]
    add_buffer();
  return lent;
}

received buffer_ring::lend(std::uint16_t index, std::size_t count) noexcept {
  return received(begin_loan(index), {bytes_of(index), count});
}

void buffer_ring::give_back(receive_block& block) noexcept {
  auto& own = static_cast<buffer&>(block);
  --own.ring->lent_;
  own.ring->recycle(static_cast<std::uint16_t>(&own - own.ring->states_.get()));
}

void buffer_ring::queue::push(buffer_ring& ring, std::uint16_t index, std::size_t count) noexcept {
  buffer& added = ring.begin_loan(index);
  added.content = {ring.bytes_of(index), count};
  added.next = index;
  if (!empty()) std::swap(added.next, ring.states_[newest_].next);
  newest_ = index;
}

received buffer_ring::queue::pop(buffer_ring& ring) noexcept {
  buffer& newest = ring.states_[newest_];
  buffer& oldest = ring.states_[newest.next];
  newest.next = oldest.next;
  if (&oldest == &newest) newest_ = none;
  return received(oldest, oldest.content);  // takes over the queue's loan
}

std::size_t buffer_ring::queue::read(buffer_ring& ring, std::span<std::byte> memory) noexcept {
  std::size_t done = 0;
  while (!empty() && done < memory.size()) {
    std::span<const std::byte>& oldest = ring.states_[ring.states_[newest_].next].content;
    const std::size_t count = std::min(oldest.size(), memory.size() - done);
    std::memcpy(memory.data() + done, oldest.data(), count);
    oldest = oldest.subspan(count);
    done += count;
    if (oldest.empty()) pop(ring);
  }
  return done;
}

}  // namespace gyre::io::detail
