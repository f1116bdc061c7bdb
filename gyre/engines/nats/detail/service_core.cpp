// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/nats/detail/service_core.hpp>

#include <gyre/base/detail/ascii.hpp>
#include <gyre/base/detail/parse_decimal.hpp>
#include <gyre/base/detail/system_clocks.hpp>
#include <gyre/base/detail/system_random.hpp>
#include <gyre/engines/nats/detail/service_json.hpp>
#include <gyre/engines/nats/detail/subject.hpp>
#include <gyre/engines/nats/error.hpp>
#include <gyre/engines/nats/service_error.hpp>
#include <gyre/task/as_expected.hpp>
#include <gyre/task/operation_cancelled.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/task/time_limit_error.hpp>
#include <gyre/task/when_all.hpp>
#include <gyre/task/with_timeout.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace gyre::nats::detail {
namespace {

constexpr const char* service_class = "gyre::nats::service";
constexpr std::size_t max_discovery_requests = 1024;
// Longer texts of exceptions are cut in replies and statistics.
constexpr std::size_t max_error_text = 1024;

constexpr int overload_code = 503;
constexpr int timed_out = 504;
constexpr int internal_error = 500;

[[noreturn]] void refuse_config(const std::string& problem) {
  throw std::invalid_argument(std::string(service_class) + ": " + problem);
}

bool is_name_character(char character) noexcept {
  return gyre::detail::is_letter(character) || gyre::detail::is_digit(character) ||
         character == '-' || character == '_';
}

// Matches parts of letters, digits and hyphens with '.' between them.
bool is_dotted(std::string_view text) noexcept {
  for (;;) {
    const std::size_t end = text.find('.');
    const std::string_view part = text.substr(0, end);
    const bool is_part = !part.empty() && std::ranges::all_of(part, [](char character) {
      return character != '_' && is_name_character(character);
    });
    if (!is_part) return false;
    if (end == std::string_view::npos) return true;
    text.remove_prefix(end + 1);
  }
}

// Matches "MAJOR.MINOR.PATCH", optionally followed by "-PRERELEASE" and "+BUILD".
bool is_semantic_version(std::string_view text) noexcept {
  if (const std::size_t plus = text.find('+'); plus != std::string_view::npos) {
    if (!is_dotted(text.substr(plus + 1))) return false;
    text = text.substr(0, plus);
  }
  if (const std::size_t hyphen = text.find('-'); hyphen != std::string_view::npos) {
    if (!is_dotted(text.substr(hyphen + 1))) return false;
    text = text.substr(0, hyphen);
  }
  const bool has_numbers = std::ranges::all_of(
      text, [](char character) { return gyre::detail::is_digit(character) || character == '.'; });
  return has_numbers && is_dotted(text) && std::ranges::count(text, '.') == 2;
}

std::string random_service_id() {
  constexpr std::string_view letters =
      "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_";
  std::array<std::byte, 22> random_bytes{};
  gyre::detail::require_random(random_bytes, service_class);
  std::string id;
  for (const std::byte byte : random_bytes) id += letters[std::to_integer<unsigned>(byte) % 64];
  return id;
}

// Returns the text as one line, because the value of a header must be one.
std::string header_text(std::string_view text) {
  std::string result(text.substr(0, max_error_text));
  std::ranges::replace_if(
      result, [](char character) { return character == '\r' || character == '\n'; }, ' ');
  return result;
}

std::size_t size_of(const message& content) noexcept {
  return content.text().size() + content.headers().lines().size();
}

service_config validate(service_config config) {
  check_service_name(config.name);
  if (!is_semantic_version(config.version)) {
    refuse_config("'" + config.version + "' is no semantic version, such as 1.0.0");
  }
  check_queue_group(config.queue_group);
  if (config.drain_timeout < duration::zero()) refuse_config("drain_timeout is below zero");
  return config;
}

endpoint_options validate(endpoint_options options) {
  if (options.max_concurrent == 0) refuse_config("max_concurrent must be at least 1");
  if (options.timeout <= duration::zero()) refuse_config("timeout must be above zero");
  return options;
}

}  // namespace

void check_service_name(std::string_view name) {
  if (!name.empty() && std::ranges::all_of(name, is_name_character)) return;
  refuse_config("'" + std::string(name) + "' is no name: letters, digits, '-' and '_'");
}

service_core::service_core(std::shared_ptr<client_core> client, service_config config)
    : client_(std::move(client)),
      config_(validate(std::move(config))),
      info_{.name = config_.name,
            .id = random_service_id(),
            .version = config_.version,
            .description = config_.description,
            .metadata = config_.metadata,
            .endpoints = {}},
      start_time_(gyre::detail::wall_now()) {}

// --- Coroutines ---

void service_core::start(task<> work) {
  spawn(client_->loop(), std::move(work),
        {.stop = stop_.get_token(),
         .on_error = [self = shared_from_this()](
                         std::exception_ptr error) { self->fail(std::move(error)); },
         .name = service_class});
}

void service_core::fail(std::exception_ptr error) noexcept {
  // stop() ends the coroutines by an error, which is no failure.
  if (stop_.stop_requested()) return;
  failure_ = std::move(error);
  stop();
}

void service_core::start() {
  constexpr std::array<std::pair<verb, const char*>, 3> verbs = {
      {{verb::ping, "$SRV.PING"}, {verb::info, "$SRV.INFO"}, {verb::stats, "$SRV.STATS"}}};
  for (const auto& [own_verb, name] : verbs) {
    for (const std::string& rest :
         {std::string(), '.' + info_.name, '.' + info_.name + '.' + id()}) {
      discovery& new_discovery = discoveries_.emplace_back(
          own_verb,
          client_core::subscribe(client_, name + rest, {.max_messages = max_discovery_requests}));
      start(serve_discovery(new_worker(), new_discovery));
    }
  }
}

void service_core::add_endpoint(std::string name, handler serve, endpoint_options options) {
  check_service_name(name);
  if (is_closed_) throw std::logic_error("gyre::nats::service: it has been stopped");
  endpoint& new_endpoint = endpoints_.emplace_back(std::move(serve), validate(options));
  try {
    if (new_endpoint.options.subject.empty()) new_endpoint.options.subject = name;
    if (new_endpoint.options.queue_group.empty())
      new_endpoint.options.queue_group = config_.queue_group;
    if (new_endpoint.options.has_no_queue_group) new_endpoint.options.queue_group.clear();
    new_endpoint.stats.endpoint = {.name = std::move(name),
                                   .subject = new_endpoint.options.subject,
                                   .queue_group = new_endpoint.options.queue_group,
                                   .metadata = new_endpoint.options.metadata};
    // The default limits of the queue suffice, as each turn empties it: requests wait in
    // coroutines, or are refused.
    new_endpoint.arrivals = client_core::subscribe(
        client_, new_endpoint.options.subject, {.queue_group = new_endpoint.options.queue_group});
    info_.endpoints.push_back(new_endpoint.stats.endpoint);
    start(receive_requests(new_worker(), new_endpoint));
  } catch (...) {
    if (info_.endpoints.size() == endpoints_.size()) info_.endpoints.pop_back();
    endpoints_.pop_back();
    throw;
  }
}

task<> service_core::receive_requests(worker self, endpoint& target) {
  for (;;) {
    task<std::optional<message>> arrival_task = target.arrivals.next();
    std::optional<message> content = co_await std::move(arrival_task);
    if (!content) co_return;
    self->admit_request(target, std::move(*content));
  }
}

task<> service_core::serve_discovery(worker self, discovery& source) {
  for (;;) {
    task<std::optional<message>> arrival_task = source.arrivals.next();
    const std::optional<message> request = co_await std::move(arrival_task);
    if (!request) co_return;
    if (request->reply().empty()) continue;
    const std::string text = self->discovery_reply(source.kind);
    task<> publish_task =
        client_core::publish(self->client_, request->reply(), text, publish_options());
    auto result = as_expected(std::move(publish_task));
    // A failure needs no report: the client asks again.
    static_cast<void>(co_await std::move(result));
  }
}

// --- Requests ---

steady_time service_core::deadline_of(const endpoint& target,
                                      const message& content) const noexcept {
  duration limit = target.options.timeout;
  if (const auto text = content.headers().find(timeout_header)) {
    const auto count = gyre::detail::parse_decimal<std::int64_t>(*text);
    if (count && *count >= 0) {
      limit = std::min<duration>(limit, duration(std::chrono::milliseconds{*count}));
    }
  }
  return client_->loop().deadline_after(limit);
}

void service_core::admit_request(endpoint& target, message&& content) {
  ++target.stats.requests;
  const endpoint_options& options = target.options;
  const std::size_t bytes = size_of(content);
  const bool has_slot = target.open < options.max_concurrent;
  const bool may_wait =
      target.open - std::min(target.open, options.max_concurrent) < options.max_waiting &&
      target.open_bytes + bytes <= options.max_bytes;
  if (has_slot || may_wait) {
    const steady_time deadline = deadline_of(target, content);
    start(serve_request(new_worker(), target, std::move(content), deadline));
    ++target.open;
    target.open_bytes += bytes;
    return;
  }
  ++target.stats.refused;
  const reply refusal = make_refusal(target, overload_code, "too many requests wait");
  if (content.reply().empty()) return;
  try {
    // A full output drops the refusal: the client then learns of it by its own time limit.
    static_cast<void>(client_core::try_publish(client_, content.reply(), refusal.text,
                                               {.headers = refusal.headers}));
  } catch (const std::system_error& error) {
    // The reply subject is invalid if the client has sent an invalid one.
    target.stats.last_error = std::to_string(internal_error) + ':' + header_text(error.what());
  }
}

service_core::reply service_core::make_refusal(endpoint& target, int code, std::string_view text) {
  ++target.stats.errors;
  target.stats.last_error = std::to_string(code) + ':' + header_text(text);
  reply refusal;
  refusal.headers.add(error_header, header_text(text));
  refusal.headers.add(error_code_header, std::to_string(code));
  return refusal;
}

task<service_core::reply> service_core::run_handler(endpoint& target,
                                                    const service_request& request) {
  const semaphore_permit slot = co_await target.slots.permit();
  ++target.stats.running;
  struct counted_run {
    std::size_t& running_count;
    ~counted_run() { --running_count; }
  } const count_guard{target.stats.running};
  task<service_response> work = target.serve(request);
  const service_response response = co_await std::move(work);
  co_return reply{response.text(), response.headers()};
}

task<> service_core::serve_request(worker self, endpoint& target, message content,
                                   steady_time deadline) {
  struct counted_request {
    endpoint& target;
    event_loop& loop;
    std::size_t bytes;
    steady_time begin = loop.now();
    ~counted_request() {
      --target.open;
      target.open_bytes -= bytes;
      target.stats.processing_time = target.stats.processing_time + (loop.now() - begin);
    }
  } const timing{target, self->client_->loop(), size_of(content)};

  const std::string reply_subject(content.reply());
  const service_request request(std::move(content), deadline);
  reply response;
  try {
    auto limited_call = with_timeout(run_handler(target, request), deadline - timing.begin);
    response = co_await std::move(limited_call);
  } catch (const service_error& error) {
    response = self->make_refusal(target, error.code(), error.text());
  } catch (const operation_cancelled&) {
    response = self->make_refusal(target, overload_code, "the service ends");
  } catch (const std::system_error& error) {
    // The same code may come from a time limit within the handler, so the deadline decides.
    if (error.code() == time_limit_errc::expired && self->client_->loop().now() >= deadline) {
      response = self->make_refusal(target, timed_out, "the request has taken too long");
    } else {
      response = self->make_refusal(target, internal_error, "internal error");
      target.stats.last_error = std::to_string(internal_error) + ':' + header_text(error.what());
    }
  } catch (const std::exception& error) {
    response = self->make_refusal(target, internal_error, "internal error");
    target.stats.last_error = std::to_string(internal_error) + ':' + header_text(error.what());
  } catch (...) {
    response = self->make_refusal(target, internal_error, "internal error");
  }
  if (reply_subject.empty()) co_return;
  task<> publish_task = self->publish_reply(target, reply_subject, std::move(response));
  co_await std::move(publish_task);
}

task<> service_core::publish_reply(endpoint& target, std::string_view subject, reply content) {
  const publish_options options{.headers = content.headers};
  std::error_code error;
  try {
    if (client_core::try_publish(client_, subject, content.text, options)) co_return;
    task<> publish_task = client_core::publish(client_, subject, content.text, options);
    co_return co_await std::move(publish_task);
  } catch (const std::system_error& failure) {
    error = failure.code();
  }
  const reply refusal = make_refusal(target, internal_error, "the reply cannot be sent");
  target.stats.last_error += ": " + header_text(error.message());
  if (error != errc::payload_too_large) co_return;
  static_cast<void>(
      client_core::try_publish(client_, subject, refusal.text, {.headers = refusal.headers}));
}

// --- The end ---

task<> service_core::drain(std::shared_ptr<service_core> self) {
  self->is_closed_ = true;
  std::vector<task<>> drain_tasks;
  for (endpoint& target : self->endpoints_) drain_tasks.push_back(target.arrivals.drain());
  for (discovery& source : self->discoveries_) drain_tasks.push_back(source.arrivals.drain());
  auto drain_task = when_all(std::move(drain_tasks));
  co_await std::move(drain_task);
  auto end = as_expected(with_timeout(self->end_event_.wait(), self->config_.drain_timeout));
  const auto in_time = co_await std::move(end);
  if (in_time) co_return;
  self->stop();
  co_await self->end_event_.wait();
}

void service_core::stop() noexcept {
  is_closed_ = true;
  for (endpoint& target : endpoints_) target.arrivals.unsubscribe();
  for (discovery& source : discoveries_) source.arrivals.unsubscribe();
  stop_.request_stop();
}

task<> service_core::wait(std::shared_ptr<service_core> self) {
  co_await self->end_event_.wait();
  if (self->failure_) std::rethrow_exception(self->failure_);
}

// --- Statistics ---

std::vector<endpoint_stats> service_core::stats() const {
  std::vector<endpoint_stats> result;
  for (const endpoint& source : endpoints_) {
    result.push_back(source.stats);
    result.back().waiting = source.open - std::min(source.open, source.stats.running);
  }
  return result;
}

void service_core::reset_stats() noexcept {
  for (endpoint& target : endpoints_) {
    target.stats.requests = 0;
    target.stats.errors = 0;
    target.stats.refused = 0;
    target.stats.last_error.clear();
    target.stats.processing_time = duration::zero();
  }
}

std::string service_core::discovery_reply(verb request) const {
  if (request == verb::ping) return write_ping_reply(info_);
  if (request == verb::info) return write_info_reply(info_);
  return write_stats_reply(info_, stats(), start_time_);
}

}  // namespace gyre::nats::detail
