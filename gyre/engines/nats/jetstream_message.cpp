// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/nats/jetstream_message.hpp>

#include <gyre/engines/nats/detail/jetstream_core.hpp>
#include <gyre/engines/nats/error.hpp>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

namespace gyre::nats {

using detail::client_core;

message_metadata jetstream_message::metadata() const {
  return detail::parse_ack_subject(content_.reply()).value_or(message_metadata());
}

void jetstream_message::require_unacknowledged() const {
  if (core_ == nullptr) throw std::logic_error("gyre::nats::jetstream_message: it has no content");
  if (is_acknowledged_) {
    throw std::logic_error("gyre::nats::jetstream_message: it was acknowledged before");
  }
}

task<> jetstream_message::finish(std::string text) {
  require_unacknowledged();
  task<> publish_task =
      client_core::publish(core_->client(), content_.reply(), text, publish_options());
  co_await std::move(publish_task);
  is_acknowledged_ = true;
}

task<> jetstream_message::ack() { return finish("+ACK"); }

task<> jetstream_message::nak(duration delay) {
  if (delay <= duration::zero()) return finish("-NAK");
  return finish("-NAK {\"delay\":" + std::to_string(delay.count()) + '}');
}

task<> jetstream_message::term(std::string_view reason) {
  if (reason.empty()) return finish("+TERM");
  std::string text = "+TERM ";
  // Line breaks are replaced, as the server copies the reason, up to the payload's end, into the
  // advisory.
  std::ranges::replace_copy_if(
      reason, std::back_inserter(text),
      [](char character) { return character == '\r' || character == '\n'; }, ' ');
  return finish(std::move(text));
}

task<> jetstream_message::ack_sync(duration timeout) {
  require_unacknowledged();
  task<message> request_task = client_core::request(core_->client(), content_.reply(), "+ACK",
                                                    request_options{.timeout = timeout});
  static_cast<void>(co_await std::move(request_task));
  is_acknowledged_ = true;
}

task<> jetstream_message::in_progress() {
  require_unacknowledged();
  task<> publish_task =
      client_core::publish(core_->client(), content_.reply(), "+WPI", publish_options());
  co_await std::move(publish_task);
}

}  // namespace gyre::nats
