// SPDX-License-Identifier: Apache-2.0
// boost::asio: a stream_descriptor per pair, which async_read_some's a byte, as the published
// program does; an operation is started anew after each byte. Handlers' memory comes from asio's
// recycling allocator, and there are no locks. unwatch() cancels the read, which
// leaves the descriptor registered with epoll.
#include <lab/experiments/io_event/workload.hpp>
#include <lab/harness/boost_version.hpp>

#include <boost/asio/buffer.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/basic_stream_descriptor.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>

namespace {

class asio_loop {
 public:
  explicit asio_loop(std::span<lab::io_event::channel> channels) {
    for (lab::io_event::channel& each : channels) watched_.emplace_back(context_, each);
  }

  ~asio_loop() {
    for (watched& each : watched_) each.forget();
  }

  asio_loop(const asio_loop&) = delete;
  asio_loop& operator=(const asio_loop&) = delete;

  void watch(std::uint32_t index) { watched_[index].begin(); }
  void unwatch(std::uint32_t index) { watched_[index].pause(); }

  void run() {
    context_.restart();
    context_.run();
  }

  void stop() { context_.stop(); }

 private:
  using context = boost::asio::io_context;
  using descriptor = boost::asio::posix::basic_stream_descriptor<context::executor_type>;

  class watched {
   public:
    watched(context& in, lab::io_event::channel& channel) : channel_(channel), descriptor_(in) {}

    void begin() {
      if (!descriptor_.is_open()) {
        descriptor_.assign(channel_.fd());
        descriptor_.non_blocking(true);
      }
      read();
    }

    // Cancels the read and keeps the registration, as gyre's pause() does.
    void pause() { descriptor_.cancel(); }

    void forget() {
      if (descriptor_.is_open()) descriptor_.release();
    }

   private:
    void read() {
      descriptor_.async_read_some(boost::asio::buffer(&byte_, 1),
                                  [this](const boost::system::error_code& error, std::size_t) {
                                    if (error) return;
                                    channel_.taken();
                                    read();
                                  });
    }

    lab::io_event::channel& channel_;
    descriptor descriptor_;
    std::byte byte_{};
  };

  context context_{BOOST_ASIO_CONCURRENCY_HINT_UNSAFE};
  boost::asio::executor_work_guard<context::executor_type> keep_running_{context_.get_executor()};
  std::deque<watched> watched_;
};

}  // namespace

int main(int argc, char** argv) {
  return lab::io_event::contender_main<asio_loop>(argc, argv, {lab::boost_version()});
}
