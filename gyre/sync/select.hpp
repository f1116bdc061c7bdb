// SPDX-License-Identifier: Apache-2.0
// select: awaits the first of several operations and leaves the others undone.
//
//     auto chosen = co_await gyre::select(gyre::on_receive(jobs), gyre::on_send(log, line),
//                                         gyre::on_timeout(5s));
//     switch (chosen.index()) {
//       case 0: run(std::get<0>(chosen)); break;  // a std::optional<job>
//       case 1: break;                            // sent
//       case 2: throw too_slow();
//     }
#pragma once

#include <gyre/base/clock.hpp>
#include <gyre/base/detail/awaited_value.hpp>
#include <gyre/base/duration.hpp>
#include <gyre/sync/channel.hpp>
#include <gyre/sync/detail/channel_core.hpp>
#include <gyre/sync/detail/ring_buffer.hpp>
#include <gyre/sync/detail/select_awaiter.hpp>
#include <gyre/sync/detail/select_cases.hpp>
#include <gyre/sync/detail/single_wait.hpp>

#include <optional>
#include <system_error>
#include <type_traits>
#include <utility>

namespace gyre {

/// A case of select(): receives from `channel`, with the result of its receive(). broadcast.hpp,
/// watch.hpp and oneshot.hpp have cases of their own.
template <class T, class Buffer>
[[nodiscard]] auto on_receive(detail::channel_interface<T, Buffer>& channel) noexcept {
  return detail::receive_case(detail::channel_access::core(channel));
}

/// A case of select(): sends `value` like channel::send(). The result is std::monostate.
template <class T>
[[nodiscard]] auto on_send(channel<T>& channel,
                           std::type_identity_t<detail::awaited_value<T>> value) noexcept {
  using sending = detail::send_case<T, detail::ring_buffer<T>, T>;
  return sending(detail::channel_access::core(channel), static_cast<T&&>(std::move(value)));
}
/// Like on_send(), but moves from `value` only when it is sent, like channel::send_from().
template <class T>
[[nodiscard]] auto on_send_from(channel<T>& channel, std::type_identity_t<T>& value) noexcept {
  using sending = detail::send_case<T, detail::ring_buffer<T>, T&>;
  return sending(detail::channel_access::core(channel), value);
}

/// A case of select(): a limit of `delay` from the beginning of the wait. The result is timed_out.
[[nodiscard]] inline auto on_timeout(duration delay) noexcept {
  return detail::timeout_case(delay);
}
/// A case of select(): the time limit `deadline`. The result is timed_out.
[[nodiscard]] inline auto on_deadline(time_point deadline) noexcept {
  return detail::timeout_case(deadline);
}

/// Awaited, waits until one of `cases` can complete, completes that case and none of the others,
/// and returns a std::variant with its result at its index. If several can, the choice is random.
/// Cases may share a channel; there are 64 at most.
///
/// A closed channel completes its case at once: a send with an exception, a receive, if the channel
/// is empty, with nullopt. Values of on_send() that were not sent are destroyed. A select with a
/// time limit begins on a thread of its executor.
///
/// Lifetime: objects that the cases refer to must outlive the select.
/// Errors: operation_cancelled when asked to stop, and no case has completed;
/// std::errc::operation_not_supported for a time limit where the executor has no timers.
/// Complexity: a node in the queue of each case, no allocation. The locks of all their channels are
/// held at the same time for a few instructions.
template <detail::selectable... Cases>
[[nodiscard]] auto select(Cases... cases) noexcept {
  return detail::select_awaiter<Cases...>(std::move(cases)...);
}

/// Completes one of `cases` if one can complete now, else returns nullopt; needs no coroutine. Time
/// limits are not allowed as cases. Throws std::system_error (channel_errc::closed) for a send into
/// a closed channel.
template <detail::select_case... Cases>
[[nodiscard]] auto try_select(Cases... cases)
    -> std::optional<typename detail::select_cases<Cases...>::result_type> {
  detail::select_cases<Cases...> all(std::move(cases)...);
  const auto match = all.first([](auto& candidate) { return detail::attempt_now(candidate); });
  if (!match) return std::nullopt;
  if (const std::error_code error = all.error(*match)) throw std::system_error(error);
  return all.take(*match);
}

}  // namespace gyre
