// SPDX-License-Identifier: Apache-2.0
// udp_server: a callback-driven UDP (or Unix datagram) server on one loop or several.
//
//     gyre::net::udp_server server(loop, at);  // such as ":7000"
//     server.on_datagram([](gyre::net::udp_server::channel& socket, std::span<const std::byte> bytes,
//                           const gyre::net::endpoint& peer) { socket.send_to(bytes, peer); });
//     server.start();
#pragma once

#include <gyre/base/detail/misuse.hpp>
#include <gyre/base/move_only_function.hpp>
#include <gyre/exec/event_loop.hpp>
#include <gyre/exec/loop_group.hpp>
#include <gyre/exec/loop_thread.hpp>
#include <gyre/net/endpoint.hpp>
#include <gyre/net/udp_server_options.hpp>

#include <concepts>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace gyre::net {

namespace detail {
class udp_server_socket;
}

/// A callback-driven datagram server: one socket per loop and IP endpoint, with SO_REUSEPORT where
/// there are several loops (the kernel then gives all datagrams of a peer to one loop); one socket,
/// on the first loop, for a Unix endpoint. tcp_server documents forking.
///
/// Thread-safety: every member may be called from any thread; the callback is set before start().
/// Lifetime: the loops must outlive the server. The destructor drops waiting replies and waits for
/// callbacks that run on other threads, which must not wait for it (deadlock); afterwards no
/// callback runs. The function of on_datagram() is destroyed when the last loop has released it.
/// Errors: thrown by the members that say so. Errors of receiving and sending are only counted (see
/// udp_server_metrics), and receiving continues after 1 ms.
/// Complexity: two system calls (recvmmsg(2), sendmmsg(2)) for `batch` datagrams and their replies,
/// and no allocation per datagram.
class udp_server {
 public:
  /// One socket of the server, for replies. Belongs to the thread of its loop. Valid as long as the
  /// server. After stop(), send_to() returns false, and fd() -1.
  class channel {
   public:
    channel(const channel&) = delete;
    channel& operator=(const channel&) = delete;

    /// Copies a datagram, which may be empty, and sends it at the end of the batch (outside of
    /// on_datagram: at once). Returns false if the output limit refuses it, or the server has
    /// stopped.
    /// Errors of the kernel are only counted: as `errors`, or as `refused` if the queue of a Unix
    /// client is full. Throws std::bad_alloc, and then sends nothing.
    bool send_to(std::span<const std::byte> bytes, const endpoint& peer);
    bool send_to(std::string_view text, const endpoint& peer) {
      return send_to(std::as_bytes(std::span(text)), peer);
    }
    event_loop& loop() const noexcept;
    /// Returns the address of the socket. Throws std::system_error: std::errc::bad_file_descriptor
    /// after stop().
    endpoint local_endpoint() const;
    int fd() const noexcept;

   private:
    friend class detail::udp_server_socket;
    channel() = default;
    ~channel() = default;
  };

  using datagram_function = move_only_function<void(
      channel& socket, std::span<const std::byte> bytes, const endpoint& peer)>;
  GYRE_MISUSED_CALLBACK(misused_datagram_callback,
                        "the callback takes (gyre::net::udp_server::channel&, "
                        "std::span<const std::byte>, const gyre::net::endpoint&)",
                        void(channel&, std::span<const std::byte>, const endpoint&));

  /// Throws std::invalid_argument if there is no loop or one is null, std::system_error for a
  /// loop without io.
  explicit udp_server(event_loop& loop, udp_server_options options = {});
  template <loop_group Group>
  explicit udp_server(Group& loops, udp_server_options options = {})
      : udp_server(loops.loops(), std::move(options)) {}
  template <class Loop>
  explicit udp_server(basic_loop_thread<Loop>& thread, udp_server_options options = {})
      : udp_server(thread.loop(), std::move(options)) {}
  explicit udp_server(std::vector<event_loop*> loops, udp_server_options options = {});
  /// Makes a server that binds to `local`: an endpoint, or a text that endpoint::parse() reads
  /// (":7000"). Throws also the exceptions of listen(), and std::system_error for another text.
  template <std::convertible_to<endpoint> Local>
  udp_server(event_loop& loop, const Local& local, udp_server_options options = {})
      : udp_server(loop, std::move(options)) {
    listen(local);
  }
  template <loop_group Group, std::convertible_to<endpoint> Local>
  udp_server(Group& loops, const Local& local, udp_server_options options = {})
      : udp_server(loops.loops(), std::move(options)) {
    listen(local);
  }
  template <class Loop, std::convertible_to<endpoint> Local>
  udp_server(basic_loop_thread<Loop>& thread, const Local& local, udp_server_options options = {})
      : udp_server(thread.loop(), std::move(options)) {
    listen(local);
  }
  udp_server(const udp_server&) = delete;
  udp_server& operator=(const udp_server&) = delete;
  ~udp_server();

  /// Sets the callback for each datagram, which may have no bytes; bytes and endpoint are valid
  /// during the call. Called on the socket's loop, at the same time on several loops; it may
  /// destroy the server. Its exceptions go to the loop's on_exception, and the next datagram is
  /// delivered in the next turn. Throws std::logic_error after start().
  udp_server& on_datagram(datagram_function callback);
  // This overload explains wrong arguments: see base/detail/misuse.hpp.
  udp_server& on_datagram(misused_datagram_callback explained);

  /// Binds to `local`. For port 0 the kernel chooses a port. The file of a Unix socket that is gone
  /// is replaced, and stays when the server ends. No effect after stop(). Throws std::system_error.
  ///
  /// Complexity: a few system calls for each socket. To replace a Unix socket's file, the call may
  /// block for up to a second, while another process has the folder locked.
  void listen(const endpoint& local);
  /// Returns the endpoint of call number `index` of listen(). Throws std::out_of_range if there was
  /// none.
  endpoint local_endpoint(std::size_t index = 0) const;
  /// Begins to receive. Throws std::logic_error if called twice.
  void start();
  /// Closes the sockets for ever, once all waiting replies are sent or refused. Returns at once;
  /// `callback` is called afterwards, on the first of the loops, unless the server has been
  /// destroyed: on another thread perhaps before stop() returns. `callback` may destroy the server.
  /// May be called again, and before start(). Throws std::bad_alloc.
  void stop(move_only_function<void()> callback = {});

  const std::string& name() const noexcept;
  udp_server_metrics metrics() const noexcept;

 private:
  friend class detail::udp_server_socket;
  class core;

  std::shared_ptr<core> core_;
};

}  // namespace gyre::net
