// SPDX-License-Identifier: Apache-2.0
// boost::asio::thread_pool and post.
#include <lab/experiments/pool_wakeup/workload.hpp>
#include <lab/harness/boost_version.hpp>

#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>

#include <cstdint>

namespace {

class asio_pool {
 public:
  explicit asio_pool(std::uint32_t workers) : pool_(workers) {}

  void post(lab::pool_wakeup::task work) { boost::asio::post(pool_, work); }

 private:
  boost::asio::thread_pool pool_;
};

}  // namespace

int main(int argc, char** argv) {
  return lab::pool_wakeup::contender_main<asio_pool>(argc, argv, {lab::boost_version()});
}
