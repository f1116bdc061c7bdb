// SPDX-License-Identifier: Apache-2.0
// boost::asio: a stream socket per pair, which async_read_some's a byte; an operation is started
// anew after each byte. Handlers' memory comes from asio's recycling allocator, and there are no
// locks. unwatch() cancels the read, which leaves the descriptor registered with epoll.
#include <lab/experiments/io_event/workload.hpp>
#include <lab/harness/boost_version.hpp>

#include <boost/asio/basic_stream_socket.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>

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
  using protocol = boost::asio::local::stream_protocol;
  using socket = boost::asio::basic_stream_socket<protocol, context::executor_type>;

  class watched {
   public:
    watched(context& in, lab::io_event::channel& channel) : channel_(channel), socket_(in) {}

    void begin() {
      if (!socket_.is_open()) {
        socket_.assign(protocol(), channel_.fd());
        socket_.non_blocking(true);
      }
      read();
    }

    // Cancels the read and keeps the registration, as gyre's pause() does.
    void pause() { socket_.cancel(); }

    void forget() {
      if (socket_.is_open()) socket_.release();
    }

   private:
    void read() {
      socket_.async_read_some(boost::asio::buffer(&byte_, 1),
                              [this](const boost::system::error_code& error, std::size_t) {
                                if (error) return;
                                channel_.taken();
                                read();
                              });
    }

    lab::io_event::channel& channel_;
    socket socket_;
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
