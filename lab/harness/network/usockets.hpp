// SPDX-License-Identifier: Apache-2.0
// The loop and the writes of uSockets' contenders.
#pragma once

#include <libusockets.h>

#include <cstddef>
#include <new>
#include <span>

namespace lab::network {

/// The first argument of most functions of uSockets: the socket has no TLS.
inline constexpr int without_tls = 0;

/// A loop and its context, which has the callbacks of the loop's sockets. No timeout is set.
/// Lifetime: contenders never return, so neither is freed.
/// Errors: uSockets calls callbacks unchecked. Set all but those of timeouts before run().
class usockets_loop {
 public:
  usockets_loop() {
    if (loop_ == nullptr || context_ == nullptr) throw std::bad_alloc();
  }
  usockets_loop(const usockets_loop&) = delete;
  usockets_loop& operator=(const usockets_loop&) = delete;

  us_loop_t* get() { return loop_; }
  us_socket_context_t* context() { return context_; }
  void run() { us_loop_run(loop_); }

 private:
  static void ignore(us_loop_t*) {}

  us_loop_t* loop_ = us_create_loop(nullptr, &ignore, &ignore, &ignore, 0);
  us_socket_context_t* context_ = us_create_socket_context(without_tls, loop_, 0, {});
};

/// Writes what the kernel accepts and returns the number of bytes. When this is less than all,
/// on_writable follows. An error counts as nothing accepted: on_close follows.
inline std::size_t usockets_write(us_socket_t* socket, std::span<const std::byte> data) {
  constexpr int nothing_follows = 0;  // so the kernel does not wait for more to send
  return static_cast<std::size_t>(us_socket_write(without_tls, socket,
                                                  reinterpret_cast<const char*>(data.data()),
                                                  static_cast<int>(data.size()), nothing_follows));
}

/// The piece that on_data gets.
inline std::span<const std::byte> usockets_bytes(const char* data, int length) {
  return std::as_bytes(std::span(data, static_cast<std::size_t>(length)));
}

}  // namespace lab::network
