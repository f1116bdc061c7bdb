// SPDX-License-Identifier: Apache-2.0
// Requests on io_uring: takes the completions of subscriptions to the requests that wait for them.
// All that the kernel is not subscribed to is done by calls, as ready_requests does it.
#pragma once

#include <gyre/io/detail/ready_requests.hpp>
#include <gyre/io/detail/uring_subscriptions.hpp>

#include <liburing.h>

#include <cstddef>
#include <cstdint>

namespace gyre::io::detail {

class uring_requests final : public ready_requests {
 public:
  uring_requests(uring_owner& owner, uring_subscriptions& subscriptions) noexcept
      : ready_requests(subscriptions), owner_(owner), subscriptions_(subscriptions) {}

  file_service* files() noexcept override { return owner_.files(); }

  // The poller's.
  void serve_completion(const io_uring_cqe& completion, std::size_t& completed);
  /// Tries the requests again that wait only because of a short read.
  void retry_short_reads() noexcept;
  /// Tries all requests under way again, after the ring and all subscriptions were given up.
  void restart() noexcept;
  /// How many completions were looked at before they were taken, to close handles.
  std::uint64_t examined_completions() const noexcept { return subscriptions_.examined(); }

 private:
  uring_owner& owner_;
  uring_subscriptions& subscriptions_;
};

}  // namespace gyre::io::detail
