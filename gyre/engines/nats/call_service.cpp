// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/nats/call_service.hpp>

#include <gyre/base/detail/parse_decimal.hpp>
#include <gyre/engines/nats/detail/client_core.hpp>
#include <gyre/engines/nats/detail/service_core.hpp>
#include <gyre/engines/nats/detail/service_json.hpp>
#include <gyre/task/as_expected.hpp>
#include <gyre/task/time_limit_error.hpp>
#include <gyre/task/with_timeout.hpp>

#include <chrono>
#include <optional>
#include <string>
#include <utility>

namespace gyre::nats {
namespace {

using detail::client_core;

// The error code of a reply that has no number as its code.
constexpr int unknown_code = 500;

task<message> call(std::shared_ptr<client_core> core, std::string_view subject,
                   payload_view payload, request_options options, headers lines) {
  options.headers = lines;
  task<message> request_task = client_core::request(core, subject, payload, options);
  message reply = co_await std::move(request_task);
  const auto code = reply.headers().find(detail::error_code_header);
  if (!code) co_return reply;
  const std::string text(reply.headers().find(detail::error_header).value_or("error"));
  throw service_error(gyre::detail::parse_decimal<int>(*code).value_or(unknown_code), text);
}

task<std::vector<service_info>> find(std::shared_ptr<client_core> core, std::string subject,
                                     find_options options) {
  const std::string inbox = client_core::of(core).new_inbox();
  subscription replies =
      client_core::subscribe(core, inbox, {.max_messages = options.max_instances});
  task<> publish_task = client_core::publish(core, subject, {}, publish_options{.reply = inbox});
  co_await std::move(publish_task);
  const steady_time deadline = core->loop().deadline_after(options.wait);
  std::vector<service_info> result;
  while (result.size() < options.max_instances) {
    auto next_reply = as_expected(with_timeout(replies.next(), deadline - core->loop().now()));
    const auto reply = co_await std::move(next_reply);
    if (!reply && reply.error() != time_limit_errc::expired) {
      throw std::system_error(reply.error(), subject);
    }
    if (!reply || !*reply || (*reply)->status() != 0) break;  // status 503: no service runs
    if (auto info = detail::read_info_reply((*reply)->text())) result.push_back(std::move(*info));
  }
  co_return result;
}

}  // namespace

task<message> call_service(client& bus, std::string_view subject, payload_view payload,
                           request_options options) {
  headers lines;
  if (!options.headers.empty()) lines = headers(options.headers);
  if (options.timeout) {
    const auto remaining_time = std::chrono::ceil<std::chrono::milliseconds>(
        static_cast<std::chrono::nanoseconds>(*options.timeout));
    lines.set(detail::timeout_header, std::to_string(remaining_time.count()));
  }
  return call(bus.core(), subject, payload, options, std::move(lines));
}

task<std::vector<service_info>> find_services(client& bus, std::string_view name,
                                              find_options options) {
  std::string subject = "$SRV.INFO";
  if (!name.empty()) {
    detail::check_service_name(name);
    subject.append(".").append(name);
  }
  return find(bus.core(), std::move(subject), options);
}

}  // namespace gyre::nats
