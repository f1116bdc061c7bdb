// SPDX-License-Identifier: Apache-2.0
#include <gyre/task/adapter/asio.hpp>

#include <gyre/task/spawn.hpp>
#include <gyre/task/sync_wait.hpp>

#include <gtest/gtest.h>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/connect_pair.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <exception>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace asio_test {
namespace {

namespace asio = boost::asio;
using gyre::task;
using namespace std::chrono_literals;
using stream = asio::local::stream_protocol::socket;

TEST(AsioExecutor, RunsCoroutinesOnAContext) {
  asio::io_context context;
  gyre::asio_executor io(context.get_executor());
  bool ran = false;
  EXPECT_FALSE(io.running_here());
  gyre::spawn(io, [](gyre::executor& here, bool& done) -> task<> {
    EXPECT_TRUE(here.running_here());
    co_await gyre::yield();
    EXPECT_TRUE(here.running_here());
    done = true;
  }(io, ran));
  EXPECT_FALSE(ran);
  context.run();
  EXPECT_TRUE(ran);
  EXPECT_FALSE(io.running_here());
}

TEST(AsioExecutor, IsNotHereInASyncWaitOfAHandler) {
  asio::io_context context;
  gyre::asio_executor io(context.get_executor());
  bool here_within = true;
  bool here_afterwards = false;
  gyre::spawn(io, [](gyre::executor& own, bool& within, bool& afterwards) -> task<> {
    within = gyre::sync_wait(
        [](gyre::executor& outer) -> task<bool> { co_return outer.running_here(); }(own));
    afterwards = own.running_here();
    co_return;
  }(io, here_within, here_afterwards));
  context.run();
  EXPECT_FALSE(here_within);
  EXPECT_TRUE(here_afterwards);
}

TEST(AsioExecutor, HopsBetweenAContextAndAPool) {
  asio::io_context context;
  asio::thread_pool pool(2);  // its threads post to the context until they are joined
  gyre::asio_executor workers(pool.get_executor());
  gyre::asio_executor io(context.get_executor());
  auto guard = asio::make_work_guard(context);
  int hops = 0;
  gyre::spawn(io, [](auto& main, auto& there, auto& work, int& count) -> task<> {
    for (; count < 1000; ++count) {
      co_await gyre::resume_on(there);
      EXPECT_TRUE(there.running_here());
      co_await gyre::resume_on(main);
      EXPECT_TRUE(main.running_here());
    }
    work.reset();
  }(io, workers, guard, hops));
  context.run();
  EXPECT_EQ(hops, 1000);
}

task<std::string> read_line(stream& from, std::size_t length) {
  std::string text(length, '\0');
  auto reading = asio::async_read(from, asio::buffer(text), gyre::asio_awaitable);
  const std::size_t size = co_await std::move(reading);
  text.resize(size);
  co_return text;
}

TEST(AsioAwaitable, ReadsAndWrites) {
  asio::io_context context;
  gyre::asio_executor io(context.get_executor());
  stream left(context);
  stream right(context);
  asio::local::connect_pair(left, right);
  std::string received;
  gyre::spawn(io, [](stream& from, std::string& to) -> task<> {
    to = co_await read_line(from, 5);
  }(right, received));
  gyre::spawn(io, [](stream& to) -> task<> {
    auto writing = asio::async_write(to, asio::buffer("hello", 5), gyre::asio_awaitable);
    const std::size_t written = co_await std::move(writing);
    EXPECT_EQ(written, 5U);
  }(left));
  context.run();
  EXPECT_EQ(received, "hello");
}

TEST(AsioAwaitable, ThrowsTheErrorOfTheOperation) {
  asio::io_context context;
  gyre::asio_executor io(context.get_executor());
  stream left(context);
  stream right(context);
  asio::local::connect_pair(left, right);
  left.close();
  std::error_code error;
  gyre::spawn(io, [](stream& from, std::error_code& to) -> task<> {
    try {
      static_cast<void>(co_await read_line(from, 5));
    } catch (const std::system_error& failure) {
      to = failure.code();
    }
  }(right, error));
  context.run();
  EXPECT_EQ(error, std::error_code(boost::system::error_code(asio::error::eof)));
}

TEST(AsioAwaitable, IsCancelledByAStop) {
  asio::io_context context;
  gyre::asio_executor io(context.get_executor());
  stream left(context);
  stream right(context);
  asio::local::connect_pair(left, right);
  gyre::inplace_stop_source stop;
  std::error_code error;
  gyre::spawn(io,
              [](stream& from, std::error_code& to) -> task<> {
                try {
                  static_cast<void>(co_await read_line(from, 5));
                } catch (const gyre::operation_cancelled&) {
                  to = std::make_error_code(std::errc::operation_canceled);
                }
              }(right, error),
              {.stop = stop.get_token()});
  context.poll();
  stop.request_stop();
  context.run();
  EXPECT_EQ(error, std::errc::operation_canceled);
}

TEST(AsioAwaitable, StopOnceTheOperationIsDoneCancelsNothing) {
  asio::io_context context;
  gyre::asio_executor io(context.get_executor());
  gyre::inplace_stop_source stop;
  bool expired = false;
  gyre::spawn(io,
              [](asio::io_context& on, bool& done) -> task<> {
                asio::steady_timer timer(on, 1ms);
                auto waiting = timer.async_wait(gyre::asio_awaitable);
                co_await std::move(waiting);
                done = true;
              }(context, expired),
              {.stop = stop.get_token()});
  context.run_one();  // starts the wait
  context.run_one();  // ends the wait, which queues the coroutine
  EXPECT_FALSE(expired);
  stop.request_stop();
  context.run();
  EXPECT_TRUE(expired);
}

TEST(AsioAwait, CompletesACallback) {
  asio::io_context context;
  int result = 0;
  gyre::async_await(
      context.get_executor(), []() -> task<int> { co_return 7; }(),
      [&](std::exception_ptr error, int value) {
        EXPECT_EQ(error, nullptr);
        result = value;
      });
  context.run();
  EXPECT_EQ(result, 7);
}

TEST(AsioAwait, IsAwaitedByCoroutinesOfAsio) {
  asio::io_context context;
  int result = 0;
  auto outer = [&]() -> asio::awaitable<void> {
    const auto executor = co_await asio::this_coro::executor;
    result = co_await gyre::async_await(
        executor,
        []() -> task<int> {
          co_await gyre::yield();
          co_return 7;
        }(),
        asio::use_awaitable);
    bool thrown = false;
    try {
      co_await gyre::async_await(
          executor,
          []() -> task<> {
            throw std::runtime_error("broken");
            co_return;
          }(),
          asio::use_awaitable);
    } catch (const std::runtime_error&) {
      thrown = true;
    }
    EXPECT_TRUE(thrown);
  };
  asio::co_spawn(context, outer(), asio::detached);
  context.run();
  EXPECT_EQ(result, 7);
}

TEST(AsioAwait, CancellationOfTheAsioOperationIsAStop) {
  asio::io_context context;
  asio::cancellation_signal signal;
  std::exception_ptr outcome;
  gyre::async_await(
      context.get_executor(),
      [](asio::io_context& on) -> task<> {
        asio::steady_timer timer(on, 1h);
        auto waiting = timer.async_wait(gyre::asio_awaitable);
        co_await std::move(waiting);
      }(context),
      asio::bind_cancellation_slot(signal.slot(),
                                   [&](std::exception_ptr error) { outcome = error; }));
  context.poll();
  signal.emit(asio::cancellation_type::terminal);
  context.run();
  try {
    std::rethrow_exception(outcome);
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code(), std::errc::operation_canceled);
  }
}

TEST(AsioAwait, KeepsTheContextRunningWhileItWaitsElsewhere) {
  asio::io_context context;
  asio::thread_pool pool(1);  // its thread posts to the context until it is joined
  gyre::asio_executor workers(pool.get_executor());
  int result = 0;
  gyre::async_await(context.get_executor(), gyre::on(workers, []() -> task<int> { co_return 5; }()),
                    [&](const std::exception_ptr&, int value) { result = value; });
  context.run();
  EXPECT_EQ(result, 5);
}

}  // namespace
}  // namespace asio_test
