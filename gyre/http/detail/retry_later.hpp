// SPDX-License-Identifier: Apache-2.0
// retry_later: the response to a request that a limit refuses.
#pragma once

#include <gyre/base/duration.hpp>
#include <gyre/http/response.hpp>
#include <gyre/http/status.hpp>
#include <gyre/task/task.hpp>

#include <algorithm>
#include <chrono>
#include <string>

namespace gyre::http::detail {

/// Responds with Retry-After: `wait`, rounded up to seconds, at least one.
inline task<response> retry_later(status code, duration wait) {
  const std::chrono::seconds longest = std::chrono::days{365};
  const auto seconds = std::clamp(
      std::chrono::ceil<std::chrono::seconds>(std::min<std::chrono::nanoseconds>(wait, longest)),
      std::chrono::seconds{1}, longest);
  response refusal =
      response::text(std::string(reason_phrase(code)) + ". Try again later.\n", code);
  refusal.set("Retry-After", std::to_string(seconds.count()));
  co_return refusal;
}

}  // namespace gyre::http::detail
