// SPDX-License-Identifier: Apache-2.0
// asio has no lock for coroutines; a channel of capacity one serves as a lock: a send acquires it,
// and receiving that message lets the next sender go on. On one loop nothing locks inside.
#include <lab/experiments/sync/workload.hpp>
#include <lab/harness/boost_version.hpp>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/experimental/channel.hpp>
#include <boost/asio/experimental/concurrent_channel.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <cstdint>
#include <span>
#include <thread>

namespace {

namespace asio = boost::asio;

using boost::system::error_code;
using executor = asio::io_context::executor_type;
using lab::sync::job;
using signature = void(error_code);

constexpr asio::use_awaitable_t<executor> use_awaitable;

template <class Channel>
asio::awaitable<void, executor> do_job(Channel& lock, job work) {
  work.shared.begin_task();
  for (std::uint64_t i = 0; i < work.locks; ++i) {
    if (!lock.try_send(error_code())) co_await lock.async_send(error_code(), use_awaitable);
    work.shared.enter(work.name);
    while (work.shared.awaits_tasks()) co_await asio::post(use_awaitable);
    work.shared.leave(work.name);
    lock.try_receive([](error_code) {});
  }
}

class asio_lock {
 public:
  void run_alone(const job& work) { run_on_one_loop({&work, 1}); }

  void run_on_one_loop(std::span<const job> work) { run(alone_, lock_, work); }

  void run_on_two_loops(std::span<const job> work) {
    const std::jthread other([&] { run(second_, shared_, work.subspan(work.size() / 2)); });
    run(first_, shared_, work.first(work.size() / 2));
  }

 private:
  template <class Channel>
  static void run(asio::io_context& loop, Channel& lock, std::span<const job> work) {
    for (const job& each : work) asio::co_spawn(loop, do_job(lock, each), asio::detached);
    loop.restart();
    loop.run();
  }

  asio::io_context alone_{BOOST_ASIO_CONCURRENCY_HINT_UNSAFE};
  asio::experimental::channel<executor, signature> lock_{alone_.get_executor(), 1};
  asio::io_context first_{1};
  asio::io_context second_{1};
  asio::experimental::concurrent_channel<executor, signature> shared_{first_.get_executor(), 1};
};

}  // namespace

int main(int argc, char** argv) {
  return lab::sync::contender_main<asio_lock>(argc, argv, {lab::boost_version()});
}
