// SPDX-License-Identifier: Apache-2.0
// connection_backlog: the memory of a connection in which output or input waits.
#pragma once

#include <gyre/base/clock.hpp>
#include <gyre/io/buffer.hpp>
#include <gyre/io/output_queue.hpp>
#include <gyre/io/request.hpp>
#include <gyre/net/detail/attached_output.hpp>
#include <gyre/net/detail/progress_timer.hpp>

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace gyre::net::detail {

/// The input of a connection that receives descriptors.
struct descriptor_input {
  descriptor_input(io::handle& socket, io::request::function on_readable) noexcept
      : readable(socket, io::direction::read, on_readable) {}

  io::readiness_request readable;
  std::vector<unique_fd> fds;  // received and not taken
};

/// Members of a connection once it waits: with output, with an incomplete message, for a timeout.
struct connection_backlog {
  explicit connection_backlog(connection_io& owner) noexcept;

  static constexpr std::size_t max_pieces = 8;

  /// The output up to the next attachment.
  std::span<iovec> next_output() noexcept;
  /// Notes that the first bytes of the output have left it.
  void consume_output(std::size_t bytes) noexcept {
    output.consume(bytes);
    if (attached != nullptr) attached->consume(bytes);
  }
  bool attachment_is_due() const noexcept { return attached != nullptr && attached->is_due(); }

  io::output_queue output;
  std::array<iovec, max_pieces> pieces;
  io::gather_request writing;
  io::buffer rest;                            // received and not consumed
  std::size_t counted = 0;                    // bytes of both in the group's count
  std::unique_ptr<attached_output> attached;  // to `output`
  std::unique_ptr<descriptor_input> descriptors;

  // The idle timeout; once the connection is closed or sending has failed, that timeout.
  progress_timer timer;
  steady_time close_by{};          // the end of closing, at the latest
  progress_timer message_timer;    // restarted while there is a rest when it expires
  std::uint64_t consumptions = 0;  // times that on_message has consumed some of the rest
  progress_timer write_timer;      // restarted while there is output when it expires
};

static_assert(sizeof(connection_backlog) <= 512, "tcp_connection says so");

}  // namespace gyre::net::detail
