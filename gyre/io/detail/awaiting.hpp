// SPDX-License-Identifier: Apache-2.0
// How a coroutine waits for requests: the awaiter of everything that reads, writes, accepts or
// connects. It adds to the request who waits and who may end it.
//
// All of it happens on the loop's thread, but for a stop, which comes from any. That posts an
// operation to the loop, which ends the request there. If the request has completed meanwhile, the
// operation is still on its way to the awaiter; then it, and not the request, resumes the coroutine.
//
// When the descriptor is closed, nobody is resumed within that call, but by a timer that has expired:
// unlike an operation that is posted, it can be taken back when the coroutine is destroyed.
#pragma once

#include <gyre/base/atomic.hpp>
#include <gyre/base/operation.hpp>
#include <gyre/base/timer_operation.hpp>
#include <gyre/exec/event_loop.hpp>
#include <gyre/io/detail/open_descriptor.hpp>
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
#include <new>
#include <optional>
#include <system_error>
#include <type_traits>
#include <utility>
#include <variant>

namespace gyre::io::detail {

/// Why nothing was asked for.
enum class refusal : std::uint8_t { none, closed, elsewhere, busy };

/// Throws as gyre::detail::throw_failure(); the std::system_error says what the coroutine was about
/// to do.
[[noreturn, gnu::cold]] void throw_failure(std::error_code error, const task_context* context,
                                           refusal why, const char* what);
/// The exception being handled.
[[gnu::cold]] std::error_code current_error() noexcept;
/// Whether a coroutine of another executor than the loop is on the loop's thread all the same, as far
/// as can be told.
[[gnu::cold]] bool may_use(const event_loop& home, const executor& where) noexcept;

/// One request of an open descriptor as an Operation (see awaiting), for those that are no more.
template <class Request>
class single_request : public Request {
 public:
  template <class... Arguments>
  explicit single_request(open_descriptor* on, Arguments&&... arguments) noexcept
      : Request(target_of(on), std::forward<Arguments>(arguments)...), on_(on) {}

  open_descriptor* on() const noexcept { return on_; }
  /// Whether another one of that direction is under way.
  bool busy() const noexcept {
    return this->writes() ? on_->handle().writing() : on_->handle().reading();
  }
  std::optional<result> begin() noexcept { return on_->start(*this); }
  std::optional<result> give_up() noexcept { return on_->cancel(*this); }

 private:
  open_descriptor* on_;
};

/// The time that an awaiter waits at most.
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

/// Awaited, begins an Operation and gives what comes of it. An Operation is a request that has
///
///     Operation(const Operation&, request::function)   a new one, as the request does not move;
///                               or of an Operation&&
///     on()                      the descriptor, or null; the rest is called if that is open
///     busy()                    whether it cannot begin now
///     begin() -> optional<result>       as backend::start()
///     give_up() -> optional<result>     as backend::cancel()
///     go_on(result) -> optional<result>         if it may take several requests: nothing, and the
///                               next one is under way, or what came of it all; failures too
///     check(result) -> error_code       if a result that is not an error may be a failure
///     value(result) -> value_type       what the coroutine gets; may throw
///     name                      for messages: "gyre::io::stream: read"
template <class Operation, bool Timed = false>
class [[nodiscard]] awaiting : Operation, gyre::operation, time_limit<Timed> {
 public:
  using value_type = typename Operation::value_type;

  template <class... Arguments>
  explicit awaiting(std::in_place_t, open_descriptor* on, Arguments&&... arguments) noexcept
      : Operation(on, &on_completion, std::forward<Arguments>(arguments)...),
        gyre::operation(&on_post),
        time_limit<Timed>(&on_expiry) {}
  // Before it is awaited. (Where awaits are traced, GCC copies what is awaited.)
  awaiting(awaiting&& other) noexcept : awaiting(std::move(other), other.limit()) {}
  awaiting(const awaiting& other) noexcept
    requires std::constructible_from<Operation, const Operation&, request::function>
      : awaiting(other, other.limit()) {}
  awaiting& operator=(const awaiting&) = delete;
  ~awaiting() {
    if (stage_ == stage::waiting || stage_ == stage::leaving) [[unlikely]]
      abandon();
  }

  /// The same, but when `limit` has passed it ends with std::errc::timed_out. What can be done at
  /// once is done, whatever the limit. Costs a timer, no allocation.
  awaiting<Operation, true> within(std::chrono::nanoseconds limit) && noexcept {
    return awaiting<Operation, true>(std::move(*this), limit);
  }

  static constexpr bool executor_affine = true;
  static constexpr bool await_ready() noexcept { return false; }
  template <class Promise>
  bool await_suspend(std::coroutine_handle<Promise> awaiting_coroutine) noexcept {
    const task_context& context = gyre::detail::context_of(awaiting_coroutine);
    waiting_ = awaiting_coroutine;
    context_ = &context;
#if GYRE_ASYNC_BACKTRACE
    if (const open_descriptor* const on = this->on(); on != nullptr && on->is_open()) {
      gyre::detail::set_holder(awaiting_coroutine, on->loop());
    }
#endif
    return wait(context.stop) || gyre::detail::gives_way(context, awaiting_coroutine);
  }
  value_type await_resume() {
    forget_stop();
    if (const std::error_code failed = error()) [[unlikely]]
      throw_failure(failed, context_, refused_, Operation::name);
    return this->value(made_);
  }
  /// For as_expected().
  std::expected<value_type, std::error_code> result() {
    forget_stop();
    if (const std::error_code failed = error()) [[unlikely]]
      return std::unexpected(gyre::detail::failure_value(failed, context_));
    if constexpr (std::is_void_v<value_type>) {
      this->value(made_);
      return {};
    } else if constexpr (noexcept(this->value(made_))) {
      return this->value(made_);
    } else {
      try {
        return this->value(made_);
      } catch (...) {
        return std::unexpected(current_error());
      }
    }
  }

 private:
  template <class, bool>
  friend class awaiting;

  struct on_stop {
    awaiting* self;
    void operator()() const noexcept { self->stop(); }
  };
  using stop_callback = inplace_stop_callback<on_stop>;
  struct departure : gyre::timer_operation {
    explicit departure(awaiting& of) noexcept : timer_operation(&on_departure), self(&of) {}
    awaiting* self;
  };
  enum class stage : std::uint8_t { idle, waiting, ended, posted, leaving };
  /// Who resumes the coroutine.
  enum class turn : std::uint8_t { undecided, of_request, of_stop };

  template <class Other>
  awaiting(Other&& other, std::chrono::nanoseconds limit) noexcept
      : Operation(operation_of(std::forward<Other>(other)), &on_completion),
        gyre::operation(&on_post),
        time_limit<Timed>(&on_expiry, limit) {
    assert(other.is_idle() && "moved while it waits");
  }
  template <bool OtherTimed>
  static const Operation& operation_of(const awaiting<Operation, OtherTimed>& of) noexcept {
    return of;
  }
  template <bool OtherTimed>
  static Operation&& operation_of(awaiting<Operation, OtherTimed>&& of) noexcept {
    return std::move(of);
  }

  bool is_idle() const noexcept { return stage_ == stage::idle; }
  bool refuse(int error, refusal why = refusal::none) noexcept {
    made_ = io::result::failure(error);
    refused_ = why;
    return false;
  }

  // False: go on at once.
  bool wait(inplace_stop_token stop) noexcept {
    const open_descriptor* const on = this->on();
    if (on == nullptr || !on->is_open()) return refuse(EBADF, refusal::closed);
    home_ = &on->loop();
    if (&where() != home_ && !may_use(*home_, where())) return refuse(EPERM, refusal::elsewhere);
    if (stop.stop_requested()) return refuse(ECANCELED);
    if (this->busy()) return refuse(EINPROGRESS, refusal::busy);
    if (const std::optional<io::result> made = this->begin()) {
      made_ = *made;
      return false;
    }
    stage_ = stage::waiting;
    if constexpr (Timed) home_->start_timer(*this, home_->deadline_after(this->limit()));
    if (stop.stop_possible()) hooks_.template emplace<stop_callback>(stop, on_stop{this});
    return true;
  }

  static void on_completion(request& completed, io::result made) {
    auto& self = static_cast<awaiting&>(static_cast<Operation&>(completed));
    if constexpr (requires { self.go_on(made); }) {
      const std::optional<io::result> all = self.go_on(made);
      if (!all) return;
      made = *all;
    }
    self.end(made);
  }
  static void on_expiry(timer_operation& expired) {
    if constexpr (Timed) {
      auto& self = static_cast<awaiting&>(expired);
      self.end(self.give_up().value_or(io::result::failure(ETIMEDOUT)));
    }
  }
  // Any thread.
  void stop() noexcept {
    turn expected = turn::undecided;
    // acq_rel: pairs with that of end(), so that one of both decides.
    if (whose_.compare_exchange_strong(expected, turn::of_stop, std::memory_order_acq_rel,
                                       std::memory_order_relaxed)) {
      home_->post(static_cast<gyre::operation&>(*this));
    }
  }
  // Posted by stop() to the loop, or to the coroutine's executor.
  static void on_post(gyre::operation& posted) {
    auto& self = static_cast<awaiting&>(posted);
    if (self.stage_ == stage::posted) return gyre::detail::resume(self.waiting_);
    if (self.stage_ == stage::waiting) {
      self.settle(self.give_up().value_or(io::result::failure(ECANCELED)));
    }
    self.go_on_there();
  }

  void settle(io::result made) noexcept {
    made_ = made;
    stage_ = stage::ended;
    if constexpr (Timed) home_->cancel_timer(*this);
  }
  // The operation is over; this may be within close().
  void end(io::result made) {
    settle(made);
    if (hooks_.index() != 0) {
      turn expected = turn::undecided;
      // acq_rel: pairs with that of stop().
      if (!whose_.compare_exchange_strong(expected, turn::of_request, std::memory_order_acq_rel,
                                          std::memory_order_relaxed)) {
        return;
      }
    }
    if (this->on()->is_open()) [[likely]] {
      go_on_there();
    } else {
      go_on_later();
    }
  }
  executor& where() const noexcept { return *context_->where; }
  bool goes_on_here() const noexcept { return &where() == home_ || &where() == &inline_executor(); }
  void go_on_there() {
    if (goes_on_here()) return gyre::detail::resume(waiting_);
    post_to(where());
  }
  [[gnu::noinline]] void go_on_later() noexcept {
    if (!goes_on_here()) return post_to(where());
    stage_ = stage::leaving;
    home_->start_timer(hooks_.template emplace<departure>(*this),
                       home_->deadline_after(std::chrono::nanoseconds::zero()));
  }
  static void on_departure(timer_operation& expired) {
    awaiting& self = *static_cast<departure&>(expired).self;
    self.stage_ = stage::ended;
    gyre::detail::resume(self.waiting_);
  }
  void post_to(executor& where) noexcept {
    stage_ = stage::posted;
    where.post(static_cast<gyre::operation&>(*this));
  }

  void forget_stop() noexcept {
    if (hooks_.index() != 0) hooks_.template emplace<std::monostate>();
  }
  // The coroutine is destroyed while it waits, on the loop's thread.
  [[gnu::noinline]] void abandon() noexcept {
    if (stage_ == stage::leaving) {
      home_->cancel_timer(std::get<departure>(hooks_));
      return;
    }
    forget_stop();
    assert(whose_.load() != turn::of_stop && "destroyed while it was about to be cancelled");
    static_cast<void>(this->give_up());
    if constexpr (Timed) home_->cancel_timer(*this);
  }

  std::error_code error() const noexcept {
    if (!made_) return made_.error();
    if constexpr (requires { this->check(made_); }) {
      return this->check(made_);
    } else {
      return {};
    }
  }

  std::coroutine_handle<> waiting_;
  const task_context* context_ = nullptr;  // once it is awaited
  event_loop* home_ = nullptr;
  io::result made_ = io::result::of(0);
  stage stage_ = stage::idle;
  refusal refused_ = refusal::none;
  gyre::detail::atomic<turn> whose_{turn::undecided};
  // While it waits, the callback; when it leaves, the timer.
  std::variant<std::monostate, stop_callback, departure> hooks_;
};

}  // namespace gyre::io::detail
