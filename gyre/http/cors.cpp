// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/cors.hpp>

#include <gyre/base/detail/duration_check.hpp>
#include <gyre/http/detail/characters.hpp>
#include <gyre/http/detail/field_lookup.hpp>
#include <gyre/http/detail/origin_list.hpp>
#include <gyre/http/detail/vary.hpp>

#include <chrono>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gyre::http {
namespace {

// The methods of preflight responses for a path whose handler takes any method.
constexpr method_set usual_methods{method::get, method::head,  method::post,
                                   method::put, method::patch, method::delete_};

std::string join_names(std::span<const std::string> names) {
  std::string list;
  for (const std::string& name : names) {
    // A '*' stands for all names only in some requests, so the options must list each name.
    if (!detail::is_token(name) || name == "*") {
      throw std::invalid_argument("http::cors: '" + name + "' is not the name of a field");
    }
    if (!list.empty()) list += ", ";
    list += name;
  }
  return list;
}

struct cors_policy {
  explicit cors_policy(const cors_options& options)
      : origins(options.origins),
        methods(options.methods),
        request_fields(join_names(options.request_fields)),
        response_fields(join_names(options.response_fields)),
        has_credentials(options.allow_credentials) {
    detail::check_origins(origins, "http::cors");
    if (detail::allows_any_origin(origins) && has_credentials) {
      throw std::invalid_argument(
          "http::cors: with credentials, list the origins in place of \"*\": any page could read "
          "what its visitors may");
    }
    gyre::detail::require_not_negative(options.max_age, "http::cors: max_age");
    max_age = std::to_string(std::chrono::floor<std::chrono::seconds>(options.max_age).count());
  }

  std::vector<std::string> origins;
  method_set methods;
  std::string request_fields;
  std::string response_fields;
  bool has_credentials;
  std::string max_age;  // a number of seconds
};

void allow_origin(const cors_policy& policy, std::string_view origin, response& result) {
  result.set("Access-Control-Allow-Origin",
             detail::allows_any_origin(policy.origins) ? "*" : origin);
  if (policy.has_credentials) result.set("Access-Control-Allow-Credentials", "true");
}

response respond_to_preflight(const cors_policy& policy, const request& request,
                              std::string_view origin) {
  response result(status::no_content);
  allow_origin(policy, origin, result);
  method_set methods = policy.methods.empty() ? request.allowed_methods() : policy.methods;
  if (methods.empty()) methods = usual_methods;
  result.set("Access-Control-Allow-Methods", methods.to_string());
  if (!policy.request_fields.empty()) {
    result.set("Access-Control-Allow-Headers", policy.request_fields);
  }
  result.set("Access-Control-Max-Age", policy.max_age);
  return result;
}

task<response> handle(const cors_policy& policy, request& request, next_handler next) {
  const auto origin = detail::only_field(request.fields(), "Origin");
  const bool is_allowed = origin && detail::contains_origin(policy.origins, *origin);
  const bool is_preflight = request.method() == method::options && request.field("Origin") &&
                            request.field("Access-Control-Request-Method");
  response result;
  if (is_preflight) {
    result = is_allowed ? respond_to_preflight(policy, request, *origin)
                        : response::text("Scripts of this origin may not use this server.\n",
                                         status::forbidden);
  } else {
    task<response> rest = next.respond(request);
    result = co_await std::move(rest);
    if (is_allowed) {
      allow_origin(policy, *origin, result);
      if (!policy.response_fields.empty()) {
        result.set("Access-Control-Expose-Headers", policy.response_fields);
      }
    }
  }
  if (!detail::allows_any_origin(policy.origins)) detail::add_vary(result, "Origin");
  co_return result;
}

}  // namespace

middleware cors(const cors_options& options) {
  return [policy = cors_policy(options)](request& request, next_handler next) {
    return handle(policy, request, next);
  };
}

}  // namespace gyre::http
