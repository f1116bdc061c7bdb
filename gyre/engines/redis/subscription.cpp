// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/redis/subscription.hpp>

#include <gyre/engines/redis/detail/client_core.hpp>
#include <gyre/engines/redis/detail/message_queue.hpp>

namespace gyre::redis {

subscription& subscription::operator=(subscription&& other) noexcept {
  subscription replacement(std::move(other));
  std::swap(core_, replacement.core_);
  std::swap(queue_, replacement.queue_);
  return *this;
}

subscription::~subscription() {
  if (core_ != nullptr) core_->unsubscribe(*queue_);
}

task<std::optional<message>> subscription::next() { return detail::message_queue::next(queue_); }

std::optional<message> subscription::try_next() {
  return queue_ != nullptr ? queue_->pop() : std::nullopt;
}

std::uint64_t subscription::dropped() const noexcept {
  return queue_ != nullptr ? queue_->dropped() : 0;
}

}  // namespace gyre::redis
