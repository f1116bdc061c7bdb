// SPDX-License-Identifier: Apache-2.0
// datagram_batch: an arena for many datagrams per system call (recvmmsg, sendmmsg).
//
//     gyre::net::datagram_batch batch(64, 1500);
//     for (;;) {
//       co_await socket.receive_batch(batch);
//       for (const gyre::net::datagram each : batch) handle(each.bytes, each.peer);
//     }
#pragma once

#include <gyre/net/endpoint.hpp>

#include <sys/socket.h>
#include <sys/uio.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

namespace gyre::net {

namespace detail {
struct send_batch_operation;
struct receive_batch_operation;
struct datagram_slot;
class udp_server_socket;
}  // namespace detail

/// One datagram of a batch, in the batch's memory.
struct datagram {
  std::span<const std::byte> bytes;
  const endpoint& peer;  ///< its sender, or its receiver
  bool truncated;        ///< it was longer than the batch's largest()
  /// With GRO, the size of the datagrams of one peer that the kernel has joined; the last of them
  /// may be shorter. Otherwise 0.
  std::size_t segment;
};

/// An arena of datagrams, for reuse. Move-only.
/// - To receive: datagram_socket::receive_batch() clears the batch and then fills it.
/// - To send: clear() what was received, add() each datagram, then datagram_socket::send_batch().
///   The batch keeps them until clear(), and sends none twice. To echo, use a second batch.
///
/// Thread-safety: one thread at a time.
/// Lifetime: must stay in place while an operation uses it. A batch that was moved from may only be
/// destroyed or assigned to.
/// Complexity: three allocations by the constructor, none later.
class datagram_batch {
 public:
  /// Makes a batch for `capacity` datagrams, clamped to 1 to 1024 (the kernel's limit), of up to
  /// `largest` bytes. Throws std::bad_alloc.
  explicit datagram_batch(std::size_t capacity = 64, std::size_t largest = 2048);
  datagram_batch(datagram_batch&&) noexcept;
  datagram_batch& operator=(datagram_batch&&) noexcept;
  ~datagram_batch();

  [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }
  [[nodiscard]] std::size_t largest() const noexcept { return datagram_size_; }
  /// Returns the number of datagrams in the batch.
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  [[nodiscard]] bool full() const noexcept { return size_ == capacity_; }
  /// Returns the number of datagrams that have been sent, counted from the first.
  [[nodiscard]] std::size_t sent() const noexcept { return sent_count_; }
  /// Returns a datagram, which is valid until the batch is filled again or cleared.
  [[nodiscard]] datagram operator[](std::size_t index) const noexcept;

  /// An iterator for range-based for loops. It is not a std::input_iterator.
  class iterator {
   public:
    iterator(const datagram_batch& batch, std::size_t index) noexcept
        : batch_(&batch), index_(index) {}
    datagram operator*() const noexcept { return (*batch_)[index_]; }
    iterator& operator++() noexcept {
      ++index_;
      return *this;
    }
    bool operator==(const iterator& other) const noexcept { return index_ == other.index_; }

   private:
    const datagram_batch* batch_;
    std::size_t index_;
  };
  iterator begin() const noexcept { return {*this, 0}; }
  iterator end() const noexcept { return {*this, size_}; }

  /// Adds copies of a datagram, which may be empty, and of its receiver; without a receiver, it is
  /// sent to the peer of the socket. Returns false, and adds nothing, if the batch is full or
  /// `bytes` longer than largest().
  [[nodiscard]] bool add(std::span<const std::byte> bytes, const endpoint& peer = {}) noexcept;
  [[nodiscard]] bool add(std::string_view text, const endpoint& peer = {}) noexcept {
    return add(std::as_bytes(std::span(text)), peer);
  }
  /// Adds a datagram of any size without a copy: `bytes` must live until they have been sent.
  /// Otherwise does what add() does.
  [[nodiscard]] bool add_reference(std::span<const std::byte> bytes,
                                   const endpoint& peer = {}) noexcept;
  void clear() noexcept { size_ = sent_count_ = 0; }

 private:
  friend detail::send_batch_operation;
  friend detail::receive_batch_operation;
  friend detail::udp_server_socket;

  std::span<mmsghdr> prepare_to_receive() noexcept;
  void received(std::size_t count) noexcept;
  std::span<mmsghdr> rest_to_send() noexcept {
    return {headers_.get() + sent_count_, size_ - sent_count_};
  }
  std::byte* bytes_of(std::size_t index) const noexcept;

  std::size_t capacity_;
  std::size_t datagram_size_;
  std::size_t size_ = 0;
  std::size_t sent_count_ = 0;
  std::unique_ptr<detail::datagram_slot[]> slots_;
  std::unique_ptr<mmsghdr[]> headers_;
  std::unique_ptr<std::byte[]> memory_;
};

}  // namespace gyre::net
