// SPDX-License-Identifier: Apache-2.0
// transport_handshake: the handshake of a transport on a socket that no connection owns yet.
#pragma once

#include <gyre/base/move_only_function.hpp>
#include <gyre/base/unique_fd.hpp>
#include <gyre/exec/detail/heavy_queue.hpp>
#include <gyre/exec/event_loop.hpp>
#include <gyre/exec/fd_watch.hpp>
#include <gyre/exec/timer.hpp>
#include <gyre/io/buffer.hpp>
#include <gyre/net/detail/connection_group.hpp>
#include <gyre/net/layer.hpp>

#include <cstddef>
#include <memory>
#include <span>
#include <system_error>

namespace gyre::net::detail {

/// Receives and sends until the handshake is done and all its bytes are sent, or it has failed.
///
/// Each step of the protocol, which may compute for long, waits for its turn among the loop's heavy
/// operations. What the handshake holds counts in the memory limit of the group.
///
/// | state   | bytes, or an end, have come | room for output        | its turn            |
/// |---------|-----------------------------|------------------------|---------------------|
/// | reading | waiting                     | -                      | -                   |
/// | waiting | -                           | -                      | sends, then as left |
/// | sending | -                           | done, waiting, reading | -                   |
///
/// Thread-safety: none; belongs to the loop's thread.
class transport_handshake : heavy_operation {
 public:
  /// Called once, in a turn of the loop; may destroy the handshake.
  using function = move_only_function<void(std::error_code)>;

  /// Throws std::system_error, std::bad_alloc.
  transport_handshake(connection_group& group, unique_fd connection,
                      std::unique_ptr<layer> protocol, function done);
  transport_handshake(const transport_handshake&) = delete;
  transport_handshake& operator=(const transport_handshake&) = delete;
  ~transport_handshake();

  /// After it is done: the connection, which is watched no longer, and its layer.
  unique_fd release() noexcept;
  std::unique_ptr<layer> take_layer() noexcept { return std::move(protocol_); }

 private:
  void watch(readiness interest);
  void on_ready();
  void advance();
  void step();
  bool send_waiting() noexcept;
  std::error_code read_and_step();
  std::error_code shake_hands(std::span<const std::byte> received);
  bool count_held(std::size_t held) noexcept;
  void end(std::error_code why);

  connection_group& group_;
  unique_fd connection_;
  std::unique_ptr<layer> protocol_;
  io::buffer unsent_;
  function done_;
  std::error_code timeout_error_;
  std::error_code sending_failed_;
  std::size_t counted_ = 0;  // bytes
  readiness interest_ = readiness::none;
  fd_watch watch_;
  timer deadline_;
};

}  // namespace gyre::net::detail
