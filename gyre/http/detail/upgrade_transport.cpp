// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/detail/upgrade_transport.hpp>

#include <gyre/http/detail/exchange.hpp>

#include <system_error>

namespace gyre::http::detail {

upgrade_transport::upgrade_transport(upgraded_connection& connection) noexcept
    : owner_(*connection.owner_) {}

std::span<const std::byte> upgrade_transport::input() const noexcept {
  return std::as_bytes(std::span(owner_.body_.text()));
}

void upgrade_transport::consume(std::size_t count) noexcept {
  if (count == 0) return;
  owner_.body_.consume(count);
  owner_.body_.leave_memory();
  if (owner_.stream_ != nullptr) owner_.stream_->on_body_taken(count);
}

bool upgrade_transport::has_ended() const {
  if (owner_.body_.error() != no_error) {
    throw std::system_error(owner_.body_.error(), "http::websocket");
  }
  return !owner_.body_.expects_more();
}

std::optional<task<>> upgrade_transport::begin_wait(input_receiver& receiver) {
  owner_.receiver_ = &receiver;
  owner_.stream_->want_body();
  return std::nullopt;
}

void upgrade_transport::end_wait() noexcept { owner_.receiver_ = nullptr; }

std::optional<task<>> upgrade_transport::send(std::span<const std::byte> bytes) {
  if (bytes.empty()) return std::nullopt;
  const write_outcome outcome = owner_.write_now(bytes);
  if (outcome == write_outcome::taken && !owner_.must_yield(bytes.size())) return std::nullopt;
  return owner_.finish_write(bytes, outcome);
}

}  // namespace gyre::http::detail
