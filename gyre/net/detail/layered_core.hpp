// SPDX-License-Identifier: Apache-2.0
// layered_core: the state that a layered_stream shares with its tasks.
//
// One coroutine reads and one writes at a time. Each reading operation is a step, which takes plain
// bytes from the layer, and one loop drives all of them: step, send the layer's replies, receive.
#pragma once

#include <gyre/io/buffer.hpp>
#include <gyre/io/received.hpp>
#include <gyre/net/endpoint.hpp>
#include <gyre/net/layer.hpp>
#include <gyre/net/tcp_stream.hpp>
#include <gyre/sync/event.hpp>
#include <gyre/task/task.hpp>

#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace gyre::net::detail {

/// The connection, the layer and the output of a layered_stream.
///
/// Thread-safety: none; belongs to the loop's thread.
class layered_core {
 public:
  layered_core(tcp_stream connection, std::unique_ptr<layer> protocol_layer)
      : inner(std::move(connection)), protocol(std::move(protocol_layer)) {
    protocol->send_to(output);
  }

  /// Sends replies and last messages to the peer without waiting, unless another operation is
  /// sending. The next write sends the remaining bytes first.
  void send_now() noexcept;
  /// See layered_stream::is_quiet().
  bool is_quiet() noexcept;
  void close() noexcept;

  /// Throws std::system_error with the name of the operation if the stream is not open.
  [[noreturn]] void throw_error(std::error_code code, std::string_view operation) const;
  /// Sends the layer's last message, if there is one, and throws its failure.
  [[noreturn]] void throw_failure(std::string_view operation);

  tcp_stream inner;
  std::unique_ptr<const endpoint> known_peer;  // the peer's address, if a former owner passed it
  io::buffer output;                           // encoded bytes that wait to be sent
  std::unique_ptr<layer> protocol;
  bool is_reading = false;
  bool is_writing = false;
  bool writer_reads = false;  // whether a writer is reading: see read_rest()

  bool is_sending = false;         // whether a sending_lock exists
  std::size_t left_by_writes = 0;  // the maximum size of the output that stopped writes have left

  /// Waits until the coroutine that reads has read more, or has ended. Throws io::errc::closed.
  task<> more_is_read(std::string_view operation);
  void notify_of_reading() noexcept;

 private:
  void announce_end() noexcept;
  std::string text_of(std::string_view operation) const;

  bool is_awaited_ = false;
  auto_reset_event more_read_;
};

/// An observer of the steps of a handshake.
class handshake_observer {
 public:
  /// Called after each step; a returned error ends the handshake.
  virtual std::error_code note_step(const layer& protocol) noexcept = 0;

 protected:
  ~handshake_observer() = default;
};

using core_ptr = std::shared_ptr<layered_core>;

task<std::size_t> read(core_ptr core, std::span<std::byte> buffer, bool transfers_all);
task<std::size_t> read_until(core_ptr core, io::buffer& buffer, std::string_view delimiter,
                             std::size_t limit);
task<io::received> receive(core_ptr core);
task<> wait_readable(core_ptr core);
/// `source_memory`: the memory of `bytes`, which the loop gets back when the layer has taken the
/// bytes.
task<std::size_t> write(core_ptr core, std::span<const std::byte> bytes, bool transfers_all,
                        io::received source_memory = {});
task<std::size_t> write_pieces(core_ptr core, std::span<const iovec> pieces);
task<std::size_t> write_received(core_ptr core, io::received bytes);
task<std::size_t> write_file(core_ptr core, int file, ::off_t offset, std::size_t count);
task<> end_writing(core_ptr core);
/// Runs the handshake; its steps wait for their turns among the loop's heavy operations. `observer`
/// may be null, and must outlive the task.
task<> shake_hands(core_ptr core, handshake_observer* observer = nullptr);

}  // namespace gyre::net::detail
