// SPDX-License-Identifier: Apache-2.0
// gyre: tasks that a loop posts to itself.
#include <gyre/exec/loop.hpp>
#include <lab/experiments/EXPERIMENT/workload.hpp>

#include <cstdint>

namespace {

class gyre_contender {
 public:
  std::uint64_t run(std::uint32_t count) {
    std::uint64_t done = 0;
    for (std::uint32_t i = 0; i < count; ++i) loop_.post([&done] { ++done; });
    while (done < count && loop_.poll()) {
    }
    return done;
  }

 private:
  gyre::loop loop_;
};

}  // namespace

int main(int argc, char** argv) {
  return lab::EXPERIMENT::contender_main<gyre_contender>(argc, argv);
}
