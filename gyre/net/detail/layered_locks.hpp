// SPDX-License-Identifier: Apache-2.0
// reading_lock, sending_lock: mark a direction of a layered_core as in use, and hold its bytes.
#pragma once

#include <gyre/io/buffer.hpp>
#include <gyre/io/detail/scratch_buffer.hpp>
#include <gyre/io/error.hpp>
#include <gyre/io/received.hpp>
#include <gyre/net/detail/layer_limits.hpp>
#include <gyre/net/detail/layered_core.hpp>

#include <exception>
#include <string_view>
#include <system_error>
#include <utility>

namespace gyre::net::detail {

/// Marks one direction as in use until destroyed. Throws io::errc::busy, io::errc::not_open.
class direction_lock {
 public:
  direction_lock(layered_core& core, bool& in_use, std::string_view operation) : in_use_(in_use) {
    if (!core.inner.is_open()) core.throw_error(io::errc::not_open, operation);
    if (in_use) core.throw_error(io::errc::busy, operation);
    in_use_ = true;
  }
  direction_lock(const direction_lock&) = delete;
  direction_lock& operator=(const direction_lock&) = delete;
  ~direction_lock() { in_use_ = false; }

 private:
  bool& in_use_;
};

/// Marks reading as in use by one operation, and holds the bytes that the operation has received.
/// Returns the loop's memory before each wait and at the end: the layer then keeps a copy of the
/// bytes that it has not read.
class reading_lock : direction_lock {
 public:
  /// `in_use`: core.is_reading, or core.writer_reads.
  reading_lock(layered_core& core, bool& in_use, std::string_view operation)
      : direction_lock(core, in_use, operation), core_(core), operation_(operation) {}
  ~reading_lock() {
    try {
      give_back();
    } catch (const std::exception&) {
      core_.inner.close();  // the unread bytes are lost, so the stream cannot continue
    }
    core_.notify_of_reading();
  }

  /// Waits for bytes, which must be passed to take(). Throws io::errc::output_limit if the peer
  /// causes replies and does not read them.
  auto receive() {
    if (core_.output.size() > max_reply_bytes + core_.left_by_writes) {
      core_.throw_error(io::errc::output_limit, operation_);
    }
    give_back();
    core_.notify_of_reading();
    return core_.inner.receive();
  }
  /// Feeds `input` to the layer. Without bytes, the connection has ended: returns false if the
  /// layer accepts the end here, and throws its error otherwise.
  bool take(io::received input) {
    if (input.empty()) {
      const std::error_code cut_off = core_.protocol->end_of_bytes();
      if (cut_off) core_.throw_error(cut_off, operation_);
      return false;
    }
    input_ = std::move(input);
    core_.protocol->feed(input_.bytes());
    return true;
  }

 private:
  void give_back() {
    core_.protocol->keep_unread();
    input_.reset();
  }

  layered_core& core_;
  const std::string_view operation_;
  io::received input_;
};

/// The output that one writing operation sends. The destructor puts unsent bytes back, before
/// output that was added meanwhile.
class sending_lock {
 public:
  explicit sending_lock(layered_core& core) noexcept
      : bytes(std::exchange(core.output, io::buffer())), core_(core) {
    core.is_sending = true;
    core.left_by_writes = 0;
  }
  sending_lock(const sending_lock&) = delete;
  sending_lock& operator=(const sending_lock&) = delete;
  ~sending_lock() {
    core_.is_sending = false;
    if (bytes.empty()) {
      io::detail::scratch_buffer::give_back(std::move(bytes));
      return;
    }
    core_.left_by_writes = bytes.size();
    try {
      bytes.append(core_.output.bytes());
      core_.output = std::move(bytes);
    } catch (const std::exception&) {
      core_.inner.close();  // the bytes of the stream must have no gap
    }
  }

  io::buffer bytes;

 private:
  layered_core& core_;
};

}  // namespace gyre::net::detail
