// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/postgres/subscription.hpp>

#include <gyre/engines/postgres/detail/listener.hpp>
#include <gyre/engines/postgres/detail/notification_queue.hpp>

namespace gyre::postgres {

subscription& subscription::operator=(subscription&& other) noexcept {
  subscription replacement(std::move(other));
  std::swap(owner_, replacement.owner_);
  std::swap(queue_, replacement.queue_);
  return *this;
}

subscription::~subscription() {
  if (owner_ != nullptr) owner_->remove(*queue_);
}

task<std::optional<notification>> subscription::next() {
  return detail::notification_queue::next(queue_);
}

std::optional<notification> subscription::try_next() {
  return queue_ != nullptr ? queue_->pop() : std::nullopt;
}

std::uint64_t subscription::dropped() const noexcept {
  return queue_ != nullptr ? queue_->dropped() : 0;
}

}  // namespace gyre::postgres
