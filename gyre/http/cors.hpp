// SPDX-License-Identifier: Apache-2.0
// cors: a middleware that lets scripts of other origins read responses (Cross-Origin Resource
// Sharing, Fetch Standard).
//
//     server.use(gyre::http::cors({.origins = {"https://app.example.org"}, .allow_credentials = true}));
#pragma once

#include <gyre/base/duration.hpp>
#include <gyre/http/handler.hpp>
#include <gyre/http/method.hpp>

#include <chrono>
#include <string>
#include <vector>

namespace gyre::http {

/// Options of cors().
struct cors_options {
  /// The origins whose scripts may read responses, as browsers send them: "https://example.org" or
  /// "http://localhost:3000", in lower case and without the default port. "https://*.example.org"
  /// stands for the hosts with one more label. "*" stands for any origin, and stands alone.
  std::vector<std::string> origins = {};
  /// The methods that preflight requests allow; empty for those that the path has handlers for.
  method_set methods = {};
  /// The fields that a script may set, besides those that need no preflight request.
  std::vector<std::string> request_fields = {"Authorization", "Content-Type"};
  /// The fields of responses that a script may read, besides those that any script may.
  std::vector<std::string> response_fields = {};
  /// Whether scripts may read responses to requests that were sent with cookies or the like.
  bool allow_credentials = false;
  /// How long a browser may remember the response to a preflight request. Zero: not at all.
  duration max_age = std::chrono::minutes{10};
};

/// Responds to preflight requests (OPTIONS with Access-Control-Request-Method) itself: 204 for an
/// allowed origin, otherwise 403. Passes other requests on, and adds the fields that allow an
/// origin to read the response, even to responses to errors. A request of another origin is
/// handled, but its script cannot read the response: CORS does not protect against forged requests.
///
/// Unless any origin is allowed, all responses get `Vary: Origin`, so that caches keep apart those
/// for different origins. The origin "null", which any page can take on, is never allowed.
///
/// Let it be the outermost middleware of the server or the group: preflight requests have no
/// credentials, and responses of inner middleware get the fields as well. Responses that the server
/// sends before it calls middleware, such as 413, do not get them.
///
/// Thread-safety: the loops of a server may call it at the same time.
/// Errors: cors() throws std::invalid_argument for a malformed origin, "*" beside other origins or
/// with credentials, a name that is no field's, and a negative max_age.
/// Complexity: a request reads its fields, and compares its origin with the list.
[[nodiscard]] middleware cors(const cors_options& options);

}  // namespace gyre::http
