// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/basic_authentication.hpp>

#include <gyre/http/detail/authorization.hpp>

#include <optional>

namespace gyre::http {
namespace {

struct basic_policy {
  std::string challenge;
  bool attaches_name;
  detail::basic_verification verify;
};

task<response> authenticate(basic_policy& policy, request& request, next_handler next) {
  const auto credentials = detail::credentials_of(request.fields(), "basic");
  std::optional<detail::basic_login> login;
  if (credentials) login = detail::parse_basic(*credentials);
  if (!login) co_return detail::respond_with_challenge(status::unauthorized, policy.challenge);
  task<bool> verify_task = policy.verify(request, login->name(), login->password());
  const bool is_accepted = co_await std::move(verify_task);
  if (!is_accepted)
    co_return detail::respond_with_challenge(status::unauthorized, policy.challenge);
  if (policy.attaches_name) request.attach(authenticated_user{std::string(login->name())});
  login.reset();
  task<response> rest = next(request);
  co_return co_await std::move(rest);
}

}  // namespace

middleware detail::require_basic(std::string_view realm, bool attaches_name,
                                 basic_verification verification) {
  return [policy = basic_policy{
              .challenge = "Basic " + realm_parameter(realm) + ", charset=\"UTF-8\"",
              .attaches_name = attaches_name,
              .verify = std::move(verification)}](request& request, next_handler next) mutable {
    return authenticate(policy, request, next);
  };
}

}  // namespace gyre::http
