// SPDX-License-Identifier: Apache-2.0
// asio: experimental::concurrent_channel between awaitables, one io_context per thread; on one loop
// experimental::channel, which locks nothing, on an io_context that locks nothing. A coroutine
// suspends only when try_send() or try_receive() fails.
#include <lab/experiments/channel/workload.hpp>
#include <lab/harness/boost_version.hpp>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/experimental/channel.hpp>
#include <boost/asio/experimental/concurrent_channel.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <cstdint>

namespace {

namespace asio = boost::asio;

using executor = asio::io_context::executor_type;
using boost::system::error_code;
using signature = void(error_code, lab::channel::message);
using lab::channel::consumer;
using lab::channel::message;
using lab::channel::parties;
using lab::channel::producer;

constexpr asio::use_awaitable_t<executor> use_awaitable;

template <class Channel>
asio::awaitable<void, executor> send(Channel& channel, producer& from) {
  for (message each; from.next(each);) {
    if (!channel.try_send(error_code(), each)) {
      co_await channel.async_send(error_code(), each, use_awaitable);
    }
  }
}

template <class Channel>
asio::awaitable<void, executor> receive(Channel& channel, consumer& to) {
  message received;
  do {
    const bool is_here = channel.try_receive([&](error_code, message next) { received = next; });
    if (!is_here) received = co_await channel.async_receive(use_awaitable);
  } while (to.take(received));
}

class asio_queue {
 public:
  explicit asio_queue(std::uint32_t capacity)
      : capacity_(capacity), concurrent_(context_.get_executor(), capacity) {}

  void produce(producer& from) {
    asio::io_context loop(1);
    asio::co_spawn(loop, send(concurrent_, from), asio::detached);
    loop.run();
  }

  void consume(consumer& to) {
    asio::io_context loop(1);
    asio::co_spawn(loop, receive(concurrent_, to), asio::detached);
    loop.run();
  }

  void run(parties& all) {
    asio::io_context loop(BOOST_ASIO_CONCURRENCY_HINT_UNSAFE);
    asio::experimental::channel<executor, signature> channel(loop.get_executor(), capacity_);
    for (producer& each : all.producers) {
      asio::co_spawn(loop, send(channel, each), asio::detached);
    }
    for (consumer& each : all.consumers) {
      asio::co_spawn(loop, receive(channel, each), asio::detached);
    }
    loop.run();
  }

 private:
  std::uint32_t capacity_;
  asio::io_context context_;
  asio::experimental::concurrent_channel<executor, signature> concurrent_;
};

}  // namespace

int main(int argc, char** argv) {
  return lab::channel::contender_main<asio_queue>(argc, argv, {lab::boost_version()});
}
