// SPDX-License-Identifier: Apache-2.0
// Requests on epoll: a descriptor is registered once, edge-triggered, for both directions, so that
// epoll_ctl(2) is not called again while it is used.
#pragma once

#include <gyre/io/detail/ready_requests.hpp>

#include <sys/epoll.h>

#include <cerrno>
#include <cstdint>
#include <span>

namespace gyre::io::detail {

class epoll_requests final : public ready_requests {
 public:
  /// `reported`: events that the poller has still to look at; those of removed handles are emptied.
  explicit epoll_requests(std::span<epoll_event>& reported) noexcept : reported_(reported) {}

  /// Uses another epoll instance from now on, and registers the attached handles with it.
  void use(int epoll);
  /// The handle that an event is for; null for one of the poller's own.
  static handle* target_of(const epoll_event& event) noexcept {
    if ((event.data.u64 & handle_tag) == 0) return nullptr;
    return reinterpret_cast<handle*>(event.data.u64 & ~handle_tag);
  }

 private:
  static constexpr std::uint64_t handle_tag = 1;

  static std::uint64_t tagged(handle& target) noexcept {
    return reinterpret_cast<std::uintptr_t>(&target) | handle_tag;
  }
  void add(handle& watched) override;
  void remove(handle& watched) noexcept override;
  void wait_for(handle&, direction) noexcept override {}  // is reported in any case
  result take_early(request&) noexcept override { return result::failure(EINVAL); }

  std::span<epoll_event>& reported_;
  int epoll_ = -1;
};

}  // namespace gyre::io::detail
