// SPDX-License-Identifier: Apache-2.0
// concurrency_limit: a middleware that limits the requests that are handled at the same time, and
// refuses those that would wait for too long (load shedding).
//
//     const gyre::http::concurrency_limit limit({.max_running = 100, .max_wait = 500ms});
//     server.use(limit);
#pragma once

#include <gyre/base/duration.hpp>
#include <gyre/http/handler.hpp>
#include <gyre/http/request.hpp>
#include <gyre/http/response.hpp>
#include <gyre/metrics/writable.hpp>
#include <gyre/task/task.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

namespace gyre::http {

/// Options of a concurrency_limit.
struct concurrency_limit_options {
  /// Maximum number of requests that are handled at the same time, on all loops together; from 1 to
  /// 2^32.
  std::size_t max_running = 256;
  /// Maximum number of requests that wait; further ones are refused at once.
  std::size_t max_waiting = 1024;
  /// The longest wait of a request, which is then refused. Must not be negative. Should be less
  /// than the time for which clients wait.
  duration max_wait = std::chrono::seconds{1};
  /// The value of Retry-After, in whole seconds, rounded up.
  duration retry_after = std::chrono::seconds{1};
  /// Returns whether a request is not limited, such as a health check, whose refusal would make an
  /// orchestrator restart a server that has merely much to do. The loops call it at the same time.
  std::function<bool(const request& request)> exempts = {};
};

/// Counters of a concurrency_limit: of the present, and since its construction.
struct concurrency_limit_metrics {
  std::size_t running = 0;
  std::size_t waiting = 0;
  std::uint64_t admitted = 0;
  std::uint64_t refused = 0;  ///< requests that came while max_waiting were waiting
  std::uint64_t expired = 0;  ///< requests that have waited for max_wait
};
/// Adds the counts to an exposition: see metrics::registry.
void write_metrics(metrics::exposition& output, const concurrency_limit_metrics& counts);

/// Lets a limited number of requests pass to the middleware that was added later, and to the
/// handler. Further requests wait, first come, first served, in a queue that is limited in number
/// and time; the others get 503 with Retry-After. So a server with too much to do responds in time
/// to as many clients as it can, instead of too late to all of them.
///
/// A streamed response counts until its end. Event streams and upgrades last long and cost little:
/// exempt them. A request counts from the time at which its head, and unless the route is streamed
/// its body, was received. One whose client leaves while it waits gives up its place.
///
/// Copies share the limit, so several servers may use one.
///
/// Thread-safety: any thread. Lifetime: as a shared pointer.
/// Errors: the constructor throws std::invalid_argument for options out of their ranges.
/// Complexity: a coroutine frame for each request, and two compare-exchanges; a wait allocates
/// nothing more.
class concurrency_limit {
 public:
  explicit concurrency_limit(concurrency_limit_options options = {});

  /// A middleware.
  task<response> operator()(request& request, next_handler next) const;

  [[nodiscard]] concurrency_limit_metrics metrics() const noexcept;

 private:
  struct state;
  class slot;
  class waiting_place;

  static task<response> run(std::shared_ptr<state> limit_state, request& request,
                            next_handler next);

  std::shared_ptr<state> state_;
};

}  // namespace gyre::http
