// SPDX-License-Identifier: Apache-2.0
// nats.c: its call for requests, which blocks, in a thread for each caller.
#include <lab/experiments/nats_request/cnats.hpp>
#include <lab/experiments/nats_request/workload.hpp>

#include <atomic>
#include <cstddef>
#include <string>
#include <thread>
#include <vector>

namespace {

using lab::engines::caller;
using lab::nats_request::server_address;

class cnats_client {
 public:
  static void serve(const server_address& server, std::span<caller> callers) {
    const lab::nats_request::nats_connection connection =
        lab::nats_request::connect(lab::nats_request::make_options(server.url));
    std::vector<std::jthread> threads;
    for (caller& each : callers) {
      threads.emplace_back([&] { call(server, connection.get(), each); });
    }
  }

 private:
  static void call(const server_address& server, natsConnection* connection, caller& self) {
    constexpr std::int64_t limit_ms = 5000;
    bool asks_again = true;
    while (asks_again) {
      const std::string& body = server.bodies[self.ask()];
      natsMsg* received = nullptr;
      const natsStatus status =
          natsConnection_Request(&received, connection, server.subject.c_str(), body.data(),
                                 static_cast<int>(body.size()), limit_ms);
      const lab::nats_request::nats_message message(received, &natsMsg_Destroy);
      if (status != NATS_OK) {
        self.take_failure();
        return;
      }
      asks_again = self.take(
          {natsMsg_GetData(received), static_cast<std::size_t>(natsMsg_GetDataLength(received))});
    }
  }
};

}  // namespace

int main(int argc, char** argv) {
  return lab::nats_request::contender_main<cnats_client>(argc, argv,
                                                         {{"nats.c", nats_GetVersion()}});
}
