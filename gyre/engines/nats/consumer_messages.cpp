// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/nats/consumer_messages.hpp>

#include <gyre/engines/nats/detail/pull_reader.hpp>
#include <gyre/engines/nats/detail/require_content.hpp>
#include <gyre/engines/nats/jetstream_error.hpp>

#include <string>
#include <system_error>
#include <utility>

namespace gyre::nats {
namespace {

using detail::pull_reader;
using outcome = pull_reader::outcome;

[[noreturn]] void throw_consumer_deleted(const pull_reader& reader) {
  throw std::system_error(make_error_code(jetstream_errc::consumer_deleted), reader.subject());
}

[[noreturn]] void throw_end(const pull_reader& reader, const pull_reader::event& end) {
  if (end.kind == outcome::consumer_deleted) throw_consumer_deleted(reader);
  jetstream_errc code = jetstream_errc::pull_refused;
  if (end.kind == outcome::message_too_large) code = jetstream_errc::message_too_large;
  std::string message(reader.subject());
  if (end.kind == outcome::refused) message.append(": ").append(end.content.description());
  throw std::system_error(make_error_code(code), message);
}

bool is_passing(outcome kind) noexcept {
  return kind == outcome::silent || kind == outcome::no_responders || kind == outcome::drained;
}

}  // namespace

consumer_messages::consumer_messages(std::unique_ptr<pull_reader> reader) noexcept
    : reader_(std::move(reader)) {}
consumer_messages::consumer_messages(consumer_messages&&) noexcept = default;
consumer_messages& consumer_messages::operator=(consumer_messages&&) noexcept = default;
consumer_messages::~consumer_messages() = default;

pull_reader& consumer_messages::checked_reader() const {
  detail::require_content(reader_, "consumer_messages");
  return *reader_;
}

task<std::optional<jetstream_message>> consumer_messages::next() {
  pull_reader& reader = checked_reader();
  for (;;) {
    task<pull_reader::event> read_task = reader.next();
    pull_reader::event event = co_await std::move(read_task);
    if (event.kind == outcome::message) {
      co_return jetstream_message(reader.core(), std::move(event.content));
    }
    if (event.kind == outcome::closed) co_return std::nullopt;
    if (event.kind == outcome::no_responders) {
      task<bool> ask_task = reader.may_have_consumer();
      const bool may_have_consumer = co_await std::move(ask_task);
      if (!may_have_consumer) throw_consumer_deleted(reader);
    }
    if (!is_passing(event.kind)) throw_end(reader, event);
  }
}

std::optional<jetstream_message> consumer_messages::try_next() {
  pull_reader& reader = checked_reader();
  for (;;) {
    std::optional<pull_reader::event> event = reader.try_next();
    if (!event || event->kind == outcome::closed) return std::nullopt;
    if (event->kind == outcome::message) {
      return jetstream_message(reader.core(), std::move(event->content));
    }
    if (!is_passing(event->kind)) throw_end(reader, *event);
  }
}

std::uint64_t consumer_messages::missed_heartbeats() const noexcept {
  return reader_ != nullptr ? reader_->missed_heartbeats() : 0;
}

}  // namespace gyre::nats
