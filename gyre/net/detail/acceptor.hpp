// SPDX-License-Identifier: Apache-2.0
// acceptor: accepts the connections of one listening socket on one loop, and calls its owner with
// each of them.
#pragma once

#include <gyre/base/detail/flag_set.hpp>
#include <gyre/base/unique_fd.hpp>
#include <gyre/exec/event_loop.hpp>
#include <gyre/exec/timer.hpp>
#include <gyre/io/descriptor.hpp>
#include <gyre/io/request.hpp>
#include <gyre/net/detail/accept_policy.hpp>
#include <gyre/net/endpoint.hpp>
#include <gyre/net/socket.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <system_error>
#include <utility>

namespace gyre::net::detail {

/// | state     | open()    | first hold | no hold   | accepted    | accept failed      | close() |
/// |-----------|-----------|------------|-----------|-------------|--------------------|---------|
/// | bound     | accepting | bound      | bound     | -           | -                  | closed  |
/// | accepting | -         | held       | -         | calls owner | held (backing_off) | closed  |
/// | held      | -         | -          | accepting | calls owner | held (backing_off) | closed  |
///
/// With a hold, open() leads to held. The hold backing_off goes when the pause of the accept_policy
/// is over; a request that is being cancelled may still complete in held.
///
/// Thread-safety: none but the constructor, which any thread may call; the rest belongs to the
/// loop's thread.
class acceptor {
 public:
  /// Gets the connections. Each function may close the acceptor.
  class owner {
   public:
    virtual void accepted(unique_fd connection, const endpoint& peer) = 0;
    /// Accepting pauses; `first`: it did not already the last time. `refused` connections were
    /// closed.
    virtual void accepting_paused(std::error_code error, bool first, std::size_t refused) = 0;

   protected:
    ~owner() = default;
  };

  /// Why it does not accept at present.
  enum class hold : std::uint8_t { paused = 1, full = 2, backing_off = 4 };

  struct settings {
    /// The owner takes as many connections as come, without a check before each.
    bool ahead;
    std::chrono::nanoseconds backoff;
    std::chrono::nanoseconds backoff_limit;
  };

  /// `listening` listens already.
  acceptor(event_loop& loop, owner& receiver, socket listening, const settings& options) noexcept
      : loop_(loop), owner_(receiver), listening_(std::move(listening)), options_(options) {}
  acceptor(const acceptor&) = delete;
  acceptor& operator=(const acceptor&) = delete;

  /// Begins to accept, unless there are holds. Throws what attaching throws.
  void open();
  void set_hold(hold reason, bool held) noexcept;
  /// For ever. Idempotent.
  void close() noexcept;

 private:
  struct accept_any final : io::accept_request {
    accept_any(io::handle& listening, acceptor& by) noexcept
        : accept_request(listening, &acceptor::on_accepted, io::repeat::until_cancelled,
                         by.options_.ahead),
          self(&by) {}
    acceptor* self;
  };
  // Parts of an open acceptor on the loop.
  struct registration {
    registration(acceptor& by, unique_fd fd);
    io::descriptor descriptor;
    accept_any request;
    timer retry;
    accept_policy policy;
  };

  static void on_accepted(io::request& request, io::result result);
  void start_or_cancel() noexcept;
  void back_off(std::error_code error);

  event_loop& loop_;
  owner& owner_;
  socket listening_;  // until it is open
  const settings options_;
  std::optional<registration> open_;
  gyre::detail::flag_set<hold> holds_;
};

}  // namespace gyre::net::detail
