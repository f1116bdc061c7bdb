// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/detail/client_call.hpp>

#include <gyre/http/detail/characters.hpp>
#include <gyre/http/detail/redirect_location.hpp>
#include <gyre/http/error.hpp>
#include <gyre/http/trace_propagation.hpp>
#include <gyre/io/error.hpp>
#include <gyre/task/as_result.hpp>
#include <gyre/task/detail/cancelled.hpp>
#include <gyre/task/detail/this_context.hpp>
#include <gyre/task/hedge.hpp>
#include <gyre/task/shielded.hpp>
#include <gyre/task/sleep.hpp>

#include <algorithm>
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace gyre::http::detail {
namespace {

// Removes the user and the password from the authority of a reference, because no error message may
// contain a password.
std::string without_user(std::string reference) {
  const std::size_t authority = reference.find("//");
  if (authority == reference.npos) return reference;
  const std::size_t begin = authority + 2;
  const std::size_t end = std::min(reference.find_first_of("/?#", begin), reference.size());
  const std::size_t position = std::string_view(reference).substr(0, end).rfind('@');
  if (position != reference.npos && position >= begin) reference.erase(begin, position + 1 - begin);
  return reference;
}

std::string name_of(const client_request& request) {
  const std::string target = request.url().to_string();
  std::string name;
  name.reserve(request.method_text().size() + 1 + target.size());
  return name.append(request.method_text()).append(" ").append(target);
}

// Throws the error of a request that cannot begin, in the form of request_clock::describe().
[[noreturn, gnu::cold]] void refuse(const client_request& request, io::errc error) {
  throw std::system_error(make_error_code(error),
                          "http::client: " + name_of(request) + ": connecting");
}

// A request of HTTP/2 that the server refuses is sent again this many times.
constexpr std::size_t max_refusals = 5;

// Adds the fields of the standard W3C Trace Context, unless the program has set them.
void add_trace(fields& target, const current_trace& trace) {
  if (target.contains("traceparent")) return;
  target.set("traceparent", trace.parent.make_child().to_string());
  if (!trace.state.empty()) target.set("tracestate", trace.state);
}

// Whether a status says that the server cannot serve requests at present.
bool is_failure(unsigned status) noexcept {
  constexpr unsigned not_implemented = 501, version_not_supported = 505;
  return status >= 500 && status != not_implemented && status != version_not_supported;
}

// Whether the server, or the way to it, has caused the error, rather than this program.
bool is_fault_of_server(const std::exception_ptr& error) noexcept {
  if (error == gyre::detail::cancellation()) return false;
  try {
    std::rethrow_exception(error);
  } catch (const std::system_error& failure) {
    const std::error_code code = failure.code();
    if (code.category() == http_category()) {
      switch (static_cast<errc>(code.value())) {
        case errc::body_too_large:
        case errc::too_many_redirects:
        case errc::bad_redirect:
        case errc::body_mismatch:
        case errc::unsupported_scheme:
        case errc::needs_tls:
        case errc::circuit_open:
        case errc::hedge_denied: return false;
        default: return true;
      }
    }
    const bool is_own =
        code == io::errc::waiting_limit || code == io::errc::closed || code == io::errc::not_open ||
        code == io::errc::wrong_thread || code == std::errc::operation_canceled ||
        code == std::errc::too_many_files_open ||
        code == std::errc::too_many_files_open_in_system || code == std::errc::not_enough_memory;
    return !is_own;
  } catch (...) {
    return false;
  }
}

}  // namespace

client_call::client_call(client_core& client, client_request request, executor& caller)
    : client_(client),
      request_(std::move(request)),
      clock_(client.loop(), request_.total_timeout_.value_or(client.options().timeouts.total),
             name_of(request_)),
      caller_(caller) {}

task<client_response> client_call::run(std::shared_ptr<client_core> client, client_request request,
                                       body form) {
  const bool is_hedged = client != nullptr && client->options().hedging &&
                         request.is_idempotent() && !request.is_streamed();
  return is_hedged ? run_hedged(std::move(client), std::move(request), form)
                   : run_attempt(std::move(client), std::move(request), form);
}

task<client_response> client_call::run_attempt(std::shared_ptr<client_core> client,
                                               client_request request, body form) {
  const task_context& context = co_await gyre::detail::this_context();
  if (client == nullptr) refuse(request, io::errc::not_open);
  if (context.where != &client->loop() && !client->loop().in_loop_thread()) {
    refuse(request, io::errc::wrong_thread);
  }
  if (client->options().sends_trace) {
    const std::optional<current_trace>& trace = co_await task_trace.get();
    if (trace) add_trace(request.fields(), *trace);
  }
  ++client->counts.requests;
  executor& caller = context.where != nullptr ? *context.where : client->loop();
  client_call call(*client, std::move(request), caller);
  std::exception_ptr error;
  try {
    task<> respond_task = call.respond(form);
    co_await std::move(respond_task);
  } catch (...) {
    error = gyre::detail::caught_error();
  }
  call.report_to_breaker(error);
  if (error && call.exchange_ && call.exchange_->is_uploading()) {
    auto end_task = shielded(call.exchange_->end_upload());
    co_await std::move(end_task);
  }
  co_await gyre::detail::fail_with(error);
  co_return client_response(std::move(call.exchange_));
}

// --- Hedged requests ---

task<client_response> client_call::run_hedged(std::shared_ptr<client_core> client,
                                              client_request request, body form) {
  struct outcome {
    client_response response;
    std::size_t attempt;
  };
  const task_context& context = co_await gyre::detail::this_context();
  if (context.where != &client->loop() && !client->loop().in_loop_thread()) {
    refuse(request, io::errc::wrong_thread);
  }
  const hedging_options& options = *client->options().hedging;
  double& budget = client->hedge_budget();
  budget = std::min(budget + options.max_share, client_core::max_hedge_budget);
  const auto total = request.total_timeout_.value_or(client->options().timeouts.total);
  const request_clock clock(client->loop(), total, {});
  const steady_time end = clock.expiry_of(total);
  std::exception_ptr last_error;  // the error of an attempt that was sent
  const auto run_one = [](std::shared_ptr<client_core> core, client_request attempt_request,
                          body attempt_form, std::size_t number,
                          std::exception_ptr& error) -> task<outcome> {
    auto run_task = as_result(run_attempt(core, std::move(attempt_request), attempt_form));
    auto result = co_await std::move(run_task);
    if (!result) {
      error = result.error();
      std::rethrow_exception(error);
    }
    co_return outcome{.response = std::move(*result), .attempt = number};
  };
  auto attempts = [&](std::size_t number) {
    client_request copy = copy_of(request);
    if (number > 0) {
      // The last error is that of the call, so it must remain one of an attempt that was sent.
      if (last_error && !is_fault_of_server(last_error)) std::rethrow_exception(last_error);
      if (!take_from_hedge_budget(*client)) {
        if (last_error) std::rethrow_exception(last_error);
        clock.fail(errc::hedge_denied, "hedging");
      }
      if (end != steady_time::max()) {
        const std::chrono::nanoseconds rest = end - client->loop().now();
        copy.total_timeout_ = std::max(rest, std::chrono::nanoseconds{1});
      }
    }
    return run_one(client, std::move(copy), form, number, last_error);
  };
  auto hedging = hedge(std::ref(attempts), {.delay = options.delay, .attempts = options.attempts});
  outcome winner = co_await std::move(hedging);
  if (winner.attempt > 0) ++client->counts.hedges_used;
  co_return std::move(winner.response);
}

bool client_call::take_from_hedge_budget(client_core& client) noexcept {
  if (client.hedge_budget() < 1) {
    ++client.counts.hedges_denied;
    return false;
  }
  client.hedge_budget() -= 1;
  ++client.counts.hedges;
  return true;
}

// Copies a request that has no streamed body.
client_request client_call::copy_of(const client_request& request) {
  client_request copy(method::get, request.url_);
  copy.method_ = request.method_;
  copy.method_text_ = request.method_text_;
  copy.is_idempotent_ = request.is_idempotent_;
  copy.expects_continue_ = request.expects_continue_;
  copy.has_body_ = request.has_body_;
  copy.fields_ = request.fields_;
  copy.body_ = request.body_;
  copy.total_timeout_ = request.total_timeout_;
  return copy;
}

// --- Circuit breakers ---

// Begins a request to the server of request_.url(). Throws if its circuit breaker refuses it.
void client_call::begin_judged_request() {
  if (!client_.options().breaker) return;
  breaker_ = client_.breaker_of(request_.url());
  judged_call_ = breaker_->begin(client_.loop().now());
  if (!judged_call_) clock_.fail(errc::circuit_open, "connecting");
}

// Reports the end of the request to the circuit breaker. `error` is null after a response.
void client_call::report_to_breaker(const std::exception_ptr& error) noexcept {
  if (!judged_call_) return;
  const steady_time now = client_.loop().now();
  const bool has_failed =
      error ? is_fault_of_server(error) : is_failure(exchange_->response().head().status);
  const bool counts = has_failed || !error;
  if (!counts) judged_call_->abandon();
  has_failed ? judged_call_->fail(now) : judged_call_->succeed(now);
  judged_call_.reset();
}

// Sends the request, repeats it after redirects and over stale connections, and reads the body of
// the final response if `form` is body::whole.
task<> client_call::respond(body form) {
  const client_options& options = client_.options();
  bool needs_new_connection = false;
  std::size_t refusals = 0;
  for (std::size_t redirects = 0;;) {
    const client_destination destination = client_.destination_of(request_.url());
    if (!judged_call_) begin_judged_request();
    auto acquire_task = clock_.wait(client_.acquire(destination, needs_new_connection),
                                    steady_time::max(), "connecting");
    client_stream_pointer stream = co_await std::move(acquire_task);
    const request_route route = route_for(destination);
    const bool may_repeat = !needs_new_connection && request_.is_idempotent();
    exchange_.reset(
        new client_exchange(std::move(stream), clock_, options, std::move(request_), caller_));
    auto run_task = as_result(exchange_->run(route));
    const auto result = co_await std::move(run_task);
    const bool has_met_end =
        result ? exchange_->met_idle_limit() : exchange_->is_stale(result.error());
    if (!result && exchange_->is_unprocessed() && refusals != max_refusals) {
      if (exchange_->requires_http1()) client_.require_http1(destination);
      co_await exchange_->end_upload();
      take_request_back();
      ++client_.counts.retries;
      task<> pause_task = pause_after(refusals++);
      co_await std::move(pause_task);
      continue;
    }
    if (may_repeat && has_met_end) {
      co_await exchange_->end_upload();
      take_request_back();
      ++client_.counts.retries;
      needs_new_connection = true;
      continue;
    }
    if (!result) std::rethrow_exception(clock_.add_name(result.error()));
    needs_new_connection = false;
    if (exchange_->refuses_expectation()) {
      // A server that does not support the expectation refuses it (RFC 9110, 10.1.1): repeat the
      // request without it.
      task<> drop_task = exchange_->drop_body();
      co_await std::move(drop_task);
      co_await exchange_->end_upload();
      take_request_back();
      request_.expects_continue_ = false;
      continue;
    }
    receive_cookies();
    if (!options.follow_redirects || !is_redirect()) break;
    if (redirects == options.limits.redirects) clock_.fail(errc::too_many_redirects, "redirect");
    report_to_breaker(nullptr);
    task<> redirect_task = follow_redirect();
    co_await std::move(redirect_task);
    ++redirects;
    ++client_.counts.redirects;
  }
  exchange_->forget_request();
  if (was_cut_) exchange_->note_cut_request();
  if (form == body::streamed) co_return;
  auto read_task = as_result(exchange_->read_body());
  const auto read_result = co_await std::move(read_task);
  if (!read_result) std::rethrow_exception(clock_.add_name(read_result.error()));
}

// Waits before a request is sent again that the server of HTTP/2 has refused. The first time it
// does not wait, because the server may just have announced the end of the connection.
task<> client_call::pause_after(std::size_t refusals) {
  if (refusals == 0) co_return;
  constexpr std::chrono::milliseconds first_pause{50};
  auto wait = clock_.wait(sleep_for(first_pause * (1U << (refusals - 1))), steady_time::max(),
                          "waiting after a refusal");
  co_await std::move(wait);
}

// Replaces the request by the one that the redirect demands. If the body will be sent again, its
// upload stops at once. Otherwise the upload continues while the response's body is dropped,
// because the server may still read the request.
task<> client_call::follow_redirect() {
  const std::string location(*exchange_->response().fields().get("Location"));
  const bool turns_to_get = becomes_get(exchange_->response().head().status);
  if (!turns_to_get) co_await exchange_->end_upload();
  task<> drop_task = exchange_->drop_body();
  co_await std::move(drop_task);
  if (turns_to_get) {
    exchange_->check_upload();
    was_cut_ = was_cut_ || !exchange_->is_request_complete();
  }
  co_await exchange_->end_upload();
  take_request_back();
  auto target = request_.url_.resolve(redirect_reference(location, request_.url_.fragment()));
  if (!target) {
    clock_.fail(errc::bad_redirect, "redirect to " + without_user(location).substr(0, 200) + " (" +
                                        target.error().message() + ')');
  }
  if (turns_to_get) {
    change_to_get();
  } else if (request_.is_streamed()) {
    clock_.fail(errc::bad_redirect, "redirect of a streamed body");
  }
  redirect_to(*std::move(target));
}

// Takes the request back from the exchange, whose upload must have ended, and destroys the
// exchange.
void client_call::take_request_back() {
  request_ = exchange_->take_request();
  exchange_.reset();
}

request_route client_call::route_for(const client_destination& destination) {
  const client_options& options = client_.options();
  const fields& fields = request_.fields();
  request_route route{.absolute_form = destination.is_absolute_form()};
  if (destination.is_absolute_form() && !destination.proxy->user_info().empty()) {
    route.proxy_authorization = basic_credentials(destination.proxy->user_info());
  }
  if (options.cookies && !fields.contains("Cookie")) {
    route.cookies = client_.cookies.header_for(request_.url());
  }
  route.accept_compressed =
      options.decompress && !fields.contains("Accept-Encoding") && !fields.contains("Range");
  return route;
}

void client_call::receive_cookies() {
  if (!client_.options().cookies) return;
  for (const field& field : exchange_->response().fields()) {
    if (equals_lower(field.name, "set-cookie")) {
      client_.cookies.receive(exchange_->url(), field.value);
    }
  }
}

// --- Redirects ---

bool client_call::is_redirect() const {
  const incoming_response& response = exchange_->response();
  const unsigned status = response.head().status;
  const bool has_redirect_status =
      (status >= 301 && status <= 303) || status == 307 || status == 308;
  return has_redirect_status && response.fields().contains("Location");
}

// Whether a redirect turns the request into a GET: 303 does for all methods but HEAD, 301 and 302
// do for POST (RFC 9110, 15.4, and the Fetch standard).
bool client_call::becomes_get(unsigned status) const {
  const method original_method = exchange_->method();
  if (status == 303) return original_method != method::get && original_method != method::head;
  return status <= 302 && original_method == method::post;
}

void client_call::change_to_get() {
  request_.method_ = method::get;
  request_.method_text_ = to_text(method::get);
  request_.is_idempotent_ = true;
  request_.has_body_ = false;
  request_.body_.clear();
  request_.stream_ = nullptr;
  for (const std::string_view name : {"Content-Type", "Content-Encoding", "Content-Language",
                                      "Content-Location", "Content-MD5"}) {
    request_.fields_.erase(name);
  }
}

void client_call::redirect_to(url target) {
  const url& source = request_.url_;
  const std::string phase = "redirect to " + target.to_string().substr(0, 200);
  if (target.scheme() != "http" && target.scheme() != "https") {
    clock_.fail(errc::bad_redirect, phase);
  }
  const bool is_insecure = source.scheme() == "https" && target.scheme() == "http";
  if (is_insecure && !client_.options().allow_insecure_redirects) {
    clock_.fail(errc::bad_redirect, phase);
  }
  if (!source.has_origin_of(target)) {
    for (const std::string_view name : {"Authorization", "Cookie", "Host", "Proxy-Authorization"}) {
      request_.fields_.erase(name);
    }
  }
  request_.url_ = std::move(target);
  clock_.rename(name_of(request_));
}

}  // namespace gyre::http::detail
