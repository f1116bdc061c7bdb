// SPDX-License-Identifier: Apache-2.0
// connection_input: the part of a connection that receives, and delivers to its program.
#pragma once

#include <gyre/base/detail/flag_set.hpp>
#include <gyre/base/unique_fd.hpp>
#include <gyre/io/buffer.hpp>
#include <gyre/io/request.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <system_error>
#include <vector>

namespace gyre::net::detail {

class connection_io;

/// Receives into the loop's memory, so that an idle connection holds no buffer; bytes that the
/// program does not consume are kept, up to the limit of the options. A base of connection_io.
///
/// Thread-safety: none; belongs to the loop's thread.
class connection_input {
 public:
  /// The reasons for which reading is paused.
  enum class pauser : std::uint8_t { program = 1, output = 2 };
  using pausers = gyre::detail::flag_set<pauser>;

  /// Begins to receive, if the connection may at present.
  void start_receiving() noexcept;
  void prepare_for_descriptors();
  /// The backend calls it with the outcome of each receive.
  static void on_received(io::handle& source, io::result result);
  /// Counts received bytes, and delivers them or what the layer makes of them.
  void receive(std::span<const std::byte> bytes);
  /// Delivers bytes of the program's that were received by another owner.
  void deliver_early(std::span<const std::byte> bytes);
  /// Delivers what the layer has, with `bytes`, which were counted already.
  void receive_layered(std::span<const std::byte> bytes);
  /// Delivers what the program has left, once more; then receives.
  void deliver_rest();
  void receive_with_descriptors();
  void readable(io::result result);
  void message_timer_expired();

  void pause(pauser reason) noexcept;
  void resume(pausers reasons) noexcept;
  bool reading_paused() const noexcept { return !paused_.empty(); }
  /// Whether the peer sends no more.
  bool peer_has_ended() const noexcept { return peer_done_; }
  std::vector<unique_fd> take_fds() noexcept;
  /// Stops receiving, and appends to `received` what waits for the program, or `unconsumed` in its
  /// place, and what the backend holds; with a layer, that gets the latter. Throws std::bad_alloc;
  /// or the error of the connection that the backend holds, and ends the connection.
  void take_arrivals(std::span<const std::byte> unconsumed, io::buffer& received);

 protected:
  connection_input() noexcept = default;
  ~connection_input() = default;

 private:
  void received(io::result result);
  void deliver(std::span<const std::byte> bytes);
  void deliver_after_rest(std::span<const std::byte> bytes);
  void keep_rest(std::span<const std::byte> unconsumed);
  void receiving_failed(std::error_code reason) noexcept;
  void on_peer_end();
  bool keep_descriptors(std::vector<unique_fd> descriptors);

  pausers paused_;
  bool peer_done_ = false;
};

}  // namespace gyre::net::detail
