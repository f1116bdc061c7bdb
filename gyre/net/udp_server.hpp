// SPDX-License-Identifier: Apache-2.0
// udp_server: a callback-driven UDP (or Unix datagram) server on one loop or several.
//
//     gyre::net::udp_server server(loop, at);  // such as ":7000"
//     server.on_datagram([](gyre::net::udp_server::channel& by, std::span<const std::byte> bytes,
//                           const gyre::net::endpoint& from) { by.send_to(bytes, from); });
//     server.start();
#pragma once

#include <gyre/base/detail/misuse.hpp>
#include <gyre/base/move_only_function.hpp>
#include <gyre/exec/event_loop.hpp>
#include <gyre/exec/loop_group.hpp>
#include <gyre/exec/loop_thread.hpp>
#include <gyre/net/endpoint.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace gyre::net {

namespace detail {
class udp_port;
}

/// Options of a udp_server, fixed when it is constructed.
struct udp_server_options {
  std::string name = "udp_server";
  /// Datagrams per system call, 1 to 1024. A socket holds batch * (max_datagram + 344) bytes.
  std::size_t batch = 32;
  /// Bytes of the longest datagram; longer ones are dropped and counted.
  std::size_t max_datagram = 2048;
  /// Bytes of replies that may wait at one socket, 136 more for each reply; more are refused.
  std::size_t output_limit = std::size_t{4} << 20;
  /// SO_RCVBUF and SO_SNDBUF; 0: the system's defaults. A Unix server's send buffer also holds
  /// datagrams that its clients have not read, so that many clients need a large one.
  int receive_buffer = 0;
  int send_buffer = 0;
  bool reuse_address = false;
  bool ipv6_only = false;
  /// A socket that is bound to all addresses notes at which of them each datagram arrives, as the
  /// source() of its peer, and a reply to that peer leaves from there. Costs two system calls for a
  /// socket, and 32 to 72 bytes of ancillary data for a datagram and for its reply. Without it the
  /// kernel chooses the address of replies: peers that asked another address of this machine drop
  /// them.
  bool packet_info = true;
};

/// Counts since a server was constructed.
struct udp_server_metrics {
  std::uint64_t received = 0;
  std::uint64_t sent = 0;
  std::uint64_t bytes_received = 0;
  std::uint64_t bytes_sent = 0;
  std::uint64_t truncated = 0;  ///< longer than max_datagram, dropped
  std::uint64_t refused = 0;    ///< replies above output_limit, or to a full Unix socket
  std::uint64_t errors = 0;     ///< replies that the kernel refused, and receives that failed
};

/// A callback-driven datagram server: one socket per loop and IP endpoint, with SO_REUSEPORT where
/// there are several loops (the kernel then gives all datagrams of a peer to one loop); one socket,
/// on the first loop, for a Unix endpoint. Forking: as with tcp_server.
///
/// Thread-safety: every member may be called from any thread; the callback is set before start().
/// Lifetime: the loops must outlive the server. The destructor waits for callbacks that are running
/// on other threads (deadlock if one waits for it), and drops waiting replies; then none runs.
/// Complexity: two system calls (recvmmsg(2), sendmmsg(2)) for `batch` datagrams and their replies,
/// and no allocation per datagram.
class udp_server {
 public:
  /// One socket of the server, for replies. Belongs to the thread of its loop. Valid as long as the
  /// server; after stop() send_to() returns false, and fd() -1.
  class channel {
   public:
    channel(const channel&) = delete;
    channel& operator=(const channel&) = delete;

    /// Copies a datagram, which may be empty, and sends it at the end of the batch (outside of
    /// on_datagram: at once). False if the output limit refuses it, or the server has stopped.
    /// Errors of the kernel are only counted: as `errors`, or as `refused` if the queue of a Unix
    /// client is full. Throws std::bad_alloc, and then sends nothing.
    bool send_to(std::span<const std::byte> bytes, const endpoint& to);
    bool send_to(std::string_view text, const endpoint& to) {
      return send_to(std::as_bytes(std::span(text)), to);
    }
    event_loop& loop() const noexcept;
    endpoint local_endpoint() const;
    int fd() const noexcept;

   private:
    friend class detail::udp_port;
    channel() = default;
    ~channel() = default;
  };

  using datagram_function =
      move_only_function<void(channel& by, std::span<const std::byte> bytes, const endpoint& from)>;
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
  /// As above, and binds to `at`: an endpoint, or a text as endpoint::parse() reads it (":7000").
  /// Throws also the exceptions of listen(), and std::system_error for another text.
  template <std::convertible_to<endpoint> At>
  udp_server(event_loop& loop, const At& at, udp_server_options options = {})
      : udp_server(loop, std::move(options)) {
    listen(at);
  }
  template <loop_group Group, std::convertible_to<endpoint> At>
  udp_server(Group& loops, const At& at, udp_server_options options = {})
      : udp_server(loops.loops(), std::move(options)) {
    listen(at);
  }
  template <class Loop, std::convertible_to<endpoint> At>
  udp_server(basic_loop_thread<Loop>& thread, const At& at, udp_server_options options = {})
      : udp_server(thread.loop(), std::move(options)) {
    listen(at);
  }
  udp_server(const udp_server&) = delete;
  udp_server& operator=(const udp_server&) = delete;
  ~udp_server();

  /// Sets the callback for each datagram, which may have no bytes; bytes and endpoint are valid
  /// during the call. Called on the socket's loop, at the same time on several loops; it may
  /// destroy the server. Its exceptions go to the loop's on_exception, and the next datagram is
  /// delivered in the next turn. Throws std::logic_error after start().
  udp_server& on_datagram(datagram_function callback);
  // Explains wrong arguments: see base/detail/misuse.hpp.
  udp_server& on_datagram(misused_datagram_callback explained);

  /// Binds. Port 0: the kernel chooses. The file of a Unix socket that is gone is replaced, and
  /// stays when the server ends. Throws std::system_error.
  void listen(const endpoint& at);
  /// The endpoint of the listen() call number `index`. Throws std::out_of_range if there was none.
  endpoint local_endpoint(std::size_t index = 0) const;
  /// Begins to receive. Throws std::logic_error if called twice.
  void start();
  /// Closes the sockets for ever, once all waiting replies are sent or refused. Returns at once;
  /// `done` is called afterwards, on the first of the loops, unless the server has been destroyed.
  /// May be called again, and before start(). Throws std::bad_alloc.
  void stop(move_only_function<void()> done = {});

  const std::string& name() const noexcept;
  udp_server_metrics metrics() const noexcept;

 private:
  friend class detail::udp_port;
  class core;

  std::shared_ptr<core> core_;
};

}  // namespace gyre::net
