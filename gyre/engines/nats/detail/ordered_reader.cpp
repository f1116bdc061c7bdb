// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/nats/detail/ordered_reader.hpp>

#include <gyre/engines/nats/detail/api_json.hpp>
#include <gyre/engines/nats/jetstream_error.hpp>
#include <gyre/task/sleep.hpp>

#include <chrono>
#include <system_error>
#include <utility>

namespace gyre::nats::detail {
namespace {

using namespace std::chrono_literals;

// The time after which the server deletes a consumer that its reader has not deleted.
constexpr std::chrono::nanoseconds inactive_threshold = 1min;
// The pause before a lost consumer is replaced.
constexpr std::chrono::nanoseconds replacement_pause = 100ms;

}  // namespace

ordered_reader::ordered_reader(std::shared_ptr<jetstream_core> core, std::string stream,
                               consumer_config config)
    : core_(std::move(core)), stream_(std::move(stream)), config_(std::move(config)) {
  config_.is_durable = false;
  config_.ack = ack_policy::none;
  config_.max_deliveries = 1;
  config_.inactive_threshold = inactive_threshold;
  config_.memory_storage = true;
  config_.replicas = 1;
}

task<> ordered_reader::open_consumer() {
  if (last_message_) {
    config_.deliver = deliver_policy::from_sequence;
    config_.start_sequence = *last_message_ + 1;
  }
  task<consumer_info> create_task = jetstream_core::call(
      core_, "CONSUMER.CREATE." + stream_,
      write_consumer(stream_, config_, consumer_action::create), &read_consumer);
  consumer_info info = co_await std::move(create_task);
  consumer_ = std::move(info.name);
  reader_ = std::make_unique<pull_reader>(core_, stream_, consumer_, messages_options());
  consumer_sequence_ = 0;
  initial_left_ = info.pending;
  // A replacement of this consumer begins after this message, even if none has come from this one.
  if (config_.deliver == deliver_policy::following) last_message_ = info.delivered.stream_sequence;
}

void ordered_reader::close_consumer() noexcept {
  if (reader_ == nullptr) return;
  reader_.reset();
  try {
    const std::string subject = core_->api_subject("CONSUMER.DELETE." + stream_ + '.' + consumer_);
    static_cast<void>(client_core::try_publish(
        core_->client(), subject, {}, publish_options{.reply = core_->client()->new_inbox()}));
  } catch (...) {
    return;  // the server deletes the consumer after inactive_threshold
  }
}

std::optional<ordered_reader::ordered_message> ordered_reader::accept(message&& content) {
  std::optional<message_metadata> metadata = parse_ack_subject(content.reply());
  if (!metadata || metadata->consumer_sequence != consumer_sequence_ + 1) return std::nullopt;
  ++consumer_sequence_;
  last_message_ = metadata->stream_sequence;
  if (initial_left_ > 0) --initial_left_;
  if (metadata->pending == 0) initial_left_ = 0;
  return ordered_message{std::move(content), std::move(*metadata)};
}

task<std::optional<ordered_reader::ordered_message>> ordered_reader::read(
    pull_reader::mode read_mode) {
  using outcome = pull_reader::outcome;
  for (;;) {
    if (reader_ == nullptr) {
      task<> open_task = open_consumer();
      co_await std::move(open_task);
    }
    task<pull_reader::event> read_task = reader_->next(read_mode);
    pull_reader::event event = co_await std::move(read_task);
    switch (event.kind) {
      case outcome::closed:
      case outcome::drained: co_return std::nullopt;
      case outcome::message:
        if (auto message = accept(std::move(event.content))) co_return std::move(message);
        break;
      case outcome::refused:
      case outcome::message_too_large: {
        const std::string text =
            reader_->subject() + ": " + std::string(event.content.description());
        throw std::system_error(make_error_code(jetstream_errc::pull_refused), text);
      }
      case outcome::silent:
      case outcome::no_responders:
      case outcome::consumer_deleted: co_await sleep_for(replacement_pause);
    }
    close_consumer();
  }
}

task<std::optional<ordered_reader::ordered_message>> ordered_reader::next() {
  return read(pull_reader::mode::wait);
}

task<std::optional<ordered_reader::ordered_message>> ordered_reader::next_initial() {
  if (!has_initial_) co_return std::nullopt;
  if (reader_ == nullptr) {
    task<> open_task = open_consumer();
    co_await std::move(open_task);
  }
  if (initial_left_ > 0) {
    task<std::optional<ordered_message>> read_task = read(pull_reader::mode::drain);
    std::optional<ordered_message> result = co_await std::move(read_task);
    if (result) co_return std::move(result);
  }
  has_initial_ = false;
  co_return std::nullopt;
}

}  // namespace gyre::nats::detail
