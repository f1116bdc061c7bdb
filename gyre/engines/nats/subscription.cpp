// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/nats/subscription.hpp>

#include <gyre/engines/nats/detail/client_core.hpp>
#include <gyre/engines/nats/detail/subscription_state.hpp>

#include <exception>

namespace gyre::nats {

subscription& subscription::operator=(subscription&& other) noexcept {
  subscription replacement(std::move(other));
  std::swap(core_, replacement.core_);
  std::swap(state_, replacement.state_);
  return *this;
}

task<std::optional<message>> subscription::next() {
  if (state_ == nullptr) co_return std::nullopt;
  const std::shared_ptr<detail::subscription_state> state = state_;
  for (;;) {
    if (detail::message_ptr first = state->pop()) co_return message(std::move(first));
    if (state->has_ended()) break;
    co_await state->wait();
  }
  state->note_consumed();
  if (state->error()) std::rethrow_exception(state->error());
  co_return std::nullopt;
}

std::optional<message> subscription::try_next() {
  if (state_ == nullptr) return std::nullopt;
  if (detail::message_ptr first = state_->pop()) return message(std::move(first));
  if (!state_->has_ended()) return std::nullopt;
  state_->note_consumed();
  if (state_->error()) std::rethrow_exception(state_->error());
  return std::nullopt;
}

void subscription::unsubscribe() noexcept {
  if (core_ != nullptr) core_->unsubscribe(*state_);
}

task<> subscription::drain() {
  if (core_ == nullptr) co_return;
  task<> drain_task = detail::client_core::drain_subscription(core_, state_);
  co_await std::move(drain_task);
}

std::string_view subscription::subject() const noexcept {
  return state_ != nullptr ? std::string_view(state_->subject()) : std::string_view();
}
bool subscription::has_ended() const noexcept { return state_ == nullptr || state_->has_ended(); }
std::size_t subscription::waiting() const noexcept {
  return state_ != nullptr ? state_->waiting() : 0;
}
std::size_t subscription::waiting_bytes() const noexcept {
  return state_ != nullptr ? state_->waiting_bytes() : 0;
}
std::uint64_t subscription::received() const noexcept {
  return state_ != nullptr ? state_->received() : 0;
}
std::uint64_t subscription::dropped() const noexcept {
  return state_ != nullptr ? state_->dropped() : 0;
}

}  // namespace gyre::nats
