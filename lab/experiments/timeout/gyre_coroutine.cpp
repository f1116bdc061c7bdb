// SPDX-License-Identifier: Apache-2.0
// gyre: a coroutine per end, which reads by with_timeout() and catches its std::errc::timed_out.
#include <gyre/io/stream.hpp>
#include <gyre/task/task.hpp>
#include <gyre/task/with_timeout.hpp>
#include <lab/experiments/timeout/gyre_coroutines.hpp>

#include <array>
#include <cstddef>
#include <system_error>

namespace {

struct serve {
  static gyre::task<> run(gyre::io::stream& end, lab::timeout::reader& owner) {
    std::array<std::byte, 1> room{};
    while (owner.next()) {
      try {
        if (co_await gyre::with_timeout(end.read_some(room), owner.limit()) == 1) {
          owner.received(room[0]);
        }
      } catch (const std::system_error& error) {
        if (error.code() != std::errc::timed_out) throw;
        owner.timed_out();
      }
    }
  }
};

}  // namespace

int main(int argc, char** argv) {
  return lab::timeout::contender_main<lab::timeout::coroutine_loop<serve>>(argc, argv);
}
