// SPDX-License-Identifier: Apache-2.0
// open_descriptor: the descriptor of a stream or socket for coroutines.
// request_awaiter: the awaiter of its requests, for all that reads, writes, accepts or connects.
//
// All of it happens on the loop's thread, but for a stop, which comes from any. That posts an
// operation to the loop, which ends the request there. If the request has completed meanwhile, that
// operation, and not the request, resumes the coroutine.
//
// Closing the descriptor resumes no coroutine within that call, but by a timer that has expired:
// unlike a posted operation, a timer can be cancelled when the coroutine is destroyed.
#pragma once

#include <gyre/base/atomic.hpp>
#include <gyre/base/detail/slab_object.hpp>
#include <gyre/base/operation.hpp>
#include <gyre/base/timer_operation.hpp>
#include <gyre/exec/event_loop.hpp>
#include <gyre/io/descriptor.hpp>
#include <gyre/io/request.hpp>
#include <gyre/task/context.hpp>
#include <gyre/task/detail/cancelled.hpp>
#include <gyre/task/detail/transfer.hpp>
#include <gyre/task/executor.hpp>
#include <gyre/task/stop_token.hpp>

#include <cassert>
#include <cerrno>
#include <chrono>
#include <concepts>
#include <coroutine>
#include <cstdint>
#include <exception>
#include <expected>
#include <memory>
#include <new>
#include <optional>
#include <system_error>
#include <type_traits>
#include <utility>
#include <variant>

namespace gyre::io::detail {

/// The descriptor of a stream or socket, in memory of its own, so that the stream can be moved
/// while coroutines wait for it. Its requests are those of awaiters; closing it completes them.
class open_descriptor : public descriptor, public gyre::detail::slab_object {
 public:
  using descriptor::descriptor;
  ~open_descriptor() { close(); }
  /// Requests under way complete with ECANCELED. Idempotent.
  void close() noexcept;
  /// As close(), but returns the descriptor instead of closing it.
  [[nodiscard]] unique_fd release() noexcept;
};

using owned_descriptor = std::unique_ptr<open_descriptor>;

/// The handle of a descriptor; of null, a handle that no loop serves.
handle& target_of(open_descriptor* descriptor) noexcept;

/// The descriptor; throws std::errc::bad_file_descriptor if it is null or closed.
open_descriptor& opened(const owned_descriptor& descriptor, const char* operation);

/// Why a request was not begun.
enum class refusal : std::uint8_t { none, closed, elsewhere, busy };

/// Throws as gyre::detail::throw_failure(). `operation`: for the message of the std::system_error.
[[noreturn, gnu::cold]] void throw_failure(std::error_code error, const task_context* context,
                                           refusal reason, const char* operation);
/// The error of the exception being handled.
[[gnu::cold]] std::error_code current_error() noexcept;
/// Whether a coroutine of another executor than the loop is on the loop's thread all the same, as
/// far as is known.
[[gnu::cold]] bool may_use(const event_loop& loop, const executor& executor) noexcept;

/// One request of an open descriptor as an Operation of request_awaiter, or as the base of one.
template <class Request>
class single_request : public Request {
 public:
  template <class... Arguments>
  explicit single_request(open_descriptor* descriptor, Arguments&&... arguments) noexcept
      : Request(target_of(descriptor), std::forward<Arguments>(arguments)...),
        descriptor_(descriptor) {}

  open_descriptor* descriptor() const noexcept { return descriptor_; }
  /// Whether another request of that direction is under way.
  bool busy() const noexcept {
    return this->writes() ? descriptor_->handle().writing() : descriptor_->handle().reading();
  }
  std::optional<result> begin() noexcept { return descriptor_->start(*this); }
  std::optional<result> cancel() noexcept { return descriptor_->cancel(*this); }

 private:
  open_descriptor* descriptor_;
};

/// The time limit of an awaiter.
template <bool Timed>
class time_limit {
 protected:
  explicit time_limit(timer_operation::function, std::chrono::nanoseconds = {}) noexcept {}
  static constexpr std::chrono::nanoseconds limit() noexcept { return {}; }
};

template <>
class time_limit<true> : public timer_operation {
 protected:
  explicit time_limit(timer_operation::function on_expiry, std::chrono::nanoseconds limit) noexcept
      : timer_operation(on_expiry), limit_(limit) {}
  std::chrono::nanoseconds limit() const noexcept { return limit_; }

 private:
  std::chrono::nanoseconds limit_;
};

/// Awaited, begins an Operation and gives its value. An Operation is a request that has
///
///     Operation(descriptor, arguments…)   without a callback, which the awaiter sets
///     Operation(Operation&&)    before it begins; or of a const Operation&
///     descriptor()              or null; the rest is called only if it is open
///     busy()                    whether it cannot begin now
///     begin() -> optional<result>       as backend::start()
///     cancel() -> optional<result>     as backend::cancel()
///     advance(result) -> optional<result>       optional, where several requests make up the
///                               operation: begins the next one, or gives the outcome of all
///     check(result) -> error_code       optional, where a result that is no error may be a failure
///     value(result) -> value_type       the coroutine's value; may throw
///     name                      for messages: "gyre::io::stream: read"
///
/// Its stages:
///
///     idle ── begins, and must wait ──> waiting ── completion, expiry or stop ──> ended
///                                                                                   │
///     the coroutine is resumed at once <── the loop is its executor ────────────────┤
///     posted to its executor           <── another executor ────────────────────────┤
///     deferred to the loop's next turn <── the descriptor is being closed ──────────┘
///
/// A stop and the request's end race on `resumer_`, which changes once: from `undecided` to `stop`,
/// whose operation then resumes the coroutine, or to `request`, and the stop does nothing.
template <class Operation, bool Timed = false>
class [[nodiscard]] request_awaiter : Operation, gyre::operation, time_limit<Timed> {
 public:
  using value_type = typename Operation::value_type;

  template <class... Arguments>
  explicit request_awaiter(std::in_place_t, open_descriptor* descriptor,
                           Arguments&&... arguments) noexcept
      : Operation(descriptor, std::forward<Arguments>(arguments)...),
        gyre::operation(&on_post),
        time_limit<Timed>(&on_expiry) {
    this->set_callback(&on_completion);
  }
  // Before it is awaited. (Where awaits are traced, GCC copies the awaiter.)
  request_awaiter(request_awaiter&& other) noexcept
      : request_awaiter(std::move(other), other.limit()) {}
  request_awaiter(const request_awaiter& other) noexcept
    requires std::copy_constructible<Operation>
      : request_awaiter(other, other.limit()) {}
  request_awaiter& operator=(const request_awaiter&) = delete;
  ~request_awaiter() {
    if (stage_ == stage::waiting || stage_ == stage::deferred) [[unlikely]]
      abandon();
  }
  /// Ends with std::errc::timed_out when `limit` has passed. An operation that can be done at once
  /// is done with any limit, unless it is put off so that others get their turn. Costs a timer, no
  /// allocation.
  request_awaiter<Operation, true> within(std::chrono::nanoseconds limit) && noexcept {
    return request_awaiter<Operation, true>(std::move(*this), limit);
  }

  static constexpr bool executor_affine = true;
  static constexpr bool await_ready() noexcept { return false; }
  template <class Promise>
  bool await_suspend(std::coroutine_handle<Promise> awaiting_coroutine) noexcept {
    const task_context& context = gyre::detail::context_of(awaiting_coroutine);
    waiting_ = awaiting_coroutine;
    context_ = &context;
#if GYRE_ASYNC_BACKTRACE
    if (const auto* const target = this->descriptor(); target != nullptr && target->is_open()) {
      gyre::detail::set_holder(awaiting_coroutine, target->loop());
    }
#endif
    return wait(context.stop) || gyre::detail::gives_way(context, awaiting_coroutine);
  }
  value_type await_resume() {
    disarm_stop();
    if (const std::error_code failed = error()) [[unlikely]]
      throw_failure(failed, context_, refusal_, Operation::name);
    return this->value(outcome_);
  }
  /// For as_expected().
  std::expected<value_type, std::error_code> result() {
    disarm_stop();
    if (const std::error_code failed = error()) [[unlikely]]
      return std::unexpected(gyre::detail::failure_value(failed, context_));
    if constexpr (std::is_void_v<value_type>) {
      this->value(outcome_);
      return {};
    } else if constexpr (noexcept(this->value(outcome_))) {
      return this->value(outcome_);
    } else {
      try {
        return this->value(outcome_);
      } catch (...) {
        return std::unexpected(current_error());
      }
    }
  }

 private:
  template <class, bool>
  friend class request_awaiter;

  struct on_stop {
    request_awaiter* self;
    void operator()() const noexcept { self->stop(); }
  };
  using stop_callback = inplace_stop_callback<on_stop>;
  struct deferred_resume : gyre::timer_operation {
    explicit deferred_resume(request_awaiter& awaiter) noexcept
        : timer_operation(&on_deferred_resume), self(&awaiter) {}
    request_awaiter* self;
  };
  enum class stage : std::uint8_t { idle, waiting, ended, posted, deferred };
  enum class resumer : std::uint8_t { undecided, request, stop };

  template <class Other>
  request_awaiter(Other&& other, std::chrono::nanoseconds limit) noexcept
      : Operation(static_cast<std::conditional_t<std::is_lvalue_reference_v<Other>,
                                                 const Operation&, Operation&&>>(other)),
        gyre::operation(&on_post),
        time_limit<Timed>(&on_expiry, limit) {
    this->set_callback(&on_completion);
    assert(other.is_idle() && "moved while it waits");
  }

  bool is_idle() const noexcept { return stage_ == stage::idle; }
  bool refuse(int error, refusal reason = refusal::none) noexcept {
    outcome_ = io::result::failure(error);
    refusal_ = reason;
    return false;
  }

  // False: there is nothing to wait for.
  bool wait(inplace_stop_token stop) noexcept {
    const open_descriptor* const target = this->descriptor();
    if (target == nullptr || !target->is_open()) return refuse(EBADF, refusal::closed);
    loop_ = &target->loop();
    if (&where() != loop_ && !may_use(*loop_, where())) return refuse(EPERM, refusal::elsewhere);
    if (stop.stop_requested()) return refuse(ECANCELED);
    if (this->busy()) return refuse(EINPROGRESS, refusal::busy);
    if (const std::optional<io::result> outcome = this->begin()) {
      outcome_ = *outcome;
      return false;
    }
    stage_ = stage::waiting;
    if constexpr (Timed) loop_->start_timer(*this, loop_->deadline_after(this->limit()));
    if (stop.stop_possible()) hooks_.template emplace<stop_callback>(stop, on_stop{this});
    return true;
  }

  static void on_completion(request& completed, io::result outcome) {
    auto& self = static_cast<request_awaiter&>(static_cast<Operation&>(completed));
    if constexpr (requires { self.advance(outcome); }) {
      const std::optional<io::result> total = self.advance(outcome);
      if (!total) return;
      outcome = *total;
    }
    self.end(outcome);
  }
  static void on_expiry(timer_operation& expired) {
    if constexpr (Timed) {
      auto& self = static_cast<request_awaiter&>(expired);
      self.end(self.cancel().value_or(io::result::failure(ETIMEDOUT)));
    }
  }
  // Any thread.
  void stop() noexcept {
    resumer expected = resumer::undecided;
    // acq_rel: pairs with that of end(), so that one of both decides.
    if (resumer_.compare_exchange_strong(expected, resumer::stop, std::memory_order_acq_rel,
                                         std::memory_order_relaxed)) {
      loop_->post(static_cast<gyre::operation&>(*this));
    }
  }
  // Posted by stop() to the loop, or to the coroutine's executor.
  static void on_post(gyre::operation& posted) {
    auto& self = static_cast<request_awaiter&>(posted);
    if (self.stage_ == stage::posted) return gyre::detail::resume(self.waiting_);
    if (self.stage_ == stage::waiting) {
      self.finish(self.cancel().value_or(io::result::failure(ECANCELED)));
    }
    self.resume();
  }

  void finish(io::result outcome) noexcept {
    outcome_ = outcome;
    stage_ = stage::ended;
    if constexpr (Timed) loop_->cancel_timer(*this);
  }
  // Also called within close().
  void end(io::result outcome) {
    finish(outcome);
    if (hooks_.index() != 0) {
      resumer expected = resumer::undecided;
      // acq_rel: pairs with that of stop().
      if (!resumer_.compare_exchange_strong(expected, resumer::request, std::memory_order_acq_rel,
                                            std::memory_order_relaxed)) {
        return;
      }
    }
    if (this->descriptor()->is_open()) [[likely]] {
      resume();
    } else {
      resume_later();
    }
  }
  executor& where() const noexcept { return *context_->where; }
  bool resumes_here() const noexcept { return &where() == loop_ || &where() == &inline_executor(); }
  void resume() {
    if (resumes_here()) return gyre::detail::resume(waiting_);
    post_to(where());
  }
  [[gnu::noinline]] void resume_later() noexcept {
    if (!resumes_here()) return post_to(where());
    stage_ = stage::deferred;
    loop_->start_timer(hooks_.template emplace<deferred_resume>(*this),
                       loop_->deadline_after(std::chrono::nanoseconds::zero()));
  }
  static void on_deferred_resume(timer_operation& expired) {
    request_awaiter& self = *static_cast<deferred_resume&>(expired).self;
    self.stage_ = stage::ended;
    gyre::detail::resume(self.waiting_);
  }
  void post_to(executor& where) noexcept {
    stage_ = stage::posted;
    where.post(static_cast<gyre::operation&>(*this));
  }

  void disarm_stop() noexcept {
    if (hooks_.index() != 0) hooks_.template emplace<std::monostate>();
  }
  // The coroutine is destroyed while it waits, on the loop's thread.
  [[gnu::noinline]] void abandon() noexcept {
    if (stage_ == stage::deferred) {
      loop_->cancel_timer(std::get<deferred_resume>(hooks_));
      return;
    }
    disarm_stop();
    assert(resumer_.load() != resumer::stop && "destroyed while it was about to be cancelled");
    static_cast<void>(this->cancel());
    if constexpr (Timed) loop_->cancel_timer(*this);
  }

  std::error_code error() const noexcept {
    if (!outcome_) return outcome_.error();
    if constexpr (requires { this->check(outcome_); }) {
      return this->check(outcome_);
    } else {
      return {};
    }
  }

  std::coroutine_handle<> waiting_;
  const task_context* context_ = nullptr;  // once it is awaited
  event_loop* loop_ = nullptr;
  io::result outcome_ = io::result::of(0);
  stage stage_ = stage::idle;
  refusal refusal_ = refusal::none;
  gyre::detail::atomic<resumer> resumer_{resumer::undecided};
  // While it waits, the callback; while it is deferred, the timer.
  std::variant<std::monostate, stop_callback, deferred_resume> hooks_;
};

}  // namespace gyre::io::detail
