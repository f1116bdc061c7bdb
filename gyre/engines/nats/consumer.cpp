// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/nats/consumer.hpp>

#include <gyre/engines/nats/detail/api_json.hpp>
#include <gyre/engines/nats/detail/jetstream_core.hpp>
#include <gyre/engines/nats/detail/pull_reader.hpp>
#include <gyre/engines/nats/detail/pull_status.hpp>
#include <gyre/engines/nats/detail/require_content.hpp>
#include <gyre/engines/nats/error.hpp>
#include <gyre/engines/nats/jetstream_error.hpp>
#include <gyre/engines/nats/subscription.hpp>
#include <gyre/task/as_expected.hpp>
#include <gyre/task/sleep.hpp>
#include <gyre/task/time_limit_error.hpp>
#include <gyre/task/with_timeout.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <system_error>

namespace gyre::nats {
namespace {

using namespace std::chrono_literals;
using detail::client_core;
using detail::jetstream_core;
using detail::pull_status;

// The client waits this much longer than the server, so that the server's report of the end arrives
// in time.
constexpr std::chrono::nanoseconds reply_time = 5s;
// The pause before a refused request is sent again: the server was busy.
constexpr std::chrono::nanoseconds fetch_pause = 100ms;
// The longest wait of one request. A fetch that waits longer sends several requests.
constexpr std::chrono::nanoseconds longest_request = 1h;
// How often a waiting fetch checks for a new connection, whose server does not know the request.
constexpr std::chrono::nanoseconds look_interval = 1s;
constexpr std::size_t max_fetch = 1'000'000;

// A call of fetch(). It has a subscription of its own, and sends one request in most cases.
class fetch_call {
 public:
  fetch_call(std::shared_ptr<jetstream_core> core, std::string request_subject,
             std::size_t max_messages, const fetch_options& options)
      : core_(std::move(core)),
        request_subject_(std::move(request_subject)),
        max_messages_(max_messages),
        options_(options),
        deadline_(core_->loop().deadline_after(options.expires)),
        inbox_(core_->client()->new_inbox()),
        arrivals_(
            client_core::subscribe(core_->client(), inbox_,
                                   {.max_messages = max_messages + 16,
                                    .max_bytes = std::numeric_limits<std::size_t>::max() / 2})) {}

  /// Sends a request for the messages that have not come, and collects them. Returns false if
  /// another request is needed.
  task<bool> collect() {
    const duration remaining_time =
        std::clamp<duration>(deadline_ - core_->loop().now(), duration::zero(), longest_request);
    const std::string text =
        detail::write_pull(max_messages_ - messages_.size(), options_.max_bytes, remaining_time, {},
                           options_.waits_for_all || must_wait_);
    task<> publish_task = client_core::publish(core_->client(), request_subject_, text,
                                               publish_options{.reply = inbox_});
    co_await std::move(publish_task);
    const std::uint64_t login = core_->client()->logins();
    const steady_time reply_deadline = core_->loop().deadline_after(remaining_time + reply_time);
    while (messages_.size() < max_messages_) {
      std::optional<message> arrival = arrivals_.try_next();
      if (!arrival) {
        const duration limit = reply_deadline - core_->loop().now();
        auto wait =
            as_expected(with_timeout(arrivals_.next(), std::min<duration>(limit, look_interval)));
        auto event = co_await std::move(wait);
        if (!event && event.error() != time_limit_errc::expired) {
          throw std::system_error(event.error(), request_subject_);
        }
        if (!event && core_->client()->logins() != login) co_return !has_time();
        if (!event && core_->loop().now() < reply_deadline) continue;
        if (!event && messages_.empty()) {
          throw std::system_error(make_error_code(errc::request_timeout), request_subject_);
        }
        if (!event || !*event) co_return true;
        arrival = std::move(*event);
      }
      if (const std::optional<bool> is_complete = handle_arrival(std::move(*arrival))) {
        if (*is_complete) co_return true;
        co_await sleep_for(fetch_pause);
        co_return false;
      }
    }
    co_return true;
  }
  std::vector<message> result() noexcept { return std::move(messages_); }

 private:
  // Returns nothing if the request continues, true if all messages have come, and false if the
  // request must be sent again.
  std::optional<bool> handle_arrival(message&& arrival) {
    if (arrival.subject() != inbox_) {
      messages_.push_back(std::move(arrival));
      return std::nullopt;
    }
    switch (detail::classify_pull_status(arrival.status(), arrival.description())) {
      case pull_status::message:
      case pull_status::heartbeat: return std::nullopt;
      case pull_status::no_messages:
      case pull_status::ended: return !has_time();
      case pull_status::busy: must_wait_ = true; return !has_time();
      case pull_status::no_responders:
        if (!has_time() && messages_.empty()) fail(jetstream_errc::no_stream);
        return !has_time();
      case pull_status::ended_by_size:
        if (messages_.empty()) fail(jetstream_errc::message_too_large);
        return true;
      case pull_status::consumer_deleted:
        if (messages_.empty()) fail(jetstream_errc::consumer_deleted);
        return true;
      case pull_status::refused:
        if (messages_.empty()) fail(jetstream_errc::pull_refused, arrival.description());
        return true;
    }
    return true;
  }
  // Whether the fetch needs more messages, and its deadline leaves time for another request.
  bool has_time() const noexcept {
    return (messages_.empty() || options_.waits_for_all) &&
           core_->loop().now() + fetch_pause < deadline_;
  }
  [[noreturn]] void fail(jetstream_errc code, std::string_view text = {}) const {
    std::string description = request_subject_;
    if (!text.empty()) description.append(": ").append(text);
    throw std::system_error(make_error_code(code), description);
  }

  const std::shared_ptr<jetstream_core> core_;
  const std::string request_subject_;
  const std::size_t max_messages_;
  const fetch_options options_;
  const steady_time deadline_;
  const std::string inbox_;
  subscription arrivals_;
  // Whether other clients wait; the server refuses a request without a wait then.
  bool must_wait_ = false;
  std::vector<message> messages_;
};

}  // namespace

const std::shared_ptr<jetstream_core>& consumer::checked_core() const {
  detail::require_content(core_, "consumer");
  return core_;
}

task<consumer_info> consumer::info() const {
  return jetstream_core::call(checked_core(), "CONSUMER.INFO." + stream_ + '.' + name_, "",
                              &detail::read_consumer);
}

task<std::vector<jetstream_message>> consumer::fetch(std::size_t max_messages,
                                                     fetch_options options) const {
  if (max_messages == 0 || max_messages > max_fetch) {
    throw std::invalid_argument(
        "gyre::nats::consumer::fetch: max_messages must be from 1 to 1000000");
  }
  if (options.waits_for_all && options.expires <= duration::zero()) {
    throw std::invalid_argument("gyre::nats::consumer::fetch: waits_for_all needs expires");
  }
  return fetch_messages(checked_core(), "CONSUMER.MSG.NEXT." + stream_ + '.' + name_, max_messages,
                        options);
}

task<std::vector<jetstream_message>> consumer::fetch_messages(std::shared_ptr<jetstream_core> core,
                                                              std::string api_name,
                                                              std::size_t max_messages,
                                                              fetch_options options) {
  fetch_call call(core, core->api_subject(api_name), max_messages, options);
  for (;;) {
    task<bool> collect_task = call.collect();
    const bool is_done = co_await std::move(collect_task);
    if (is_done) break;
  }
  std::vector<jetstream_message> result;
  for (message& message : call.result())
    result.push_back(jetstream_message(core, std::move(message)));
  co_return result;
}

task<std::optional<jetstream_message>> consumer::next(duration expires) const {
  return first_of(fetch(1, {.expires = expires}));
}

task<std::optional<jetstream_message>> consumer::first_of(
    task<std::vector<jetstream_message>> batch) {
  std::vector<jetstream_message> messages = co_await std::move(batch);
  if (messages.empty()) co_return std::nullopt;
  co_return std::move(messages.front());
}

consumer_messages consumer::messages(messages_options options) const {
  return consumer_messages(
      std::make_unique<detail::pull_reader>(checked_core(), stream_, name_, options));
}

}  // namespace gyre::nats
