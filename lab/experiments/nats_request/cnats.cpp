// SPDX-License-Identifier: Apache-2.0
// nats.c with threads of its own, of which one gathers output for up to a millisecond, or until the
// buffer is full: it has room for a quarter of the requests in flight, so that these need not wait
// for the millisecond. For a single caller, each request leaves with the call that publishes it.
// GYRE_LAB_REPLY_SUBJECTS is a value of reply_subjects.
#include <lab/experiments/nats_request/cnats.hpp>
#include <lab/experiments/nats_request/workload.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>

namespace {

namespace nats = lab::nats_request;

// The size of the buffers for output and for input.
int buffer_size(const nats::server_address& server, std::size_t callers) {
  constexpr std::size_t head = 64;  // of a request: its subjects and its size, more or less
  constexpr std::size_t least = std::size_t{2} * 1024;
  constexpr std::size_t most = std::size_t{256} * 1024;
  const std::size_t in_flight = callers * (server.bodies.front().size() + head);
  return static_cast<int>(std::clamp(std::bit_ceil(in_flight / 4), least, most));
}

struct cnats_client {
  static void serve(const nats::server_address& server, std::span<lab::engines::caller> callers) {
    const nats::nats_options options = nats::make_options(server.url);
    if (callers.size() == 1) {
      nats::check(natsOptions_SetSendAsap(options.get(), true));
    } else {
      nats::check(natsOptions_SetIOBufSize(options.get(), buffer_size(server, callers.size())));
    }
    nats::inbox_callers(server, callers, nats::connect(options), GYRE_LAB_REPLY_SUBJECTS).run();
  }
};

}  // namespace

int main(int argc, char** argv) {
  return nats::contender_main<cnats_client>(argc, argv, {{"nats.c", nats_GetVersion()}});
}
