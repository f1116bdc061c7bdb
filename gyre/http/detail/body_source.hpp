// SPDX-License-Identifier: Apache-2.0
// body_source: the body of a response that is not whole in memory: a file, a stream or an upgrade.
#pragma once

#include <gyre/base/move_only_function.hpp>
#include <gyre/base/unique_fd.hpp>
#include <gyre/http/detail/connection_protocol.hpp>
#include <gyre/http/detail/upgraded_request.hpp>
#include <gyre/task/task.hpp>

#include <cstdint>
#include <memory>
#include <optional>

namespace gyre::net {
class tcp_connection;
}  // namespace gyre::net

namespace gyre::http {

class body_writer;
class upgraded_connection;

namespace detail {

class server_shard;

/// The source of a response's body, which can be sent only once.
struct body_source {
  enum class kind : std::uint8_t { file, stream, upgrade };

  kind type;
  unique_fd file = {};
  std::uint64_t offset = 0;                             ///< of the first byte to send from `file`
  std::uint64_t count = 0;                              ///< the number of bytes to send from `file`
  std::optional<std::uint64_t> length = {};             ///< the length of a stream, if it is known
  move_only_function<task<>(body_writer&)> write = {};  ///< writes a stream
  move_only_function<task<>(upgraded_connection&)> run = {};  ///< serves an upgraded connection
  bool releases_request = false;  ///< whether `run` does without the request
  /// Makes a protocol that takes a connection of HTTP/1.1 over, in place of `run`.
  move_only_function<connection_protocol_pointer(net::tcp_connection&, server_shard&,
                                                 upgraded_request)>
      make_protocol = {};
};

}  // namespace detail
}  // namespace gyre::http
