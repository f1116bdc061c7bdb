// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/nats/detail/pull_reader.hpp>

#include <gyre/base/detail/parse_decimal.hpp>
#include <gyre/base/exponential_backoff.hpp>
#include <gyre/engines/nats/detail/api_json.hpp>
#include <gyre/engines/nats/detail/pull_status.hpp>
#include <gyre/engines/nats/jetstream_error.hpp>
#include <gyre/task/as_expected.hpp>
#include <gyre/task/sleep.hpp>
#include <gyre/task/time_limit_error.hpp>
#include <gyre/task/with_timeout.hpp>

#include <algorithm>
#include <chrono>
#include <limits>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace gyre::nats::detail {
namespace {

using namespace std::chrono_literals;

constexpr std::string_view ack_prefix = "$JS.ACK.";
constexpr exponential_backoff failure_delays{.initial = 50ms, .longest = 1s};
// How often a waiting reader checks for a new connection, whose server knows none of its requests.
constexpr std::chrono::nanoseconds login_interval = 1s;
constexpr std::size_t max_ahead = 1'000'000;
// The room in the queue for statuses beside messages.
constexpr std::size_t queued_statuses = 64;

messages_options validate(messages_options options) {
  const auto refuse = [](const char* problem) {
    throw std::invalid_argument(std::string("gyre::nats::consumer::messages: ") + problem);
  };
  if (options.max_messages == 0 || options.max_messages > max_ahead) {
    refuse("max_messages must be from 1 to 1000000");
  }
  if (options.heartbeat < 100ms || options.heartbeat > 30s) {
    refuse("heartbeat must be from 100 ms to 30 s");
  }
  if (options.expires < 2 * options.heartbeat) refuse("expires must be at least two heartbeats");
  return options;
}

// The queue holds twice as many messages as two requests: each request may be repeated after an
// unknown outcome.
subscription_options queue_options(const messages_options& options) {
  return {.max_messages = 4 * options.max_messages + queued_statuses,
          .max_bytes = std::numeric_limits<std::size_t>::max() / 2,
          .when_full = full_queue_policy::drop_newest};
}

}  // namespace

std::string write_pull(std::size_t messages, std::size_t bytes, duration expires,
                       duration heartbeat, bool may_wait) {
  std::string text = "{\"batch\":" + std::to_string(messages);
  const auto add = [&text](const char* key, auto value) {
    if (value > 0) text.append(",\"").append(key).append("\":").append(std::to_string(value));
  };
  add("max_bytes", bytes);
  add("expires", expires.count());
  add("idle_heartbeat", heartbeat.count());
  if (!may_wait) text += ",\"no_wait\":true";
  return text += '}';
}

pull_reader::pull_reader(std::shared_ptr<jetstream_core> core, const std::string& stream,
                         const std::string& consumer, const messages_options& options)
    : core_(std::move(core)),
      options_(validate(options)),
      consumer_(stream + '.' + consumer),
      request_subject_(core_->api_subject("CONSUMER.MSG.NEXT." + consumer_)),
      inbox_(core_->client()->new_inbox() + '.'),
      arrivals_(client_core::subscribe(core_->client(), inbox_ + '*', queue_options(options_))) {
  begin_generation();
}

void pull_reader::begin_generation() {
  reply_ = inbox_ + std::to_string(++generation_);
  requested_messages_ = 0;
}

void pull_reader::notice_login() {
  if (core_->client()->logins() != logins_ && requested_messages_ > 0) begin_generation();
}

void pull_reader::pause_requests() noexcept {
  resume_time_ = core_->loop().now() + failure_delays.delay(++failures_);
}

// --- Requests ---

bool pull_reader::wants_request(mode read_mode) const noexcept {
  // Such a request is sent alone: a limit of bytes is used up by messages on the way, whose sizes
  // are unknown yet, and a request without a wait is refused while another one is open.
  const bool is_single = options_.max_bytes > 0 || read_mode == mode::drain;
  return is_single ? requested_messages_ == 0 : requested_messages_ <= options_.max_messages / 2;
}

std::string pull_reader::write_request(mode read_mode) const {
  const std::size_t count = options_.max_messages - requested_messages_;
  return read_mode == mode::drain
             ? write_pull(count, options_.max_bytes, {}, {}, false)
             : write_pull(count, options_.max_bytes, options_.expires, options_.heartbeat, true);
}

void pull_reader::note_request() noexcept {
  requested_messages_ = options_.max_messages;
  has_delivered_ = false;
  logins_ = core_->client()->logins();
  last_activity_ = core_->loop().now();
}

task<> pull_reader::send_request(mode read_mode) {
  if (core_->loop().now() < resume_time_) co_await sleep_until(resume_time_);
  const std::string request = write_request(read_mode);
  note_request();
  try {
    task<> publish_task = client_core::publish(core_->client(), request_subject_, request,
                                               publish_options{.reply = reply_});
    co_await std::move(publish_task);
  } catch (...) {
    begin_generation();
    throw;
  }
  logins_ = core_->client()->logins();  // publish() may have waited for a new connection
}

void pull_reader::request_ahead() noexcept try {
  notice_login();
  if (!wants_request(mode::wait) || core_->loop().now() < resume_time_) return;
  const std::string request = write_request(mode::wait);
  const bool is_sent = client_core::try_publish(core_->client(), request_subject_, request,
                                                publish_options{.reply = reply_});
  if (is_sent) note_request();
} catch (...) {
  return;  // the caller's message must not be lost; the next request reports the failure
}

// --- Events ---

task<pull_reader::event> pull_reader::next(mode read_mode) {
  for (;;) {
    while (std::optional<message> arrival = take_arrival()) {
      std::optional<event> next_event = classify(std::move(*arrival));
      if (!next_event) continue;
      // The end of a request that an earlier call sent without a wait does not end this call.
      if (next_event->kind == outcome::drained && read_mode == mode::wait) continue;
      if (next_event->kind == outcome::message && read_mode == mode::wait) request_ahead();
      co_return std::move(*next_event);
    }
    if (arrivals_.has_ended()) co_return event{};
    notice_login();
    if (wants_request(read_mode)) {
      task<> send_task = send_request(read_mode);
      co_await std::move(send_task);
    }
    if (notice_silence()) co_return event{outcome::silent};

    const std::chrono::nanoseconds silence_limit =
        last_activity_ + 2 * options_.heartbeat - core_->loop().now();
    auto wait =
        as_expected(with_timeout(arrivals_.next(), std::min(silence_limit, login_interval)));
    auto result = co_await std::move(wait);
    if (result) {
      arrival_ = std::move(*result);
    } else if (result.error() != time_limit_errc::expired) {
      throw std::system_error(result.error(), request_subject_);
    }
  }
}

task<bool> pull_reader::may_have_consumer() const {
  auto call =
      as_expected(jetstream_core::call(core_, "CONSUMER.INFO." + consumer_, "", &read_consumer));
  const auto info = co_await std::move(call);
  co_return info || (info.error() != jetstream_errc::consumer_not_found &&
                     info.error() != jetstream_errc::stream_not_found);
}

std::optional<message> pull_reader::take_arrival() {
  if (arrival_) return std::exchange(arrival_, std::nullopt);
  return arrivals_.try_next();
}

std::optional<pull_reader::event> pull_reader::try_next() {
  while (std::optional<message> arrival = take_arrival()) {
    std::optional<event> next_event = classify(std::move(*arrival));
    if (!next_event) continue;
    if (next_event->kind == outcome::message) request_ahead();
    return next_event;
  }
  if (arrivals_.has_ended()) return event{};
  notice_login();
  static_cast<void>(notice_silence());
  request_ahead();
  return std::nullopt;
}

bool pull_reader::notice_silence() {
  const steady_time now = core_->loop().now();
  const bool has_news =
      std::exchange(received_messages_, arrivals_.received()) != arrivals_.received();
  // Silence counts only while there is a connection.
  if (has_news || !core_->client()->is_ready()) last_activity_ = now;
  if (now - last_activity_ < 2 * options_.heartbeat) return false;
  ++missed_heartbeats_;
  begin_generation();
  last_activity_ = now;
  return true;
}

std::optional<pull_reader::event> pull_reader::classify(message&& content) {
  // Messages of the stream are checked before the status, because a stored message may have one:
  // its publisher has set it.
  if (content.reply().starts_with(ack_prefix)) {
    if (requested_messages_ > 0) --requested_messages_;
    has_delivered_ = true;
    failures_ = 0;
    return event{outcome::message, std::move(content)};
  }
  if (content.subject() != reply_) return std::nullopt;  // a status of an earlier generation
  switch (classify_pull_status(content.status(), content.description())) {
    case pull_status::message:
    case pull_status::heartbeat: return std::nullopt;
    case pull_status::no_messages: begin_generation(); return event{outcome::drained};
    case pull_status::ended: end_request(content); return std::nullopt;
    case pull_status::ended_by_size:
      end_request(content);
      if (has_delivered_) return std::nullopt;
      begin_generation();
      return event{outcome::message_too_large};
    case pull_status::busy:
      begin_generation();
      pause_requests();
      return std::nullopt;
    case pull_status::no_responders:
      begin_generation();
      pause_requests();
      return event{outcome::no_responders};
    case pull_status::consumer_deleted: begin_generation(); return event{outcome::consumer_deleted};
    case pull_status::refused:
      begin_generation();
      pause_requests();
      return event{outcome::refused, std::move(content)};
  }
  return std::nullopt;
}

// Subtracts the messages that a request of this generation has ended without.
void pull_reader::end_request(const message& status) noexcept {
  const auto text = status.headers().find("Nats-Pending-Messages");
  const auto count = text ? gyre::detail::parse_decimal<std::size_t>(*text) : std::nullopt;
  if (!count) return begin_generation();
  requested_messages_ -= std::min(requested_messages_, *count);
}

}  // namespace gyre::nats::detail
