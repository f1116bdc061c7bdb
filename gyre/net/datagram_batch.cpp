// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/datagram_batch.hpp>

#include <gyre/net/detail/datagram_message.hpp>

#include <algorithm>
#include <cassert>
#include <cstring>

namespace gyre::net {
namespace detail {

struct datagram_slot {
  endpoint peer;
  iovec piece{};
  bool truncated = false;
  std::size_t segment = 0;
  control_buffer control{};
};

}  // namespace detail

datagram_batch::datagram_batch(std::size_t capacity, std::size_t largest)
    : capacity_(std::clamp<std::size_t>(capacity, 1, 1024)),
      datagram_size_(largest),
      slots_(std::make_unique<detail::datagram_slot[]>(capacity_)),
      headers_(std::make_unique<mmsghdr[]>(capacity_)),
      memory_(std::make_unique_for_overwrite<std::byte[]>(capacity_ * datagram_size_)) {}

datagram_batch::datagram_batch(datagram_batch&&) noexcept = default;
datagram_batch& datagram_batch::operator=(datagram_batch&&) noexcept = default;
datagram_batch::~datagram_batch() = default;

datagram datagram_batch::operator[](std::size_t index) const noexcept {
  assert(index < size_);
  const detail::datagram_slot& slot = slots_[index];
  return {{static_cast<const std::byte*>(slot.piece.iov_base), slot.piece.iov_len},
          slot.peer,
          slot.truncated,
          slot.segment};
}

bool datagram_batch::add(std::span<const std::byte> bytes, const endpoint& peer) noexcept {
  if (full() || bytes.size() > datagram_size_) return false;
  std::byte* const copy = bytes_of(size_);
  if (!bytes.empty()) std::memcpy(copy, bytes.data(), bytes.size());
  return add_reference({copy, bytes.size()}, peer);
}

bool datagram_batch::add_reference(std::span<const std::byte> bytes,
                                   const endpoint& peer) noexcept {
  if (full()) return false;
  detail::datagram_slot& slot = slots_[size_];
  slot.peer = peer;
  slot.piece = {const_cast<std::byte*>(bytes.data()), bytes.size()};
  slot.truncated = false;
  slot.segment = 0;
  detail::set_message(headers_[size_].msg_hdr, slot.piece, slot.peer, slot.peer.size());
  detail::write_control(headers_[size_].msg_hdr, slot.control, slot.peer);
  ++size_;
  return true;
}

std::span<mmsghdr> datagram_batch::prepare_to_receive() noexcept {
  clear();
  for (std::size_t i = 0; i < capacity_; ++i) {
    detail::datagram_slot& slot = slots_[i];
    slot.piece = {bytes_of(i), datagram_size_};
    detail::set_message(headers_[i].msg_hdr, slot.piece, slot.peer, endpoint::capacity(),
                        &slot.control);
  }
  return {headers_.get(), capacity_};
}

void datagram_batch::received(std::size_t count) noexcept {
  size_ = count;
  for (std::size_t i = 0; i < count; ++i) {
    detail::datagram_slot& slot = slots_[i];
    const msghdr& header = headers_[i].msg_hdr;
    slot.peer.resize(header.msg_namelen);
    slot.piece.iov_len = headers_[i].msg_len;
    const detail::message_properties properties = detail::read_control(header, slot.peer);
    slot.truncated = properties.truncated;
    slot.segment = properties.segment;
  }
}

std::byte* datagram_batch::bytes_of(std::size_t index) const noexcept {
  return memory_.get() + index * datagram_size_;
}

}  // namespace gyre::net
