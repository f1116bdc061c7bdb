// SPDX-License-Identifier: Apache-2.0
// connection_output: the part of a connection that sends, at once or from a queue.
#pragma once

#include <gyre/base/unique_fd.hpp>
#include <gyre/io/buffer.hpp>
#include <gyre/io/request.hpp>
#include <gyre/net/detail/connection_phase.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <system_error>

namespace gyre::net::detail {

class attached_output;
class connection_io;

/// Tries the kernel first. Bytes that the kernel does not take wait in a queue with water marks,
/// together with attachments. With a layer, the queue holds plain bytes, which are encoded when
/// they can be sent. A base of connection_io.
///
/// Thread-safety: none; belongs to the loop's thread.
class connection_output {
 public:
  // tcp_connection documents the functions below.
  bool send(std::span<const std::byte> bytes);
  bool send(io::buffer&& bytes);
  bool send(std::span<const std::span<const std::byte>> pieces);
  bool send_file(unique_fd file, std::uint64_t offset, std::uint64_t count);
  bool send_fds(std::span<const std::byte> bytes, std::span<const int> fds);
  std::size_t pending_output() const noexcept;
  void notify_at_low_water() noexcept { is_above_high_water_ = true; }
  /// Sends a FIN once all accepted output is sent.
  void shutdown() noexcept;

  bool is_shut_down() const noexcept { return is_shut_down_; }
  bool fin_is_sent() const noexcept { return fin_sent_; }
  /// Whether output, or the announcement of its end, cannot be encoded before the peer sends more.
  /// The connection then receives even while the program has paused reading, because the program
  /// may wait for its output before it resumes.
  bool awaits_peer() const noexcept;

  /// Sends the layer's own messages, before other output.
  void send_replies(io::buffer replies);
  /// Sends output, or its end, that was waiting for bytes of the peer.
  void send_awaiting();
  /// Sends the layer's remaining bytes, its end included, after all output.
  void end_layered() noexcept;
  void send_fin() noexcept;
  /// Starts write_timeout, the longest time in which the peer may take no byte of waiting output.
  void watch() noexcept;
  void drop() noexcept;
  /// Drops waiting output; afterwards no output is accepted or sent.
  void stop() noexcept;

  // The functions below are called when requests complete and timers expire.
  void on_written(io::result result);
  void on_file_part(io::result result);
  void on_write_timer_expired();

 protected:
  connection_output() noexcept = default;
  ~connection_output() = default;

 private:
  std::size_t send_now(io::request& request) noexcept;
  bool send_layered(std::span<const std::span<const std::byte>> pieces);
  template <class Append>
  bool queue(std::size_t size, Append&& append) noexcept;
  bool queue_layered(std::span<const std::byte> sealed_bytes,
                     std::span<const std::byte> plain_bytes);
  void flush() noexcept;
  void flush_layered();
  bool send_attachment() noexcept;
  bool send_descriptors() noexcept;
  bool take_file_part(io::result outcome) noexcept;
  void all_is_sent() noexcept;
  bool note_all_sent() noexcept;
  void count_sent(std::size_t bytes) noexcept;
  void consume(std::size_t bytes) noexcept;
  void consume_sealed(std::size_t bytes) noexcept;
  void on_shrunk() noexcept;
  void schedule_water_mark(due_call call, due_call opposite_call) noexcept;
  bool end_is_due() const noexcept;
  bool end_after(const io::buffer& last_message, std::error_code reason) noexcept;
  bool refuse(std::error_code reason) noexcept;
  attached_output& attached();
  std::size_t descriptor_cost_of(std::size_t count) const noexcept;

  bool is_shut_down_ : 1 = false;  // true after shutdown(), or after a failure of sending
  bool fin_sent_ : 1 = false;      // true after the FIN, or after a failure of sending
  bool is_above_high_water_ : 1 = false;
};

}  // namespace gyre::net::detail
