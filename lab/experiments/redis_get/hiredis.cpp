// SPDX-License-Identifier: Apache-2.0
// hiredis: its asynchronous interface on libevent, by its own adapter.
#include <lab/experiments/redis_get/hiredis_callers.hpp>
#include <lab/harness/libevent_base.hpp>

#include <event2/event.h>
#include <hiredis/adapters/libevent.h>

#include <string>

namespace {

using lab::redis_get::hiredis_callers;

struct hiredis_client {
  static void serve(const lab::redis_get::server_address& server,
                    std::span<lab::engines::caller> callers) {
    const lab::libevent_base base = lab::make_libevent_base();
    hiredis_callers clients(server, callers);
    redisLibeventAttach(clients.context(), base.get());
    clients.start();
    while (!clients.have_ended()) event_base_loop(base.get(), EVLOOP_ONCE);
  }
};

std::string version() {
  return std::to_string(HIREDIS_MAJOR) + '.' + std::to_string(HIREDIS_MINOR) + '.' +
         std::to_string(HIREDIS_PATCH);
}

}  // namespace

int main(int argc, char** argv) {
  return lab::redis_get::contender_main<hiredis_client>(
      argc, argv, {{"hiredis", version()}, {"libevent", event_get_version()}});
}
