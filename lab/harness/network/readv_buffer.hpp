// SPDX-License-Identifier: Apache-2.0
// The buffer of muduo's design, which evpp took over: contiguous, and filled by one readv of which
// 64 KiB on the stack are a part. Written afresh from the reports on evpp and muduo.
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace lab::network {

/// The memory of muduo's buffer, a vector: it writes zeros into the bytes that it grows by, and
/// copies all of its bytes.
class vector_memory {
 public:
  explicit vector_memory(std::size_t bytes) : bytes_(bytes) {}

  std::byte* data() { return bytes_.data(); }
  const std::byte* data() const { return bytes_.data(); }
  std::size_t size() const { return bytes_.size(); }

  /// Makes room for `more` bytes behind `end` and returns the new place of the byte at `begin`.
  std::size_t grow(std::size_t begin, std::size_t end, std::size_t more) {
    bytes_.resize(end + more);
    return begin;
  }

 private:
  std::vector<std::byte> bytes_;
};

/// The memory of evpp's buffer, an array: it is at least doubled, and only unread bytes are copied.
class array_memory {
 public:
  explicit array_memory(std::size_t bytes)
      : bytes_(std::make_unique_for_overwrite<std::byte[]>(bytes)), size_(bytes) {}

  std::byte* data() { return bytes_.get(); }
  const std::byte* data() const { return bytes_.get(); }
  std::size_t size() const { return size_; }

  /// Makes room for `more` bytes behind `end` and returns the new place of the byte at `begin`.
  std::size_t grow(std::size_t begin, std::size_t end, std::size_t more) {
    array_memory larger(2 * size_ + more);
    std::memcpy(larger.data(), data() + begin, end - begin);
    std::swap(*this, larger);
    return 0;
  }

 private:
  std::unique_ptr<std::byte[]> bytes_;
  std::size_t size_;
};

/// Bytes that were received and not used, or not sent yet.
template <class Memory>
class readv_buffer {
 public:
  std::span<const std::byte> unread() const { return {memory_.data() + begin_, end_ - begin_}; }
  bool empty() const { return begin_ == end_; }
  void clear() { begin_ = end_ = 0; }

  void drop(std::size_t bytes) {
    begin_ += bytes;
    if (empty()) clear();
  }

  void append(std::span<const std::byte> data) {
    make_room(data.size());
    std::memcpy(memory_.data() + end_, data.data(), data.size());
    end_ += data.size();
  }

  /// Reads once from the descriptor, as readv does: -1 with errno, 0 at the end, or the number of
  /// bytes. A small buffer costs no second call, as the rest arrives on the stack.
  ssize_t read_from(int fd) {
    std::array<std::byte, 65536> extra;
    const std::size_t room = memory_.size() - end_;
    const std::array<iovec, 2> parts{iovec{memory_.data() + end_, room},
                                     iovec{extra.data(), extra.size()}};
    const ssize_t got = readv(fd, parts.data(), room < extra.size() ? 2 : 1);
    if (got <= 0) return got;
    const auto bytes = static_cast<std::size_t>(got);
    if (bytes <= room) {
      end_ += bytes;
    } else {
      end_ += room;
      append(std::span(extra).first(bytes - room));
    }
    return got;
  }

 private:
  static constexpr std::size_t initial_bytes = 1024;

  void make_room(std::size_t more) {
    if (memory_.size() - end_ >= more) return;
    const std::size_t size = end_ - begin_;
    if (memory_.size() - size >= more) {
      std::memmove(memory_.data(), memory_.data() + begin_, size);
      begin_ = 0;
    } else {
      begin_ = memory_.grow(begin_, end_, more);
    }
    end_ = begin_ + size;
  }

  Memory memory_{initial_bytes};
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
};

}  // namespace lab::network
