// SPDX-License-Identifier: Apache-2.0
// framed: messages over a stream of bytes, for coroutines: a stream, a framing and their buffers.
//
//     gyre::net::framed lines(std::move(peer), gyre::net::delimited("\n"));
//     while (auto line = co_await lines.next()) {  // a std::string_view
//       co_await lines.send(*line);
//     }
#pragma once

#include <gyre/io/buffer.hpp>
#include <gyre/io/error.hpp>
#include <gyre/io/stream.hpp>
#include <gyre/net/framing.hpp>
#include <gyre/net/read_frame.hpp>
#include <gyre/task/task.hpp>

#include <concepts>
#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>

namespace gyre::net {

/// The payload of a message: text if it is `delimited`, bytes of another framing.
template <class Framing>
using payload_of = std::conditional_t<std::same_as<Framing, delimited>, std::string_view,
                                      std::span<const std::byte>>;

/// The kinds of a payload: `co_await packets.next<std::string_view>()` gives another than usual.
template <class T>
concept payload_view =
    std::same_as<T, std::string_view> || std::same_as<T, std::span<const std::byte>>;

namespace detail {

/// Marks an operation as under way: only one may run at a time.
class exclusive_use {
 public:
  /// Throws std::system_error (io::errc::busy).
  exclusive_use(bool& in_use, const char* operation) : in_use_(in_use) {
    if (in_use_) throw std::system_error(make_error_code(io::errc::busy), operation);
    in_use_ = true;
  }
  exclusive_use(const exclusive_use&) = delete;
  exclusive_use& operator=(const exclusive_use&) = delete;
  ~exclusive_use() { in_use_ = false; }

 private:
  bool& in_use_;
};

/// Writes all of `source`, and consumes the written bytes; after a stop or an error the rest
/// remains.
task<> write_buffer(io::stream& sink, io::buffer& source);
/// Frees memory that only a long message needed.
void release_memory(io::buffer& buffer) noexcept;

}  // namespace detail

/// A stream of messages over any io::stream: TCP, Unix sockets, pipes. Owns the stream. Without a
/// second argument it takes any io::stream: `framed<delimited> lines(std::move(tcp),
/// delimited("\n"))`.
///
/// One coroutine receives and one sends at a time. To give up in the middle is safe:
/// - next() after a stop, or after a time limit, continues where the earlier call ended;
/// - a send() that is stopped once it has begun leaves the rest of its message, which the next
///   send() or a flush() writes first: the peer never gets half a message, and then another. While
///   pending_output() is not 0, flush() first: a send() that is stopped while it still writes such
///   a rest does not send its own message.
///
/// next() ignores a request to stop while complete messages are buffered. A server that is to end
/// between two pipelined requests asks current_stop_token().
///
/// Memory: for received bytes as read_frame() says; for bytes to send one message, as send() waits
/// until it is written.
///
/// Thread-safety: as io::stream.
/// Lifetime: as io::stream, but may be moved or destroyed only while no operation is under way.
/// Errors: next() fails as read_frame() does. send() and flush() throw std::system_error: those of
/// the framing's encode(), those of writing; io::errc::busy if another coroutine sends.
/// Complexity: allocates one coroutine frame per call, two for a send() that must wait.
template <framing Framing, std::derived_from<io::stream> Stream = io::stream>
class framed {
 public:
  using framing_type = Framing;
  using stream_type = Stream;
  using payload = payload_of<Framing>;

  /// `input_options`: for the buffer of received bytes; its max_size is the largest frame that is
  /// accepted, delimiter or length included. By default the framing's own maximum is the limit.
  framed(Stream stream, Framing format, io::buffer_options input_options = {})
      : stream_(std::move(stream)), framing_(std::move(format)), input_(input_options) {}

  /// Awaited, gives the payload of the next message, valid until the next call, or nothing when the
  /// stream ends after a complete message.
  template <payload_view Payload = payload>
  [[nodiscard]] task<std::optional<Payload>> next() {
    return detail::read_frame_as<Payload>(stream_, framing_, input_);
  }

  /// Sends a message, and waits until the kernel has taken it. `bytes` must live until then, and
  /// may be the bytes that next() gave.
  [[nodiscard]] task<> send(std::span<const std::byte> bytes) {
    const detail::exclusive_use use(is_sending_, "gyre::net::framed::send");
    if (!unsent_output_.empty()) {
      task<> flush_task = detail::write_buffer(stream_, unsent_output_);
      co_await std::move(flush_task);
    }
    framing_.encode(unsent_output_, bytes);
    const std::size_t count = co_await stream_.write_some(unsent_output_.bytes());
    unsent_output_.consume(count);
    if (!unsent_output_.empty()) {
      task<> rest = detail::write_buffer(stream_, unsent_output_);
      co_await std::move(rest);
    }
    detail::release_memory(unsent_output_);
  }
  [[nodiscard]] task<> send(std::string_view text) { return send(std::as_bytes(std::span(text))); }
  /// Writes the rest of a message whose send() was stopped, if there is one.
  [[nodiscard]] task<> flush() {
    const detail::exclusive_use use(is_sending_, "gyre::net::framed::flush");
    task<> write_task = detail::write_buffer(stream_, unsent_output_);
    co_await std::move(write_task);
  }
  /// Returns the number of unsent bytes of a message whose send() was stopped or has failed.
  [[nodiscard]] std::size_t pending_output() const noexcept { return unsent_output_.size(); }

  /// Returns the stream: for its addresses and options, and to shut down or close it.
  [[nodiscard]] Stream& stream() noexcept { return stream_; }
  [[nodiscard]] const Stream& stream() const noexcept { return stream_; }
  [[nodiscard]] Framing& format() noexcept { return framing_; }
  /// Returns the received bytes after the last message, which another protocol on this stream gets
  /// first.
  [[nodiscard]] io::buffer& received() noexcept { return input_; }
  /// Returns the stream, for another protocol, which must take received() as well.
  [[nodiscard]] Stream release() && noexcept { return std::move(stream_); }

 private:
  Stream stream_;
  Framing framing_;
  io::buffer input_;
  io::buffer unsent_output_;
  bool is_sending_ = false;
};

template <class Framing, class Stream>
framed(Stream, Framing) -> framed<Framing, Stream>;
template <class Framing, class Stream>
framed(Stream, Framing, io::buffer_options) -> framed<Framing, Stream>;

}  // namespace gyre::net
