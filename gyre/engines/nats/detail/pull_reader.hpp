// SPDX-License-Identifier: Apache-2.0
// pull_reader: requests messages of a consumer again and again, ahead of the program that reads
// them.
//
// Requests of one generation share a reply subject, "INBOX.GENERATION", on which their statuses
// come. When the outcome of requests is unknown (the connection was replaced, the server is silent)
// a new generation begins, and statuses of earlier ones do not count.
#pragma once

#include <gyre/base/clock.hpp>
#include <gyre/engines/nats/detail/jetstream_core.hpp>
#include <gyre/engines/nats/fetch_options.hpp>
#include <gyre/engines/nats/message.hpp>
#include <gyre/engines/nats/subscription.hpp>
#include <gyre/task/task.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace gyre::nats::detail {

/// Returns the text of a request for messages. Parameters of zero are left out.
std::string write_pull(std::size_t messages, std::size_t bytes, duration expires,
                       duration heartbeat, bool may_wait);

/// Thread-safety: the loop's thread; one coroutine waits at a time.
class pull_reader {
 public:
  enum class outcome : unsigned char {
    message,
    drained,        ///< there is no message at present
    silent,         ///< nothing has come for two heartbeats
    no_responders,  ///< the consumer does not exist, or has no leader
    consumer_deleted,
    refused,            ///< the content's description says why
    message_too_large,  ///< a message exceeds max_bytes
    closed,             ///< the client was closed
  };
  struct event {
    outcome kind = outcome::closed;
    message content = {};
  };
  /// Whether to wait for messages, or to end with outcome::drained when there is none.
  enum class mode : unsigned char { wait, drain };

  /// Throws std::invalid_argument for options that make no sense, and errors of subscribing.
  pull_reader(std::shared_ptr<jetstream_core> core, const std::string& stream,
              const std::string& consumer, const messages_options& options);

  const std::shared_ptr<jetstream_core>& core() const noexcept { return core_; }
  /// Returns the subject of the requests, for messages of errors.
  const std::string& subject() const noexcept { return request_subject_; }
  std::uint64_t missed_heartbeats() const noexcept { return missed_heartbeats_; }

  /// Returns the next event. After an event that is not a message, the next call requests messages
  /// again, after a failure with a pause. A stop of the wait loses no event.
  task<event> next(mode read_mode = mode::wait);
  /// Called after outcome::no_responders: asks whether the consumer still exists. Returns true even
  /// if no server can tell at present. Errors: operation_cancelled.
  task<bool> may_have_consumer() const;
  /// Returns the next event, if one has come, and requests further messages.
  std::optional<event> try_next();

 private:
  bool wants_request(mode read_mode) const noexcept;
  std::string write_request(mode read_mode) const;
  void note_request() noexcept;
  task<> send_request(mode read_mode);
  /// Sends a request if one is due and need not wait.
  void request_ahead() noexcept;

  std::optional<message> take_arrival();
  std::optional<event> classify(message&& content);
  void end_request(const message& status) noexcept;
  void begin_generation();
  /// Begins a generation if the requests were sent on an earlier connection.
  void notice_login();
  void pause_requests() noexcept;
  /// Whether the server is silent; a new generation has then begun.
  bool notice_silence();

  const std::shared_ptr<jetstream_core> core_;
  const messages_options options_;
  const std::string consumer_;  // the consumer's name in the API: "STREAM.CONSUMER"
  const std::string request_subject_;
  const std::string inbox_;  // the prefix of reply subjects, with a '.' at its end
  subscription arrivals_;
  std::string reply_;  // the reply subject of this generation
  std::uint64_t generation_ = 0;
  std::size_t requested_messages_ = 0;   // messages that were requested, but not returned
  bool has_delivered_ = false;           // whether the last request has brought a message
  std::uint64_t logins_ = 0;             // the client's number of logins at the last request
  std::uint64_t received_messages_ = 0;  // the subscription's count at the last check
  steady_time last_activity_ = {};       // the time of the last request or arrival
  steady_time resume_time_ = steady_time::min();  // the end of the pause after failures
  std::size_t failures_ = 0;                      // how many requests in a row have failed
  std::uint64_t missed_heartbeats_ = 0;
  std::optional<message> arrival_;  // the message that ended a wait
};

}  // namespace gyre::nats::detail
