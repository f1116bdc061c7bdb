// SPDX-License-Identifier: Apache-2.0
// Requests on epoll: a descriptor is registered once, edge-triggered, for both directions, and
// epoll_ctl(2) is not called again while it is used.
#pragma once

#include <sys/epoll.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include <gyre/io/detail/ready_requests.hpp>

namespace gyre::io::detail {

class epoll_requests final : public ready_requests {
 public:
  /// `reported`: what the poller has still to look at; events of detached handles are emptied there.
  explicit epoll_requests(std::span<epoll_event>& reported) noexcept : reported_(reported) {}

  /// The epoll instance to use from now on; every handle is registered with it.
  void use(int epoll);
  /// Whether an event is for a handle, which is then served (else it is the poller's own).
  static bool is_for_handle(const epoll_event& event) noexcept {
    return (event.data.u64 & handle_tag) != 0;
  }
  /// Goes on with the requests that the event is about.
  void serve_event(const epoll_event& event, std::size_t& completed) {
    serve(*reinterpret_cast<handle*>(event.data.u64 & ~handle_tag), event.events, completed);
  }

 private:
  static constexpr std::uint64_t handle_tag = 1;

  static std::uint64_t tagged(handle& served) noexcept {
    return reinterpret_cast<std::uintptr_t>(&served) | handle_tag;
  }
  static void add_to_epoll(int epoll, handle& served);

  void begin(handle& served) override { add_to_epoll(epoll_, served); }
  void end(handle& served) noexcept override;
  void wait_for_readiness(handle&, bool) noexcept override {}  // it is reported in any case

  std::span<epoll_event>& reported_;
  int epoll_ = -1;
};

}  // namespace gyre::io::detail
