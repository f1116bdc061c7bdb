// SPDX-License-Identifier: Apache-2.0
#include <gyre/io/detail/uring_requests.hpp>

#include <gyre/base/unique_fd.hpp>
#include <gyre/io/detail/early_data.hpp>

#include <cerrno>

namespace gyre::io::detail {
namespace {

// The kernel cannot watch a descriptor, for want of memory or because of its kind.
bool is_refusal(const io_uring_cqe& completion, subscription which) noexcept {
  return (which == subscription::readable || which == subscription::writable) &&
         completion.res < 0 && completion.res != -ECANCELED;
}

}  // namespace

void uring_requests::serve_completion(const io_uring_cqe& completion, std::size_t& completed) {
  handle* const target = subscriptions_.target_of(completion);
  if (target == nullptr) return subscriptions_.discard(completion);
  if (subscriptions_.deliver_bytes(*target, completion)) [[likely]] {
    const auto count = static_cast<std::size_t>(completion.res);
    return hand_over(*target->reader, result::of(count), completed);
  }
  if (subscriptions_.deliver_connection(*target, completion)) {
    unique_fd accepted(completion.res);
    auto& acceptor = static_cast<accept_request&>(*target->reader);
    if (!fill_peer(acceptor, accepted.get())) return;
    return hand_over(acceptor, result::of(static_cast<std::size_t>(accepted.release())), completed);
  }
  subscriptions_.record_for(*target, completion);
  const subscription which = subscription_of(completion);
  if (!is_refusal(completion, which)) return serve(*target, 0, completed);
  // To subscribe again would be in vain, or at once.
  request* const waiting = which == subscription::writable ? target->writer : target->reader;
  if (waiting != nullptr) hand_over(*waiting, result::failure(-completion.res), completed);
}

void uring_requests::retry_short_reads() noexcept {
  while (!subscriptions_.all_reads_confirmed()) {
    handle& next = subscriptions_.take_unconfirmed();
    if (next.reading() && next.flags.has(handle_flag::may_read)) serve_later(next);
  }
}

void uring_requests::restart() noexcept {
  subscriptions_.reset();
  for (handle* const each : handles()) {
    if (each != nullptr && (each->reading() || each->writing())) serve_later(*each);
  }
}

}  // namespace gyre::io::detail
