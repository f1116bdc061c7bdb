// SPDX-License-Identifier: Apache-2.0
// nats.c with threads of its own, of which one gathers output for up to a millisecond. For a single
// caller, each request leaves with the call that publishes it. GYRE_LAB_REPLY_SUBJECTS is a value
// of reply_subjects.
#include <lab/experiments/nats_request/cnats.hpp>
#include <lab/experiments/nats_request/workload.hpp>

namespace {

namespace nats = lab::nats_request;

struct cnats_client {
  static void serve(const nats::server_address& server, std::span<lab::engines::caller> callers) {
    const nats::nats_options options = nats::make_options(server.url);
    nats::check(natsOptions_SetSendAsap(options.get(), callers.size() == 1));
    nats::inbox_callers(server, callers, nats::connect(options), GYRE_LAB_REPLY_SUBJECTS).run();
  }
};

}  // namespace

int main(int argc, char** argv) {
  return nats::contender_main<cnats_client>(argc, argv, {{"nats.c", nats_GetVersion()}});
}
