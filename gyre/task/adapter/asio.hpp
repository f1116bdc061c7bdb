// SPDX-License-Identifier: Apache-2.0
// asio_executor, asio_awaitable, async_await: run gyre's coroutines on executors of Boost.Asio,
// await operations of Asio in them, and start them as operations of Asio. Boost 1.79 or later; not
// in gyre/gyre.hpp.
//
//     boost::asio::io_context context;
//     gyre::asio_executor io(context.get_executor());
//
//     gyre::task<> echo(tcp::socket socket) {
//       std::array<char, 1024> room;
//       for (;;) {
//         auto reading = socket.async_read_some(boost::asio::buffer(room), gyre::asio_awaitable);
//         const std::size_t length = co_await std::move(reading);
//         auto writing = boost::asio::async_write(
//             socket, boost::asio::buffer(room, length), gyre::asio_awaitable);
//         co_await std::move(writing);
//       }
//     }
//
//     gyre::spawn(io, echo(std::move(socket)), {.on_error = log_error});  // eof at the end
#pragma once

#include <gyre/base/operation.hpp>
#include <gyre/task/as_task.hpp>
#include <gyre/task/context.hpp>
#include <gyre/task/detail/cancelled.hpp>
#include <gyre/task/detail/recorded_task.hpp>
#include <gyre/task/executor.hpp>
#include <gyre/task/from_callback.hpp>
#include <gyre/task/schedule.hpp>
#include <gyre/task/stop_token.hpp>
#include <gyre/task/task.hpp>

#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/cancellation_type.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/system/error_code.hpp>

#include <coroutine>
#include <exception>
#include <functional>
#include <memory>
#include <source_location>
#include <system_error>
#include <tuple>
#include <type_traits>
#include <utility>

namespace gyre {

namespace detail {

/// The handler that a thread is running: the handler's executor, and the run (see current_run()) in
/// which the handler began.
struct running_asio_handler {
  const executor* where = nullptr;
  const void* run = nullptr;
};

}  // namespace detail

/// A gyre::executor that posts to an executor of Boost.Asio: an io_context's, a thread_pool's, a
/// strand, any_io_executor. It has no timers: await timers of Asio instead.
///
/// Lifetime: must outlive its coroutines. Asio's context must run every posted handler, and must
/// outlive every call of post(): a call on another thread may still be returning when its coroutine
/// has ended. This executor holds no work guard: hold one while coroutines wait for other events
/// than those of Asio.
/// Errors: an exception of boost::asio::post terminates the program.
template <class AsioExecutor>
class asio_executor final : public executor {
 public:
  explicit asio_executor(AsioExecutor target) noexcept : target_(std::move(target)) {}
  asio_executor& operator=(asio_executor&&) = delete;

  void post(operation& op) noexcept override {
    boost::asio::post(target_, [this, &op] {
      const detail::running_asio_handler outer =
          std::exchange(current_handler_, {this, current_run()});
      op.execute();
      current_handler_ = outer;
    });
  }
  bool running_here() const noexcept override {
    return current_handler_.where == this && current_handler_.run == current_run();
  }

  const AsioExecutor& get() const noexcept { return target_; }

 private:
  // The handler that this thread runs.
  static inline constinit thread_local detail::running_asio_handler current_handler_{};

  AsioExecutor target_;
};

/// The completion token with which an operation of Boost.Asio returns a task. Awaited, the task
/// starts the operation and returns the operation's result: nothing, a value or a std::tuple. A
/// stop cancels the operation (cancellation_type::all) and waits until the operation has ended.
///
/// Thread-safety: the coroutine's executor must run on the thread or strand of the I/O object, as
/// the operation is cancelled there.
/// Errors: a leading error_code is thrown as std::system_error, or as gyre::operation_cancelled if
/// a stop cancelled the operation; a leading std::exception_ptr is rethrown.
/// Complexity: a coroutine frame and two allocations, in addition to Asio's.
struct asio_awaitable_t {
  constexpr asio_awaitable_t() = default;
};
/// The completion token: `co_await timer.async_wait(gyre::asio_awaitable)`.
inline constexpr asio_awaitable_t asio_awaitable;

namespace detail {

/// Cancels an operation of Asio, on the executor of the awaiting coroutine. Must exist until both
/// the operation and its cancellation are done.
class asio_cancellation : operation {
 public:
  explicit asio_cancellation(executor& target) noexcept
      : operation([](operation& self) {
          // The object is owned here, because emit() may end the operation and drop the other
          // owner.
          const auto alive = std::move(static_cast<asio_cancellation&>(self).until_run_);
          alive->signal_.emit(boost::asio::cancellation_type::all);
        }),
        own_executor_(target) {}

  boost::asio::cancellation_slot slot() noexcept { return signal_.slot(); }
  /// Disconnects the cancellation slot. Called once the operation has completed.
  void disarm() noexcept { signal_.slot().clear(); }

  /// Posts the cancellation of the operation to the executor. Called once, on any thread.
  static void request(const std::shared_ptr<asio_cancellation>& self) noexcept {
    self->until_run_ = self;
    self->own_executor_.post(*self);
  }

 private:
  executor& own_executor_;
  boost::asio::cancellation_signal signal_;
  std::shared_ptr<asio_cancellation> until_run_;
};

/// The type that holds the arguments of a handler of Asio: void, a value or a tuple.
template <class... Results>
struct asio_result : std::type_identity<std::tuple<Results...>> {};
template <>
struct asio_result<> : std::type_identity<void> {};
template <class Result>
struct asio_result<Result> : std::type_identity<Result> {};

template <class... Arguments>
struct asio_handler_result : asio_result<std::decay_t<Arguments>...> {};
template <class... Rest>
struct asio_handler_result<boost::system::error_code, Rest...>
    : asio_result<std::decay_t<Rest>...> {};
template <class... Rest>
struct asio_handler_result<std::exception_ptr, Rest...> : asio_result<std::decay_t<Rest>...> {};

template <class Result>
struct asio_handler {
  completion<Result> callback;

  template <class... Results>
  void operator()(boost::system::error_code error, Results&&... results) const {
    error ? callback.set_error(error) : callback.set_value(std::forward<Results>(results)...);
  }
  template <class... Results>
  void operator()(std::exception_ptr error, Results&&... results) const {
    error ? callback.set_exception(std::move(error))
          : callback.set_value(std::forward<Results>(results)...);
  }
  template <class... Results>
  void operator()(Results&&... results) const {
    callback.set_value(std::forward<Results>(results)...);
  }
};

template <class Result, class Initiation, class... Arguments>
task<Result> await_asio(Initiation initiation, Arguments... arguments) {
  executor& task_executor = co_await current_executor();
  const auto cancellation = std::make_shared<asio_cancellation>(task_executor);
  auto start = [&](completion<Result> callback) {
    std::move(initiation)(
        boost::asio::bind_cancellation_slot(
            cancellation->slot(),
            [cancellation, handler = asio_handler<Result>{std::move(callback)}]<class... Results>(
                Results&&... results) {
              cancellation->disarm();
              handler(std::forward<Results>(results)...);
            }),
        std::move(arguments)...);
  };
  auto cancel = [&] { asio_cancellation::request(cancellation); };
  auto wait = from_callback<Result>(std::ref(start), std::ref(cancel));
  co_return co_await std::move(wait);
}

/// The context of a coroutine that was started for a handler of Asio. Deletes itself when the
/// coroutine has ended.
template <class T, class AsioExecutor, class Handler>
class asio_handler_context final : task_context, operation {
 public:
  asio_handler_context(const AsioExecutor& target, task<T>&& work, Handler&& handler)
      : operation([](operation& self) {
          auto& awaiting = static_cast<asio_handler_context&>(self);
          task_access::state(awaiting.work_).start(awaiting);
        }),
        executor_(target),
        work_(std::move(work)),
        handler_(std::move(handler)),
        handler_guard_(boost::asio::make_work_guard(handler_, target)),
        guard_(boost::asio::make_work_guard(target)) {
    record_if_enabled(work_, executor_, "asio::async_await", std::source_location{});
    where = &executor_;
    stop = stop_source_.get_token();
    finished = [](task_context& self) noexcept -> std::coroutine_handle<> {
      complete(std::unique_ptr<asio_handler_context>(static_cast<asio_handler_context*>(&self)));
      return std::noop_coroutine();
    };
    if (auto slot = boost::asio::get_associated_cancellation_slot(handler_); slot.is_connected()) {
      slot.assign([this](boost::asio::cancellation_type) { stop_source_.request_stop(); });
    }
  }
  void start() noexcept { executor_.post(*this); }

 private:
  static void complete(std::unique_ptr<asio_handler_context> self) noexcept {
    const auto target = self->handler_guard_.get_executor();
    boost::asio::post(target, [owner = std::move(self)]() mutable {
      auto slot = boost::asio::get_associated_cancellation_slot(owner->handler_);
      if (slot.is_connected()) slot.clear();
      Handler handler = std::move(owner->handler_);
      std::exception_ptr error;
      if constexpr (std::is_void_v<T>) {
        owner->take_result(error);
        owner.reset();
        std::move(handler)(std::move(error));
      } else {
        T result = owner->take_result(error);
        owner.reset();
        std::move(handler)(std::move(error), std::move(result));
      }
    });
  }
  T take_result(std::exception_ptr& error) {
    error = error_outside(task_access::state(work_).take_error());
    if (error) return T();
    try {
      return task_access::state(work_).take_result();
    } catch (...) {
      error = std::current_exception();
    }
    return T();
  }

  asio_executor<AsioExecutor> executor_;
  inplace_stop_source stop_source_;
  task<T> work_;
  Handler handler_;
  boost::asio::executor_work_guard<boost::asio::associated_executor_t<Handler, AsioExecutor>>
      handler_guard_;
  boost::asio::executor_work_guard<AsioExecutor> guard_;
};

template <class T>
struct asio_signature : std::type_identity<void(std::exception_ptr, T)> {};
template <>
struct asio_signature<void> : std::type_identity<void(std::exception_ptr)> {};

}  // namespace detail

/// Starts `object` on `target`, an executor of Boost.Asio, as an operation of Asio that completes
/// through `token` (a callback, boost::asio::use_awaitable, boost::asio::use_future, …). It
/// completes with the std::exception_ptr that left `object`, or null, and with the result of
/// `object` unless that is void. The result type must be a default-constructible object. Cancelling
/// the Asio operation asks `object` to stop; its gyre::operation_cancelled is reported as
/// std::system_error (std::errc::operation_canceled).
template <class AsioExecutor, awaitable Awaitable, class CompletionToken>
auto async_await(const AsioExecutor& target, Awaitable object, CompletionToken&& token) {
  using result = task_result_t<Awaitable>;
  return boost::asio::async_initiate<CompletionToken,
                                     typename detail::asio_signature<result>::type>(
      [target](auto handler, task<result> work) {
        using awaiting = detail::asio_handler_context<result, AsioExecutor, decltype(handler)>;
        (new awaiting(target, std::move(work), std::move(handler)))->start();
      },
      token, as_task(std::move(object)));
}

}  // namespace gyre

template <class... Arguments>
class boost::asio::async_result<gyre::asio_awaitable_t, void(Arguments...)> {
 public:
  template <class Initiation, class... Inputs>
  static auto initiate(Initiation initiation, gyre::asio_awaitable_t, Inputs... inputs) {
    using result = typename gyre::detail::asio_handler_result<std::decay_t<Arguments>...>::type;
    return gyre::detail::await_asio<result>(std::move(initiation), std::move(inputs)...);
  }
};
