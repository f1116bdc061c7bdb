// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/bearer_authentication.hpp>

#include <gyre/http/detail/authorization.hpp>

#include <string>

namespace gyre::http {
namespace {

using detail::authorization_fault;

struct bearer_policy {
  std::string challenge;
  detail::bearer_verification verify;
};

task<response> authenticate(bearer_policy& policy, request& request, next_handler next) {
  const auto token = detail::credentials_of(request.fields(), "bearer");
  if (!token && token.error() == authorization_fault::missing) {
    co_return detail::respond_with_challenge(status::unauthorized, policy.challenge);
  }
  if (!token || !detail::is_bearer_token(*token)) {
    co_return detail::respond_with_challenge(status::bad_request,
                                             policy.challenge + ", error=\"invalid_request\"");
  }
  task<bool> verify_task = policy.verify(request, *token);
  const bool is_accepted = co_await std::move(verify_task);
  if (!is_accepted) {
    co_return detail::respond_with_challenge(status::unauthorized,
                                             policy.challenge + ", error=\"invalid_token\"");
  }
  task<response> rest = next(request);
  co_return co_await std::move(rest);
}

}  // namespace

middleware detail::require_bearer(std::string_view realm, bearer_verification verification) {
  return [policy = bearer_policy{"Bearer " + realm_parameter(realm), std::move(verification)}](
             request& request, next_handler next) mutable {
    return authenticate(policy, request, next);
  };
}

}  // namespace gyre::http
