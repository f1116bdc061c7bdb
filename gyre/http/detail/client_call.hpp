// SPDX-License-Identifier: Apache-2.0
// client_call: one request of a client, with its redirects and its attempts.
#pragma once

#include <gyre/http/client_request.hpp>
#include <gyre/http/client_response.hpp>
#include <gyre/http/detail/client_core.hpp>
#include <gyre/http/detail/client_exchange.hpp>
#include <gyre/http/detail/request_clock.hpp>
#include <gyre/task/task.hpp>

#include <exception>
#include <memory>
#include <string>

namespace gyre::http::detail {

/// Lives in the frame of the coroutine that runs it. The loop's thread.
class client_call {
 public:
  enum class body { whole, streamed };

  /// Sends the request, and follows redirects. `client` is null if it was moved from.
  static task<client_response> run(std::shared_ptr<client_core> client, client_request request,
                                   body reading);

 private:
  using exchange_pointer = std::unique_ptr<client_exchange>;

  client_call(client_core& client, client_request& request);

  task<exchange_pointer> follow();
  task<exchange_pointer> attempt_twice();
  task<exchange_pointer> attempt(const client_destination& to, bool fresh,
                                 std::exception_ptr& stale);
  request_route route_for(const client_destination& to);
  void receive_cookies(const client_exchange& answered);
  bool leads_on(const client_exchange& answered);
  void change_method(unsigned status);
  void redirect_to(url next);

  client_core& client_;
  client_request& request_;
  request_clock clock_;
};

/// `error`, with the request's name if it is that of the system.
std::exception_ptr named_error(const std::exception_ptr& error, const request_clock& clock);

}  // namespace gyre::http::detail
