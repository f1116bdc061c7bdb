// SPDX-License-Identifier: Apache-2.0
// asio: awaitable<int>, spawned with a handler that counts down, on an io_context that this thread
// runs and that locks nothing. co_spawn enters a chain at once when called there (none); for the
// loop each chain is posted first.
#include <lab/experiments/coroutine_collect_all/workload.hpp>
#include <lab/harness/boost_version.hpp>

#include <boost/asio/async_result.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <utility>
#include <vector>

namespace {

namespace asio = boost::asio;

struct runtime {
  using executor = asio::io_context::executor_type;
  template <class T>
  using task = asio::awaitable<T, executor>;
};
constexpr asio::use_awaitable_t<runtime::executor> use_awaitable;

runtime::task<int> chain() {
  return lab::coroutine_chain::link<runtime, lab::coroutine_collect_all::links>();
}

runtime::task<int> posted_chain() {
  co_await asio::post(use_awaitable);
  co_return co_await chain();
}

template <runtime::task<int> (*Chain)()>
class collector {
 public:
  std::uint64_t collect(std::uint32_t tasks) {
    std::uint64_t value = 0;
    asio::co_spawn(context_, collect_all(tasks),
                   [&](const std::exception_ptr&, std::uint64_t sum) { value = sum; });
    context_.restart();
    context_.run();
    return value;
  }

 private:
  using executor_type = runtime::executor;

  static runtime::task<std::uint64_t> collect_all(std::uint32_t tasks) {
    const auto executor = co_await asio::this_coro::executor;
    std::vector<int> values(tasks);
    co_await asio::async_initiate<const asio::use_awaitable_t<executor_type>, void()>(
        [&](auto handler) { start(executor, values, std::move(handler)); }, use_awaitable);
    std::uint64_t sum = 0;
    for (const int each : values) sum += static_cast<std::uint64_t>(each);
    co_return sum;
  }

  template <class Handler>
  struct countdown {
    std::size_t left;
    Handler handler;

    void arrive() {
      if (--left != 0) return;
      const std::unique_ptr<countdown> self(this);
      std::move(handler)();
    }
  };

  // Starts all chains; the last one calls the handler.
  template <class Handler>
  static void start(executor_type executor, std::vector<int>& values, Handler handler) {
    auto* const waiting = new countdown<Handler>{values.size() + 1, std::move(handler)};
    for (int& value : values) {
      asio::co_spawn(executor, Chain(), [waiting, &value](const std::exception_ptr&, int result) {
        value = result;
        waiting->arrive();
      });
    }
    waiting->arrive();
  }

  asio::io_context context_{BOOST_ASIO_CONCURRENCY_HINT_UNSAFE};
};

}  // namespace

int main(int argc, char** argv) {
  return lab::coroutine_collect_all::contender_main<collector<chain>, collector<posted_chain>>(
      argc, argv, {lab::boost_version()});
}
