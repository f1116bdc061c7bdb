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
#include <gyre/base/unique_fd.hpp>
#include <gyre/exec/event_loop.hpp>
#include <gyre/io/buffer.hpp>
#include <gyre/io/input.hpp>
#include <gyre/io/request.hpp>
#include <gyre/net/endpoint.hpp>

#include <sys/uio.h>

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
#include <vector>

namespace gyre::net {

class tcp_connection;
class tcp_connection_ref;

namespace detail {
class attached_output;
class connection_group;
class progress_watch;
struct connection_extra;
struct connection_control;
}  // namespace detail

/// What a connection may use, and how long it waits.
struct connection_options {
  /// Bytes waiting to be sent from which on_high_water, and down to which then on_low_water is
  /// called, which must be fewer; by default a quarter. A server without on_high_water does not read
  /// from the connection in between: a peer that does not take the answers is asked nothing more.
  std::size_t high_water = std::size_t{1} << 20;
  std::optional<std::size_t> low_water = std::nullopt;
  /// A send() with which more would wait ends the connection with std::errc::no_buffer_space.
  std::size_t output_limit = std::size_t{4} << 20;
  /// A message callback that leaves more than this unconsumed ends it with the same error.
  std::size_t input_limit = std::size_t{4} << 20;
  /// Descriptors that a Unix connection holds until take_fds(). A peer that sends more ends it with
  /// std::errc::too_many_files_open; those that nobody took are closed when it ends. Zero: it takes
  /// none, and the kernel closes what comes.
  std::size_t fd_limit = 0;
  /// Ends a connection on which no byte has moved, in either direction, for so long (up to a quarter
  /// more) with io::errc::idle_timeout; zero: never. Not given: ten minutes for those of a server, as each
  /// holds a descriptor; never for a client's. Costs nothing per message, and no memory.
  std::optional<std::chrono::nanoseconds> idle_timeout = std::nullopt;
  /// Ends a connection of which a message has been incomplete for so long (up to a quarter more),
  /// however many bytes of it come meanwhile, with std::errc::timed_out: from when on_message leaves
  /// something until it consumes something. Begins anew when reading was paused. Zero: never.
  std::chrono::nanoseconds message_timeout = std::chrono::minutes{1};
  /// Ends a connection of which output waits, and whose peer has taken none of it for so long (up to a
  /// quarter more), with std::errc::timed_out: however much that is, and whatever the peer sends
  /// meanwhile. Taken is what the peer's kernel has acknowledged; on a Unix socket what the peer has read,
  /// of which the kernel tells only when a whole piece of what was sent is read, at most 40,000 bytes: so
  /// a peer that reads fewer in that time counts as one that reads nothing. close() has times of its
  /// own, in which the same is taken. Zero: never.
  std::chrono::nanoseconds write_timeout = std::chrono::minutes{1};
  /// How long close() waits (up to a quarter more) while the peer takes no byte of the output, and then
  /// for the peer's end, before it gives up; and how long a connection on which sending has failed goes
  /// on receiving. A peer that reads slowly gets everything, unless it takes longer than `close_limit`.
  std::chrono::nanoseconds close_timeout = std::chrono::seconds{5};
  /// How long close() waits in all, however much the peer still takes.
  std::chrono::nanoseconds close_limit = std::chrono::minutes{5};
  /// TCP_NODELAY: what is sent leaves at once.
  bool no_delay = true;
  /// SO_KEEPALIVE: the kernel finds out when the peer's machine is gone.
  bool keep_alive = false;
};

/// The functions that tell a program about its connections; set before the first one. They are
/// called on the connection's loop, from its turns only, never within a member function of a
/// connection. Each may do anything: send, pause, close, abort, and destroy the server or client.
/// Where a server has several loops, they call the same functions at the same time. What one of them
/// throws aborts its connection and goes to the loop's on_exception; but std::bad_alloc, as a lack of
/// memory for what was received, only ends its connection with std::errc::not_enough_memory.
struct connection_handlers {
  move_only_function<void(tcp_connection&)> connected;
  /// Bytes came. Those that are not consumed are there the next time: when more have come, before the
  /// new ones, or after pause_reading() and resume_reading(). If neither happens, that is the end of
  /// them.
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
/// or an incomplete message, or has an idle timeout of its own. (The kernel's socket is larger.)
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
  /// Sends `count` bytes of a regular file from `offset` on, behind what was sent before, by sendfile(2):
  /// they are never in the program's memory. Closes the file when all is sent, or the connection ends.
  ///
  /// Errors: throws std::system_error, and sends nothing, for a file that ends before that
  /// (io::errc::unexpected_end) and for what is no regular file (std::errc::invalid_argument). A file that
  /// becomes shorter while it waits ends the connection with io::errc::unexpected_end, and one that cannot
  /// be read with that error; the peer is told by a reset, which Unix sockets do not have: there it
  /// sees an end. Otherwise as send().
  /// Complexity: allocates. While it waits it counts as 16 KiB of output, however long it is, and is not
  /// refused where nothing else waits. The loop's thread reads the file: a slow disk holds the loop up.
  /// A peer that reads nothing holds one file open besides its connection, and further ones within
  /// tcp_server_options::memory_limit: a server of files should allow `connections_per_address` no more than a
  /// quarter of the descriptors.
  bool send_file(unique_fd file, std::uint64_t offset, std::uint64_t count);
  /// Sends bytes, at least one, and with the first of them copies of `fds` (at most 253), to the other end
  /// of a Unix socket. The descriptors stay the caller's.
  ///
  /// Errors: throws std::system_error, and sends nothing, for no bytes, too many descriptors and a TCP
  /// connection (std::errc::invalid_argument), and for a descriptor that is not open
  /// (std::errc::bad_file_descriptor). If they must wait and the process can have no more descriptors, that
  /// ends the connection. Otherwise as send().
  /// Complexity: a system call for each descriptor besides those of send(). While they wait they are copied,
  /// and each counts as 16 KiB of output besides the bytes.
  bool send_fds(std::span<const std::byte> bytes, std::span<const int> fds);
  bool send_fds(std::string_view text, std::span<const int> fds) {
    return send_fds(std::as_bytes(std::span(text)), fds);
  }
  /// Takes the descriptors (close-on-exec) that have come so far, in their order. When on_message is told
  /// of bytes, the descriptors that were sent with them are there. See connection_options::fd_limit.
  [[nodiscard]] std::vector<unique_fd> take_fds() noexcept;
  /// Bytes that wait to be taken by the kernel; send_file() and send_fds() say how they count.
  std::size_t pending_output() const noexcept;

  /// No on_message, nor `peer_ended`, until resume_reading(): the peer is held back by the kernel's
  /// buffers. An error is not noticed either then, unless by sending. Idempotent. Does not mix with
  /// the pause of a server at `high_water`: it reads again when neither lasts.
  void pause_reading() noexcept;
  /// Goes on reading. Input that on_message left unconsumed is given to it once more first, in a turn
  /// of its own, though no more has come: so a handler may take one message at a time, pause, and go on
  /// when that has been dealt with.
  void resume_reading() noexcept;
  /// Whether it reads nothing now, because of pause_reading() or of `high_water`.
  bool reading_paused() const noexcept { return paused_ != 0; }

  /// Tells the peer, once what was accepted is sent, that no more will come; goes on receiving.
  void shutdown_send() noexcept;
  /// Ends it in good order: sends what was accepted, tells the peer, drops what it still sends until
  /// it has ended too (without which the kernel could reset the connection, and lose what is on its
  /// way). Gives up when the peer has taken nothing for `close_timeout`, and after `close_limit` in
  /// all; if it has not taken everything by then, `closed` gets std::errc::timed_out. No on_message any
  /// more.
  void close() noexcept;
  /// The same with other times: how long it waits without progress, and in all. Called again, it can
  /// make the end only earlier.
  void close(std::chrono::nanoseconds timeout) noexcept;
  void close(std::chrono::nanoseconds timeout, std::chrono::nanoseconds limit) noexcept;
  /// Ends it at once: drops what waits, and resets the connection. `closed` gets
  /// std::errc::connection_aborted. Idempotent.
  void abort() noexcept { abort(std::make_error_code(std::errc::connection_aborted)); }
  void abort(std::error_code why) noexcept;

  /// As connection_options::idle_timeout, for this connection alone, from now on; zero: never.
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
  // Why it does not read.
  enum : std::uint8_t { paused_by_program = 1, paused_by_output = 2 };
  // What handlers the loop has still to call.
  enum : std::uint8_t {
    write_complete_due = 1,
    high_water_due = 2,
    low_water_due = 4,
    left_over_due = 8,  // and then to receive
    readable_due = 16,  // which the kernel has told already
  };

  tcp_connection(detail::connection_group& group, int fd, std::uint64_t id, const endpoint& peer);
  ~tcp_connection();
  static void* operator new(std::size_t bytes);
  static void operator delete(void* memory, std::size_t bytes) noexcept;

  static void on_received(io::request& asked, io::result what);
  static void on_written(io::request& asked, io::result what);
  static void on_room(io::request& asked, io::result what);
  static void on_readable(io::request& asked, io::result what);
  static void on_timer(timer_operation& timer);
  static void on_message_timer(timer_operation& timer);
  static void on_write_timer(timer_operation& timer);
  static void on_later(operation& later);

  // Called by the loop.
  void begin();
  void receive(std::span<const std::byte> bytes);
  void receive_behind_rest(std::span<const std::byte> bytes);
  void keep(std::span<const std::byte> rest);
  void hear_left_over();
  void receiving_failed(std::error_code why) noexcept;
  void peer_has_ended();
  void timer_expired();
  void end_if_idle(std::uint32_t present) noexcept;
  void message_timer_expired();
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

  std::span<iovec> next_pieces() noexcept;
  void output_has_shrunk() noexcept;
  void watch_output() noexcept;
  void write_timer_expired() noexcept;

  // Files and descriptors.
  detail::attached_output& attached();
  std::size_t cost_of_descriptors(std::size_t count) const noexcept;
  bool send_attachment() noexcept;
  std::error_code send_file_part(bool& done) noexcept;
  std::error_code send_descriptors(bool& done) noexcept;
  void attachment_failed(std::error_code why) noexcept;
  void prepare_for_descriptors();
  void receive_with_descriptors();
  bool keep_descriptors(std::vector<unique_fd> came);

  // Ending.
  void drop_output() noexcept;
  void end_sending() noexcept;
  void tell_peer() noexcept;
  void linger() noexcept;
  void limit_closing(std::chrono::nanoseconds timeout, std::chrono::nanoseconds limit);
  void closing_timer_expired();
  std::uint64_t bytes_taken_by_peer() const noexcept;
  void end(std::error_code why, ending how) noexcept;

  void start_receiving() noexcept;
  void pause(std::uint8_t why) noexcept;
  void resume(std::uint8_t why) noexcept;
  bool update_held_bytes() noexcept;
  void call_later(std::uint8_t due) noexcept;
  void start_timer(timer_operation& timer, const detail::progress_watch& watch);
  void stop_timer() noexcept;
  void stop_timers() noexcept;
  detail::connection_extra& extra();
  io::backend& io() const noexcept;

  // What a message touches: two cache lines, the first of which begins with the handle.
  detail::connection_group* group_;
  detail::connection_extra* extra_ = nullptr;  // what few connections need
  std::uint64_t messages_ = 0;
  phase phase_ = phase::open;
  std::uint8_t paused_ = 0;  // why it does not read: a set
  bool shut_ = false;        // shutdown_send() was called
  bool told_ = false;        // that no more will come: the kernel was
  bool peer_done_ = false;   // it sends no more
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
  bool peer_is_ip_;  // and known; else the kernel is asked
  bool has_own_idle_timeout_ = false;
  // What end_if_idle() saw the last time that something had moved, and when.
  std::uint32_t idle_moved_ = 0;
  std::uint32_t idle_since_ = 0;
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
  /// loop, where each call counts 1 KiB besides its bytes: so a thread that sends faster than the loop
  /// gets to it is held back, not the memory used up. One call alone is only held to its bytes, and one
  /// without bytes does nothing.
  bool send(std::span<const std::byte> bytes) const;
  bool send(std::string_view text) const { return send(std::as_bytes(std::span(text))); }
  bool send(io::buffer&& bytes) const;
  /// As tcp_connection::close() and abort(). Never refused: however often they are called, by whomever,
  /// each is posted once.
  bool close() const;
  bool abort() const;
  /// Calls `function` with the connection on its loop; destroys it uncalled if that has ended. Also
  /// false, and destroys it, above the limit of send(), of which each call takes 1 KiB. What the function
  /// holds besides is the program's to limit.
  bool post(move_only_function<void(tcp_connection&)> function) const;
  /// The connection, or null when it has ended. The loop's thread only.
  tcp_connection* get() const noexcept;

  friend bool operator==(const tcp_connection_ref&, const tcp_connection_ref&) noexcept = default;

 private:
  friend class tcp_connection;
  explicit tcp_connection_ref(detail::connection_control& control) noexcept;
  template <class Function>
  void post_always(Function function) const;
  template <class Get>
  bool post_bytes(std::size_t size, Get get) const;
  detail::connection_control* control_ = nullptr;
};

}  // namespace gyre::net
