// SPDX-License-Identifier: Apache-2.0
// One attempt to connect, with a timeout.
#pragma once

#include <gyre/base/unique_fd.hpp>
#include <gyre/exec/event_loop.hpp>
#include <gyre/exec/timer.hpp>
#include <gyre/io/descriptor.hpp>
#include <gyre/io/request.hpp>
#include <gyre/net/endpoint.hpp>
#include <gyre/net/socket.hpp>

#include <chrono>
#include <optional>
#include <system_error>

namespace gyre::net::detail {

/// The loop's thread. Makes one attempt at a time; what came of it is always told by the loop.
class connector {
 public:
  /// Either function may begin the next attempt, and destroy or close what it likes but the owner.
  class owner {
   public:
    virtual void connected(unique_fd socket) = 0;
    virtual void connect_failed(std::error_code why) = 0;

   protected:
    ~owner() = default;
  };

  connector(event_loop& loop, owner& informed) noexcept : loop_(loop), owner_(informed) {}
  connector(const connector&) = delete;
  connector& operator=(const connector&) = delete;

  /// `to` must live until the attempt has ended; `from` may be none.
  void begin(const endpoint& to, const endpoint& from, std::chrono::nanoseconds timeout);
  bool under_way() const noexcept { return attempt_.has_value(); }
  /// Nobody is told. Idempotent.
  void cancel() noexcept { attempt_.reset(); }

 private:
  struct connecting final : io::connect_request {
    connecting(io::handle& socket, const endpoint& to, connector& by) noexcept
        : connect_request(socket, to.data(), to.size(), &connector::on_connected), self(&by) {}
    connector* self;
  };
  struct attempt {
    explicit attempt(connector& by);
    // Ends with that, or at the timeout if there is none yet.
    std::optional<io::result> made;
    std::optional<io::descriptor> descriptor;
    std::optional<connecting> request;
    timer deadline;
  };

  static void on_connected(io::request& asked, io::result what);
  std::optional<io::result> try_now(const endpoint& to, const endpoint& from);
  void finish(io::result what);

  event_loop& loop_;
  owner& owner_;
  std::optional<attempt> attempt_;
};

}  // namespace gyre::net::detail
