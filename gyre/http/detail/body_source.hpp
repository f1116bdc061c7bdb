// SPDX-License-Identifier: Apache-2.0
// body_source: the body of a response that is not whole in memory: a file, a stream or an upgrade.
#pragma once

#include <gyre/base/move_only_function.hpp>
#include <gyre/base/unique_fd.hpp>
#include <gyre/task/task.hpp>

#include <cstdint>
#include <optional>

namespace gyre::http {

class body_writer;
class upgraded_connection;

namespace detail {

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
};

}  // namespace detail
}  // namespace gyre::http
