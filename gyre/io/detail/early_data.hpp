// SPDX-License-Identifier: Apache-2.0
// Early data: what the kernel received or accepted before a request asked for it.
#pragma once

#include <gyre/base/unique_fd.hpp>
#include <gyre/io/detail/buffer_ring.hpp>
#include <gyre/io/request.hpp>

#include <cstdint>
#include <optional>
#include <vector>

namespace gyre::io::detail {

/// The early data of one handle, in the order in which it came.
struct early_data {
  buffer_ring::queue bytes;
  int error = 0;                  // came after `bytes`
  std::uint32_t connections = 0;  // in early_connections

  bool empty() const noexcept { return bytes.empty() && error == 0 && connections == 0; }
  /// Carries out a request that reads bytes. Nothing if there are none, or too few for a whole
  /// buffer.
  std::optional<result> read(request& reader) noexcept;
};

/// The early connections of all listeners of a loop.
class early_connections {
 public:
  /// Closes the connection if there is no memory to keep it; returns whether it is kept.
  bool push(std::uint32_t listener, unique_fd fd) noexcept;
  /// Gives the listener's oldest connection whose peer is still there to `acceptor`.
  std::optional<result> accept(accept_request& acceptor, early_data& counted) noexcept;
  void close_those_of(std::uint32_t listener) noexcept;
  void close_all() noexcept { connections_.clear(); }

 private:
  struct connection {
    std::uint32_t listener;  // its index
    unique_fd fd;
  };

  std::vector<connection> connections_;
};

/// Asks for the address of a connection's peer; false if there is none any more.
bool fill_peer(accept_request& acceptor, int connection) noexcept;

}  // namespace gyre::io::detail
