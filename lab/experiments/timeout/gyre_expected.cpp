// SPDX-License-Identifier: Apache-2.0
// gyre: a coroutine per end, which gets the error of with_timeout() as a value.
#include <gyre/io/stream.hpp>
#include <gyre/task/as_expected.hpp>
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
      const auto ended =
          co_await gyre::as_expected(gyre::with_timeout(end.read_some(room), owner.limit()));
      if (ended && *ended == 1) {
        owner.received(room[0]);
      } else if (!ended && ended.error() == std::errc::timed_out) {
        owner.timed_out();
      }
    }
  }
};

}  // namespace

int main(int argc, char** argv) {
  return lab::timeout::contender_main<lab::timeout::coroutine_loop<serve>>(argc, argv);
}
