// SPDX-License-Identifier: Apache-2.0
// boost::asio::io_context run by one thread. The concurrency hint 1 spares asio some signalling;
// its locks stay, because other threads post.
#include <lab/experiments/post_task/workload.hpp>
#include <lab/harness/boost_version.hpp>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>

#include <cstdint>
#include <optional>

namespace {

class asio_loop {
 public:
  static constexpr bool can_wake_per_task = false;

  explicit asio_loop(lab::post_task::wakeup) {}

  void run() { context_.run(); }
  void stop() { context_.stop(); }

  template <class F>
  void post(F work) {
    boost::asio::post(context_, work);
  }

  std::optional<std::uint64_t> wakeups() const { return std::nullopt; }

 private:
  boost::asio::io_context context_{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> keep_running_{
      context_.get_executor()};
};

}  // namespace

int main(int argc, char** argv) {
  return lab::post_task::contender_main<asio_loop>(argc, argv, {lab::boost_version()});
}
