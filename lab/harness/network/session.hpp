// SPDX-License-Identifier: Apache-2.0
// A session: one end of a connection as a contender sees it, that is a socket, the bytes to send
// first, and the answer to every piece that arrives. The workload knows the protocol; a contender
// only moves bytes.
#pragma once

#include <unistd.h>

#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>

namespace lab::network {

/// A sum to which one thread adds and which any thread may read.
class counter {
 public:
  void add(std::uint64_t more) {
    // relaxed: one writer, and readers expect no other data with the sum.
    sum_.store(sum_.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
  }
  std::uint64_t value() const { return sum_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> sum_ = 0;
};

/// The counters of one thread's sessions. Two cache lines, as CPUs fetch lines in pairs.
struct alignas(128) session_counters {
  counter bytes;        ///< received
  counter reads;        ///< calls of received()
  counter wrong;        ///< calls of received() with unexpected bytes
  counter finished;     ///< sessions that have nothing left to do
  counter nanoseconds;  ///< total duration of the finished sessions
  counter lost;         ///< connections that ended or failed
};

/// The base of all sessions.
class session {
 public:
  session(int fd, session_counters& counters) : counters_(&counters), fd_(fd) {}

  /// The connected, non-blocking socket. It is never closed.
  int fd() const { return fd_; }

  /// Counts a connection that ended or failed, although all outlive the run, and blocks the thread
  /// for ever.
  [[noreturn]] void lost() {
    counters_->lost.add(1);
    for (;;) pause();
  }

 protected:
  session_counters& counters() { return *counters_; }

 private:
  session_counters* counters_;
  int fd_;
};

/// The interface of a session to a contender.
template <class Session>
concept any_session =
    std::derived_from<Session, session> &&
    requires(Session& open, std::span<const std::byte> data) {
      // Whether received() returns its argument, which may then be sent without a copy.
      { Session::echoes } -> std::convertible_to<bool>;
      // Whether this is the client's end. A client should read even while it sends: a server may
      // read only once everything is sent, and then both would wait.
      { Session::begins } -> std::convertible_to<bool>;
      // The bytes to send at the start; empty on the server. Valid until something arrives.
      { open.first() } -> std::same_as<std::span<const std::byte>>;
      // To be called with each piece that arrives, in order. Returns the bytes to send, which may
      // be none; they are valid until the next call, or as long as `data` when `data` is returned.
      { open.received(data) } -> std::same_as<std::span<const std::byte>>;
    };

/// A contender: serves sessions on the calling thread, with a loop of its own, and never returns.
/// It sends the bytes of first() and the answers of received(), whole and in order. A contender
/// that does not run on every machine also has a static probe(), which throws cannot_run on
/// machines where it does not run.
template <class Contender, class Session>
concept contender_of =
    any_session<Session> && requires(std::span<Session> sessions) { Contender::run(sessions); };

}  // namespace lab::network
