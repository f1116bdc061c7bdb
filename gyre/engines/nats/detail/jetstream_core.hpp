// SPDX-License-Identifier: Apache-2.0
// jetstream_core: requests to JetStream, which are sent again while no stream replies.
#pragma once

#include <gyre/base/clock.hpp>
#include <gyre/base/duration.hpp>
#include <gyre/engines/nats/detail/client_core.hpp>
#include <gyre/engines/nats/headers.hpp>
#include <gyre/engines/nats/jetstream_error.hpp>
#include <gyre/engines/nats/jetstream_options.hpp>
#include <gyre/engines/nats/message.hpp>
#include <gyre/engines/nats/payload_view.hpp>
#include <gyre/engines/nats/publish_ack.hpp>
#include <gyre/exec/event_loop.hpp>
#include <gyre/sync/semaphore.hpp>
#include <gyre/task/join_handle.hpp>
#include <gyre/task/sleep.hpp>
#include <gyre/task/task.hpp>

#include <cstddef>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace gyre::nats::detail {

/// Throws std::invalid_argument unless `name` is a valid name of a stream or a consumer. `kind` is
/// for the message.
void check_name(std::string_view kind, std::string_view name);

/// The calls of a jetstream are its static functions, whose first argument keeps the core.
///
/// Thread-safety: the loop's thread.
class jetstream_core {
 public:
  using shared = std::shared_ptr<jetstream_core>;
  /// Reads the result from a reply's text. `operation` is for errors.
  template <class T>
  using reader = T (*)(std::string_view reply, std::string_view operation);

  /// A request, whose views must outlive it.
  struct request {
    std::string_view subject;
    payload_view payload = {};
    header_view headers = {};
    /// Whether the request may reach a server twice.
    bool is_repeatable = false;
    std::optional<duration> timeout = std::nullopt;
  };

  jetstream_core(std::shared_ptr<client_core> client, jetstream_options options);

  const std::shared_ptr<client_core>& client() const noexcept { return client_; }
  event_loop& loop() const noexcept { return client_->loop(); }
  const jetstream_options& options() const noexcept { return options_; }
  /// Returns the subject of a function of the API, such as "STREAM.INFO.ORDERS".
  std::string api_subject(std::string_view api_name) const;
  std::size_t unacknowledged() const noexcept {
    return options_.max_unacknowledged - window_.available();
  }

  /// Sends a request until a stream or the API replies, and reads the reply. Sends it again as well
  /// after an error of the server that passes.
  template <class T>
  static task<T> ask(shared self, request api_request, reader<T> parse);
  /// Calls a function of the API, such as "STREAM.INFO.ORDERS", as ask() does.
  template <class T>
  static task<T> call(shared self, std::string api_name, std::string body, reader<T> parse,
                      bool is_repeatable = true);
  /// Sends a direct request, to which the reply is a message of the stream itself.
  static task<message> ask_directly(shared self, std::string subject, std::string body);
  static task<join_handle<publish_ack>> publish_async(shared self, std::string subject,
                                                      std::string payload, nats::headers headers,
                                                      bool is_repeatable,
                                                      std::optional<duration> timeout);

 private:
  /// The times at which a request is sent again.
  struct schedule {
    schedule(const jetstream_core& core, std::optional<duration> timeout) noexcept;

    steady_time deadline;            // no attempt continues after this time
    steady_time no_stream_deadline;  // no attempt follows "no responders" after this time
    std::size_t repetitions = 0;
  };

  /// Sends a request until a server or a service replies.
  static task<message> send_request(shared self, request api_request, schedule& attempts);
  /// Waits before a repetition. Returns false if there is no time for one.
  task<bool> wait_before_repetition(schedule& attempts, steady_time deadline) const;
  static task<publish_ack> publish_owned(shared self, std::string subject, std::string payload,
                                         nats::headers headers, bool is_repeatable,
                                         std::optional<duration> timeout, semaphore_permit permit);

  const std::shared_ptr<client_core> client_;
  const jetstream_options options_;
  const std::string prefix_;  // the beginning of the API's subjects, with a '.' at its end
  semaphore window_;
};

template <class T>
task<T> jetstream_core::ask(shared self, request api_request, reader<T> parse) {
  schedule attempts(*self, api_request.timeout);
  for (;;) {
    task<message> request_task = send_request(self, api_request, attempts);
    const message reply = co_await std::move(request_task);
    std::exception_ptr error;
    try {
      co_return parse(reply.text(), api_request.subject);
    } catch (const server_error& failure) {
      const bool is_transient = failure.code() == std::errc::resource_unavailable_try_again;
      if (!is_transient) throw;
      error = std::current_exception();
    }
    task<bool> wait_task = self->wait_before_repetition(attempts, attempts.deadline);
    const bool has_time = co_await std::move(wait_task);
    if (!has_time) std::rethrow_exception(error);
  }
}

template <class T>
task<T> jetstream_core::call(shared self, std::string api_name, std::string body, reader<T> parse,
                             bool is_repeatable) {
  const std::string subject = self->api_subject(api_name);
  const request new_request{.subject = subject, .payload = body, .is_repeatable = is_repeatable};
  task<T> request_task = ask(self, new_request, parse);
  co_return co_await std::move(request_task);
}

}  // namespace gyre::nats::detail
