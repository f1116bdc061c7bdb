// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/detail/client_call.hpp>

#include <gyre/http/detail/characters.hpp>
#include <gyre/http/error.hpp>
#include <gyre/io/error.hpp>
#include <gyre/task/as_result.hpp>
#include <gyre/task/detail/this_context.hpp>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace gyre::http::detail {
namespace {

constexpr std::string_view prefix = "http::client";

// For messages, which show no password of an authority.
std::string without_user(std::string reference) {
  const std::size_t authority = reference.find("//");
  if (authority == reference.npos) return reference;
  const std::size_t begin = authority + 2;
  const std::size_t end = std::min(reference.find_first_of("/?#", begin), reference.size());
  const std::size_t at = std::string_view(reference).substr(0, end).rfind('@');
  if (at != reference.npos && at >= begin) reference.erase(begin, at + 1 - begin);
  return reference;
}

std::string name_of(const client_request& request) {
  return std::string(request.method_text()).append(" ").append(request.url().to_string());
}

}  // namespace

std::exception_ptr named_error(const std::exception_ptr& error, const request_clock& clock) try {
  std::rethrow_exception(error);
} catch (const std::system_error& failure) {
  std::string_view what = failure.what();
  if (what.starts_with(prefix)) return error;
  const std::string message = ": " + failure.code().message();
  if (what.ends_with(message)) what.remove_suffix(message.size());
  return std::make_exception_ptr(std::system_error(failure.code(), clock.describe(what)));
} catch (...) {
  return error;
}

client_call::client_call(client_core& client, client_request& request)
    : client_(client),
      request_(request),
      clock_(client.loop(), request.total_timeout_.value_or(client.options().timeouts.total),
             name_of(request)) {}

task<client_response> client_call::run(std::shared_ptr<client_core> client, client_request request,
                                       body reading) {
  const task_context& context = co_await gyre::detail::this_context();
  if (client == nullptr) {
    throw std::system_error(make_error_code(io::errc::not_open), std::string(prefix));
  }
  if (context.where != &client->loop() && !client->loop().in_loop_thread()) {
    throw std::system_error(make_error_code(io::errc::wrong_thread), std::string(prefix));
  }
  ++client->counts.requests;
  client_call call(*client, request);
  task<exchange_pointer> following = call.follow();
  exchange_pointer answered = co_await std::move(following);
  if (reading == body::whole) {
    auto rest = as_result(answered->read_body());
    const auto read = co_await std::move(rest);
    if (!read) std::rethrow_exception(named_error(read.error(), answered->clock()));
  }
  co_return client_response(std::move(answered));
}

task<client_call::exchange_pointer> client_call::follow() {
  const client_options& options = client_.options();
  for (std::size_t redirects = 0;; ++redirects) {
    task<exchange_pointer> attempting = attempt_twice();
    exchange_pointer answered = co_await std::move(attempting);
    receive_cookies(*answered);
    if (!options.follow_redirects || !leads_on(*answered)) co_return answered;
    if (redirects == options.limits.redirects) clock_.fail(errc::too_many_redirects, "redirect");
    const std::string location(*answered->reader().fields().get("Location"));
    const unsigned status = answered->reader().head().status;
    task<> dropping = answered->drop_body();
    co_await std::move(dropping);
    answered.reset();
    auto next = request_.url_.resolve(location);
    if (!next) {
      clock_.fail(errc::bad_redirect, "redirect to " + without_user(location).substr(0, 200));
    }
    change_method(status);
    redirect_to(*std::move(next));
    ++client_.counts.redirects;
  }
}

task<client_call::exchange_pointer> client_call::attempt_twice() {
  const client_destination to = client_.destination_of(request_.url());
  std::exception_ptr stale;
  task<exchange_pointer> first = attempt(to, false, stale);
  exchange_pointer answered = co_await std::move(first);
  if (stale) {
    ++client_.counts.retries;
    task<exchange_pointer> second = attempt(to, true, stale);
    answered = co_await std::move(second);
  }
  co_return answered;
}

// Gives nothing, and sets `stale`, if another attempt is worth while.
task<client_call::exchange_pointer> client_call::attempt(const client_destination& to, bool fresh,
                                                         std::exception_ptr& stale) {
  auto acquiring =
      as_result(clock_.wait(client_.acquire(to, fresh), steady_time::max(), "connecting"));
  auto acquired = co_await std::move(acquiring);
  if (!acquired) std::rethrow_exception(named_error(acquired.error(), clock_));
  auto exchange =
      std::make_unique<client_exchange>(std::move(*acquired), clock_, client_.options(), request_);
  const request_route route = route_for(to);
  auto running = as_result(exchange->run(request_, route));
  const auto ran = co_await std::move(running);
  if (ran) co_return exchange;
  const bool is_stale = exchange->is_stale(ran.error());
  if (fresh || !is_stale || !request_.is_idempotent()) {
    std::rethrow_exception(named_error(ran.error(), clock_));
  }
  stale = ran.error();
  co_return nullptr;
}

request_route client_call::route_for(const client_destination& to) {
  const client_options& options = client_.options();
  const fields& fields = request_.fields();
  request_route route{.absolute_form = to.is_absolute_form()};
  if (to.is_absolute_form() && !to.proxy->user_info().empty()) {
    route.proxy_authorization = basic_credentials(to.proxy->user_info());
  }
  if (options.cookies && !fields.contains("Cookie")) {
    route.cookies = client_.cookies.header_for(request_.url());
  }
  route.accept_compressed =
      options.decompress && !fields.contains("Accept-Encoding") && !fields.contains("Range");
  return route;
}

void client_call::receive_cookies(const client_exchange& answered) {
  if (!client_.options().cookies) return;
  for (const field& each : answered.reader().fields()) {
    if (equals_lower(each.name, "set-cookie")) {
      client_.cookies.receive(answered.url(), each.value);
    }
  }
}

// --- Redirects ---

bool client_call::leads_on(const client_exchange& answered) {
  const unsigned status = answered.reader().head().status;
  const bool is_redirect = (status >= 301 && status <= 303) || status == 307 || status == 308;
  return is_redirect && answered.reader().fields().contains("Location");
}

// As RFC 9110, 15.4, and the Fetch standard: a POST becomes a GET, but for 307 and 308.
void client_call::change_method(unsigned status) {
  const bool is_get = request_.method_ == method::get || request_.method_ == method::head;
  const bool becomes_get = status == 303   ? !is_get
                           : status <= 302 ? request_.method_ == method::post
                                           : false;
  if (!becomes_get) {
    if (request_.is_streamed()) clock_.fail(errc::bad_redirect, "redirect of a streamed body");
    return;
  }
  request_.method_ = method::get;
  request_.method_text_ = to_text(method::get);
  request_.idempotent_ = true;
  request_.has_body_ = false;
  request_.body_.clear();
  request_.stream_ = nullptr;
  for (const std::string_view name : {"Content-Type", "Content-Encoding", "Content-Language",
                                      "Content-Location", "Content-MD5"}) {
    request_.fields_.erase(name);
  }
}

void client_call::redirect_to(url next) {
  const url& from = request_.url_;
  const std::string shown = "redirect to " + next.to_string().substr(0, 200);
  if (next.scheme() != "http" && next.scheme() != "https") {
    clock_.fail(errc::bad_redirect, shown);
  }
  const bool is_insecure = from.scheme() == "https" && next.scheme() == "http";
  if (is_insecure && !client_.options().allow_insecure_redirects) {
    clock_.fail(errc::bad_redirect, shown);
  }
  if (!from.has_origin_of(next)) {
    for (const std::string_view name : {"Authorization", "Cookie", "Host", "Proxy-Authorization"}) {
      request_.fields_.erase(name);
    }
  }
  request_.url_ = std::move(next);
  clock_.rename(name_of(request_));
}

}  // namespace gyre::http::detail
