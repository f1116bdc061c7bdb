// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/nats/detail/jetstream_core.hpp>

#include <gyre/base/exponential_backoff.hpp>
#include <gyre/engines/nats/detail/api_json.hpp>
#include <gyre/engines/nats/detail/subject.hpp>
#include <gyre/engines/nats/error.hpp>

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <system_error>

namespace gyre::nats::detail {
namespace {

constexpr exponential_backoff repetition_delays{.initial = std::chrono::milliseconds{50},
                                                .longest = std::chrono::milliseconds{500}};

jetstream_options validate(jetstream_options options) {
  const auto refuse = [](const char* problem) {
    throw std::invalid_argument(std::string("gyre::nats::jetstream: ") + problem);
  };
  if (options.timeout <= duration::zero()) refuse("timeout must be above zero");
  if (options.attempt_timeout <= duration::zero()) refuse("attempt_timeout must be above zero");
  if (options.no_stream_timeout < duration::zero()) refuse("no_stream_timeout is below zero");
  if (options.max_unacknowledged == 0) refuse("max_unacknowledged must be at least 1");
  if (!options.domain.empty() && !options.api_prefix.empty()) {
    refuse("set either domain or api_prefix");
  }
  return options;
}

std::string api_prefix(const jetstream_options& options) {
  std::string prefix = options.api_prefix;
  if (prefix.empty())
    prefix = options.domain.empty() ? "$JS.API" : "$JS." + options.domain + ".API";
  check_subject(prefix);
  return prefix + '.';
}

[[noreturn]] void throw_no_stream(std::string_view subject) {
  throw std::system_error(make_error_code(jetstream_errc::no_stream), std::string(subject));
}

}  // namespace

void check_name(std::string_view kind, std::string_view name) {
  const bool is_name = !name.empty() && std::ranges::all_of(name, [](char character) {
    return character > ' ' && character != '\x7f' &&
           std::string_view(".*>/\\").find(character) == std::string_view::npos;
  });
  if (is_name) return;
  throw std::invalid_argument("gyre::nats: '" + std::string(name) + "' is no name of a " +
                              std::string(kind));
}

jetstream_core::jetstream_core(std::shared_ptr<client_core> client, jetstream_options options)
    : client_(std::move(client)),
      options_(validate(std::move(options))),
      prefix_(api_prefix(options_)),
      window_(options_.max_unacknowledged) {
  static_cast<void>(client_core::of(client_));  // throws for a client that was moved from
}

std::string jetstream_core::api_subject(std::string_view api_name) const {
  return prefix_ + std::string(api_name);
}

jetstream_core::schedule::schedule(const jetstream_core& core,
                                   std::optional<duration> timeout) noexcept
    : deadline(core.loop().deadline_after(timeout.value_or(core.options_.timeout))),
      no_stream_deadline(
          std::min(deadline, core.loop().deadline_after(core.options_.no_stream_timeout))) {}

task<bool> jetstream_core::wait_before_repetition(schedule& attempts, steady_time deadline) const {
  const duration delay = repetition_delays.delay(++attempts.repetitions);
  if (loop().now() + delay >= deadline) co_return false;
  co_await sleep_for(delay);
  co_return true;
}

task<message> jetstream_core::send_request(shared self, request api_request, schedule& attempts) {
  for (;;) {
    duration limit = attempts.deadline - self->loop().now();
    if (api_request.is_repeatable)
      limit = std::min<duration>(limit, self->options_.attempt_timeout);
    std::exception_ptr error;
    std::error_code code;
    try {
      task<message> request_task =
          client_core::request(self->client_, api_request.subject, api_request.payload,
                               request_options{.timeout = limit, .headers = api_request.headers});
      co_return co_await std::move(request_task);
    } catch (const std::system_error& failure) {
      code = failure.code();
      const bool is_lost = code == errc::request_timeout || code == errc::connection_lost;
      if (code != errc::no_responders && !(is_lost && api_request.is_repeatable)) throw;
      error = std::current_exception();
    }
    const bool has_no_stream = code == errc::no_responders;
    task<bool> wait_task = self->wait_before_repetition(
        attempts, has_no_stream ? attempts.no_stream_deadline : attempts.deadline);
    const bool has_time = co_await std::move(wait_task);
    if (has_time) continue;
    if (has_no_stream) throw_no_stream(api_request.subject);
    std::rethrow_exception(error);
  }
}

task<message> jetstream_core::ask_directly(shared self, std::string subject, std::string body) {
  schedule attempts(*self, std::nullopt);
  const request new_request{.subject = subject, .payload = body, .is_repeatable = true};
  task<message> request_task = send_request(self, new_request, attempts);
  co_return co_await std::move(request_task);
}

task<join_handle<publish_ack>> jetstream_core::publish_async(shared self, std::string subject,
                                                             std::string payload,
                                                             nats::headers headers,
                                                             bool is_repeatable,
                                                             std::optional<duration> timeout) {
  semaphore_permit permit = co_await self->window_.permit();
  event_loop& loop = self->loop();
  co_return spawn_joinable(
      loop, publish_owned(std::move(self), std::move(subject), std::move(payload),
                          std::move(headers), is_repeatable, timeout, std::move(permit)));
}

task<publish_ack> jetstream_core::publish_owned(shared self, std::string subject,
                                                std::string payload, nats::headers headers,
                                                bool is_repeatable, std::optional<duration> timeout,
                                                semaphore_permit permit) {
  // The local permit is released when the acknowledgement has come; the parameter would live as
  // long as the handle.
  const semaphore_permit own_permit = std::move(permit);
  const request new_request{.subject = subject,
                            .payload = payload,
                            .headers = headers,
                            .is_repeatable = is_repeatable,
                            .timeout = timeout};
  task<publish_ack> request_task = ask(self, new_request, &read_publish_ack);
  co_return co_await std::move(request_task);
}

}  // namespace gyre::nats::detail
