// SPDX-License-Identifier: Apache-2.0
// Requests on epoll: a descriptor is registered once, edge-triggered, for both directions, so that
// epoll_ctl(2) is not called again while it is used.
#pragma once

#include <gyre/io/detail/ready_requests.hpp>

#include <sys/epoll.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace gyre::io::detail {

/// The handles of an epoll instance.
class epoll_registrations final : public readiness_source {
 public:
  /// `reported`: events that the poller has still to look at; those of removed handles are emptied.
  explicit epoll_registrations(std::span<epoll_event>& reported) noexcept : reported_(reported) {}

  /// Uses another epoll instance from now on, and registers `handles` with it; null ones are
  /// skipped.
  void use(int epoll, std::span<handle* const> handles);
  /// The handle that an event is for; null for one of the poller's own.
  static handle* target_of(const epoll_event& event) noexcept {
    if ((event.data.u64 & handle_tag) == 0) return nullptr;
    return reinterpret_cast<handle*>(event.data.u64 & ~handle_tag);
  }

  void add(handle& watched) override;
  void remove(handle& watched) noexcept override;
  void wait_for(handle&, direction) noexcept override {}  // is reported in any case
  result read_early(request&) noexcept override { return result::failure(EINVAL); }

 private:
  static constexpr std::uint64_t handle_tag = 1;

  static std::uint64_t tagged(handle& target) noexcept {
    return reinterpret_cast<std::uintptr_t>(&target) | handle_tag;
  }

  std::span<epoll_event>& reported_;
  int epoll_ = -1;
};

class epoll_requests final : public ready_requests {
 public:
  using ready_requests::ready_requests;
};

}  // namespace gyre::io::detail
