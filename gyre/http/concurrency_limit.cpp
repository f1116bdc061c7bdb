// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/concurrency_limit.hpp>

#include <gyre/base/atomic.hpp>
#include <gyre/base/detail/duration_check.hpp>
#include <gyre/http/detail/body_access.hpp>
#include <gyre/http/detail/retry_later.hpp>
#include <gyre/metrics/exposition.hpp>
#include <gyre/sync/semaphore.hpp>
#include <gyre/task/as_expected.hpp>
#include <gyre/task/with_timeout.hpp>

#include <atomic>
#include <optional>
#include <stdexcept>
#include <utility>

namespace gyre::http {

// relaxed: the counters guard no other data.
struct concurrency_limit::state {
  explicit state(concurrency_limit_options settings)
      : options(std::move(settings)), permits(options.max_running) {}

  const concurrency_limit_options options;
  semaphore permits;
  gyre::detail::atomic<std::size_t> running_count{0};
  gyre::detail::atomic<std::size_t> waiting_count{0};
  gyre::detail::atomic<std::uint64_t> admitted_count{0};
  gyre::detail::atomic<std::uint64_t> refused_count{0};
  gyre::detail::atomic<std::uint64_t> expired_count{0};
};

// A slot is the right of one request to run.
class concurrency_limit::slot {
 public:
  slot(std::shared_ptr<state> owner, semaphore_permit permit) noexcept
      : shared_state_(std::move(owner)), permit_(std::move(permit)) {
    shared_state_->admitted_count.fetch_add(1, std::memory_order_relaxed);
    shared_state_->running_count.fetch_add(1, std::memory_order_relaxed);
  }
  slot(slot&&) noexcept = default;
  slot& operator=(slot&&) = delete;
  ~slot() {
    if (shared_state_ != nullptr)
      shared_state_->running_count.fetch_sub(1, std::memory_order_relaxed);
  }

 private:
  std::shared_ptr<state> shared_state_;
  semaphore_permit permit_;  // last: the permit must end before the semaphore in shared_state_
};

// A waiting_place is the place of a request in the queue, unless the queue was full.
class concurrency_limit::waiting_place {
 public:
  explicit waiting_place(state& owner) noexcept : shared_state_(owner) {
    is_granted_ =
        owner.waiting_count.fetch_add(1, std::memory_order_relaxed) < owner.options.max_waiting;
  }
  waiting_place& operator=(waiting_place&&) = delete;
  ~waiting_place() { shared_state_.waiting_count.fetch_sub(1, std::memory_order_relaxed); }

  bool is_granted() const noexcept { return is_granted_; }

 private:
  state& shared_state_;
  bool is_granted_;
};

concurrency_limit::concurrency_limit(concurrency_limit_options options) {
  constexpr std::size_t max_limit = std::size_t{1} << 32U;
  if (options.max_running == 0 || options.max_running > max_limit) {
    throw std::invalid_argument("http::concurrency_limit: max_running must be from 1 to 2^32");
  }
  gyre::detail::require_not_negative(options.max_wait, "http::concurrency_limit: max_wait");
  gyre::detail::require_not_negative(options.retry_after, "http::concurrency_limit: retry_after");
  state_ = std::make_shared<state>(std::move(options));
}

task<response> concurrency_limit::operator()(request& request, next_handler next) const {
  const auto& exempts = state_->options.exempts;
  if (exempts && exempts(request)) return next(request);
  return run(state_, request, std::move(next));
}

task<response> concurrency_limit::run(std::shared_ptr<state> limit_state, request& request,
                                      next_handler next) {
  std::optional<semaphore_permit> permit;
  if (limit_state->permits.try_acquire()) {
    permit.emplace(limit_state->permits, 1);
  } else if (const waiting_place place(*limit_state); !place.is_granted()) {
    limit_state->refused_count.fetch_add(1, std::memory_order_relaxed);
  } else {
    auto wait =
        as_expected(with_timeout(limit_state->permits.permit(), limit_state->options.max_wait));
    auto admission = co_await std::move(wait);
    if (admission) {
      permit = std::move(*admission);
    } else {
      limit_state->expired_count.fetch_add(1, std::memory_order_relaxed);
    }
  }
  if (!permit) {
    task<response> refuse_task =
        detail::retry_later(status::service_unavailable, limit_state->options.retry_after);
    co_return co_await std::move(refuse_task);
  }
  slot own_slot(limit_state, *std::move(permit));
  task<response> rest = next(request);
  response result = co_await std::move(rest);
  if (detail::body_access::is_stream(result)) {
    auto& write = detail::body_access::writing_function(result);
    write = [write = std::move(write), own_slot_of_body = std::move(own_slot)](
                body_writer& output) mutable { return write(output); };
  }
  co_return result;
}

concurrency_limit_metrics concurrency_limit::metrics() const noexcept {
  return {.running = state_->running_count.load(std::memory_order_relaxed),
          .waiting = state_->waiting_count.load(std::memory_order_relaxed),
          .admitted = state_->admitted_count.load(std::memory_order_relaxed),
          .refused = state_->refused_count.load(std::memory_order_relaxed),
          .expired = state_->expired_count.load(std::memory_order_relaxed)};
}

void write_metrics(metrics::exposition& output, const concurrency_limit_metrics& counts) {
  const auto& [running, waiting, admitted, refused, expired] = counts;
  output.add_gauge("gyre_concurrency_limit_running", "Requests that run.", running);
  output.add_gauge("gyre_concurrency_limit_waiting", "Requests that wait.", waiting);
  constexpr auto requests = "gyre_concurrency_limit_requests_total";
  output.add_counter(requests, "Requests by their result.", admitted, {{"result", "admitted"}});
  output.add_counter(requests, "Requests by their result.", refused, {{"result", "refused"}});
  output.add_counter(requests, "Requests by their result.", expired, {{"result", "expired"}});
}

}  // namespace gyre::http
