// SPDX-License-Identifier: Apache-2.0
// A TCP (or Unix stream) connection as servers and clients hand it to callbacks: bytes come by
// on_message, go by send(), and whatever ends it is told to on_close, once.
//
//     server.on_message([](gyre::net::tcp_connection& from, gyre::io::input& in) {
//       from.send(in.bytes());  // echo: one recv, one send, nothing allocated or copied
//       in.consume_all();
//     });
#pragma once

#include <gyre/base/intrusive_list.hpp>
#include <gyre/base/move_only_function.hpp>
#include <gyre/base/operation.hpp>
#include <gyre/exec/event_loop.hpp>
#include <gyre/io/buffer.hpp>
#include <gyre/io/input.hpp>
#include <gyre/io/request.hpp>
#include <gyre/net/endpoint.hpp>

#include <any>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>

namespace gyre::net {

class tcp_connection;
class tcp_connection_ref;

namespace detail {
class connection_group;
struct connection_extra;
struct connection_control;
}  // namespace detail

/// What a connection may use, and how long it waits.
struct connection_options {
  /// Bytes waiting to be sent from which on_high_water, and down to which then on_low_water is
  /// called, which must be fewer; by default a quarter.
  std::size_t high_water = std::size_t{64} << 20;
  std::optional<std::size_t> low_water = std::nullopt;
  /// A send() with which more would wait ends the connection with std::errc::no_buffer_space.
  std::size_t output_limit = std::size_t{256} << 20;
  /// A message callback that leaves more than this unconsumed ends it with the same error.
  std::size_t input_limit = std::size_t{64} << 20;
  /// Ends a connection on which no byte has moved, in either direction, for so long (up to a quarter
  /// more) with std::errc::timed_out; zero: never. Costs nothing per message.
  std::chrono::nanoseconds idle_timeout = std::chrono::nanoseconds::zero();
  /// How long close() waits for the output to be taken and the peer to end, before it gives up; and
  /// how long a connection on which sending has failed goes on receiving.
  std::chrono::nanoseconds close_timeout = std::chrono::seconds{5};
  /// TCP_NODELAY: what is sent leaves at once.
  bool no_delay = true;
  /// SO_KEEPALIVE: the kernel finds out when the peer's machine is gone.
  bool keep_alive = false;
};

/// The functions that tell a program about its connections; set before the first one. They are
/// called on the connection's loop, from its turns only, never within a member function of a
/// connection. Each may do anything: send, pause, close, abort, and destroy the server or client.
/// Where a server has several loops, they call the same functions at the same time. What one of them
/// throws aborts its connection and goes to the loop's on_exception.
struct connection_handlers {
  move_only_function<void(tcp_connection&)> connected;
  /// Bytes came. Those that are not consumed are there the next time, before the new ones; if no more
  /// come, that is the end of them.
  move_only_function<void(tcp_connection&, io::input&)> message;
  /// Everything sent so far was taken by the kernel. Never where nothing was sent.
  move_only_function<void(tcp_connection&)> write_complete;
  /// So many bytes wait to be sent, for the first time since low_water. The two are called in turn,
  /// and as it is at that moment: what rises and falls before the loop gets there is not told.
  move_only_function<void(tcp_connection&, std::size_t waiting)> high_water;
  move_only_function<void(tcp_connection&)> low_water;
  /// The peer sends no more but may still receive; the connection stays until close(). Without this
  /// function, it is closed then.
  move_only_function<void(tcp_connection&)> peer_ended;
  /// The connection's last call: why it ended, no error if in good order. Its reference is valid
  /// until the function returns.
  move_only_function<void(tcp_connection&, std::error_code why)> closed;
};

/// Counts since a connection, or all connections of a server or client, began.
struct connection_metrics {
  std::uint64_t bytes_received = 0;
  std::uint64_t bytes_sent = 0;
  std::uint64_t messages = 0;  ///< calls of on_message
};

/// One connection. It lives on one loop, and all members belong to that loop's thread (other threads
/// use ref()). Servers and clients make and destroy it: it is valid from `connected` until `closed`
/// returns.
///
/// Receives into memory of the loop, so that an idle connection holds no buffer: it is 256 bytes,
/// of which a message touches the first 128, and 512 bytes more once it has had to wait with output
/// or an incomplete message, or has a timeout. (The kernel's socket is larger.)
class alignas(64) tcp_connection : private io::handle {
 public:
  tcp_connection(const tcp_connection&) = delete;
  tcp_connection& operator=(const tcp_connection&) = delete;

  event_loop& loop() const noexcept;
  /// A number of its own within its server or client, from 1.
  std::uint64_t id() const noexcept { return id_; }
  /// Of the socket; -1 when it has ended.
  int fd() const noexcept { return is_open() ? handle::fd() : -1; }
  /// Whether it can be sent on: neither closed, by whomever, nor shut down, and nothing has failed.
  bool can_send() const noexcept { return phase_ == phase::open && !shut_; }
  /// False from the moment on that its end is certain: `closed` follows.
  bool is_open() const noexcept { return phase_ != phase::ended; }

  /// Sends bytes, which need not outlive the call: with one system call if nothing waits, and what
  /// the kernel does not take is copied. True if they were accepted; false if it has
  /// ended, was closed or shut down, or sending has failed, with these or before: `closed` tells why.
  /// What the peer had sent by then still comes by on_message first (as long as reading is not
  /// paused), but for at most `close_timeout`.
  bool send(std::span<const std::byte> bytes);
  bool send(std::string_view text) { return send(std::as_bytes(std::span(text))); }
  /// The same, but what waits is moved instead of copied where that pays; empties `bytes`.
  bool send(io::buffer&& bytes);
  /// Several pieces, one after the other, with one system call (at most 64 pieces per call).
  bool send(std::span<const std::span<const std::byte>> pieces);
  bool send(std::initializer_list<std::span<const std::byte>> pieces) {
    return send(std::span(pieces.begin(), pieces.size()));
  }
  /// Bytes that wait to be taken by the kernel.
  std::size_t pending_output() const noexcept;

  /// No on_message, nor `peer_ended`, until resume_reading(): the peer is held back by the kernel's
  /// buffers. An error is not noticed either then, unless by sending. Idempotent.
  void pause_reading() noexcept;
  void resume_reading() noexcept;
  bool reading_paused() const noexcept { return paused_; }

  /// Tells the peer, once what was accepted is sent, that no more will come; goes on receiving.
  void shutdown_send() noexcept;
  /// Ends it in good order: sends what was accepted, tells the peer, drops what it still sends until
  /// it has ended too (without which the kernel could reset the connection, and lose what is on its
  /// way), but at most for `close_timeout`. If the peer has not taken everything by then, `closed`
  /// gets std::errc::timed_out. No on_message any more.
  void close() noexcept;
  /// The same with another time to wait. Called again, it can make the end only earlier.
  void close(std::chrono::nanoseconds timeout) noexcept;
  /// Ends it at once: drops what waits, and resets the connection. `closed` gets
  /// std::errc::connection_aborted. Idempotent.
  void abort() noexcept { abort(std::make_error_code(std::errc::connection_aborted)); }
  void abort(std::error_code why) noexcept;

  /// As connection_options::idle_timeout, for this connection, from now on.
  void set_idle_timeout(std::chrono::nanoseconds timeout);

  /// Who is at the other end; known until `closed` returns. Of Unix sockets, asked of the kernel.
  endpoint peer_endpoint() const;
  /// Where it was accepted, or connected from; asked of the kernel, none when it has ended.
  endpoint local_endpoint() const;

  /// What the program keeps with the connection, any copyable type: `c.context() = session{…}`.
  std::any& context() noexcept { return context_; }
  /// As that type; null if it is none such.
  template <class T>
  T* context() noexcept {
    return std::any_cast<T>(&context_);
  }

  connection_metrics metrics() const noexcept {
    return {.bytes_received = bytes_received_, .bytes_sent = bytes_sent_, .messages = messages_};
  }

  /// What other threads, and whoever outlives the connection, hold instead of a reference to it. The
  /// first time allocates.
  tcp_connection_ref ref();

 private:
  friend class detail::connection_group;
  friend class tcp_connection_ref;
  friend struct detail::connection_extra;

  enum class phase : std::uint8_t {
    open,
    flushing,   // close() was called, and output waits
    lingering,  // all is sent, and the peer told; waits for its end
    ended,      // the descriptor is closed, and `closed` will be called
  };
  enum class ending : bool { in_order, reset };
  // What handlers the loop has still to call.
  enum : std::uint8_t { write_complete_due = 1, high_water_due = 2, low_water_due = 4 };

  tcp_connection(detail::connection_group& group, int fd, std::uint64_t id, const endpoint& peer);
  ~tcp_connection();
  static void* operator new(std::size_t bytes);
  static void operator delete(void* memory, std::size_t bytes) noexcept;

  static void on_received(io::request& asked, io::result what);
  static void on_written(io::request& asked, io::result what);
  static void on_timer(timer_operation& timer);
  static void on_later(operation& later);

  // Called by the loop.
  void begin();
  void receive(std::span<const std::byte> bytes);
  void receive_behind_rest(std::span<const std::byte> bytes);
  void keep(std::span<const std::byte> rest);
  void peer_has_ended();
  void timer_expired();
  void call_what_is_due();
  void finish();
  template <class Work>
  void from_loop(Work&& work);

  // Sending.
  std::size_t try_to_send(io::request& asked) noexcept;
  template <class Append>
  bool wait_with(std::size_t more, Append&& append) noexcept;
  bool all_sent() noexcept;
  void count_sent(std::size_t bytes) noexcept;
  void taken(std::size_t bytes) noexcept;
  void tell_of_water(std::uint8_t due, std::uint8_t other) noexcept;
  void flush() noexcept;
  void flushed() noexcept;
  void sending_failed(std::error_code why) noexcept;
  bool has_failed() const noexcept { return static_cast<bool>(why_); }

  // Ending.
  void end_sending() noexcept;
  void tell_peer() noexcept;
  void linger() noexcept;
  void end(std::error_code why, ending how) noexcept;

  void start_receiving() noexcept;
  void call_later(std::uint8_t due) noexcept;
  void start_timer(std::chrono::nanoseconds delay);
  void stop_timer() noexcept;
  detail::connection_extra& extra();
  io::backend& io() const noexcept;

  // What a message touches: two cache lines, the first of which begins with the handle.
  detail::connection_group* group_;
  detail::connection_extra* extra_ = nullptr;  // what few connections need
  std::uint64_t messages_ = 0;
  phase phase_ = phase::open;
  bool paused_ = false;
  bool shut_ = false;       // shutdown_send() was called
  bool told_ = false;       // that no more will come: the kernel was
  bool peer_done_ = false;  // it sends no more
  bool above_high_water_ = false;
  std::uint8_t due_ = 0;
  bool later_posted_ = false;
  io::receive_request receiving_;
  std::uint64_t bytes_received_ = 0;
  std::uint64_t bytes_sent_ = 0;

  // The rest.
  struct place final : intrusive_list_node, operation {
    explicit place(tcp_connection& owner) noexcept
        : operation(&tcp_connection::on_later), self(&owner) {}
    tcp_connection* self;
  };
  place place_{*this};  // among its group's connections, and in the loop's inbox
  detail::connection_control* control_ = nullptr;
  std::any context_;
  std::uint64_t id_;
  std::error_code why_;  // it ended, or sending failed and reading goes on
  ip_address peer_address_;
  std::uint16_t peer_port_;
};

/// A connection as other threads see it: a counted reference that does not keep it alive. Copyable
/// and any thread; must not be used when the connection's loop is gone. Each call is posted to the
/// loop; it returns false if the connection has ended by now, and has no effect if it ends before
/// the loop gets there. A default-constructed one has ended.
class tcp_connection_ref {
 public:
  tcp_connection_ref() noexcept = default;
  tcp_connection_ref(const tcp_connection_ref& other) noexcept;
  tcp_connection_ref(tcp_connection_ref&& other) noexcept
      : control_(std::exchange(other.control_, nullptr)) {}
  tcp_connection_ref& operator=(tcp_connection_ref other) noexcept {
    std::swap(control_, other.control_);
    return *this;
  }
  ~tcp_connection_ref();

  /// Whether the connection had not ended a moment ago.
  bool alive() const noexcept;
  explicit operator bool() const noexcept { return alive(); }

  /// Copies the bytes, and sends them from the loop, in the order of calls of one thread. Also false,
  /// and nothing is sent, if with them more than connection_options::output_limit would wait for the
  /// loop: so a thread that sends faster than the loop gets to it is held back, not the memory used
  /// up.
  bool send(std::span<const std::byte> bytes) const;
  bool send(std::string_view text) const { return send(std::as_bytes(std::span(text))); }
  bool send(io::buffer&& bytes) const;
  bool close() const;
  bool abort() const;
  /// Calls `function` with the connection on its loop; destroys it uncalled if that has ended.
  bool post(move_only_function<void(tcp_connection&)> function) const;
  /// The connection, or null when it has ended. The loop's thread only.
  tcp_connection* get() const noexcept;

  friend bool operator==(const tcp_connection_ref&, const tcp_connection_ref&) noexcept = default;

 private:
  friend class tcp_connection;
  explicit tcp_connection_ref(detail::connection_control& control) noexcept;
  template <class Get>
  bool post_bytes(std::size_t size, Get get) const;
  detail::connection_control* control_ = nullptr;
};

}  // namespace gyre::net
