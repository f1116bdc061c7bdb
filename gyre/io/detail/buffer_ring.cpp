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
  void* const memory = ::mmap(nullptr, shared_bytes + data_bytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  descriptors_ = static_cast<io_uring_buf_ring*>(memory);
  data_ = static_cast<std::byte*>(memory) + shared_bytes;
  for (unsigned index = 0; index < buffers; ++index) {
    states_[index].ring = this;
    states_[index].bytes = bytes_of(static_cast<std::uint16_t>(index));
  }
}

buffer_ring::~buffer_ring() {
  assert(lent_count_ == 0 && "received bytes outlived their loop");
  ::munmap(descriptors_, shared_bytes + data_bytes);
}

int buffer_ring::provide_to(io_uring& ring) noexcept {
  io_uring_buf_reg registration{};
  registration.ring_addr = reinterpret_cast<std::uintptr_t>(descriptors_);
  registration.ring_entries = buffers;
  registration.bgid = group;
  const int error = io_uring_register_buf_ring(&ring, &registration, 0);
  if (error < 0) return -error;
  io_uring_buf_ring_init(descriptors_);
  for (unsigned index = 0; index < buffer_count_; ++index) {
    if (states_[index].leases == 0) recycle(static_cast<std::uint16_t>(index));
  }
  return 0;
}

void buffer_ring::recycle(std::uint16_t index) noexcept {
  io_uring_buf_ring_add(descriptors_, bytes_of(index), bytes_each, index,
                        io_uring_buf_ring_mask(buffers), 0);
  io_uring_buf_ring_advance(descriptors_, 1);
}

void buffer_ring::add_buffer() noexcept {
  if (buffer_count_ < buffers) recycle(static_cast<std::uint16_t>(buffer_count_++));
}

buffer_ring::buffer& buffer_ring::begin_loan(std::uint16_t index) noexcept {
  buffer& loan = states_[index];
  assert(loan.leases == 0 && "lent twice");
  ++loan.leases;
  if (++lent_count_ == buffer_count_) [[unlikely]]
    add_buffer();
  return loan;
}

received buffer_ring::lend(std::uint16_t index, std::size_t count) noexcept {
  return received(begin_loan(index), 0, count);
}

void buffer_ring::give_back(receive_block& block) noexcept {
  auto& source = static_cast<buffer&>(block);
  --source.ring->lent_count_;
  source.ring->recycle(static_cast<std::uint16_t>(&source - source.ring->states_.get()));
}

void buffer_ring::queue::push(buffer_ring& ring, std::uint16_t index, std::size_t count) noexcept {
  buffer& loan = ring.begin_loan(index);
  loan.content = {ring.bytes_of(index), count};
  loan.next = index;
  if (!empty()) std::swap(loan.next, ring.states_[newest_index_].next);
  newest_index_ = index;
}

received buffer_ring::queue::pop(buffer_ring& ring) noexcept {
  buffer& newest_buffer = ring.states_[newest_index_];
  buffer& oldest_buffer = ring.states_[newest_buffer.next];
  newest_buffer.next = oldest_buffer.next;
  if (&oldest_buffer == &newest_buffer) newest_index_ = none;
  const std::span<const std::byte> content = oldest_buffer.content;
  const auto offset = static_cast<std::size_t>(content.data() - oldest_buffer.bytes);
  return received(oldest_buffer, offset, content.size());  // takes over the queue's loan
}

std::size_t buffer_ring::queue::read(buffer_ring& ring, std::span<std::byte> memory) noexcept {
  std::size_t total = 0;
  while (!empty() && total < memory.size()) {
    std::span<const std::byte>& content = ring.states_[ring.states_[newest_index_].next].content;
    const std::size_t count = std::min(content.size(), memory.size() - total);
    std::memcpy(memory.data() + total, content.data(), count);
    content = content.subspan(count);
    total += count;
    if (content.empty()) pop(ring);
  }
  return total;
}

}  // namespace gyre::io::detail
