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
#include <system_error>
#include <vector>

namespace gyre::net::detail {

/// The input of a connection that receives descriptors.
struct descriptor_input {
  descriptor_input(io::handle& socket, io::request::function on_readable) noexcept
      : readable(socket, io::direction::read, on_readable) {}

  io::readiness_request readable;
  std::vector<unique_fd> fds;  // received descriptors that the program has not taken
};

/// The members that a connection needs only while it has waiting output, an incomplete message or a
/// timeout.
struct connection_backlog {
  explicit connection_backlog(connection_io& owner) noexcept;

  static constexpr std::size_t max_pieces = 8;

  /// Returns the output up to the next attachment.
  std::span<iovec> next_output() noexcept;
  /// Removes the first bytes of the output, which the kernel has taken.
  void consume_output(std::size_t bytes) noexcept {
    output.consume(bytes);
    if (attachments != nullptr) attachments->consume(bytes);
  }
  bool attachment_is_due() const noexcept {
    return attachments != nullptr && attachments->is_due();
  }

  io::output_queue output;
  std::array<iovec, max_pieces> pieces;
  io::gather_request writing;
  io::buffer rest;                  // received bytes that are not consumed
  std::size_t held_by_program = 0;  // tcp_connection::count_memory() sets it
  std::size_t counted_bytes = 0;    // how many bytes of the three members above the group counts
  std::unique_ptr<attached_output> attachments;  // files and descriptors in `output`
  std::unique_ptr<descriptor_input> descriptors;
  std::error_code failure;  // the error with which sending has failed

  // The idle timeout's timer. It becomes the close timeout's when the connection is closed or
  // sending has failed.
  progress_timer timer;
  steady_time close_by{};          // the latest time at which closing ends
  progress_timer message_timer;    // limits message_timeout; restarts while `rest` has bytes
  std::uint64_t consumptions = 0;  // how often on_message has consumed bytes of `rest`
  progress_timer write_timer;      // limits write_timeout; restarts while output waits
};

static_assert(sizeof(connection_backlog) <= 512, "tcp_connection says so");

}  // namespace gyre::net::detail
