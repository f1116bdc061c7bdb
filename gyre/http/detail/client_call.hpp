// SPDX-License-Identifier: Apache-2.0
// client_call: one call of a client: a request, its redirects and its further attempts.
#pragma once

#include <gyre/base/circuit_breaker.hpp>
#include <gyre/http/client_request.hpp>
#include <gyre/http/client_response.hpp>
#include <gyre/http/detail/client_core.hpp>
#include <gyre/http/detail/client_exchange.hpp>
#include <gyre/http/detail/request_clock.hpp>
#include <gyre/task/executor.hpp>
#include <gyre/task/task.hpp>

#include <cstddef>
#include <exception>
#include <memory>
#include <optional>

namespace gyre::http::detail {

/// The state of one call of a client. run() returns a whole response after the upload of the
/// request has ended, or a streamed response while the upload continues.
///
/// Thread-safety: the loop's thread.
/// Lifetime: lives in the frame of run().
class client_call {
 public:
  enum class body { whole, streamed };

  /// Sends the request, by several attempts if it is to be hedged, and follows redirects. `client`
  /// is null if the http::client was moved from.
  static task<client_response> run(std::shared_ptr<client_core> client, client_request request,
                                   body form);

 private:
  client_call(client_core& client, client_request request, executor& caller);

  static task<client_response> run_attempt(std::shared_ptr<client_core> client,
                                           client_request request, body form);
  static task<client_response> run_hedged(std::shared_ptr<client_core> client,
                                          client_request request, body form);
  static client_request copy_of(const client_request& request);
  static bool take_from_hedge_budget(client_core& client) noexcept;
  void begin_judged_request();
  void report_to_breaker(const std::exception_ptr& error) noexcept;

  task<> respond(body form);
  task<> pause_after(std::size_t refusals);
  task<> follow_redirect();
  void take_request_back();
  request_route route_for(const client_destination& destination);
  void receive_cookies();
  bool is_redirect() const;
  bool becomes_get(unsigned status) const;
  void change_to_get();
  void redirect_to(url target);

  client_core& client_;
  client_request request_;  // empty while an exchange owns the request
  request_clock clock_;
  executor& caller_;
  exchange_pointer exchange_;  // the latest attempt
  // The circuit breaker of the current server, and the call that it judges.
  std::shared_ptr<circuit_breaker> breaker_;
  std::optional<circuit_breaker::call> judged_call_;
  bool was_cut_ = false;  // whether a request that a redirect turned into a GET was cut short
};

}  // namespace gyre::http::detail
