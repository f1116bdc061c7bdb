// SPDX-License-Identifier: Apache-2.0
// layer: a protocol between the bytes of the network and those of a program, as a state machine
// without I/O, such as TLS.
//
//     class mask final : public gyre::net::layer {
//      public:
//       status read(std::span<std::byte> room, std::size_t& count) override {
//         count = std::min(room.size(), unread().size());
//         std::ranges::transform(unread().first(count), room.begin(), masked);
//         consume(count);
//         return count > 0 ? status::done : status::wants_input;
//       }
//       status peek() override { return unread().empty() ? status::wants_input : status::done; }
//       status write(std::span<const std::byte> bytes) override {
//         std::ranges::transform(bytes, output().prepare(bytes.size()).begin(), masked);
//         output().commit(bytes.size());
//         return status::done;
//       }
//     };
//
// docs/guide/layers.md writes one with messages, a checksum and an end.
#pragma once

#include <gyre/base/duration.hpp>
#include <gyre/io/buffer.hpp>
#include <gyre/net/endpoint.hpp>

#include <chrono>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <system_error>

namespace gyre::net {

/// One end of a protocol on one connection. The owner of the connection feeds the layer received
/// bytes, reads plain bytes from it, writes plain bytes to it, and sends its output.
///
/// | phase       | handshake()         | read(), peek()    | write(), end()       |
/// |-------------|---------------------|-------------------|----------------------|
/// | handshake   | goes to established | -                 | -                    |
/// | established | -                   | until has_ended() | while it may_write() |
/// | failed      | -                   | fails             | -                    |
///
/// An operation that fails may have written the protocol's last message, which is still sent.
/// Output of a handshake is sent before more is received: two sides that each begin with more than
/// the kernel buffers would wait for each other.
///
/// Thread-safety: none; one thread at a time, of the connection's loop.
/// Lifetime: stays where it is. Fed bytes and the output buffer must outlive each operation. An
/// operation must not destroy the connection, its server or its client.
/// Errors: operations return status::failed, and why() tells the reason; only std::bad_alloc is
/// thrown.
class layer {
 public:
  /// The outcome of an operation.
  enum class status {
    done,
    wants_input,  ///< the operation cannot continue before more bytes are fed
    ended,        ///< the peer has announced the end of its bytes
    failed,       ///< see why(); the connection is closed
  };
  /// The reason of a failure. `text` has details that the message of the code lacks.
  struct failure {
    std::error_code code = {};
    std::string text = {};
  };

  layer() noexcept = default;
  layer(const layer&) = delete;
  layer& operator=(const layer&) = delete;
  virtual ~layer() = default;

  // --- For the owner of the connection ---

  /// Names received bytes, to be read after those that keep_unread() has kept. They must stay until
  /// the layer has read them, or keep_unread() is called. Throws std::bad_alloc.
  void feed(std::span<const std::byte> bytes);
  std::span<const std::byte> unread() const noexcept { return unread_; }
  /// Copies the unread bytes, because the memory in which they came is needed; drops them after
  /// the peer's end or a failure. Throws std::bad_alloc.
  void keep_unread();
  /// Sets the buffer to which operations append the bytes to be sent.
  void send_to(io::buffer& output) noexcept { output_ = &output; }

  /// Called in a server before the handshake with tcp_server_options::application_protocols, which
  /// outlive the layer.
  virtual void offer_protocols(std::span<const std::string> /*protocols*/) noexcept {}
  /// Continues the handshake with the bytes that were fed. Bytes that came after it stay unread.
  virtual status handshake() { return status::done; }
  /// Whether the handshake is done, or the protocol has none.
  bool is_established() const noexcept { return is_established_; }
  /// Returns the time limit of a handshake, or zero for none; timeout_error() returns the error of
  /// a handshake that exceeds it.
  virtual duration handshake_timeout() const noexcept { return std::chrono::seconds{10}; }
  virtual std::error_code timeout_error() const noexcept;
  /// Whether a step computes for so long that steps should take turns; see
  /// loop_options::heavy_time.
  virtual bool has_heavy_handshake() const noexcept { return true; }
  /// Returns the largest number of bytes that may be received at once within the handshake. With
  /// fewer than 16 KiB, nothing beyond the handshake is taken from the socket, so that descriptors
  /// which come with later bytes stay there.
  virtual std::size_t max_input() const noexcept { return std::size_t(-1); }
  /// Returns roughly how many bytes of memory the handshake holds, for the memory limit of a
  /// server.
  virtual std::size_t held_by_handshake() const noexcept { return 0; }

  /// Writes up to `buffer.size()` plain bytes to `buffer`. `count` bytes are valid even if the
  /// layer then failed or ended, which the next call reports. With status done, there is at least
  /// one byte. A layer bounds the bytes that it leaves unread.
  virtual status read(std::span<std::byte> buffer, std::size_t& count) = 0;
  /// Returns done if read() would give bytes, otherwise the status of read().
  virtual status peek() = 0;
  /// Whether write() and end() may be called. If not, read() or peek() must first be fed more
  /// bytes, and gives no plain bytes before.
  virtual bool may_write() const noexcept { return true; }
  /// Takes all of `bytes`, at least one. May keep output back until end().
  virtual status write(std::span<const std::byte> bytes) = 0;
  /// Announces the end of this side's bytes; further calls do nothing. Throws std::bad_alloc.
  virtual void end() { end_announced_ = true; }
  bool has_announced_end() const noexcept { return end_announced_; }

  /// Whether the peer has announced the end of its bytes, in a way that cannot be forged.
  bool has_ended() const noexcept { return has_peer_ended_; }
  /// Whether a message has been received only in part.
  virtual bool awaits_rest() const noexcept { return !unread_.empty(); }
  /// Returns the error if the connection ended now; none if that were a regular end.
  virtual std::error_code end_of_bytes() const noexcept;
  const failure& why() const noexcept { return failure_; }
  /// Returns the error after an operation has failed: std::errc::protocol_error if the layer named
  /// none.
  std::error_code error() const noexcept;

  /// Whether a server may serve `host`, a name without a port, on the established connection: false
  /// if the client has asked for a server of another identity.
  virtual bool covers_host(std::string_view host) const;

  /// Returns the protocol above the layer that both ends have agreed on, such as "h2" by ALPN;
  /// empty if they have not.
  virtual std::string_view application_protocol() const noexcept { return {}; }

  /// Returns texts for error messages: the name of the class of the operations, and the name of the
  /// peer, if any.
  virtual std::string_view stream_name() const noexcept { return "gyre::net::layered_stream"; }
  virtual std::string_view peer_name() const noexcept { return {}; }

  /// Calls read(), but never returns done without a byte, even if the layer does.
  status take(std::span<std::byte> buffer, std::size_t& count);
  /// Appends all plain bytes that can be read to `output`; never done. Throws std::bad_alloc.
  status read_all(io::buffer& output);

 protected:
  io::buffer& output() noexcept { return *output_; }
  /// Notes that the first `count` unread bytes were read.
  void consume(std::size_t count) noexcept { unread_ = unread_.subspan(count); }
  status fail(std::error_code code, std::string text = {});

  std::span<const std::byte> unread_;
  io::buffer* output_ = nullptr;
  failure failure_;
  bool is_established_ = true;  // false at first in a layer with a handshake
  bool has_peer_ended_ = false;
  bool end_announced_ = false;

 private:
  bool is_kept() const noexcept;

  io::buffer kept_bytes_;
};

/// Makes the layers of a server's or a client's connections; see tcp_server_options::transport.
///
/// Thread-safety: the loops of a server call it at the same time, so its functions are const and
/// must synchronise what they change.
/// Lifetime: servers and clients share it; it lives until the last of them has been destroyed.
/// Errors: make_layer() and handshake_failed() say which exceptions they may throw.
class transport {
 public:
  transport() noexcept = default;
  transport(const transport&) = delete;
  transport& operator=(const transport&) = delete;
  virtual ~transport() = default;

  /// Not null. `host`: the server's name or address, for a client. Throws std::system_error,
  /// std::bad_alloc. Another exception of a client's transport ends the attempt to connect with
  /// std::errc::protocol_error; one of a server's leaves the turn of its loop.
  virtual std::unique_ptr<layer> make_layer(std::string_view host) const = 0;
  /// Called on the loop when a server's handshake has failed, and its connection has been closed
  /// and counted; a client reports that itself. `protocol` may be null. Exceptions leave the turn
  /// of the loop.
  virtual void handshake_failed(const endpoint& peer, std::error_code reason,
                                const layer* protocol) const;
};

namespace detail {

/// Returns a layer of `factory`. If `factory` returns null, throws std::system_error
/// (std::errc::invalid_argument).
std::unique_ptr<layer> make_layer(const transport& factory, std::string_view host);

}  // namespace detail

}  // namespace gyre::net
