// SPDX-License-Identifier: Apache-2.0
// connection_io: the owner of a callback connection's socket, from the opening of its layers to its
// end.
#pragma once

#include <gyre/base/intrusive_list.hpp>
#include <gyre/exec/event_loop.hpp>
#include <gyre/io/request.hpp>
#include <gyre/net/address.hpp>
#include <gyre/net/detail/connection_closing.hpp>
#include <gyre/net/detail/connection_input.hpp>
#include <gyre/net/detail/connection_output.hpp>
#include <gyre/net/detail/connection_phase.hpp>
#include <gyre/net/endpoint.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <system_error>

namespace gyre::net {

class layer;
class tcp_connection;

namespace detail {

class connection_group;
struct connection_backlog;
struct connection_control;
struct connection_extra;

/// The socket of a new connection.
struct socket_of_connection {
  int fd;
  std::optional<io::handle_kind> kind;  // none: the peer's address implies the kind
};

/// One connection: its socket, memory and counters, and the three parts that use these. The group
/// owns the connection. Programs see it as a tcp_connection, which derives from this class and adds
/// no data.
///
/// Thread-safety: none; belongs to the loop's thread.
/// Complexity: 112 bytes, and 32 more for an IPv6 peer; rarely needed members are in
/// connection_extra.
class connection_io : private intrusive_list_node,
                      public io::handle,
                      public connection_input,
                      public connection_output,
                      public connection_closing {
 public:
  connection_io(const connection_io&) = delete;
  connection_io& operator=(const connection_io&) = delete;

  /// Returns the bytes of memory that a connection with this peer needs.
  static std::size_t bytes_for(const endpoint& peer) noexcept { return bytes_with(form_of(peer)); }
  std::size_t bytes() const noexcept { return bytes_with(peer_form_); }
  /// Gives a new connection its layer. Throws std::bad_alloc.
  void set_layer(std::unique_ptr<layer> protocol);

  event_loop& loop() const noexcept;
  connection_group& group() const noexcept { return *group_; }
  std::uint64_t id() const noexcept { return id_; }
  /// Whether the phase is open, and shutdown() has not been called.
  bool can_send() const noexcept { return phase() == connection_phase::open && !is_shut_down(); }

  // --- For the group ---

  /// Calls the `connected` handler; then delivers the early bytes that the group holds for the
  /// connection.
  void begin();
  /// Called by the group: makes the due calls.
  void on_scheduled();
  bool is_scheduled() const noexcept { return is_scheduled_; }
  /// Whether on_connection_drained() was called for the connection, or is being called; see
  /// begin_to_drain().
  bool is_drained() const noexcept { return is_drained_; }
  void set_drained() noexcept { is_drained_ = true; }

  // --- For its parts ---

  void schedule(due_calls calls) noexcept;
  bool is_due(due_call call) const noexcept { return due_calls_.has(call); }
  void cancel_due(due_calls calls) noexcept { due_calls_.erase(calls); }
  void count_received(std::size_t bytes) noexcept { bytes_received_ += bytes; }
  void count_sent(std::size_t bytes) noexcept { bytes_sent_ += bytes; }
  void count_message() noexcept { ++messages_; }
  std::uint64_t bytes_received() const noexcept { return bytes_received_; }
  std::uint64_t bytes_sent() const noexcept { return bytes_sent_; }
  std::uint64_t messages() const noexcept { return messages_; }
  std::uint64_t bytes_in_kernel() const noexcept;
  std::uint64_t bytes_taken_by_peer() const noexcept { return bytes_sent_ - bytes_in_kernel(); }
  /// Notes the bytes that were received, sent or taken by the peer. Returns whether any were since
  /// the last call.
  bool note_progress() noexcept;
  /// Counts the waiting output and input in the group; returns false if the memory of the group has
  /// no room for them.
  bool update_held_bytes() noexcept;
  /// See tcp_connection.
  bool count_memory(std::size_t bytes);

  bool is_tcp() const noexcept { return kind() == io::handle_kind::stream_socket; }
  endpoint peer_endpoint() const;
  endpoint local_endpoint() const;

  /// Whether the connection has a layer, which layer_of() returns.
  bool has_layer() const noexcept { return has_layer_; }
  /// extra() and make_backlog() allocate at the first call, and throw std::bad_alloc.
  connection_extra& extra();
  connection_backlog& make_backlog();
  /// Returns null before the first call of extra(); see also backlog_of().
  connection_extra* existing_extra() const noexcept { return extra_; }

 protected:
  connection_io(connection_group& group, socket_of_connection own_socket, std::uint64_t id,
                const endpoint& peer);
  ~connection_io();

 private:
  friend class intrusive_list<connection_io>;
  friend class connection_group;

  // The place at which the address of the peer is stored.
  enum class peer_form : std::uint8_t {
    kernel,     // the kernel stores the address of a Unix socket
    v4,         // peer_v4_ stores the address
    mapped_v4,  // peer_v4_ stores the IPv4 part of a mapped IPv6 address
    v6,         // the memory after the object stores the address
  };
  static peer_form form_of(const endpoint& peer) noexcept;
  static std::size_t bytes_with(peer_form form) noexcept;
  void run_due();

  // Each message needs the handle and the members up to `messages_`: 80 bytes, in two cache lines.
  due_calls due_calls_;
  bool is_scheduled_ : 1 = false;  // whether the group will call on_scheduled()
  bool has_layer_ : 1 = false;     // whether extra_ is a layered_extra
  bool is_drained_ : 1 = false;
  peer_form peer_form_ : 2;
  std::uint16_t peer_port_;
  connection_group* group_;
  connection_extra* extra_ = nullptr;  // members that few connections need
  std::uint64_t bytes_received_ = 0;
  std::uint64_t bytes_sent_ = 0;
  std::uint64_t messages_ = 0;
  std::uint64_t id_;
  std::uint32_t moved_bytes_ = 0;  // the sum of moved bytes at the last note_progress()
  ip_address::v4_bytes peer_v4_{};
};

/// Returns the tcp_connection that handlers see. Defined in tcp_connection.cpp, like the two
/// functions below.
tcp_connection& face_of(connection_io& connection) noexcept;
/// Creates a connection in memory of the slab. Throws std::bad_alloc.
connection_io* new_connection(connection_group& group, socket_of_connection own_socket,
                              std::uint64_t id, const endpoint& peer,
                              std::unique_ptr<layer> protocol);
void delete_connection(connection_io& connection) noexcept;

/// Returns the connection whose base is `part`.
template <class Part>
connection_io& whole_of(Part& part) noexcept {
  return static_cast<connection_io&>(part);
}
template <class Part>
const connection_io& whole_of(const Part& part) noexcept {
  return static_cast<const connection_io&>(part);
}

}  // namespace detail
}  // namespace gyre::net
