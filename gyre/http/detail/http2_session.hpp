// SPDX-License-Identifier: Apache-2.0
// http2_session: one side of an HTTP/2 connection (RFC 9113), without I/O: received bytes become
// events, and messages become frames.
//
//     http2_session session(limits, head_limits);
//     while (!input.empty() && session.receive(input, now)) {
//       while (auto event = session.next_event()) …  // a request, body bytes, an end
//     }
//     session.respond(stream, head, &body);
//     while (session.append_output(output)) …  // send the output
#pragma once

#include <gyre/base/clock.hpp>
#include <gyre/base/detail/token_bucket.hpp>
#include <gyre/http/detail/head_scanner.hpp>
#include <gyre/http/detail/header_block.hpp>
#include <gyre/http/detail/stream_history.hpp>
#include <gyre/http/http2_client_options.hpp>
#include <gyre/http/http2_options.hpp>
#include <gyre/io/buffer.hpp>
#include <gyre/io/input.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

struct nghttp2_session;

namespace gyre::http::detail {

/// Error codes of RST_STREAM and GOAWAY (RFC 9113, 7).
enum class http2_error : std::uint32_t {
  none = 0x0,
  protocol_error = 0x1,
  internal_error = 0x2,
  flow_control_error = 0x3,
  settings_timeout = 0x4,
  stream_closed = 0x5,
  frame_size_error = 0x6,
  refused_stream = 0x7,
  cancel = 0x8,
  compression_error = 0x9,
  connect_error = 0xa,
  enhance_your_calm = 0xb,
  inadequate_security = 0xc,
  http_1_1_required = 0xd,
};

/// Returns the code's name of RFC 9113, or its number.
std::string name_of(http2_error error);

/// The limit that a hostile peer has exceeded, so that the connection was ended.
enum class http2_abuse : std::uint8_t { none, frames, resets, provoked_resets, fields, memory };

/// The side of a connection that a session speaks for.
enum class http2_role : bool { server, client };

/// The body of a message, from which the session takes bytes when they may be sent.
///
/// Lifetime: must outlive its stream, which ends with an event `closed`.
class http2_body_source {
 public:
  struct offer {
    std::size_t size;  ///< bytes that can be taken now, at most `max_size`
    bool is_last;      ///< whether the body ends with these bytes
  };

  http2_body_source() = default;
  http2_body_source(const http2_body_source&) = delete;
  http2_body_source& operator=(const http2_body_source&) = delete;

  /// If there are none, and the body has not ended, the session asks again after resume().
  virtual offer offer_bytes(std::size_t max_size) noexcept = 0;
  /// Appends `size` bytes, as they were offered. Returns false if that fails: the stream is reset.
  virtual bool take_bytes(io::buffer& output, std::size_t size) = 0;
  /// Returns the fields after the body; null or empty if there are none.
  virtual const header_block* trailers() const noexcept = 0;

 protected:
  ~http2_body_source() = default;
};

/// Something that has happened on a stream.
struct http2_event {
  enum class kind : std::uint8_t {
    request,   ///< a whole head has come, which head() returns
    response,  ///< in a client: like `request`, with the head of a final response
    interim,   ///< in a client: like `response`, with the head of an interim response
    refused,   ///< like `request` or `response`, but fields exceed their limits; head() lacks some
    data,      ///< bytes of a body
    end,       ///< the whole body has come; head() has the trailers
    sent,      ///< a head or trailers of this side have become frames
    closed,    ///< the stream is gone
  };

  kind what;
  bool is_end = false;  ///< of `request` and `response`: whether the message has no body
  std::int32_t stream = 0;
  void* owner = nullptr;                  ///< see set_owner()
  std::span<const std::byte> bytes = {};  ///< of `data`: a part of the input
  /// The reason of `closed`. REFUSED_STREAM also says that the request was never sent, or is above
  /// the last stream of a GOAWAY.
  http2_error error = http2_error::none;
  bool is_own_reset = false;  ///< of `closed`: whether this side has reset the stream
};

/// The state of one connection.
///
/// | event            | idle    | open               | half-closed (remote) | closed        |
/// |------------------|---------|--------------------|----------------------|---------------|
/// | HEADERS          | open    | end, with trailers | error                | ignored (1)   |
/// | DATA             | error   | data               | error                | dropped (2)   |
/// | END_STREAM       | -       | half-closed; end   | -                    | -             |
/// | RST_STREAM       | error   | closed             | closed               | ignored       |
/// | respond(), whole | -       | half-closed (3)    | closed               | -             |
/// | reset()          | -       | closed             | closed               | -             |
///
/// 1. The fields still change the header tables. 2. The connection's window gets credit. 3. After
/// the last byte, the stream is reset with NO_ERROR (RFC 9113, 8.1), which closes it.
///
/// The table is that of a server. In a client, request() opens a stream, and the server's HEADERS
/// are an interim or final response, or trailers. A PUSH_PROMISE ends the connection.
///
/// Thread-safety: none.
/// Errors: std::bad_alloc. Errors of the peer end a stream or the session: see is_over().
/// Complexity: the peer can make the session hold http2_options::session_memory. Messages of this
/// side come on top, until they are sent: their fields are copied, and no bodies but into the
/// output.
class http2_session {
 public:
  /// The bytes of each body that the client may send at once, unless http2_options::stream_window
  /// is smaller.
  static constexpr std::uint32_t max_initial_window = std::uint32_t{6} << 10;
  /// The largest head or trailers that can be sent, by header_block::cost(). A stream with longer
  /// ones is reset with INTERNAL_ERROR, or a request is closed without being sent.
  static constexpr std::size_t max_sent_head = std::size_t{1} << 20;
  /// The longest name or value that can be sent. Receivers with nghttp2 end the connection for a
  /// longer one.
  static constexpr std::size_t max_sent_text = std::size_t{64} << 10;
  static constexpr std::size_t unlimited_work = std::numeric_limits<std::size_t>::max();
  /// The least value of http2_options::session_memory: nghttp2 holds half of it at the beginning.
  static constexpr std::size_t min_memory = std::size_t{64} << 10;

  /// Begins the connection with SETTINGS in the output. `fields`: the limits of a request's fields,
  /// where each field counts 32 bytes more than its text.
  http2_session(const http2_options& options, const head_limits& fields);
  /// Begins a client's side with the preface and SETTINGS in the output. `fields`: the limits of a
  /// response's fields.
  http2_session(const http2_client_options& options, const head_limits& fields);
  http2_session(const http2_session&) = delete;
  http2_session& operator=(const http2_session&) = delete;
  ~http2_session();

  /// Consumes up to the end of a frame, or a part of a head whose work is hardly more than
  /// `max_work`: see take_work(). Handle all events afterwards, before the input's bytes are gone.
  /// Returns false if the session reads no more input; see is_over().
  bool receive(io::input& input, steady_time time, std::size_t max_work = unlimited_work);
  [[nodiscard]] std::optional<http2_event> next_event();
  /// Returns the fields of the last `request`, `refused` or `end`, until next_event() has returned
  /// nothing.
  const header_block& head() const noexcept { return head_; }
  /// Moves the fields of head() out, which has none until the next head has come.
  header_block take_head() noexcept;
  /// Returns the work that the peer's frames have caused since the last call, in bytes: those of
  /// fields once they are decoded, and a number for each field and each frame.
  [[nodiscard]] std::size_t take_work() noexcept { return std::exchange(work_, 0); }
  /// Whether a head has come in part.
  bool awaits_rest_of_head() const noexcept {
    return block_is_open_ || (rest_of_frame_ != 0 && frame_is_head_);
  }

  /// Sets the value that later events of the stream have as `owner`.
  void set_owner(std::int32_t stream, void* owner) noexcept;
  /// Whether a head or trailers are within max_sent_head and max_sent_text.
  [[nodiscard]] static bool may_send(const header_block& head) noexcept;
  /// Sends a response, of which `head` begins with ":status". `body` is null if there is none.
  void respond(std::int32_t stream, const header_block& head, http2_body_source* body);
  /// Sends a request, of which `head` begins with the pseudo-header fields, on a new stream with
  /// `owner`. `body` is null if there is none. Returns the stream; 0 if no stream can be opened any
  /// more.
  std::int32_t request(const header_block& head, http2_body_source* body, void* owner);
  /// Whether request() may open another stream: the server has not announced the end, and there are
  /// identifiers left.
  bool may_request() const noexcept;
  /// Returns the maximum of streams that the server allows at a time.
  std::uint32_t max_requests() const noexcept;
  /// Whether the server's SETTINGS have come.
  bool has_settings() const noexcept { return has_settings_; }
  /// Whether the server's SETTINGS allow an extended CONNECT (RFC 8441).
  bool allows_websockets() const noexcept;
  /// Sends a PING, for which the peer must send one back.
  void ping();
  /// Sends an interim response.
  void send_interim(std::int32_t stream, const header_block& head);
  /// Must be called when a body has bytes, or its end, after it had none.
  void resume(std::int32_t stream) noexcept;
  void reset(std::int32_t stream, http2_error error);
  /// Lets the peer send `size` bytes of a body, of which those without credit count.
  void set_window(std::int32_t stream, std::size_t size) noexcept;
  /// Returns how many bytes of a body the peer may still send.
  std::size_t window(std::int32_t stream) const noexcept;
  /// Returns how many bytes of all bodies the peer may still send.
  std::size_t connection_window() const noexcept;
  /// Returns how many bytes of a body the peer lets this side send: by the window of the stream and
  /// by that of the connection.
  std::size_t send_window(std::int32_t stream) const noexcept;
  /// Whether the peer has acknowledged SETTINGS since the last call, which changes all windows.
  [[nodiscard]] bool take_acknowledgement() noexcept {
    return std::exchange(has_acknowledged_, false);
  }
  /// Returns credit, so that the peer may send more of a body.
  void credit_stream(std::int32_t stream, std::size_t count) noexcept;
  void credit_connection(std::size_t count) noexcept;

  /// Announces that the connection will end. Requests on their way are still served.
  void announce_end();
  /// Ends the connection after the streams that have begun; later ones are ignored.
  void end();
  /// Ends the connection at once, with GOAWAY.
  void fail(http2_error error);
  /// Whether no more frames are received or sent: close the connection.
  bool is_over() const noexcept;
  /// The limit that the peer has exceeded, if any.
  http2_abuse abuse() const noexcept { return abuse_; }

  /// Appends at most one frame, from each stream that may send in turn. Returns false if there is
  /// no more.
  bool append_output(io::buffer& output, steady_time time);
  /// Returns the bytes that the protocol's state holds.
  std::size_t memory() const noexcept { return memory_; }

 private:
  struct callbacks;
  friend callbacks;

  // While an own_message exists, nghttp2's allocations count as caused by this side.
  class own_message {
   public:
    explicit own_message(http2_session& session) noexcept : session_(session) {
      session_.is_of_peer_ = false;
    }
    own_message(const own_message&) = delete;
    own_message& operator=(const own_message&) = delete;
    ~own_message() { session_.is_of_peer_ = true; }

   private:
    http2_session& session_;
  };

  bool is_client() const noexcept { return role_ == http2_role::client; }
  bool is_response(bool is_first) const noexcept;
  bool owes_response(std::uint32_t stream) const noexcept;
  http2_event::kind kind_of_response() const noexcept;
  [[nodiscard]] std::size_t pass_on(std::span<const std::byte> bytes, std::size_t max_work);
  void begin_frame(std::span<const std::byte> header, steady_time time);
  http2_error judge_stream(std::uint32_t type, std::uint32_t stream) const noexcept;
  void read_dependency(std::span<const std::byte> payload);
  bool charge_provoked_resets(steady_time time);
  void note_abuse(http2_abuse kind) noexcept;
  void end_abuse();
  void check_result(int result);
  void submit_trailers();
  void reset_ended_streams();
  void reset_unsendable_streams();
  bool append_final_goaway(io::buffer& output);

  nghttp2_session* session_ = nullptr;
  const http2_role role_;
  const head_limits limits_;
  const std::size_t max_memory_;
  const std::uint32_t max_continuations_;
  std::size_t memory_ = 0;
  std::size_t peer_memory_ = 0;  // the part of memory_ that the peer has caused
  header_block head_;
  std::size_t head_cost_ = 0;
  std::size_t work_ = 0;
  std::size_t work_of_pause_ = unlimited_work;  // no more fields are decoded above this work
  std::vector<http2_event> events_;
  std::size_t next_event_ = 0;
  std::vector<std::int32_t> ended_early_;  // streams whose response has ended before the request
  // Streams whose head or trailers nghttp2 has refused.
  std::vector<std::int32_t> unsendable_streams_;
  struct pending_trailers {
    std::int32_t stream;
    const header_block* fields;
  };
  std::vector<pending_trailers> awaiting_trailers_;
  io::buffer* output_ = nullptr;  // the buffer of the running append_output()
  // How many bytes of the current frame, or of the preface, have yet to come.
  std::size_t rest_of_frame_;
  std::array<std::byte, 9> frame_header_{};
  std::size_t frame_header_size_ = 0;
  gyre::detail::token_bucket frames_;
  gyre::detail::token_bucket resets_;
  gyre::detail::token_bucket provoked_resets_;
  std::uint32_t provoked_count_ = 0;  // the server's resets that were not yet charged
  stream_history history_;
  std::uint32_t frame_stream_ = 0;   // the stream of the current frame
  std::uint32_t dependency_ = 0;     // the stream that the current PRIORITY frame names
  unsigned dependency_bytes_ = 0;    // how many bytes of dependency_ have yet to come
  std::uint32_t continuations_ = 0;  // the number of CONTINUATION frames of the current head
  std::int32_t last_stream_ = 0;
  std::int32_t unsent_stream_ = 0;  // the latest stream whose request was not sent
  std::int32_t reset_stream_ = 0;   // the latest stream that this side has reset
  http2_abuse abuse_ = http2_abuse::none;
  bool block_is_open_ = false;  // whether a CONTINUATION frame must follow
  bool frame_is_head_ = false;  // whether the current frame is HEADERS or CONTINUATION
  bool head_is_refused_ = false;
  bool head_is_ignored_ = false;  // whether nghttp2 decodes the head and passes on no fields
  bool is_paused_ = false;        // whether a field has exceeded work_of_pause_
  bool is_of_peer_ = true;        // whether the peer causes the present allocations
  bool has_acknowledged_ = false;
  bool has_settings_ = false;
  bool has_failed_ = false;  // whether nghttp2 cannot continue, because memory was missing
  bool has_sent_final_goaway_ = false;  // whether GOAWAY was sent after has_failed_
};

}  // namespace gyre::http::detail
