// SPDX-License-Identifier: Apache-2.0
// message_block: the memory of one NATS message, which is also its place in a queue.
#pragma once

#include <gyre/base/intrusive_queue.hpp>
#include <gyre/engines/nats/detail/parser.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

namespace gyre::nats::detail {

class message_block;

struct message_deleter {
  void operator()(message_block* block) const noexcept;
};
using message_ptr = std::unique_ptr<message_block, message_deleter>;

/// The parts of a message, which follow the object in its memory.
///
/// Complexity: one block of the slab, or of operator new above 4 KiB.
class message_block : public intrusive_node {
 public:
  /// Copies the parts of a message. Throws std::bad_alloc.
  static message_ptr make(const operation& source);

  std::string_view subject() const noexcept { return {text(), subject_size_}; }
  std::string_view reply() const noexcept { return {text() + subject_size_, reply_size_}; }
  /// Returns the headers as they came, with the first line.
  std::string_view headers() const noexcept {
    return {text() + subject_size_ + reply_size_, headers_size_};
  }
  std::string_view payload() const noexcept {
    return {text() + subject_size_ + reply_size_ + headers_size_, payload_size_};
  }
  /// Returns the number of all bytes of the block.
  std::size_t size() const noexcept {
    return sizeof(message_block) + subject_size_ + reply_size_ + headers_size_ + payload_size_;
  }

  bool follows_gap = false;

 private:
  explicit message_block(const operation& source) noexcept;
  char* text() noexcept { return reinterpret_cast<char*>(this + 1); }
  const char* text() const noexcept { return reinterpret_cast<const char*>(this + 1); }

  std::uint32_t subject_size_;
  std::uint32_t reply_size_;
  std::size_t headers_size_;
  std::size_t payload_size_;
};

}  // namespace gyre::nats::detail
