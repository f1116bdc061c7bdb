// SPDX-License-Identifier: Apache-2.0
// head_writer: writes the head of a response behind the bytes of a buffer.
#pragma once

#include <gyre/http/status.hpp>
#include <gyre/io/buffer.hpp>

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace gyre::http::detail {

/// Prepares the buffer's memory once, so that the pieces are plain copies.
class head_writer {
 public:
  /// Room for the status line, the Date, the server's own fields, and `more` bytes of others.
  head_writer(io::buffer& to, std::size_t more)
      : buffer_(to), begin_(reinterpret_cast<char*>(to.prepare(own_bytes + more).data())) {}

  void put(std::string_view text) noexcept {
    std::memcpy(at_, text.data(), text.size());
    at_ += text.size();
  }
  void put_number(std::uint64_t number) noexcept { at_ = std::to_chars(at_, at_ + 20, number).ptr; }
  /// Also of statuses without a known phrase.
  void put_status_line(status code) noexcept {
    if (code == status::ok) return put("HTTP/1.1 200 OK\r\n");
    put("HTTP/1.1 ");
    put_number(to_number(code));
    put(" ");
    put(reason_phrase(code));
    put("\r\n");
  }
  void finish() noexcept { buffer_.commit(static_cast<std::size_t>(at_ - begin_)); }

 private:
  static constexpr std::size_t own_bytes = 256;

  io::buffer& buffer_;
  char* begin_;
  char* at_ = begin_;
};

}  // namespace gyre::http::detail
