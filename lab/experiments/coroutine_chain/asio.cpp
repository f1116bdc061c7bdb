// SPDX-License-Identifier: Apache-2.0
// asio: awaitable<int>, spawned on an io_context that runs on this thread and locks nothing.
#include <lab/experiments/coroutine_chain/workload.hpp>
#include <lab/harness/boost_version.hpp>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>

#include <exception>
#include <utility>

namespace {

class asio_runtime {
 public:
  template <class T>
  using task = boost::asio::awaitable<T, boost::asio::io_context::executor_type>;

  int wait(task<int> chain) {
    int value = 0;
    boost::asio::co_spawn(context_, std::move(chain),
                          [&](const std::exception_ptr&, int result) { value = result; });
    context_.restart();
    context_.run();
    return value;
  }

 private:
  boost::asio::io_context context_{BOOST_ASIO_CONCURRENCY_HINT_UNSAFE};
};

}  // namespace

int main(int argc, char** argv) {
  using chain = lab::coroutine_chain::coroutines<asio_runtime>;
  return lab::coroutine_chain::contender_main<chain>(argc, argv, {lab::boost_version()});
}
