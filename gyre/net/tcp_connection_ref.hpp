// SPDX-License-Identifier: Apache-2.0
// tcp_connection_ref: a weak reference to a tcp_connection, for other threads.
//
//     gyre::net::tcp_connection_ref peer = connection.ref();  // on the loop's thread
//     worker = std::jthread([peer] { peer.send("done"); });   // from any thread
#pragma once

#include <gyre/base/atomic.hpp>
#include <gyre/base/move_only_function.hpp>
#include <gyre/io/buffer.hpp>

#include <cstddef>
#include <span>
#include <string_view>
#include <utility>

namespace gyre::net {

class tcp_connection;

namespace detail {
struct connection_control;
}  // namespace detail

/// A weak reference to a connection, for other threads. Calls are posted, also on the loop's own
/// thread. A call returns false if the connection has ended (always so for a default-constructed
/// reference), or send() or post() is at its limit. After true, the connection may end before the
/// call is carried out.
///
/// Thread-safety: any thread; copyable.
/// Lifetime: after the destruction of the loop it may only be copied, compared and destroyed.
/// Errors: std::bad_alloc; then nothing is posted.
/// Complexity: each posted call allocates.
class tcp_connection_ref {
 public:
  tcp_connection_ref() noexcept = default;
  tcp_connection_ref(const tcp_connection_ref& other) noexcept;
  tcp_connection_ref(tcp_connection_ref&& other) noexcept
      : control_(std::exchange(other.control_, nullptr)) {}
  tcp_connection_ref& operator=(tcp_connection_ref other) noexcept {
    std::swap(control_, other.control_);
    return *this;
  }
  ~tcp_connection_ref();

  /// Whether the connection had not ended a moment ago.
  bool alive() const noexcept;
  explicit operator bool() const noexcept { return alive(); }

  /// Copies the bytes, and sends them from the loop, in the order of calls of one thread. Never
  /// blocks. Bytes that wait for the loop are limited to connection_options::output_limit, where
  /// each call counts 1 KiB besides its bytes; with none waiting a call is only refused if its
  /// bytes alone exceed the limit. A refused call returns false and sends nothing: a thread that
  /// sends faster than the loop must retry later, while alive(). A call without bytes does nothing.
  bool send(std::span<const std::byte> bytes) const;
  bool send(std::string_view text) const { return send(std::as_bytes(std::span(text))); }
  bool send(io::buffer&& bytes) const;
  /// Call tcp_connection::close() and abort() on the loop; no limit applies. Further calls have no
  /// effect.
  bool close() const;
  bool abort() const;
  /// Calls `function` with the connection on its loop. Also returns false above the limit of
  /// send(), of which each call takes 1 KiB, however much memory `function` holds. A `function`
  /// that is not called is destroyed before post() returns false, or in the loop's turn.
  bool post(move_only_function<void(tcp_connection&)> function) const;
  /// Returns the connection, or null when it has ended. Called on the loop's thread only.
  tcp_connection* get() const noexcept;

  friend bool operator==(const tcp_connection_ref&, const tcp_connection_ref&) noexcept = default;

 private:
  friend class tcp_connection;
  explicit tcp_connection_ref(detail::connection_control& control) noexcept;
  template <class Function>
  void post_always(Function function) const;
  template <class Function>
  bool post_once(gyre::detail::atomic<bool>& is_posted, Function function) const;
  template <class Get>
  bool post_bytes(std::size_t size, Get get) const;
  detail::connection_control* control_ = nullptr;
};

}  // namespace gyre::net
