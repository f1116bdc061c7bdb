// SPDX-License-Identifier: Apache-2.0
// handle and request: a descriptor that a loop serves, and an operation on it. For authors of I/O
// objects: programs use sockets, pipes and servers, which are made of these.
//
//     gyre::io::handle socket(fd, gyre::io::handle_kind::stream_socket);
//     backend.attach(socket);
//     gyre::io::read_request reading(socket, buffer, &on_read);
//     if (auto done = backend.start(reading)) use(*done);  // a result; else on_read is called
#pragma once

#include <gyre/base/detail/flag_set.hpp>
#include <gyre/io/error.hpp>
#include <gyre/io/received.hpp>
#include <gyre/trace/detail/function_sequence.hpp>

#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <span>
#include <system_error>

namespace gyre::io {

class request;

namespace detail {
enum class handle_flag : std::uint8_t;
}  // namespace detail

/// The outcome of a request: a number of bytes, a descriptor or a number of messages, or an error.
class result {
 public:
  /// Returns the outcome with a number of bytes or messages.
  static constexpr result of(std::size_t count) noexcept {
    return result(static_cast<std::int64_t>(count));
  }
  /// Returns the outcome with an error of the system. `error`: errno's number, not 0.
  static constexpr result failure(int error) noexcept { return result(-error); }
  /// Returns the outcome with an error that gyre decided on.
  static constexpr result failure(errc error) noexcept {
    return failure(own_errors + static_cast<int>(error));
  }
  /// Returns the outcome of a system call that returned a count, or -1 and errno.
  static result of_call(std::int64_t value) noexcept {
    return value >= 0 ? result(value) : failure(errno);
  }

  constexpr bool ok() const noexcept { return value_ >= 0; }
  constexpr explicit operator bool() const noexcept { return ok(); }
  /// Returns the count. Like fd(), only for a result that is ok().
  constexpr std::size_t count() const noexcept { return static_cast<std::size_t>(value_); }
  constexpr int fd() const noexcept { return static_cast<int>(value_); }
  /// Returns the error as errno's number, or 0; for an errc, a number above those of errno and
  /// below 256.
  constexpr int error_number() const noexcept { return ok() ? 0 : static_cast<int>(-value_); }
  [[gnu::cold]] std::error_code error() const noexcept;
  /// Returns whether the system call would have had to wait (EAGAIN).
  constexpr bool would_block() const noexcept { return value_ == -EAGAIN; }

 private:
  // The numbers of errno are below this number.
  static constexpr int own_errors = 192;
  static_assert(own_errors > EHWPOISON);

  constexpr explicit result(std::int64_t value) noexcept : value_(value) {}
  std::int64_t value_;
};

namespace detail {

/// Returns the outcome of a system call, which is made again when a signal interrupts it.
template <class Call>
result retried(Call call) noexcept {
  for (;;) {
    const result outcome = result::of_call(call());
    if (outcome.error_number() != EINTR) return outcome;
  }
}

}  // namespace detail

/// The kind of a descriptor, which decides how it is read and written.
enum class handle_kind : std::uint8_t {
  /// TCP sockets: a short read has taken all bytes that were there.
  stream_socket,
  /// Other sockets, including Unix stream sockets: only EAGAIN shows that no more bytes are there.
  socket,
  /// Not sockets: pipes, terminals, event descriptors, devices such as /dev/zero. They are read by
  /// read(2) and written by write(2); to write to a pipe without a reader raises SIGPIPE, unless
  /// the program ignores that. Not for files and block devices (see io::file): backend::attach()
  /// refuses them.
  other,
};

/// A direction of a handle.
enum class direction : bool { read, write };

/// A non-blocking descriptor that a loop serves, embedded in the descriptor's owner; 32 bytes, of
/// which a derived class may use the last two.
///
/// Thread-safety: as backend. Lifetime: once attached, must live until backend::detach().
class handle {
  friend class backend;
  int fd_;  // first, so that the padding is at the end

 public:
  explicit handle(int fd = -1, handle_kind kind = handle_kind::stream_socket) noexcept
      : fd_(fd), kind_(kind), no_reads_(false), no_writes_(false), is_attached_(false) {}
  handle(const handle&) = delete;
  handle& operator=(const handle&) = delete;

  int fd() const noexcept { return fd_; }
  handle_kind kind() const noexcept { return kind_; }
  bool attached() const noexcept { return is_attached_; }
  /// Returns whether a request of that direction is under way.
  bool reading() const noexcept { return reader != nullptr; }
  bool writing() const noexcept { return writer != nullptr; }
  /// Makes requests that would wait for bytes of that direction end with EBADF from now on: the
  /// descriptor is not open for that direction, so the kernel would never report it as ready. Waits
  /// for readiness still wait.
  void refuse(direction side) noexcept {
    if (side == direction::read) no_reads_ = true;
    if (side == direction::write) no_writes_ = true;
  }
  /// Returns whether refuse() was called for that direction.
  bool refuses(direction side) const noexcept {
    return side == direction::read ? no_reads_ : no_writes_;
  }

  // The members below belong to the backend.
  std::uint32_t index = 0;  // the handle's index in the backend
  request* reader = nullptr;
  request* writer = nullptr;
  std::uint32_t queue_index = 0;  // the index in a queue; outside of queues, the handle's usage
  gyre::detail::flag_set<detail::handle_flag> flags;
  bool unwatched : 1 = false;  // whether the kernel does not watch the handle yet

 private:
  handle_kind kind_ : 4;
  bool no_reads_ : 1;
  bool no_writes_ : 1;
  bool is_attached_ : 1;
};

/// The kinds of requests. `connect` and the kinds after it use a handle's write direction, the
/// others its read direction.
enum class request_kind : std::uint8_t {
  receive,
  receive_transient,
  receive_shared,
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
  send_file,
  wait_writable,
};

/// An operation on a handle, an intrusive node of the object that waits for it. A handle has at
/// most one request that reads (or accepts) and one that writes (or connects) at a time.
///
/// Thread-safety: as backend.
/// Lifetime: the request and the memory that it names must stay where they are from
/// backend::start() until the callback is called, or backend::cancel() or detach() returns. The
/// callback may destroy the request, or start it again. A copy is another request, which has not
/// been started.
class request {
 public:
  using function = void (*)(request&, result);

  request& operator=(const request&) = delete;

  request_kind kind() const noexcept { return kind_; }
  handle& target() const noexcept { return *target_; }
  bool writes() const noexcept { return kind_ >= request_kind::connect; }
  /// Returns whether the request receives into the loop's memory.
  bool receives() const noexcept { return kind_ <= request_kind::receive_shared; }
  direction way() const noexcept { return writes() ? direction::write : direction::read; }
  /// Returns whether the request completes repeatedly until it is cancelled. An error, or 0 bytes
  /// received, ends it.
  bool repeats() const noexcept { return repeats_; }
  /// Returns whether the request has been started and has not ended.
  bool under_way() const noexcept { return (writes() ? target_->writer : target_->reader) == this; }
  /// For the backend: calls the callback, which may destroy the request.
  void complete(result outcome) { callback_(*this, outcome); }
  /// Returns the address of the callback's code, for reports; zero for a shared_receive_request.
  std::uintptr_t code() const noexcept { return reinterpret_cast<std::uintptr_t>(callback_); }

 protected:
  request(handle& target, request_kind kind, function callback, bool repeats = false) noexcept
      : target_(&target), callback_(callback), kind_(kind), repeats_(repeats) {}
  /// Makes a request without a handle of its own.
  request(request_kind kind, bool repeats) noexcept
      : target_(nullptr), callback_(nullptr), kind_(kind), repeats_(repeats) {}
  request(const request&) = default;
  ~request() = default;
  /// Called before the request is started.
  void set_callback(function callback) noexcept { callback_ = callback; }

 private:
  handle* target_;
  function callback_;
  request_kind kind_;
  bool repeats_;
};

/// The repetition of a request.
enum class repeat : bool { once, until_cancelled };

/// Receives into memory of the loop, so that an idle connection holds none. Completes with the
/// number of bytes, which are in `data`; 0 is the end of the stream.
struct receive_request : request {
  receive_request(handle& source, function callback, repeat mode = repeat::once) noexcept
      : request(source, request_kind::receive, callback, mode == repeat::until_cancelled) {}

  /// The received bytes: move them out in the callback; a repeated receive overwrites them.
  received data;
};

/// Receives like receive_request, but has no member for the bytes, so that an idle connection has
/// no memory for them. When its callback is called, or backend::start() returns an outcome, the
/// bytes are in receive_memory::arrived() of backend::memory(): move them out at once. After the
/// callback their lease ends.
struct transient_receive_request : request {
  transient_receive_request(handle& source, function callback, repeat mode = repeat::once) noexcept
      : request(source, request_kind::receive_transient, callback,
                mode == repeat::until_cancelled) {}
};

/// Receives like a transient_receive_request that repeats, but any number of handles share one
/// request, so that an idle connection has no memory for its own. Started by
/// backend::start_receiving(), and ended by stop_receiving(), for each handle separately, and must
/// live until then. The members of `request` that need a handle must not be called.
class shared_receive_request : public request {
 public:
  using function = void (*)(handle& source, result);

  /// `max_size`: the bytes of one receive, at most. A buffer of io_uring's kernel may be larger.
  shared_receive_request(function callback, std::size_t max_size) noexcept
      : request(request_kind::receive_shared, true), callback_(callback), max_size_(max_size) {}

  std::size_t max_size() const noexcept { return max_size_; }

  /// For the backend: calls the callback.
  void complete(handle& source, result outcome) { callback_(source, outcome); }
  /// Returns the address of the callback's code, for reports.
  std::uintptr_t code() const noexcept { return reinterpret_cast<std::uintptr_t>(callback_); }

 private:
  function callback_;
  std::size_t max_size_;
};

namespace detail {

/// Completes a request that was started on `target`.
inline void complete_for(handle& target, request& request, result outcome) {
  if (request.kind() == request_kind::receive_shared) {
    auto& shared_request = static_cast<shared_receive_request&>(request);
    const trace::detail::recorded_call call(shared_request.code());
    shared_request.complete(target, outcome);
  } else {
    const trace::detail::recorded_call call(request.code());
    request.complete(outcome);
  }
}

}  // namespace detail

/// Reads into the caller's memory. Completes with the number of bytes; 0 is the end of the stream,
/// or an empty datagram.
struct read_request : request {
  /// With `transfers_all`, completes when `bytes` are full or the stream has ended.
  read_request(handle& source, std::span<std::byte> bytes, function callback,
               bool transfers_all = false) noexcept
      : request(source, request_kind::read, callback), rest(bytes), is_whole_(transfers_all) {}

  bool whole() const noexcept { return is_whole_; }

  // For the backend: the memory that is not yet filled, and the number of bytes read.
  std::span<std::byte> rest;
  std::size_t done = 0;

 private:
  bool is_whole_;
};

/// Writes the caller's memory, and completes with the number of bytes. With `transfers_all`,
/// completes when all bytes are written, or with the error that prevents that; otherwise when some
/// are written.
struct write_request : request {
  write_request(handle& sink, std::span<const std::byte> bytes, function callback,
                bool transfers_all = false) noexcept
      : request(sink, request_kind::write, callback), rest(bytes), is_whole_(transfers_all) {}

  bool whole() const noexcept { return is_whole_; }

  // For the backend: the bytes that are not written yet, and the number of bytes written.
  std::span<const std::byte> rest;
  std::size_t done = 0;

 private:
  bool is_whole_;
};

/// Reads by readv(2): fills several pieces of memory in turn.
struct scatter_request : request {
  scatter_request(handle& source, std::span<const iovec> memory, function callback) noexcept
      : request(source, request_kind::scatter, callback), pieces(memory) {}
  std::span<const iovec> pieces;
};

/// Writes by writev(2): writes some bytes of several pieces of memory. More than IOV_MAX pieces:
/// EINVAL.
struct gather_request : request {
  gather_request(handle& sink, std::span<const iovec> memory, function callback) noexcept
      : request(sink, request_kind::gather, callback), pieces(memory) {}
  std::span<const iovec> pieces;
};

/// Receives a message by recvmsg(2).
struct receive_message_request : request {
  receive_message_request(handle& source, msghdr& header, function callback) noexcept
      : request(source, request_kind::receive_message, callback), message(&header) {}
  msghdr* message;
};

/// Sends a message by sendmsg(2).
struct send_message_request : request {
  send_message_request(handle& sink, const msghdr& header, function callback) noexcept
      : request(sink, request_kind::send_message, callback), message(&header) {}
  const msghdr* message;
};

/// Receives, by recvmmsg(2), all messages that are there, but waits for at least one. Completes
/// with their number.
struct receive_messages_request : request {
  receive_messages_request(handle& source, std::span<mmsghdr> headers, function callback) noexcept
      : request(source, request_kind::receive_messages, callback), messages(headers) {}
  std::span<mmsghdr> messages;
};

/// Sends some of the messages by sendmmsg(2). Completes with their number.
struct send_messages_request : request {
  send_messages_request(handle& sink, std::span<mmsghdr> headers, function callback) noexcept
      : request(sink, request_kind::send_messages, callback), messages(headers) {}
  std::span<mmsghdr> messages;
};

/// Sends bytes of a regular file by one call of sendfile(2), without SIGPIPE. Completes with their
/// number; 0: the file ends at `offset`. The call sends max_part bytes, however small the share is:
/// if less than that is left in a visit, the request waits for the handle's next turn.
struct send_file_request : request {
  static constexpr std::size_t max_part = std::size_t{1} << 20;
  /// A remainder of this size is not worth another call, and goes along with the bytes before it.
  static constexpr std::size_t min_part = std::size_t{64} << 10;

  send_file_request(handle& sink, int source, ::off_t first, std::size_t count,
                    function callback) noexcept
      : request(sink, request_kind::send_file, callback),
        file(source),
        offset(first),
        unsent_bytes(count) {}

  /// Returns the number of bytes that one call sends.
  std::size_t next_part() const noexcept {
    return unsent_bytes <= max_part + min_part ? unsent_bytes : max_part;
  }

  int file;
  // The backend moves both on by the bytes that it sends.
  ::off_t offset;
  std::size_t unsent_bytes;
};

/// Accepts a connection. Completes with its descriptor (non-blocking, close-on-exec), which the
/// callback owns. Connections that ended before they were accepted are passed over.
struct accept_request : request {
  /// With `accepts_ahead`, a request that repeats may have the kernel accept connections before the
  /// callback is ready for them: cheapest, but when it is cancelled some may have been accepted and
  /// not reported. The next request reports these; detach() closes them. Not for a socket that is
  /// shared: one of its loops would get all connections, even while it is busy.
  accept_request(handle& listener, function callback, repeat mode = repeat::once,
                 bool accepts_ahead = false) noexcept
      : request(listener, request_kind::accept, callback, mode == repeat::until_cancelled),
        ahead_(accepts_ahead) {}

  bool ahead() const noexcept { return ahead_; }

  /// The address of the peer.
  sockaddr_storage peer;
  socklen_t peer_size = 0;

 private:
  bool ahead_;
};

/// Connects; completes with 0.
struct connect_request : request {
  connect_request(handle& socket, const sockaddr* address, socklen_t size,
                  function callback) noexcept
      : request(socket, request_kind::connect, callback), peer(address), peer_size(size) {}
  const sockaddr* peer;
  socklen_t peer_size;
};

/// Waits until a read (accept) or a write (connect) would not wait, for calls that have no request
/// of their own. Completes with 0.
struct readiness_request : request {
  readiness_request(handle& target, direction side, function callback) noexcept
      : request(target,
                side == direction::read ? request_kind::wait_readable : request_kind::wait_writable,
                callback) {}
};

}  // namespace gyre::io
