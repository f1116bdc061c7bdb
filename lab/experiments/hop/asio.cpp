// SPDX-License-Identifier: Apache-2.0
// boost::asio: an io_context per thread, with the concurrency hint 1. A post by a loop's thread
// takes its memory from that thread's recycling allocator, so a hop allocates nothing.
#include <lab/experiments/hop/workload.hpp>
#include <lab/harness/boost_version.hpp>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>

#include <cstdint>
#include <optional>

namespace {

class asio_loop {
 public:
  using token = lab::hop::token;

  void run() { context_.run(); }
  void stop() { context_.stop(); }

  void send(token& passed) {
    boost::asio::post(context_, [&passed] { passed.arrive(); });
  }

  std::optional<std::uint64_t> wakeups() const { return std::nullopt; }

 private:
  boost::asio::io_context context_{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> keep_running_{
      context_.get_executor()};
};

}  // namespace

int main(int argc, char** argv) {
  return lab::hop::contender_main<asio_loop>(argc, argv, {lab::boost_version()});
}
