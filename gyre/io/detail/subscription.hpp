// SPDX-License-Identifier: Apache-2.0
// subscription: something that io_uring does for a handle until it is cancelled, and how
// completions name it.
#pragma once

#include <gyre/base/detail/flag_set.hpp>

#include <liburing.h>

#include <array>
#include <cstdint>
#include <utility>

namespace gyre::io::detail {

/// A service of the kernel for a handle. Each is in one of these states; in brackets: the sets of
/// the handle's registration that hold it. Submit: the loop submits all changes.
///
///                                   | subscribe | unsubscribe | submit     | last completion
///                                   |           |             |            | seen (3) | taken
///     idle       []                 | requested | -           | -          | -        | -
///     requested  [wanted]           | -         | idle        | armed (1)  | -        | -
///     armed      [wanted, armed]    | -         | unwanted    | - (1)      | ended    | idle
///     unwanted   [armed]            | armed     | -           | cancelling | ended    | idle
///     cancelling [armed, cancelled] | - (2)     | -           | -          | ended    | idle
///     ended      [armed, ended]     | - (2)     | -           | -          | -        | idle
///
/// (1) Is unsubscribed first if no request waits for it any more.
/// (2) `wanted` is noted, and dropped with the last completion; then the request is tried
///     again, and subscribes anew.
/// (3) When a handle is closed, all completions that are ready are looked at without being taken.
enum class subscription : std::uint8_t {
  readable = 1,  // tells when the descriptor becomes readable
  writable = 2,
  receive = 4,  // receives all that comes
  accept = 8    // accepts all connections
};

using subscription_set = gyre::detail::flag_set<subscription>;

inline constexpr std::array all_subscriptions = {subscription::readable, subscription::writable,
                                                 subscription::receive, subscription::accept};

/// The `user_data` of a subscription's completions. From its lowest bit: a tag, the subscription,
/// the handle's generation, its index.
struct subscription_id {
  static constexpr std::uint8_t tag = 1;
  static constexpr std::uint32_t generation_mask = 0xffff;

  subscription which;
  std::uint32_t generation;
  std::uint32_t index;

  constexpr explicit operator std::uint64_t() const noexcept {
    return tag | std::uint64_t{std::to_underlying(which)} << 8 | std::uint64_t{generation} << 16 |
           std::uint64_t{index} << 32;
  }
};

inline std::uint8_t tag_of(const io_uring_cqe& completion) noexcept {
  return static_cast<std::uint8_t>(completion.user_data);
}
inline subscription_id id_of(const io_uring_cqe& completion) noexcept {
  return {static_cast<subscription>(completion.user_data >> 8 & 0xff),
          static_cast<std::uint32_t>(completion.user_data >> 16) & subscription_id::generation_mask,
          static_cast<std::uint32_t>(completion.user_data >> 32)};
}
inline subscription subscription_of(const io_uring_cqe& completion) noexcept {
  return id_of(completion).which;
}

}  // namespace gyre::io::detail
