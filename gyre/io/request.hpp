// SPDX-License-Identifier: Apache-2.0
// The two things that I/O on a loop is made of: handles, descriptors that the loop serves, and
// requests, what is asked of them. Sockets, pipes and servers stand on these; programs use those.
//
//     gyre::io::handle socket(fd, gyre::io::handle_kind::stream_socket);
//     backend.attach(socket);
//     gyre::io::read_request reading(socket, buffer, &on_read);
//     if (auto read = backend.start(reading)) use(*read);  // else on_read is called
#pragma once

#include <sys/socket.h>
#include <sys/uio.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <span>
#include <system_error>

#include <gyre/base/detail/flag_set.hpp>
#include <gyre/io/received.hpp>

namespace gyre::io {

class request;

namespace detail {
enum class handle_flag : std::uint8_t;
}  // namespace detail

/// What came of a request: a count of bytes, a descriptor or a number of messages, or an error.
class result {
 public:
  static constexpr result of(std::size_t count) noexcept {
    return result(static_cast<std::int64_t>(count));
  }
  /// `error` is one of errno's, not 0.
  static constexpr result failure(int error) noexcept { return result(-error); }
  /// What a system call returned: a count, or -1 and errno.
  static result of_call(std::int64_t returned) noexcept {
    return returned >= 0 ? result(returned) : failure(errno);
  }

  constexpr bool ok() const noexcept { return value_ >= 0; }
  constexpr explicit operator bool() const noexcept { return ok(); }
  /// If ok().
  constexpr std::size_t count() const noexcept { return static_cast<std::size_t>(value_); }
  constexpr int fd() const noexcept { return static_cast<int>(value_); }
  /// errno's number, or 0.
  constexpr int error_number() const noexcept { return ok() ? 0 : static_cast<int>(-value_); }
  std::error_code error() const noexcept { return {error_number(), std::system_category()}; }
  /// The call would have had to wait.
  constexpr bool would_block() const noexcept { return value_ == -EAGAIN; }

 private:
  constexpr explicit result(std::int64_t value) noexcept : value_(value) {}
  std::int64_t value_;
};

/// What a backend may rely on with a descriptor.
enum class handle_kind : std::uint8_t {
  /// TCP: a read that brings less than asked for has taken all there was.
  stream_socket,
  /// Other sockets: only an error tells that there is no more.
  socket,
  /// Pipes, terminals, event descriptors: read(2) and write(2). A write whose reader is gone raises
  /// SIGPIPE, unless the program ignores that.
  file,
};

/// A non-blocking descriptor that a loop serves, embedded in whoever owns the descriptor; 32 bytes.
/// From backend::attach() to backend::detach() it must not move.
class handle {
 public:
  explicit handle(int fd = -1, handle_kind kind = handle_kind::stream_socket) noexcept
      : kind_(kind), fd_(fd) {}
  handle(const handle&) = delete;
  handle& operator=(const handle&) = delete;

  int fd() const noexcept { return fd_; }
  handle_kind kind() const noexcept { return kind_; }
  bool attached() const noexcept { return attached_; }
  /// Whether a request of that direction is under way.
  bool reading() const noexcept { return reader != nullptr; }
  bool writing() const noexcept { return writer != nullptr; }

  // The backend's.
  request* reader = nullptr;
  request* writer = nullptr;
  std::uint32_t index = 0;        // among its handles
  std::uint32_t queue_index = 0;  // among those that it serves next
  gyre::detail::flag_set<detail::handle_flag> flags;

 private:
  friend class backend;
  handle_kind kind_;
  bool attached_ = false;
  int fd_;
};

/// What can be asked for.
enum class request_kind : std::uint8_t {
  receive,
  read,
  scatter,
  receive_message,
  receive_messages,
  accept,
  wait_readable,
  connect,
  write,
  gather,
  send_message,
  send_messages,
  wait_writable,
};

/// Something asked of a handle, embedded in whoever asks. A handle has at most one request that reads
/// (or accepts) and one that writes (or connects) at a time. From start() until its function is
/// called, or cancel() returns, it and the memory that it names must stay where they are; in its
/// function it may be destroyed, or started again.
class request {
 public:
  using function = void (*)(request&, result);

  request(const request&) = delete;
  request& operator=(const request&) = delete;

  request_kind kind() const noexcept { return kind_; }
  handle& target() const noexcept { return *target_; }
  bool writes() const noexcept { return kind_ >= request_kind::connect; }
  /// Whether it goes on after it has completed, until it completes with an error or, receiving, with
  /// 0, or is cancelled.
  bool repeats() const noexcept { return repeats_; }
  /// Whether start() has begun it and it has not ended.
  bool under_way() const noexcept { return (writes() ? target_->writer : target_->reader) == this; }
  /// Backend: reports. May end the request, and destroy it.
  void complete(result what) { complete_(*this, what); }

 protected:
  request(handle& target, request_kind kind, function report, bool repeats = false) noexcept
      : target_(&target), complete_(report), kind_(kind), repeats_(repeats) {}
  ~request() = default;

 private:
  handle* target_;
  function complete_;
  request_kind kind_;
  bool repeats_;
};

/// Once, or again and again until it is cancelled.
enum class repeat : bool { once, until_cancelled };

/// Receives into memory of the loop, so that nothing is held while nothing comes. Completes with the
/// count of bytes, which are in `data`; 0 is the end of the stream.
struct receive_request : request {
  receive_request(handle& from, function report, repeat how = repeat::once) noexcept
      : request(from, request_kind::receive, report, how == repeat::until_cancelled) {}

  /// Take it in the function; else it is overwritten by what comes next.
  received data;
};

/// Reads into the caller's memory; 0 is the end of the stream (of the datagram, for those).
struct read_request : request {
  /// With `whole`, completes when `to` is full or the stream has ended, with what was read.
  read_request(handle& from, std::span<std::byte> to, function report, bool whole = false) noexcept
      : request(from, request_kind::read, report), rest(to), whole_(whole) {}

  bool whole() const noexcept { return whole_; }

  // The backend's: what is not filled yet, and what is done.
  std::span<std::byte> rest;
  std::size_t done = 0;

 private:
  bool whole_;
};

/// Writes the caller's memory. With `whole`, completes when all of it is written, or with the error
/// that ended it; else when some of it is.
struct write_request : request {
  write_request(handle& to, std::span<const std::byte> from, function report,
                bool whole = false) noexcept
      : request(to, request_kind::write, report), rest(from), whole_(whole) {}

  bool whole() const noexcept { return whole_; }

  // The backend's: what is not written yet, and what is done.
  std::span<const std::byte> rest;
  std::size_t done = 0;

 private:
  bool whole_;
};

/// readv(2): fills several pieces of memory in turn.
struct scatter_request : request {
  scatter_request(handle& from, std::span<const iovec> to, function report) noexcept
      : request(from, request_kind::scatter, report), pieces(to) {}
  std::span<const iovec> pieces;
};

/// writev(2): writes some of several pieces of memory. At most IOV_MAX of them.
struct gather_request : request {
  gather_request(handle& to, std::span<const iovec> from, function report) noexcept
      : request(to, request_kind::gather, report), pieces(from) {}
  std::span<const iovec> pieces;
};

/// recvmsg(2).
struct receive_message_request : request {
  receive_message_request(handle& from, msghdr& to, function report) noexcept
      : request(from, request_kind::receive_message, report), message(&to) {}
  msghdr* message;
};

/// sendmsg(2).
struct send_message_request : request {
  send_message_request(handle& to, const msghdr& from, function report) noexcept
      : request(to, request_kind::send_message, report), message(&from) {}
  const msghdr* message;
};

/// recvmmsg(2): as many messages as there are, at least one. Completes with their number.
struct receive_messages_request : request {
  receive_messages_request(handle& from, std::span<mmsghdr> to, function report) noexcept
      : request(from, request_kind::receive_messages, report), messages(to) {}
  std::span<mmsghdr> messages;
};

/// sendmmsg(2): some of the messages. Completes with their number.
struct send_messages_request : request {
  send_messages_request(handle& to, std::span<mmsghdr> from, function report) noexcept
      : request(to, request_kind::send_messages, report), messages(from) {}
  std::span<mmsghdr> messages;
};

/// Accepts a connection. Completes with its descriptor (non-blocking, close-on-exec), which the
/// function owns. Connections that ended before they were accepted are passed over.
struct accept_request : request {
  /// With `ahead`, one that repeats may have the kernel accept whoever connects before the function is
  /// ready for them: cheapest, but when it is cancelled some may have been accepted and not reported.
  /// The next request reports these; detach() closes them.
  accept_request(handle& listener, function report, repeat how = repeat::once,
                 bool ahead = false) noexcept
      : request(listener, request_kind::accept, report, how == repeat::until_cancelled),
        ahead_(ahead) {}

  bool ahead() const noexcept { return ahead_; }

  /// Who connected.
  sockaddr_storage peer;
  socklen_t peer_size = 0;

 private:
  bool ahead_;
};

/// Connects; completes with 0.
struct connect_request : request {
  connect_request(handle& from, const sockaddr* to, socklen_t size, function report) noexcept
      : request(from, request_kind::connect, report), peer(to), peer_size(size) {}
  const sockaddr* peer;
  socklen_t peer_size;
};

enum class direction : bool { read, write };

/// Waits until a read (accept) or a write (connect) would not wait, for calls that have no request of
/// their own. Completes with 0.
struct readiness_request : request {
  readiness_request(handle& of, direction which, function report) noexcept
      : request(
            of,
            which == direction::read ? request_kind::wait_readable : request_kind::wait_writable,
            report) {}
};

}  // namespace gyre::io
