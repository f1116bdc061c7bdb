// SPDX-License-Identifier: Apache-2.0
// A session is one end of a connection as a contender sees it: a socket, what to send first, and
// what to answer to what arrives. The workload knows the protocol; a contender only moves bytes.
#pragma once

#include <unistd.h>

#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>

namespace lab::network {

/// A sum that one thread adds to and others may look at.
class counter {
 public:
  void add(std::uint64_t more) {
    // relaxed: one writer, and who reads wants no other data with it.
    sum_.store(sum_.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
  }
  std::uint64_t value() const { return sum_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> sum_ = 0;
};

/// What the sessions of one thread have seen. Two cache lines, as CPUs fetch lines in pairs.
struct alignas(128) tally {
  counter bytes;        ///< received
  counter reads;        ///< calls of received()
  counter wrong;        ///< of these, with bytes that were not the expected ones
  counter finished;     ///< sessions that have nothing left to do
  counter nanoseconds;  ///< that these took, together
  counter lost;         ///< connections that ended or failed
};

/// What all sessions have in common.
class session {
 public:
  session(int fd, tally& seen) : seen_(&seen), fd_(fd) {}

  /// The connected, non-blocking socket. It is never closed.
  int fd() const { return fd_; }

  /// The connection has ended or failed, which none does before the process ends: notes it, and
  /// holds the thread for ever.
  [[noreturn]] void lost() {
    seen_->lost.add(1);
    for (;;) pause();
  }

 protected:
  tally& seen() { return *seen_; }

 private:
  tally* seen_;
  int fd_;
};

/// What a session offers to a contender.
template <class Session>
concept any_session =
    std::derived_from<Session, session> &&
    requires(Session& open, std::span<const std::byte> data) {
      // Whether received() returns what it was given, so that it may be handed on uncopied.
      { Session::echoes } -> std::convertible_to<bool>;
      // Whether this is the client's end. It should read even while it sends: the server may rather
      // wait until all is sent, and then both would wait.
      { Session::begins } -> std::convertible_to<bool>;
      // To be sent at start; empty on the server. It stays as it is until something arrives.
      { open.first() } -> std::same_as<std::span<const std::byte>>;
      // To be called with each piece that arrives, in order. Returns what to send, which may be
      // nothing; it stays as it is until the next call, or as long as `data` when that is returned.
      { open.received(data) } -> std::same_as<std::span<const std::byte>>;
    };

/// A contender: serves sessions on the calling thread, with a loop of its own, and never returns.
/// It sends what first() says and the answers of received(), whole and in order. One that does not
/// run on every machine has a static probe() as well, which throws cannot_run on those where it
/// does not.
template <class Contender, class Session>
concept contender_of =
    any_session<Session> && requires(std::span<Session> sessions) { Contender::run(sessions); };

}  // namespace lab::network
