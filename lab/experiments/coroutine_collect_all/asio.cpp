// SPDX-License-Identifier: Apache-2.0
// asio: awaitable<int>, all spawned by a parallel group on an io_context that runs on this thread
// and locks nothing. co_spawn enters a chain at once when called on that thread (none); for the
// loop each chain is posted first.
#include <lab/experiments/coroutine_collect_all/workload.hpp>
#include <lab/harness/boost_version.hpp>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/experimental/parallel_group.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <cstddef>
#include <cstdint>
#include <exception>
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
  static runtime::task<std::uint64_t> collect_all(std::uint32_t tasks) {
    const auto executor = co_await asio::this_coro::executor;
    std::vector<decltype(asio::co_spawn(executor, Chain(), asio::deferred))> chains;
    for (std::uint32_t i = 0; i < tasks; ++i) {
      chains.push_back(asio::co_spawn(executor, Chain(), asio::deferred));
    }
    auto group = asio::experimental::make_parallel_group(std::move(chains));
    const auto [order, errors, values] =
        co_await group.async_wait(asio::experimental::wait_for_all(), use_awaitable);
    std::uint64_t sum = 0;
    for (const int each : values) sum += static_cast<std::uint64_t>(each);
    co_return sum;
  }

  asio::io_context context_{BOOST_ASIO_CONCURRENCY_HINT_UNSAFE};
};

}  // namespace

int main(int argc, char** argv) {
  return lab::coroutine_collect_all::contender_main<collector<chain>, collector<posted_chain>>(
      argc, argv, {lab::boost_version()});
}
