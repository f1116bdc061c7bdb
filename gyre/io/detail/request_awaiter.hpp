// SPDX-License-Identifier: Apache-2.0
// request_awaiter: the awaiter of an open_descriptor's requests, for every operation that reads,
// writes, accepts or connects.
//
// An awaiter works on the loop's thread, except that a stop may come from any thread. A stop posts
// an operation to the loop, which ends the request there. If the request has completed meanwhile,
// the posted operation, and not the request, resumes the coroutine.
//
// Closing the descriptor resumes no coroutine within the call. The coroutine is resumed by a timer
// that has expired: unlike a posted operation, a timer can be cancelled when the coroutine is
// destroyed.
#pragma once

#include <gyre/base/operation.hpp>
#include <gyre/base/timer_operation.hpp>
#include <gyre/exec/event_loop.hpp>
#include <gyre/io/detail/open_descriptor.hpp>
#include <gyre/io/request.hpp>
#include <gyre/task/context.hpp>
#include <gyre/task/detail/cancelled.hpp>
#include <gyre/task/detail/transfer.hpp>
#include <gyre/task/detail/wait_core.hpp>
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

namespace gyre::io::detail {

/// One request of an open descriptor, as an Operation of request_awaiter or as the base of an
/// Operation.
template <class Request>
class single_request : public Request {
 public:
  template <class... Arguments>
  explicit single_request(open_descriptor* descriptor, Arguments&&... arguments) noexcept
      : Request(target_of(descriptor), std::forward<Arguments>(arguments)...) {}

  open_descriptor* descriptor() const noexcept { return descriptor_of(this->target()); }
  /// Returns whether another request of that direction is under way.
  bool busy() const noexcept {
    return this->writes() ? this->target().writing() : this->target().reading();
  }
  std::optional<result> begin() noexcept { return descriptor()->start(*this); }
  std::optional<result> cancel() noexcept { return descriptor()->cancel(*this); }
};

/// Whether an operation's value is the bytes that a transient_receive_request received.
template <class Operation>
inline constexpr bool brings_bytes = requires { Operation::brings_bytes; };

/// The operation of an awaiter, and flags, which fill the padding of its request.
template <class Operation>
struct awaited_operation : Operation {
  enum class stage : std::uint8_t { idle, waiting, ended, posted, deferred };
  enum class held : std::uint8_t { nothing, stop_callback, outcome, timer };

  using Operation::Operation;
  explicit awaited_operation(Operation&& other) noexcept : Operation(std::move(other)) {}
  explicit awaited_operation(const Operation& other) noexcept
    requires std::copy_constructible<Operation>
      : Operation(other) {}

  // The two parties of the wait are the end of the request, and the operation that a stop has
  // posted.
  static constexpr gyre::detail::wait_core::parties request_end = 1;
  static constexpr gyre::detail::wait_core::parties posted_stop = 2;

  stage stage_ = stage::idle;
  held holds_ = held::nothing;  // the member of the awaiter_slot that is alive
  bool resumes_on_loop_ = false;
  std::uint8_t deferred_error_ = 0;
  gyre::detail::wait_core core_{request_end};
};

/// The members that an awaiter needs at different times, in the same memory: the operation that it
/// posts, with the stop callback while the awaiter waits and the outcome at the end; or the timer
/// while its coroutine is deferred, with the loop, because the descriptor may be gone.
template <class Operation>
class awaiter_slot {
 public:
  struct plain_end {
    explicit plain_end(io::result result) noexcept : outcome(result) {}
    io::result outcome;
  };
  struct end_with_bytes : plain_end {
    using plain_end::plain_end;
    end_with_bytes(io::result result, received&& received_bytes) noexcept
        : plain_end(result), bytes(std::move(received_bytes)) {}
    received bytes;
  };
  using end = std::conditional_t<brings_bytes<Operation>, end_with_bytes, plain_end>;

  struct callback_or_end {
    callback_or_end() noexcept {}
    callback_or_end(const callback_or_end&) = delete;
    ~callback_or_end() {}
    union {
      gyre::detail::bare_stop_callback stop_callback_;
      end ended_;
    };
  };
  struct wait : gyre::operation, callback_or_end {
    explicit wait(gyre::operation::function on_post) noexcept : gyre::operation(on_post) {}
  };
  struct deferral : timer_operation {
    deferral(timer_operation::function on_expiry, event_loop& timers) noexcept
        : timer_operation(on_expiry), loop(timers) {}
    event_loop& loop;
  };

  explicit awaiter_slot(gyre::operation::function on_post) noexcept : wait_(on_post) {}
  awaiter_slot(const awaiter_slot&) = delete;
  ~awaiter_slot() {}
  // Returns the slot that contains `member`.
  static awaiter_slot& of(gyre::operation& member) noexcept {
    return reinterpret_cast<awaiter_slot&>(static_cast<wait&>(member));
  }
  static awaiter_slot& of(gyre::detail::stop_callback_base& member) noexcept {
    return of(static_cast<wait&>(reinterpret_cast<callback_or_end&>(member)));
  }
  static awaiter_slot& of(timer_operation& member) noexcept {
    return reinterpret_cast<awaiter_slot&>(static_cast<deferral&>(member));
  }

  union {
    wait wait_;
    deferral deferral_;
  };
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
///     outcome_despite_stop() -> optional<result>      optional: the outcome of a stopped operation
///                               that is done nevertheless
///     check(result) -> error_code       optional, where a result without an error may be a failure
///     value(result) -> value_type       the coroutine's value; may throw
///     brings_bytes              optional, for transient_receive_request: value(received) instead
///     name                      for messages: "gyre::io::stream: read"
///
/// The stages of an awaiter:
///
///     idle ── begins, and must wait ──> waiting ── completion, expiry or stop ──> ended
///                                                                                   │
///     the coroutine is resumed at once <── the loop is its executor ────────────────┤
///     posted to its executor           <── another executor ────────────────────────┤
///     deferred to the loop's next turn <── the descriptor is being closed ──────────┘
///
/// Members that are needed at different times share memory, because a coroutine's frame has memory
/// for each of its awaiters, even while the connection is idle.
///
/// A stop and the request's end may race: the stop joins the wait, and its operation resumes the
/// coroutine, unless the end has left before (see wait_core); then the stop does nothing.
template <class Operation>
class [[nodiscard]] request_awaiter : awaited_operation<Operation>, awaiter_slot<Operation> {
  using awaited = awaited_operation<Operation>;
  using slot = awaiter_slot<Operation>;

 public:
  using value_type = typename Operation::value_type;

  template <class... Arguments>
  explicit request_awaiter(std::in_place_t, open_descriptor* descriptor,
                           Arguments&&... arguments) noexcept
      : awaited(descriptor, std::forward<Arguments>(arguments)...), slot(&on_post) {
    this->set_callback(&on_completion);
  }
  // An awaiter moves, or is copied, only before it is awaited. GCC copies an awaiter where awaits
  // are traced.
  request_awaiter(request_awaiter&& other) noexcept
      : awaited(static_cast<Operation&&>(other)), slot(&on_post) {
    this->set_callback(&on_completion);
    assert(other.is_idle() && "moved while it waits");
  }
  request_awaiter(const request_awaiter& other) noexcept
    requires std::copy_constructible<Operation>
      : awaited(static_cast<const Operation&>(other)), slot(&on_post) {
    this->set_callback(&on_completion);
    assert(other.is_idle() && "copied while it waits");
  }
  request_awaiter& operator=(const request_awaiter&) = delete;
  ~request_awaiter() {
    if (stage_ == stage::waiting || stage_ == stage::deferred) [[unlikely]]
      abandon();
    if constexpr (has_bytes) {
      if (holds_ == held::outcome) std::destroy_at(&this->wait_.ended_);
    }
  }

  static constexpr bool executor_affine = true;
  static constexpr bool await_ready() noexcept { return false; }
  template <class Promise>
  bool await_suspend(std::coroutine_handle<Promise> awaiting_coroutine) noexcept {
    return begin_wait(awaiting_coroutine) || gyre::detail::gives_way(*context_, awaiting_coroutine);
  }
  value_type await_resume() {
    if (const std::error_code failure = error()) [[unlikely]]
      gyre::detail::throw_failure(failure, context_, Operation::name);
    return final_value();
  }
  /// Returns the outcome as a value; called by as_expected().
  std::expected<value_type, std::error_code> result() {
    if (const std::error_code failure = error()) [[unlikely]]
      return std::unexpected(gyre::detail::failure_value(failure, context_));
    if constexpr (std::is_void_v<value_type>) {
      final_value();
      return {};
    } else if constexpr (noexcept(final_value())) {
      return final_value();
    } else {
      try {
        return final_value();
      } catch (...) {
        return std::unexpected(current_error());
      }
    }
  }

  // The interface of gyre::detail::expirable_operation, by which with_timeout() begins the wait and
  // ends it at a time limit, on the loop's thread.
  template <class Promise>
  bool begin_wait(std::coroutine_handle<Promise> awaiting_coroutine) noexcept {
    context_ = &gyre::detail::context_of(awaiting_coroutine);
    coroutine_ = awaiting_coroutine;
    if constexpr (gyre::detail::records_backtraces) {
      if (const auto* const target = this->descriptor(); target != nullptr && target->is_open()) {
        gyre::detail::set_holder(awaiting_coroutine, target->loop());
      }
    }
    return begin_operation(context_->stop);
  }
  event_loop& timers() noexcept { return loop(); }
  void expire() {
    // After a stop, the operation that the stop has posted resumes the coroutine.
    if (stage_ != stage::waiting || context_->stop.stop_requested()) return;
    end(cancelled_outcome(io::result::failure(errc::operation_timeout)));
  }
  bool has_expired() const noexcept {
    return this->wait_.ended_.outcome.error_number() ==
           io::result::failure(errc::operation_timeout).error_number();
  }

 private:
  using stage = typename awaited::stage;
  using held = typename awaited::held;
  using awaited::core_;
  using awaited::holds_;
  using awaited::posted_stop;
  using awaited::request_end;
  using awaited::resumes_on_loop_;
  using awaited::stage_;
  static constexpr bool has_bytes = brings_bytes<Operation>;
  static constexpr io::result cancelled = io::result::failure(ECANCELED);

  bool is_idle() const noexcept { return stage_ == stage::idle; }
  bool refuse(auto error) noexcept { return end_at_once(io::result::failure(error)); }
  bool end_at_once(io::result outcome) noexcept {
    set_outcome(outcome);
    return false;
  }

  // Returns the outcome of a stopped operation: `reason`, unless the operation is done
  // nevertheless.
  io::result stopped_outcome(io::result reason) noexcept {
    if constexpr (requires { this->outcome_despite_stop(); }) {
      if (const std::optional<io::result> outcome = this->outcome_despite_stop()) return *outcome;
    }
    return reason;
  }
  io::result cancelled_outcome(io::result reason) noexcept {
    const std::optional<io::result> outcome = this->cancel();
    return outcome ? *outcome : stopped_outcome(reason);
  }

  // Returns false if there is nothing to wait for.
  bool begin_operation(inplace_stop_token stop) noexcept {
    const open_descriptor* const target = this->descriptor();
    if (target == nullptr || !target->is_open()) return refuse(errc::not_open);
    const event_loop& own_loop = target->loop();
    if (&resumer() != &own_loop && !may_use(own_loop, resumer())) {
      return refuse(errc::wrong_thread);
    }
    if (stop.stop_requested()) return end_at_once(stopped_outcome(cancelled));
    if (this->busy()) return refuse(errc::busy);
    if (const std::optional<io::result> outcome = this->begin()) return end_at_once(*outcome);
    stage_ = stage::waiting;
    resumes_on_loop_ = &resumer() == &own_loop || &resumer() == &inline_executor();
    if (stop.stop_possible()) {
      holds_ = held::stop_callback;
      std::construct_at(&this->wait_.stop_callback_, stop, &on_stop);
    }
    return true;
  }

  static void on_completion(request& completed_request, io::result outcome) {
    auto& self = static_cast<request_awaiter&>(static_cast<Operation&>(completed_request));
    if constexpr (requires { self.advance(outcome); }) {
      const std::optional<io::result> total = self.advance(outcome);
      if (!total) return;
      outcome = *total;
    }
    self.end(outcome);
  }
  static request_awaiter& owner_of(auto& member) noexcept {
    return static_cast<request_awaiter&>(slot::of(member));
  }
  // Posts the stop to the loop. Called on any thread.
  static void on_stop(gyre::detail::stop_callback_base& callback) noexcept {
    request_awaiter& self = owner_of(callback);
    if (self.core_.join(posted_stop, request_end)) {
      self.loop().post(self.wait_);
    }
  }
  // Ends the request after on_stop() has posted to the loop, or resumes the coroutine after
  // post_to() has posted to its executor.
  static void on_post(gyre::operation& posted_operation) {
    request_awaiter& self = owner_of(posted_operation);
    if (self.stage_ == stage::posted) return gyre::detail::resume(self.coroutine_);
    if (self.stage_ == stage::waiting) self.finish(self.cancelled_outcome(cancelled));
    self.resume();
  }

  // Removes the stop callback, if there is one. Waits while it runs on another thread, where it
  // only posts.
  void remove_stop_callback() noexcept {
    if (holds_ != held::stop_callback) return;
    this->wait_.stop_callback_.remove(context_->stop);
    std::destroy_at(&this->wait_.stop_callback_);
  }
  // Ends the operation with `outcome`. The coroutine is resumed by the caller.
  void finish(io::result outcome) noexcept {
    remove_stop_callback();
    set_outcome(outcome);
    stage_ = stage::ended;
  }
  void set_outcome(io::result outcome) noexcept {
    holds_ = held::outcome;
    if constexpr (has_bytes) {
      if (outcome && outcome.count() > 0) {
        std::construct_at(&this->wait_.ended_, outcome,
                          std::move(this->descriptor()->io().memory().arrived()));
        return;
      }
    }
    std::construct_at(&this->wait_.ended_, outcome);
  }
  // Ends the wait; also called within close().
  void end(io::result outcome) {
    const bool has_stop_joined = holds_ == held::stop_callback && !core_.leave(request_end);
    finish(outcome);
    if (has_stop_joined) return;
    if (this->descriptor()->is_open()) [[likely]] {
      resume();
    } else {
      resume_later();
    }
  }
  executor& resumer() const noexcept { return *context_->where; }
  // Returns the loop. Requires that the awaiter waits, so that its descriptor exists: a stop that
  // has joined the wait keeps end() from returning meanwhile.
  event_loop& loop() noexcept { return descriptor::of(this->target()).loop(); }
  void resume() {
    if (resumes_on_loop_) return gyre::detail::resume(coroutine_);
    post_to(resumer());
  }
  [[gnu::noinline]] void resume_later() noexcept {
    if (!resumes_on_loop_) return post_to(resumer());
    // The outcome is an error, because the descriptor was closed: its number suffices.
    deferred_error_ = static_cast<std::uint8_t>(this->wait_.ended_.outcome.error_number());
    assert(deferred_error_ != 0);
    event_loop& own_loop = loop();
    std::destroy_at(&this->wait_.ended_);
    std::destroy_at(&this->wait_);
    std::construct_at(&this->deferral_, &on_deferred_resume, own_loop);
    holds_ = held::timer;
    stage_ = stage::deferred;
    own_loop.start_timer(this->deferral_,
                         own_loop.deadline_after(std::chrono::nanoseconds::zero()));
  }
  static void on_deferred_resume(timer_operation& expired_timer) {
    request_awaiter& self = owner_of(expired_timer);
    std::destroy_at(&self.deferral_);
    std::construct_at(&self.wait_, &on_post);
    self.set_outcome(io::result::failure(self.deferred_error_));
    self.stage_ = stage::ended;
    gyre::detail::resume(self.coroutine_);
  }
  void post_to(executor& executor) noexcept {
    stage_ = stage::posted;
    executor.post(this->wait_);
  }

  // Cancels the wait of a coroutine that is being destroyed, on the loop's thread.
  [[gnu::noinline]] void abandon() noexcept {
    if (stage_ == stage::deferred) {
      this->deferral_.loop.cancel_timer(this->deferral_);
      return;
    }
    remove_stop_callback();
    assert(!core_.has(posted_stop) && "destroyed while it was about to be cancelled");
    static_cast<void>(this->cancel());
  }

  std::error_code error() const noexcept {
    const io::result outcome = this->wait_.ended_.outcome;
    if (!outcome) return outcome.error();
    if constexpr (requires { this->check(outcome); }) {
      return this->check(outcome);
    } else {
      return {};
    }
  }
  static constexpr bool value_is_noexcept = [] {
    if constexpr (has_bytes) {
      return noexcept(std::declval<Operation&>().value(std::declval<received>()));
    } else {
      return noexcept(std::declval<Operation&>().value(std::declval<io::result>()));
    }
  }();
  value_type final_value() noexcept(value_is_noexcept) {
    if constexpr (has_bytes) {
      return this->value(std::move(this->wait_.ended_.bytes));
    } else {
      return this->value(this->wait_.ended_.outcome);
    }
  }

  using awaited::deferred_error_;
  std::coroutine_handle<> coroutine_;
  const task_context* context_ = nullptr;  // the coroutine's context; null before the await
};

}  // namespace gyre::io::detail
