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

/// Receives into the loop's memory, so that an idle connection holds no buffer. Bytes that the
/// program does not consume are kept, up to the limit of the options. A base of connection_io.
///
/// Thread-safety: none; belongs to the loop's thread.
class connection_input {
 public:
  /// The reasons for which reading is paused.
  enum class pauser : std::uint8_t { program = 1, output = 2 };
  using pausers = gyre::detail::flag_set<pauser>;

  /// Begins to receive, unless the peer has ended, or reading is paused and no output awaits the
  /// peer.
  void start_receiving() noexcept;
  void prepare_for_descriptors();
  /// Called by the backend with the result of each receive.
  static void on_received(io::handle& source, io::result result);
  /// Counts received bytes, and delivers them, or the plain bytes that the layer makes of them.
  void receive(std::span<const std::byte> bytes);
  /// Delivers plain bytes that were received by the former owner of the socket.
  void deliver_early(std::span<const std::byte> bytes);
  /// Feeds `bytes`, which were counted already, to the layer, and delivers its plain bytes.
  void receive_layered(std::span<const std::byte> bytes);
  /// Delivers the unconsumed input once more; then begins to receive.
  void deliver_rest();
  void receive_with_descriptors();
  void readable(io::result result);
  void on_message_timer_expired();

  void pause(pauser reason) noexcept;
  void resume(pausers reasons) noexcept;
  bool reading_paused() const noexcept { return !pausers_.empty(); }
  /// Whether the peer has ended its stream of bytes.
  bool peer_has_ended() const noexcept { return has_peer_ended_; }
  std::vector<unique_fd> take_fds() noexcept;
  /// Stops receiving, and collects for another owner the bytes that the program has not consumed:
  /// `unconsumed_bytes`, or else the kept input. Appends the bytes that the backend holds to
  /// `received_bytes`, or feeds them to the layer. If the backend holds an error, ends the
  /// connection with it, and throws. Throws std::bad_alloc.
  void take_arrivals(std::span<const std::byte> unconsumed_bytes, io::buffer& received_bytes);

 protected:
  connection_input() noexcept = default;
  ~connection_input() = default;

 private:
  void on_receive_result(io::result result);
  void deliver(std::span<const std::byte> bytes);
  void deliver_after_rest(std::span<const std::byte> bytes);
  void keep_rest(std::span<const std::byte> unconsumed_bytes);
  void on_receiving_failed(std::error_code reason) noexcept;
  void on_peer_end();
  bool keep_descriptors(std::vector<unique_fd> descriptors);

  pausers pausers_;
  bool has_peer_ended_ = false;
};

}  // namespace gyre::net::detail
