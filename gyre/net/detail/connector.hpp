// SPDX-License-Identifier: Apache-2.0
// connector: makes one attempt to connect at a time, with a timeout, and calls its owner with the
// outcome.
#pragma once

#include <gyre/base/unique_fd.hpp>
#include <gyre/exec/event_loop.hpp>
#include <gyre/exec/timer.hpp>
#include <gyre/io/descriptor.hpp>
#include <gyre/io/request.hpp>
#include <gyre/net/endpoint.hpp>

#include <chrono>
#include <optional>
#include <system_error>

namespace gyre::net::detail {

/// Thread-safety: none; belongs to the loop's thread. The owner is called by the loop, never within
/// begin().
class connector {
 public:
  /// Each function may begin the next attempt, and destroy or close anything but the owner.
  class owner {
   public:
    virtual void connected(unique_fd socket) = 0;
    virtual void connect_failed(std::error_code error) = 0;

   protected:
    ~owner() = default;
  };

  connector(event_loop& loop, owner& receiver) noexcept : loop_(loop), owner_(receiver) {}
  connector(const connector&) = delete;
  connector& operator=(const connector&) = delete;

  /// `to` must live until the attempt has ended; `local` may be none.
  void begin(const endpoint& to, const endpoint& local, std::chrono::nanoseconds timeout);
  bool under_way() const noexcept { return attempt_.has_value(); }
  /// Ends the attempt without a call of the owner. Idempotent.
  void cancel() noexcept { attempt_.reset(); }

 private:
  struct connect_request final : io::connect_request {
    connect_request(io::handle& socket, const endpoint& to, connector& by) noexcept
        : io::connect_request(socket, to.data(), to.size(), &connector::on_connected), self(&by) {}
    connector* self;
  };
  struct attempt {
    explicit attempt(connector& by);
    std::optional<io::result> early_result;  // else there is none before the deadline
    std::optional<io::descriptor> descriptor;
    std::optional<connect_request> request;
    timer deadline;
  };

  static void on_connected(io::request& request, io::result result);
  std::optional<io::result> start(const endpoint& to, const endpoint& local);
  void finish(io::result result);

  event_loop& loop_;
  owner& owner_;
  std::optional<attempt> attempt_;
};

}  // namespace gyre::net::detail
