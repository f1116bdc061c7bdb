// SPDX-License-Identifier: Apache-2.0
// tcp_connection: a callback-driven TCP (or Unix stream) connection of a tcp_server or tcp_client.
//
//     server.on_message([](gyre::net::tcp_connection& from, gyre::io::input& in) {
//       from.send(in.bytes());  // echo: one recv, one send, nothing allocated or copied
//       in.consume_all();
//     });
#pragma once

#include <gyre/base/detail/flag_set.hpp>
#include <gyre/base/duration.hpp>
#include <gyre/base/intrusive_list.hpp>
#include <gyre/base/move_only_any.hpp>
#include <gyre/base/move_only_function.hpp>
#include <gyre/base/timer_operation.hpp>
#include <gyre/base/unique_fd.hpp>
#include <gyre/exec/event_loop.hpp>
#include <gyre/io/buffer.hpp>
#include <gyre/io/error.hpp>
#include <gyre/io/input.hpp>
#include <gyre/io/request.hpp>
#include <gyre/net/connection_handlers.hpp>
#include <gyre/net/connection_options.hpp>
#include <gyre/net/endpoint.hpp>

#include <sys/uio.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace gyre::net {

class tcp_connection_ref;
class layer;

namespace detail {
class attached_output;
class connection_group;
class progress_timer;
struct connection_backlog;
struct connection_control;
struct connection_extra;
struct layered_extra;
}  // namespace detail

/// Counts since a connection, or all connections of a server or client, began.
struct connection_metrics {
  std::uint64_t bytes_received = 0;
  std::uint64_t bytes_sent = 0;
  std::uint64_t messages = 0;  ///< calls of on_message
};

/// A callback-driven connection with an output queue, back-pressure, half-close and graceful close.
///
/// | state     | send()  | received   | close()      | all sent      | peer's FIN | send fails |
/// |-----------|---------|------------|--------------|---------------|------------|------------|
/// | open      | sends   | on_message | flushing (1) | open          | open (2)   | failed (3) |
/// | failed    | refuses | on_message | ended        | -             | ended      | -          |
/// | flushing  | refuses | dropped    | flushing     | lingering (1) | flushing   | ended      |
/// | lingering | refuses | dropped    | lingering    | -             | ended      | -          |
/// | ended     | refuses | -          | ended        | -             | -          | -          |
///
/// close_when_sent() works like close(). abort(), each timeout and a failure of reading lead from
/// any state to ended.
///
/// 1. Flushing without output is lingering at once; lingering after the peer's FIN, or
///    close_without_lingering(), ended.
/// 2. on_peer_ended is called. Without that callback, or if the connection's own FIN has been sent,
///    the peer's FIN then works like close().
/// 3. Ended, if the program has paused reading or the peer's FIN has come before.
///
/// In failed, the last bytes of the peer are still received, for at most `close_timeout`. In
/// lingering, the kernel has all output and the FIN, and the peer's FIN is awaited. After the
/// change to ended, on_close is called in a turn of its own.
///
/// Thread-safety: all members belong to the thread of the connection's loop; other threads use
/// ref().
/// Lifetime: owned by its server or client; valid from the call of on_connection until on_close
/// returns.
/// Errors: given to on_close; members that throw say so.
/// Complexity: 112 bytes of the slab, 144 if the peer has an IPv6 address; 48 bytes more with a
/// context or a ref(); and 512 bytes more from the first time that output or an incomplete message
/// waits, or with an idle timeout of its own. It receives into memory of the loop, so that an idle
/// connection holds no buffer.
class tcp_connection : private intrusive_list_node, private io::handle {
 public:
  tcp_connection(const tcp_connection&) = delete;
  tcp_connection& operator=(const tcp_connection&) = delete;

  event_loop& loop() const noexcept;
  /// A number that is unique within its server or client, from 1.
  std::uint64_t id() const noexcept { return id_; }
  /// The socket; -1 when the connection has ended.
  int fd() const noexcept { return is_open() ? handle::fd() : -1; }
  /// Whether the state is open, and shutdown_send() has not been called.
  bool can_send() const noexcept { return phase_ == phase::open && !shutdown_requested_; }
  /// False in the state ended, which on_close follows; true while close() flushes and lingers.
  bool is_open() const noexcept { return phase_ != phase::ended; }

  /// Sends or queues bytes, which need not outlive the call. True if they were accepted, which does
  /// not mean delivered. False if not can_send(), or if sending fails (see the table). A call above
  /// connection_options::output_limit also returns false, and ends the connection.
  /// Complexity: one system call if no output waits; copies bytes that the kernel does not take.
  bool send(std::span<const std::byte> bytes);
  bool send(std::string_view text) { return send(std::as_bytes(std::span(text))); }
  /// As above, but large remainders are moved to the queue instead of copied. `bytes` is empty
  /// after true, unspecified after false.
  bool send(io::buffer&& bytes);
  /// Sends several pieces, one after the other, with one system call (at most 64 pieces per call).
  bool send(std::span<const std::span<const std::byte>> pieces);
  bool send(std::initializer_list<std::span<const std::byte>> pieces) {
    return send(std::span(pieces.begin(), pieces.size()));
  }
  /// Sends `count` bytes of a regular file from `offset` on, after earlier output, by sendfile(2).
  /// Closes the file in any case: when all is sent, when the connection ends, or at once.
  ///
  /// Errors: throws std::system_error, and sends nothing, for a file that ends earlier
  /// (io::errc::unexpected_end) and for another kind of file (std::errc::invalid_argument). A file
  /// that becomes shorter while it waits ends the connection with io::errc::unexpected_end, and one
  /// that cannot be read with that error; the peer sees a reset (on Unix sockets, which have none,
  /// an end). Otherwise as send().
  /// Complexity: allocates. Against `output_limit` a waiting file counts 16 KiB, whatever its
  /// length, and nothing if no other output waits; tcp_server_options::memory_limit has a price of
  /// its own for files. Reading from a slow disk blocks the loop. As a peer that reads nothing
  /// holds a file open besides its connection, a file server should set `connections_per_address`
  /// to at most a quarter of RLIMIT_NOFILE.
  bool send_file(unique_fd file, std::uint64_t offset, std::uint64_t count);
  /// Throws as send_file() does for the file: for a program that sends a head before it.
  static void check_file(int file, std::uint64_t offset, std::uint64_t count);
  /// Sends bytes, at least one, and with the first of them copies of `fds` (at most 253), over a
  /// Unix socket (SCM_RIGHTS). The descriptors stay the caller's.
  ///
  /// Errors: throws std::system_error, and sends nothing, for no bytes, too many descriptors and a
  /// TCP connection (std::errc::invalid_argument), and for a descriptor that is not open
  /// (std::errc::bad_file_descriptor). If the message must wait and the process has no descriptors
  /// left for the copies, the connection ends. Otherwise as send().
  /// Complexity: a system call for each descriptor besides send()'s own. Each copy that waits
  /// counts 16 KiB of output besides the bytes.
  bool send_fds(std::span<const std::byte> bytes, std::span<const int> fds);
  bool send_fds(std::string_view text, std::span<const int> fds) {
    return send_fds(std::as_bytes(std::span(text)), fds);
  }
  /// Takes the received descriptors (close-on-exec), in their order. When on_message is called with
  /// bytes, the descriptors that were sent with them are there. See connection_options::fd_limit.
  [[nodiscard]] std::vector<unique_fd> take_fds() noexcept;
  /// Bytes that wait for the kernel to take them; send_file() and send_fds() say how they count.
  std::size_t pending_output() const noexcept;

  /// Back-pressure on the peer: on_message and on_peer_ended are not called until resume_reading(),
  /// and the peer must wait when the kernel's buffers are full. Meanwhile only sending notices an
  /// error, `idle_timeout` runs on, and `message_timeout` does not. Idempotent. Independent of a
  /// server's pause at `high_water`: the connection reads again when both are over.
  void pause_reading() noexcept { pause(pauser::program); }
  /// Resumes reading. First on_message is called once more with the input that it left unconsumed,
  /// if any, in a turn of its own, even if no more has come. So a handler may take one message at a
  /// time, pause, and resume when it has dealt with that message.
  void resume_reading() noexcept { resume(pauser::program); }
  /// Whether reading is paused, by pause_reading() or at `high_water`.
  bool reading_paused() const noexcept { return !paused_.empty(); }

  /// Half-close: sends a FIN once all accepted output is sent. The connection still receives.
  void shutdown_send() noexcept;
  /// Closes gracefully: sends the accepted output and a FIN, and drops the peer's bytes until its
  /// FIN has come (closing earlier could make the kernel reset the connection, and lose output on
  /// its way). on_message is not called any more. Gives up when the peer has taken nothing for
  /// `close_timeout`, and after `close_limit` in all; if the peer has not taken all output by then,
  /// on_close gets io::errc::close_timeout.
  void close() noexcept;
  /// With other values of close_timeout and close_limit. A further call can only end it earlier.
  void close(duration timeout) noexcept;
  void close(duration timeout, duration limit) noexcept;
  /// As close(), for output that may take long: until the kernel has all of it, the peer has as
  /// much time as on an open connection (`write_timeout`). Only then `close_timeout` and
  /// `close_limit` begin. A call of close() meanwhile begins them at once.
  void close_when_sent() noexcept;
  /// As close_when_sent(), but ends once the kernel has the accepted output, without waiting for
  /// the peer's FIN. For a peer that has announced to send no more: bytes that come nevertheless
  /// make the kernel reset the connection, which can lose output on its way.
  void close_without_lingering() noexcept;
  /// Ends the connection at once: drops waiting output, and resets the connection (RST). on_close
  /// gets io::errc::aborted (std::errc::connection_aborted), or `why`. Idempotent.
  void abort() noexcept { abort(io::errc::aborted); }
  void abort(std::error_code why) noexcept { end(why, ending::reset); }

  /// As connection_options::idle_timeout, for this connection alone, from now on; zero: never.
  /// Throws std::bad_alloc.
  void set_idle_timeout(duration timeout);

  /// The peer's address: of TCP, known until on_close returns; of Unix, as local_endpoint().
  endpoint peer_endpoint() const;
  /// The address of this end, by a system call; none when the connection has ended. Throws
  /// std::system_error.
  endpoint local_endpoint() const;

  /// A value that the program attaches, which need not be copyable: `c.context() = session{…}`. It
  /// is destroyed with the connection, after on_close. The first call allocates; throws
  /// std::bad_alloc.
  move_only_any& context();
  /// The attached value; null if there is none or it is no T.
  template <class T>
  T* context() noexcept {
    return any_cast<T>(attached_context());
  }

  /// The connection's end of its transport's protocol; null without one. See tls::info_of().
  const net::layer* layer() const noexcept;

  /// With a transport, of the bytes on the network.
  connection_metrics metrics() const noexcept {
    return {.bytes_received = bytes_received_, .bytes_sent = bytes_sent_, .messages = messages_};
  }

  /// A reference for other threads, and for objects that outlive the connection. The first call
  /// allocates.
  tcp_connection_ref ref();

 private:
  friend class detail::connection_group;
  friend class intrusive_list<tcp_connection>;
  friend class tcp_connection_ref;
  friend struct detail::connection_backlog;

  enum class phase : std::uint8_t {
    open,
    flushing,   // close() was called, and output waits
    lingering,  // all is sent, and the FIN; waits for the peer's end
    ended,      // the descriptor is closed, and on_close will be called
  };
  enum class ending : bool { in_order, reset };
  // Why reading is paused.
  enum class pauser : std::uint8_t { program = 1, output = 2 };
  using pausers = gyre::detail::flag_set<pauser>;
  enum class call : std::uint8_t {
    write_complete = 1,
    high_water = 2,
    low_water = 4,
    message = 8,    // with unconsumed input; then receiving
    readable = 16,  // receiving: the kernel has reported input already
  };
  using calls = gyre::detail::flag_set<call>;  // that the loop has still to make
  // The place of the peer's address.
  enum class peer_form : std::uint8_t {
    kernel,     // a Unix socket: the kernel tells
    v4,         // here
    mapped_v4,  // the IPv4 address of an IPv6 one is here
    v6,         // behind the connection
  };

  // In memory of the slab. Throws std::bad_alloc.
  static tcp_connection* make(detail::connection_group& group, int fd, std::uint64_t id,
                              const endpoint& peer, std::unique_ptr<net::layer> protocol);
  static void destroy(tcp_connection& connection) noexcept;
  static peer_form form_of(const endpoint& peer) noexcept;
  static std::size_t bytes_with(peer_form form) noexcept;
  tcp_connection(detail::connection_group& group, int fd, std::uint64_t id, const endpoint& peer);
  ~tcp_connection();

  template <void (tcp_connection::*Done)(io::result)>
  static void on_done(io::request& request, io::result result);
  static void on_received(io::handle& source, io::result result);
  template <void (tcp_connection::*Expired)()>
  static void on_timer(timer_operation& timer);
  void on_scheduled();

  // Receiving.
  void begin(std::span<const std::byte> early);
  void received(io::result result);
  void receive(std::span<const std::byte> bytes);
  void deliver(std::span<const std::byte> bytes);
  void receive_after_rest(std::span<const std::byte> bytes);
  void keep_rest(std::span<const std::byte> rest);
  void deliver_rest();
  void receiving_failed(std::error_code why) noexcept;
  void on_peer_end();
  void timer_expired();
  void end_if_idle(std::uint8_t present) noexcept;
  void message_timer_expired();
  void run_due();
  void finish(std::error_code why);
  template <class Work>
  void from_loop(Work&& work);

  // Sending.
  std::size_t send_now(io::request& request) noexcept;
  template <class Append>
  bool queue_output(std::size_t more, Append&& append) noexcept;
  bool note_all_sent() noexcept;
  void count_sent(std::size_t bytes) noexcept;
  void consume_output(std::size_t bytes) noexcept;
  void schedule_water_mark(call due, call other) noexcept;
  void flush() noexcept;
  void all_is_sent() noexcept;
  void written(io::result result);
  bool refuse(std::error_code why) noexcept;
  void sending_failed(std::error_code why) noexcept;
  bool has_failed() const noexcept { return failed_; }
  std::error_code failure() const noexcept;
  std::span<iovec> next_output() noexcept;
  void on_output_shrunk() noexcept;
  void watch_output() noexcept;
  void write_timer_expired();

  // Members of connections with a layer, defined in tcp_connection_layer.cpp.
  detail::layered_extra& layered() const noexcept;
  void receive_layered(std::span<const std::byte> bytes);
  void send_awaiting();
  void send_replies(io::buffer replies);
  bool send_layered(std::span<const std::span<const std::byte>> pieces);
  bool queue_layered(std::span<const std::byte> sealed, std::span<const std::byte> plain);
  void flush_layered();
  void consume_sealed(std::size_t bytes) noexcept;
  std::error_code seal_next(bool& has_progressed);
  bool end_after(const io::buffer& last_message, std::error_code why) noexcept;
  std::error_code seal_file_part();
  void end_layered() noexcept;
  std::size_t pending_sealed() const noexcept;
  bool end_is_due() const noexcept;
  bool awaits_peer() const noexcept;

  // Files and descriptors.
  detail::attached_output& attached();
  std::size_t descriptor_cost_of(std::size_t count) const noexcept;
  bool send_attachment() noexcept;
  std::error_code send_file_part(bool& done) noexcept;
  std::error_code send_descriptors(bool& done) noexcept;
  void prepare_for_descriptors();
  void readable(io::result result);
  void receive_with_descriptors();
  bool keep_descriptors(std::vector<unique_fd> came);

  // Ending.
  void drop_output() noexcept;
  void end_sending() noexcept;
  void send_fin() noexcept;
  void begin_flushing() noexcept;
  void linger() noexcept;
  void limit_closing(duration timeout, duration limit);
  void closing_timer_expired();
  std::uint64_t bytes_in_kernel() const noexcept;
  std::uint64_t bytes_taken_by_peer() const noexcept { return bytes_sent_ - bytes_in_kernel(); }
  void end(std::error_code why, ending kind) noexcept;

  void start_receiving() noexcept;
  void pause(pauser why) noexcept;
  void resume(pausers why) noexcept;
  bool update_held_bytes() noexcept;
  void schedule(calls due) noexcept;
  void start_timer(detail::progress_timer& timer);
  void stop_timers() noexcept;
  detail::connection_extra& extra();
  move_only_any* attached_context() noexcept;
  bool peer_is_ip() const noexcept { return peer_form_ != peer_form::kernel; }
  // Null while nothing has had to wait.
  inline detail::connection_backlog* backlog() const noexcept;
  detail::connection_backlog& make_backlog();
  io::backend& io() const noexcept;

  // Each message needs the handle and the members up to `messages_`: 80 bytes, in two cache lines.
  std::uint16_t peer_port_;
  detail::connection_group* group_;
  detail::connection_extra* extra_ = nullptr;  // members that few connections need
  phase phase_ = phase::open;
  pausers paused_;
  calls due_;
  bool shutdown_requested_ : 1 = false;  // or sending has failed
  bool fin_sent_ : 1 = false;            // or sending has failed
  bool failed_ : 1 = false;              // sending has; the extra members have the error
  bool peer_done_ : 1 = false;           // it sends no more
  bool above_high_water_ : 1 = false;
  bool scheduled_ : 1 = false;  // the group will call on_scheduled()
  bool has_own_idle_timeout_ : 1 = false;
  bool layered_ : 1 = false;  // there is a layer; the extra members are a layered_extra
  peer_form peer_form_ : 2;
  bool lingers_ : 1 = true;             // after its output: see close_without_lingering()
  bool limited_when_sent_ : 1 = false;  // see close_when_sent()
  bool drained_ : 1 = false;            // the group was told so
  std::uint8_t idle_since_ = 0;         // the group's idle_clock() when end_if_idle() saw a change
  std::uint64_t bytes_received_ = 0;
  std::uint64_t bytes_sent_ = 0;
  std::uint64_t messages_ = 0;
  std::uint64_t id_;
  std::uint32_t idle_moved_ = 0;  // the count of bytes that end_if_idle() saw last
  ip_address::v4_bytes peer_v4_{};
};

/// A weak reference to a connection, for other threads. Calls are posted, also on the loop's own
/// thread. False: the connection has ended (always so for a default-constructed reference), or
/// send() or post() is at its limit. After true the connection may end before the call is made.
///
/// Thread-safety: any thread; copyable.
/// Lifetime: after the destruction of the loop it may only be copied, compared and destroyed.
/// Complexity: each posted call allocates.
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

  /// Copies the bytes, and sends them from the loop, in the order of calls of one thread. Never
  /// blocks. Bytes that wait for the loop are limited to connection_options::output_limit, where
  /// each call counts 1 KiB besides its bytes; with none waiting a call is only refused if its
  /// bytes alone exceed the limit. A refused call returns false and sends nothing: a thread that
  /// sends faster than the loop must retry later, while alive(). A call without bytes does nothing.
  bool send(std::span<const std::byte> bytes) const;
  bool send(std::string_view text) const { return send(std::as_bytes(std::span(text))); }
  bool send(io::buffer&& bytes) const;
  /// As tcp_connection::close() and abort(); no limit applies. Further calls have no effect.
  bool close() const;
  bool abort() const;
  /// Calls `function` with the connection on its loop. Also false above the limit of send(), of
  /// which each call takes 1 KiB whatever memory `function` holds. A `function` that is not called
  /// is destroyed before post() returns false, or in the loop's turn.
  bool post(move_only_function<void(tcp_connection&)> function) const;
  /// The connection, or null when it has ended. The loop's thread only.
  tcp_connection* get() const noexcept;

  friend bool operator==(const tcp_connection_ref&, const tcp_connection_ref&) noexcept = default;

 private:
  friend class tcp_connection;
  explicit tcp_connection_ref(detail::connection_control& control) noexcept;
  template <class Function>
  void post_always(Function function) const;
  template <class Function>
  bool post_once(gyre::detail::atomic<bool>& posted, Function function) const;
  template <class Get>
  bool post_bytes(std::size_t size, Get get) const;
  detail::connection_control* control_ = nullptr;
};

}  // namespace gyre::net
