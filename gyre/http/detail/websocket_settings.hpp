// SPDX-License-Identifier: Apache-2.0
// websocket_settings: the limits of a WebSocket, which the sockets of a thread share.
#pragma once

#include <gyre/base/atomic.hpp>
#include <gyre/http/websocket_options.hpp>

#include <cstdint>
#include <utility>

namespace gyre::http::detail {

/// Thread-safety: immutable, but for the count of references.
struct websocket_settings {
  websocket_limits limits;
  websocket_timeouts timeouts;
  gyre::detail::atomic<std::uint32_t> references{1};  ///< of settings_pointer only
};

/// A share of settings. One pointer, because each idle socket has one.
///
/// Thread-safety: that of std::shared_ptr.
class settings_pointer {
 public:
  settings_pointer() noexcept = default;
  settings_pointer(const settings_pointer& other) noexcept;
  settings_pointer(settings_pointer&& other) noexcept
      : shared_(std::exchange(other.shared_, nullptr)) {}
  settings_pointer& operator=(settings_pointer other) noexcept {
    std::swap(shared_, other.shared_);
    return *this;
  }
  ~settings_pointer();

  const websocket_settings& operator*() const noexcept { return *shared_; }
  const websocket_settings* operator->() const noexcept { return shared_; }

  /// Returns settings of the same values as those of `options`: the settings of the last call on
  /// this thread if they are equal, because a server mostly has one set of options. Throws
  /// std::bad_alloc.
  static settings_pointer share(const websocket_options& options);

 private:
  bool has_values_of(const websocket_options& options) const noexcept;

  websocket_settings* shared_ = nullptr;
};

}  // namespace gyre::http::detail
