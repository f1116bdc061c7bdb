// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/tcp_connection_ref.hpp>

#include <gyre/base/atomic.hpp>
#include <gyre/net/detail/byte_quota.hpp>
#include <gyre/net/detail/connection_control.hpp>
#include <gyre/net/detail/from_loop.hpp>
#include <gyre/net/tcp_connection.hpp>

#include <atomic>

namespace gyre::net {

tcp_connection_ref::tcp_connection_ref(detail::connection_control& control) noexcept
    : control_(&control) {
  control_->add();
}
tcp_connection_ref::tcp_connection_ref(const tcp_connection_ref& other) noexcept
    : control_(other.control_) {
  if (control_ != nullptr) control_->add();
}
tcp_connection_ref::~tcp_connection_ref() {
  if (control_ != nullptr) control_->drop();
}

bool tcp_connection_ref::alive() const noexcept {
  // acquire: pairs with the release in connection_closing::leave(); after false, the effects of the
  // connection are visible.
  return control_ != nullptr && control_->is_alive.load(std::memory_order_acquire);
}

tcp_connection* tcp_connection_ref::get() const noexcept {
  return alive() ? &detail::face_of(*control_->connection) : nullptr;
}

template <class Function>
void tcp_connection_ref::post_always(Function function) const {
  control_->loop.post([self = *this, callback = std::move(function)]() mutable {
    if (!self.alive()) return;
    detail::connection_io& connection = *self.control_->connection;
    detail::from_loop(connection, [&] { callback(detail::face_of(connection)); });
  });
}

bool tcp_connection_ref::post(move_only_function<void(tcp_connection&)> function) const {
  if (!alive()) return false;
  detail::byte_quota::share share = control_->posted_bytes.take(0);
  if (!share) return false;
  post_always([callback = std::move(function), share_of_quota = std::move(share)](
                  tcp_connection& connection) mutable { callback(connection); });
  return true;
}

bool tcp_connection_ref::send(std::span<const std::byte> bytes) const {
  return post_bytes(bytes.size(), [bytes] {
    io::buffer copy;
    copy.append(bytes);
    return copy;
  });
}

bool tcp_connection_ref::send(io::buffer&& bytes) const {
  return post_bytes(bytes.size(), [&bytes] { return std::move(bytes); });
}

template <class Get>
bool tcp_connection_ref::post_bytes(std::size_t size, Get get) const {
  if (!alive()) return false;
  if (size == 0) return true;
  detail::byte_quota::share share = control_->posted_bytes.take(size);
  if (!share) return false;
  post_always([own_bytes = get(), share_of_quota = std::move(share)](
                  tcp_connection& target) mutable { target.send(std::move(own_bytes)); });
  return true;
}

// A second post would have no effect, so only one is made. If posting throws, the next call tries
// again.
template <class Function>
bool tcp_connection_ref::post_once(gyre::detail::atomic<bool>& is_posted, Function function) const {
  // relaxed: the flag guards no data.
  if (is_posted.exchange(true, std::memory_order_relaxed)) return true;
  try {
    post_always(function);
  } catch (...) {
    is_posted.store(false, std::memory_order_relaxed);
    throw;
  }
  return true;
}

bool tcp_connection_ref::close() const {
  return alive() && post_once(control_->is_close_posted,
                              [](tcp_connection& connection) { connection.close(); });
}

bool tcp_connection_ref::abort() const {
  return alive() && post_once(control_->is_abort_posted,
                              [](tcp_connection& connection) { connection.abort(); });
}

}  // namespace gyre::net
