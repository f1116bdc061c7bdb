// SPDX-License-Identifier: Apache-2.0
// asio: a completion handler as a oneshot, a steady_timer whose expiry moves on by the period,
// coroutines whose completion handlers send their results to a channel, and asio's strand, which is
// entered by dispatch. A tick that is overdue is posted, as waiting for an expired timer would make
// a system call. The types of all executors are known.
#include <lab/experiments/coroutine_tools/workload.hpp>
#include <lab/harness/boost_version.hpp>

#include <boost/asio/async_result.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/experimental/channel.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <exception>
#include <utility>

namespace {

namespace asio = boost::asio;

using boost::system::error_code;
using executor = asio::io_context::executor_type;
using channel = asio::experimental::channel<executor, void(error_code, std::uint64_t)>;
using timer = asio::basic_waitable_timer<std::chrono::steady_clock,
                                         asio::wait_traits<std::chrono::steady_clock>, executor>;

constexpr asio::use_awaitable_t<executor> use_awaitable;

// Posts a function that completes the operation with `number`.
template <class Token>
auto async_reply(executor loop, std::uint64_t number, Token&& token) {
  return asio::async_initiate<Token, void(std::uint64_t)>(
      [](auto handler, executor on, std::uint64_t answer) {
        asio::post(on, [to = std::move(handler), answer]() mutable { std::move(to)(answer); });
      },
      token, loop, number);
}

asio::awaitable<void, executor> ask(executor loop, std::uint64_t count, std::uint64_t& sum) {
  for (std::uint64_t number = 1; number <= count; ++number) {
    sum += co_await async_reply(loop, number, use_awaitable);
  }
}

asio::awaitable<void, executor> tick(executor loop, std::uint64_t count, std::uint64_t& ticks) {
  timer every(loop, std::chrono::steady_clock::now());
  for (; ticks < count; ++ticks) {
    if (every.expiry() > std::chrono::steady_clock::now()) {
      co_await every.async_wait(use_awaitable);
    } else {  // overdue: in the loop's next turn, without a system call
      co_await asio::post(loop, use_awaitable);
    }
    every.expires_at(every.expiry() + std::chrono::nanoseconds(1));
  }
}

asio::awaitable<std::uint64_t, executor> finish(executor loop, std::uint64_t number) {
  co_await asio::post(loop, use_awaitable);
  co_return number;
}

asio::awaitable<void, executor> join(executor loop, std::uint64_t count, std::uint64_t& sum) {
  channel results(loop, lab::coroutine_tools::tasks_in_set);
  for (std::uint64_t started = 0; started < count;) {
    const std::uint64_t batch = std::min(count - started, lab::coroutine_tools::tasks_in_set);
    for (std::uint64_t each = 0; each < batch; ++each) {
      asio::co_spawn(loop, finish(loop, ++started),
                     [&results](const std::exception_ptr& failure, std::uint64_t number) {
                       if (failure) std::rethrow_exception(failure);
                       results.try_send(error_code(), number);
                     });
    }
    for (std::uint64_t each = 0; each < batch; ++each) {
      const bool is_here =
          results.try_receive([&](error_code, std::uint64_t number) { sum += number; });
      if (!is_here) sum += co_await results.async_receive(use_awaitable);
    }
  }
}

using pool_executor = asio::thread_pool::executor_type;
using pool_strand = asio::strand<pool_executor>;

asio::awaitable<void, pool_executor> visit(pool_executor pool, pool_strand strand,
                                           std::uint64_t count, std::uint64_t& number) {
  constexpr asio::use_awaitable_t<pool_executor> on_pool;
  for (std::uint64_t visits = 0; visits < count; ++visits) {
    co_await asio::dispatch(asio::bind_executor(strand, on_pool));
    ++number;
    co_await asio::post(asio::bind_executor(pool, on_pool));
  }
}

class asio_tools {
 public:
  std::uint64_t oneshots(std::uint64_t count) { return run(&ask, count); }
  std::uint64_t ticks(std::uint64_t count) { return run(&tick, count); }
  std::uint64_t joins(std::uint64_t count) { return run(&join, count); }

  std::uint64_t visits(std::uint64_t count) {
    asio::thread_pool pool(2);
    pool_strand strand(pool.get_executor());
    std::uint64_t number = 0;
    for (std::uint64_t visitor = 0; visitor < lab::coroutine_tools::visitors; ++visitor) {
      const std::uint64_t before = count * visitor / lab::coroutine_tools::visitors;
      const std::uint64_t until = count * (visitor + 1) / lab::coroutine_tools::visitors;
      asio::co_spawn(pool, visit(pool.get_executor(), strand, until - before, number),
                     asio::detached);
    }
    pool.join();
    return number;
  }

 private:
  template <class Work>
  static std::uint64_t run(Work work, std::uint64_t count) {
    asio::io_context loop(BOOST_ASIO_CONCURRENCY_HINT_UNSAFE);
    std::uint64_t total = 0;
    asio::co_spawn(loop, work(loop.get_executor(), count, total), asio::detached);
    loop.run();
    return total;
  }
};

}  // namespace

int main(int argc, char** argv) {
  return lab::coroutine_tools::contender_main<asio_tools>(argc, argv, {lab::boost_version()});
}
