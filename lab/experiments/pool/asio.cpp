// SPDX-License-Identifier: Apache-2.0
// boost::asio::thread_pool and post, as its documentation shows; the queue is unbounded.
#include <lab/experiments/pool/workload.hpp>
#include <lab/harness/boost_version.hpp>

#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>

#include <cstdint>
#include <utility>

namespace {

class asio_pool {
 public:
  explicit asio_pool(std::uint32_t workers) : pool_(workers) {}
  ~asio_pool() { pool_.join(); }  // runs the remaining tasks, which ~thread_pool() would drop

  template <class F>
  bool post(F&& task) {
    boost::asio::post(pool_, std::forward<F>(task));
    return true;
  }

 private:
  boost::asio::thread_pool pool_;
};

}  // namespace

int main(int argc, char** argv) {
  return lab::pool::contender_main<asio_pool>(argc, argv, {lab::boost_version()});
}
