// SPDX-License-Identifier: Apache-2.0
// proxy_handshake: takes the header of the PROXY protocol off an accepted connection, and not a
// byte more, before the server begins to serve it.
#pragma once

#include <gyre/base/unique_fd.hpp>
#include <gyre/exec/event_loop.hpp>
#include <gyre/exec/fd_watch.hpp>
#include <gyre/exec/timer.hpp>
#include <gyre/net/endpoint.hpp>
#include <gyre/net/proxy_protocol.hpp>

#include <cstddef>
#include <optional>
#include <vector>

namespace gyre::net::detail {

/// The loop's thread.
class proxy_handshake {
 public:
  class owner {
   public:
    /// The header has come, or none that makes sense, or not in time. Destroys the handshake.
    virtual void handshake_ended(proxy_handshake& ended, std::optional<proxy_header> header) = 0;

   protected:
    ~owner() = default;
  };

  /// Throws std::system_error, std::bad_alloc if the loop cannot watch the connection.
  proxy_handshake(event_loop& loop, owner& informed, unique_fd connection, const endpoint& proxy,
                  const proxy_protocol_options& options);
  proxy_handshake(const proxy_handshake&) = delete;
  proxy_handshake& operator=(const proxy_handshake&) = delete;

  /// The connection, which is watched no longer.
  unique_fd release() noexcept;
  const endpoint& proxy() const noexcept { return proxy_; }

 private:
  void read();
  std::ptrdiff_t read_some();
  std::size_t sure_to_be_header() const noexcept;

  owner& owner_;
  const proxy_protocol_options& options_;
  const endpoint proxy_;
  unique_fd connection_;
  std::vector<std::byte> header_;  // what has come of it
  fd_watch watch_;
  timer deadline_;
};

}  // namespace gyre::net::detail
