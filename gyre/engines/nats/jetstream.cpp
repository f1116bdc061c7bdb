// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/nats/jetstream.hpp>

#include <gyre/engines/nats/client.hpp>
#include <gyre/engines/nats/detail/api_json.hpp>
#include <gyre/engines/nats/detail/jetstream_core.hpp>
#include <gyre/engines/nats/detail/require_content.hpp>
#include <gyre/engines/nats/detail/subject.hpp>

#include <chrono>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace gyre::nats {
namespace {

using detail::check_name;
using detail::jetstream_core;

// The largest accepted list of names, which comes in parts: a faulty server must not send parts
// without end.
constexpr std::size_t max_names = std::size_t{1} << 20;

headers headers_of(const stream_publish_options& options) {
  headers result;
  if (!options.headers.empty()) result = headers(options.headers);
  const auto set = [&result](std::string_view name, std::string_view value) {
    if (!value.empty()) result.set(name, value);
  };
  set("Nats-Msg-Id", options.message_id);
  set("Nats-Expected-Stream", options.expected_stream);
  set("Nats-Expected-Last-Msg-Id", options.expected_last_message_id);
  if (options.expected_last_sequence) {
    set("Nats-Expected-Last-Sequence", std::to_string(*options.expected_last_sequence));
  }
  if (options.expected_last_subject_sequence) {
    set("Nats-Expected-Last-Subject-Sequence",
        std::to_string(*options.expected_last_subject_sequence));
  }
  if (options.time_to_live > duration::zero()) {
    const auto seconds = std::chrono::ceil<std::chrono::seconds>(
        static_cast<std::chrono::nanoseconds>(options.time_to_live));
    set("Nats-TTL", std::to_string(seconds.count()) + 's');
  }
  return result;
}

// The headers are copied into the frame; the other arguments belong to the caller.
task<publish_ack> publish_with(std::shared_ptr<jetstream_core> core, std::string_view subject,
                               payload_view payload, headers lines,
                               stream_publish_options options) {
  const jetstream_core::request new_request{.subject = subject,
                                            .payload = payload,
                                            .headers = lines,
                                            .is_repeatable = !options.message_id.empty(),
                                            .timeout = options.timeout};
  task<publish_ack> request_task =
      jetstream_core::ask(core, new_request, &detail::read_publish_ack);
  co_return co_await std::move(request_task);
}

task<std::vector<std::string>> names(std::shared_ptr<jetstream_core> core, std::string api_name,
                                     std::string subject) {
  std::vector<std::string> result;
  for (;;) {
    task<detail::name_page> request_task = jetstream_core::call(
        core, api_name, detail::write_names_request(subject, result.size()), &detail::read_names);
    detail::name_page page = co_await std::move(request_task);
    if (page.names.empty()) co_return result;
    for (std::string& name : page.names) result.push_back(std::move(name));
    if (result.size() >= page.total || result.size() >= max_names) co_return result;
  }
}

stored_message stored(detail::raw_message&& content) {
  stored_message result{.subject = std::move(content.subject),
                        .sequence = content.sequence,
                        .stored = content.time,
                        .text = std::move(content.payload)};
  const std::size_t line_end = content.headers.find("\r\n");
  if (line_end != std::string::npos) {
    result.headers =
        headers::copy_received(header_view(std::string_view(content.headers).substr(line_end + 2)));
  }
  return result;
}

task<std::optional<stored_message>> find_message(std::shared_ptr<jetstream_core> core,
                                                 std::string stream, std::string body) {
  try {
    task<detail::raw_message> request_task = jetstream_core::call(
        core, "STREAM.MSG.GET." + stream, std::move(body), &detail::read_message);
    detail::raw_message content = co_await std::move(request_task);
    co_return stored(std::move(content));
  } catch (const server_error& error) {
    if (error.code() != jetstream_errc::message_not_found) throw;
  }
  co_return std::nullopt;
}

// Returns the end of the API's subject. It lacks a name for an ephemeral consumer without one,
// which the server names.
std::string consumer_function(std::string_view stream, const consumer_config& config) {
  std::string api_name = "CONSUMER.CREATE." + std::string(stream);
  if (!config.name.empty()) api_name.append(".").append(config.name);
  return api_name;
}

}  // namespace

jetstream::jetstream(client& bus, jetstream_options options)
    : core_(std::make_shared<jetstream_core>(bus.core(), std::move(options))) {}

const std::shared_ptr<jetstream_core>& jetstream::checked_core() const {
  detail::require_content(core_, "jetstream");
  return core_;
}

// --- Publishing ---

task<publish_ack> jetstream::publish(std::string_view subject, payload_view payload,
                                     stream_publish_options options) const {
  return publish_with(checked_core(), subject, payload, headers_of(options), options);
}

task<join_handle<publish_ack>> jetstream::publish_async(std::string_view subject,
                                                        payload_view payload,
                                                        stream_publish_options options) const {
  return jetstream_core::publish_async(checked_core(), std::string(subject),
                                       std::string(payload.text()), headers_of(options),
                                       !options.message_id.empty(), options.timeout);
}

std::size_t jetstream::unacknowledged() const noexcept {
  return core_ != nullptr ? core_->unacknowledged() : 0;
}

// --- Streams ---

task<stream_info> jetstream::create_stream(
    gyre::detail::awaited_value<stream_config> config) const {
  const stream_config config_of_stream = std::move(config);
  check_name("stream", config_of_stream.name);
  return jetstream_core::call(checked_core(), "STREAM.CREATE." + config_of_stream.name,
                              detail::write_stream(config_of_stream), &detail::read_stream);
}

task<stream_info> jetstream::update_stream(
    gyre::detail::awaited_value<stream_config> config) const {
  const stream_config stream_settings = std::move(config);
  check_name("stream", stream_settings.name);
  return jetstream_core::call(checked_core(), "STREAM.UPDATE." + stream_settings.name,
                              detail::write_stream(stream_settings), &detail::read_stream);
}

task<stream_info> jetstream::stream(std::string_view name) const {
  check_name("stream", name);
  return jetstream_core::call(checked_core(), "STREAM.INFO." + std::string(name), "",
                              &detail::read_stream);
}

task<> jetstream::delete_stream(std::string_view name) const {
  check_name("stream", name);
  return jetstream_core::call(checked_core(), "STREAM.DELETE." + std::string(name), "",
                              &detail::read_confirmation, false);
}

task<std::uint64_t> jetstream::purge_stream(std::string_view name, purge_options options) const {
  check_name("stream", name);
  if (options.sequence && options.keep) {
    throw std::invalid_argument("gyre::nats::jetstream::purge_stream: set either sequence or keep");
  }
  return jetstream_core::call(checked_core(), "STREAM.PURGE." + std::string(name),
                              detail::write_purge(options), &detail::read_purge, false);
}

task<std::vector<std::string>> jetstream::stream_names(std::string_view subject) const {
  return names(checked_core(), "STREAM.NAMES", std::string(subject));
}

task<std::optional<stored_message>> jetstream::message(std::string_view stream,
                                                       std::uint64_t sequence) const {
  check_name("stream", stream);
  return find_message(checked_core(), std::string(stream), detail::write_sequence(sequence));
}

task<std::optional<stored_message>> jetstream::last_message(std::string_view stream,
                                                            std::string_view subject) const {
  check_name("stream", stream);
  detail::check_pattern(subject);
  return find_message(checked_core(), std::string(stream), detail::write_last_of_subject(subject));
}

task<> jetstream::delete_message(std::string_view stream, std::uint64_t sequence) const {
  check_name("stream", stream);
  return jetstream_core::call(checked_core(), "STREAM.MSG.DELETE." + std::string(stream),
                              detail::write_sequence(sequence), &detail::read_confirmation, false);
}

// --- Consumers ---

namespace {

task<consumer_info> make_consumer(std::shared_ptr<jetstream_core> core, std::string stream,
                                  consumer_config config, detail::consumer_action action) {
  std::string body = detail::write_consumer(stream, config, action);
  task<consumer_info> request_task = jetstream_core::call(core, consumer_function(stream, config),
                                                          std::move(body), &detail::read_consumer);
  co_return co_await std::move(request_task);
}

}  // namespace

task<nats::consumer> jetstream::handle_of(std::shared_ptr<jetstream_core> core,
                                          task<consumer_info> request) {
  consumer_info info = co_await std::move(request);
  co_return nats::consumer(std::move(core), std::move(info.stream), std::move(info.name));
}

task<nats::consumer> jetstream::create_consumer(
    std::string_view stream, gyre::detail::awaited_value<consumer_config> config) const {
  consumer_config consumer_settings = std::move(config);
  check_name("stream", stream);
  if (!consumer_settings.name.empty()) check_name("consumer", consumer_settings.name);
  return handle_of(checked_core(),
                   make_consumer(checked_core(), std::string(stream), std::move(consumer_settings),
                                 detail::consumer_action::create));
}

task<nats::consumer> jetstream::update_consumer(
    std::string_view stream, gyre::detail::awaited_value<consumer_config> config) const {
  consumer_config consumer_settings = std::move(config);
  check_name("stream", stream);
  check_name("consumer", consumer_settings.name);
  return handle_of(checked_core(),
                   make_consumer(checked_core(), std::string(stream), std::move(consumer_settings),
                                 detail::consumer_action::update));
}

task<nats::consumer> jetstream::consumer(std::string_view stream, std::string_view name) const {
  check_name("stream", stream);
  check_name("consumer", name);
  return handle_of(checked_core(), jetstream_core::call(checked_core(),
                                                        "CONSUMER.INFO." + std::string(stream) +
                                                            '.' + std::string(name),
                                                        "", &detail::read_consumer));
}

task<> jetstream::delete_consumer(std::string_view stream, std::string_view name) const {
  check_name("stream", stream);
  check_name("consumer", name);
  return jetstream_core::call(checked_core(),
                              "CONSUMER.DELETE." + std::string(stream) + '.' + std::string(name),
                              "", &detail::read_confirmation, false);
}

task<std::vector<std::string>> jetstream::consumer_names(std::string_view stream) const {
  check_name("stream", stream);
  return names(checked_core(), "CONSUMER.NAMES." + std::string(stream), "");
}

task<account_info> jetstream::account() const {
  return jetstream_core::call(checked_core(), "INFO", "", &detail::read_account);
}

}  // namespace gyre::nats
