// SPDX-License-Identifier: Apache-2.0
// Accepts the connections of one listening socket on one loop, and survives it when there are no
// descriptors left.
#pragma once

#include <gyre/base/unique_fd.hpp>
#include <gyre/exec/event_loop.hpp>
#include <gyre/exec/timer.hpp>
#include <gyre/io/descriptor.hpp>
#include <gyre/io/request.hpp>
#include <gyre/net/endpoint.hpp>
#include <gyre/net/socket.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <system_error>

namespace gyre::net::detail {

/// The loop's thread, but for the constructor.
class acceptor {
 public:
  /// Who gets the connections. Each function may close the acceptor.
  class owner {
   public:
    virtual void accepted(unique_fd connection, const endpoint& peer) = 0;
    /// One was accepted from the reserve, and closed.
    virtual void refused() noexcept = 0;
    /// Accepting pauses; `first`: it did not already the last time.
    virtual void accepting_failed(std::error_code why, bool first) = 0;

   protected:
    ~owner() = default;
  };

  /// Why it does not accept at present.
  enum hold : std::uint8_t { paused = 1, full = 2, backing_off = 4 };

  /// `listening` listens already. `ahead`: the owner takes as many as come, and need not be asked
  /// first. Any thread.
  acceptor(event_loop& loop, owner& informed, socket listening, bool ahead,
           std::chrono::nanoseconds backoff, std::chrono::nanoseconds backoff_limit) noexcept
      : loop_(loop),
        owner_(informed),
        listening_(std::move(listening)),
        ahead_(ahead),
        backoff_(std::max<std::chrono::nanoseconds>(backoff, shortest_backoff)),
        backoff_limit_(std::max(backoff_limit, backoff_)) {}
  acceptor(const acceptor&) = delete;
  acceptor& operator=(const acceptor&) = delete;

  /// Begins to accept, unless it is held. Throws what attaching throws.
  void open();
  void add_hold(hold why) noexcept;
  void remove_hold(hold why) noexcept;
  /// For ever. Idempotent.
  void close() noexcept;

 private:
  struct accept_one final : io::accept_request {
    accept_one(io::handle& from, acceptor& to) noexcept
        : accept_request(from, &acceptor::on_accepted, io::repeat::until_cancelled, to.ahead_),
          self(&to) {}
    acceptor* self;
  };
  // What there is of it on the loop.
  struct presence {
    presence(acceptor& of, unique_fd fd);
    io::descriptor descriptor;
    accept_one accepting;
    timer retry;
    unique_fd reserve;
  };

  static void on_accepted(io::request& asked, io::result what);
  void accept_or_not() noexcept;
  // Without any it would spin.
  static constexpr std::chrono::milliseconds shortest_backoff{1};

  void back_off(std::error_code why);
  void shed_one() noexcept;

  event_loop& loop_;
  owner& owner_;
  socket listening_;  // until it is open
  const bool ahead_;
  std::optional<presence> open_;
  std::chrono::nanoseconds backoff_, backoff_limit_;
  std::chrono::nanoseconds next_backoff_{0};  // zero: it has not failed the last time
  std::uint8_t holds_ = 0;
};

}  // namespace gyre::net::detail
