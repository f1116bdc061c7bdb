// SPDX-License-Identifier: Apache-2.0
// websocket_session: the frames of one end of a WebSocket, without I/O. It knows no transport, and
// no time.
//
//     std::span<const std::byte> input = received_bytes;
//     while (session.next(input, receiving::messages) == websocket_session::event::message) {
//       use(session.data());
//     }
//     if (session.has_control_output()) session.append_control(output);
#pragma once

#include <gyre/http/detail/message_deflate.hpp>
#include <gyre/http/detail/utf8_validator.hpp>
#include <gyre/http/detail/websocket_frame.hpp>
#include <gyre/http/detail/websocket_handshake.hpp>
#include <gyre/http/detail/websocket_receive.hpp>
#include <gyre/http/detail/websocket_settings.hpp>
#include <gyre/http/websocket_error.hpp>
#include <gyre/http/websocket_message.hpp>
#include <gyre/http/websocket_options.hpp>
#include <gyre/io/buffer.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace gyre::http::detail {

struct encoded_message;

/// Throws std::invalid_argument for a code that must not be sent, and for a reason that is too long
/// or not UTF-8.
void check_close(close_code code, std::string_view reason);

enum class websocket_role : std::uint8_t { server, client };

/// Both directions of one end. After the peer's Close frame, or a failure, the rest of the input is
/// dropped; the reply, or this side's Close frame, is then in the control output.
///
/// | received | control output | next() gives |
/// |---|---|---|
/// | a message, or a piece of one | | message |
/// | Ping | Pong | the next event |
/// | Close, the first of both sides | Close with the peer's code | closed |
/// | Close, after this side's | | closed |
/// | a violation of the protocol or of a limit | Close, unless it was sent | failed |
///
/// An idle session holds 28 bytes. The state of a frame or a message that comes is allocated with
/// its first byte, and left to the other sockets of the thread.
///
/// Thread-safety: none.
/// Errors: std::bad_alloc.
class websocket_session {
 public:
  enum class event : std::uint8_t { wants_input, message, closed, failed };

  /// `compression`: the options of this side if `agreement` has permessage-deflate.
  websocket_session(websocket_role role, settings_pointer settings,
                    const websocket_compression& compression, websocket_agreement agreement);
  websocket_session(const websocket_session&) = delete;
  websocket_session& operator=(const websocket_session&) = delete;
  ~websocket_session();

  // --- Receiving ---

  /// Consumes input up to the next event, and drops the data of the last one.
  event next(std::span<const std::byte>& input, receiving mode);
  /// Returns the message after event::message. Valid until next().
  websocket_message data() const noexcept {
    return {.kind = incoming_->kind,
            .bytes = incoming_->message.bytes(),
            .is_last = incoming_->is_last};
  }
  /// Whether a message or a frame has come in part.
  bool is_within_message() const noexcept {
    return incoming_ != nullptr && (incoming_->has_message || incoming_->header_size != 0 ||
                                    incoming_->state != state::header);
  }
  /// Returns the reason of event::failed.
  websocket_errc error() const noexcept { return static_cast<websocket_errc>(error_); }
  bool has_received_close() const noexcept { return received_close_ != close_code(); }
  std::optional<close_code> received_close() const noexcept {
    if (!has_received_close()) return std::nullopt;
    return received_close_;
  }
  std::string_view received_reason() const noexcept {
    return control() != nullptr ? std::string_view(control()->received_reason) : std::string_view();
  }

  // --- Sending ---

  bool has_sent_close() const noexcept { return has_sent_close_; }
  void send_ping();
  /// Sends a Close frame, unless one was sent.
  void send_close(close_code code, std::string_view reason);
  /// Whether there are control frames to send.
  bool has_control_output() const noexcept {
    return control() != nullptr && (!control()->output.empty() || control()->has_late_pong);
  }
  /// Appends the control frames to `output`.
  void append_control(io::buffer& output);

  /// Appends the header of a server's message of `size` bytes, which the caller sends afterwards
  /// without a copy.
  void append_header(websocket_kind kind, std::size_t size, io::buffer& output);
  /// Begins a message. Until append_data() returns true, nothing else may be sent.
  void begin_message(websocket_kind kind, std::size_t size);
  /// Appends frames of the message, some 64 KiB at most, and removes their bytes from `rest`.
  /// Returns true at the end of the message.
  bool append_data(std::span<const std::byte>& rest, io::buffer& output);
  /// Returns the largest window for which a message compressed elsewhere may be sent: nothing if
  /// messages must not be compressed, or refer to earlier ones.
  std::optional<unsigned> shared_window_bits() const noexcept;
  /// Returns the frames of a message that was encoded for servers, compressed if they may be.
  std::span<const std::byte> frames_of(const encoded_message& message) const noexcept;
  bool is_compressed() const noexcept { return packing() != nullptr; }
  websocket_role role() const noexcept { return role_; }
  const websocket_settings& settings() const noexcept { return *settings_; }
  std::string_view subprotocol() const noexcept {
    return extras_ != nullptr ? std::string_view(extras_->subprotocol) : std::string_view();
  }

 private:
  enum class state : std::uint8_t { header, payload };
  // Control frames that come or wait to be sent; an idle socket has none.
  struct control_frames {
    std::array<std::byte, websocket_header::max_control> payload;  // of the frame that comes
    io::buffer output{{.prepend = 0}};
    std::string late_pong;  // the newest Pong of those that exceed max_control_output
    bool has_late_pong = false;
    std::string received_reason;  // of the peer's Close frame
  };
  // The frame or the message that comes, and the memory of the message.
  struct incoming {
    io::buffer message{{.prepend = 0}};
    websocket_header header;
    std::uint64_t position = 0;  // received bytes of the payload
    std::size_t checked = 0;     // bytes of `message` that were checked as text
    std::array<std::byte, websocket_header::max_size> header_bytes{};
    std::uint8_t header_size = 0;  // received bytes of a header
    utf8_validator text;
    websocket_session::state state = state::header;
    websocket_kind kind = websocket_kind::text;
    bool has_message = false;   // whether a message has begun and not ended
    bool is_packed = false;     // whether that message is compressed
    bool is_delivered = false;  // whether the program has data()
    bool is_last = false;       // whether data() ends its message
    bool has_end = false;       // whether the inflater has the end of the message
  };
  template <class T>
  class spare;
  // The progress of a message that is sent in several steps.
  struct outgoing {
    websocket_header header;
    std::uint64_t sent = 0;  // bytes of the frame that were sent
    bool is_packed = false;  // whether the message is compressed
    bool is_first = true;    // whether no frame of the message was sent
  };
  // The state of permessage-deflate, if both sides have agreed on it.
  struct packing_state {
    websocket_compression options;
    deflate_agreement agreement;
    std::unique_ptr<message_inflater> inflater = {};
    std::unique_ptr<message_deflater> deflater = {};
  };
  // A mask_supply holds random bytes for masks.
  struct mask_supply {
    std::array<std::byte, 64> bytes{};
    std::size_t used = sizeof(bytes);
  };
  // An extra_state holds what few sockets need, in a block of its own.
  struct extra_state {
    std::string subprotocol = {};
    std::optional<packing_state> packing = {};
    std::optional<mask_supply> masks = {};  // of a client
    std::optional<outgoing> sending = {};   // the message that is being sent
    std::unique_ptr<control_frames> control = {};
  };

  packing_state* packing() const noexcept {
    return extras_ != nullptr && extras_->packing ? &*extras_->packing : nullptr;
  }
  control_frames* control() const noexcept {
    return extras_ != nullptr ? extras_->control.get() : nullptr;
  }
  std::size_t max_message() const noexcept { return settings_->limits.message; }
  extra_state& extras();
  control_frames& make_control();
  void drop_message() noexcept;
  void trim_control() noexcept;
  event fail(websocket_errc reason);
  bool take_header(std::span<const std::byte>& input, websocket_header& header);
  bool collect_header(std::span<const std::byte>& input, websocket_header& header);
  websocket_errc check_header(const websocket_header& header, receiving mode) const noexcept;
  bool take_whole_message(const websocket_header& header, std::span<const std::byte>& input);
  void begin_frame(const websocket_header& header);
  event deliver(bool is_last) noexcept;
  std::optional<event> take_control(std::span<const std::byte>& input);
  std::optional<event> end_control();
  std::optional<event> end_close();
  std::optional<event> take_data(std::span<const std::byte>& input, receiving mode);
  std::optional<event> take_packed(std::span<const std::byte>& input, receiving mode);
  std::optional<event> end_frame();
  bool check_text() noexcept;
  void copy_payload(std::span<const std::byte>& input, std::span<std::byte> target) noexcept;
  void append_control_frame(websocket_opcode opcode, std::span<const std::byte> payload,
                            io::buffer& output);
  void append_frame(websocket_header header, std::span<const std::byte> payload,
                    io::buffer& output);
  bool append_packed(outgoing& message, std::span<const std::byte>& rest, io::buffer& output);
  bool append_plain(outgoing& message, std::span<const std::byte>& rest, io::buffer& output);
  websocket_mask next_mask();
  void set_mask(websocket_header& header);
  void append_header(websocket_header& header, io::buffer& output);

  static constexpr std::size_t max_control_output = std::size_t{2} << 10;
  static constexpr std::size_t max_piece = std::size_t{64} << 10;

  const settings_pointer settings_;
  std::unique_ptr<extra_state> extras_;
  std::unique_ptr<incoming> incoming_;  // null while nothing comes
  close_code received_close_{};         // zero before the peer's Close frame
  std::uint8_t error_ = 0;              // a websocket_errc
  const websocket_role role_ : 1;
  bool has_sent_close_ : 1 = false;
  websocket_kind sending_kind_ : 1 = websocket_kind::text;  // of the message that begins
};

}  // namespace gyre::http::detail
