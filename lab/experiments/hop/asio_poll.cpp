// SPDX-License-Identifier: Apache-2.0
// boost::asio: loops that look for work by poll() for 20 µs before they sleep, as gyre's loops look
// for tasks by themselves.
#include <lab/experiments/hop/asio_loop.hpp>
#include <lab/experiments/hop/workload.hpp>
#include <lab/harness/boost_version.hpp>
#include <lab/harness/timing.hpp>

#include <chrono>

namespace {

class polling_loop : public lab::hop::asio_loop {
 public:
  void run() {
    while (!context_.stopped()) {
      if (!find_work()) context_.run_one();
    }
  }

 private:
  bool find_work() {
    const auto until = lab::clock::now() + std::chrono::microseconds(20);
    do {
      if (context_.poll() != 0) return true;
    } while (!context_.stopped() && lab::clock::now() < until);
    return false;
  }
};

}  // namespace

int main(int argc, char** argv) {
  return lab::hop::contender_main<polling_loop>(argc, argv, {lab::boost_version()});
}
