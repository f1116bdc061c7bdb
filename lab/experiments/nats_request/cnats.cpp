// SPDX-License-Identifier: Apache-2.0
// nats.c: a subscription to an inbox, whose callback, on the library's thread, sends the caller's
// next request. The last part of the reply's subject is the number of the caller.
#include <lab/experiments/nats_request/cnats.hpp>
#include <lab/experiments/nats_request/workload.hpp>

#include <charconv>
#include <cstddef>
#include <cstring>
#include <latch>
#include <string>
#include <string_view>
#include <vector>

namespace {

using lab::engines::caller;
using lab::nats_request::check;
using lab::nats_request::server_address;

class cnats_client {
 public:
  static void serve(const server_address& server, std::span<caller> callers) {
    cnats_client self(server, callers);
    for (std::size_t index = 0; index < callers.size(); ++index) self.ask(index);
    self.running_.wait();
  }

 private:
  cnats_client(const server_address& server, std::span<caller> callers)
      : server_(server),
        callers_(callers),
        running_(static_cast<std::ptrdiff_t>(callers.size())),
        // A single caller would wait for the thread that gathers messages.
        connection_(lab::nats_request::connect(server.url, callers.size() == 1)) {
    natsInbox* inbox = nullptr;
    check(natsInbox_Create(&inbox));
    const std::string prefix = std::string(inbox) + '.';
    natsInbox_Destroy(inbox);
    for (std::size_t index = 0; index < callers.size(); ++index) {
      replies_.push_back(prefix + std::to_string(index));
    }
    check(natsConnection_Subscribe(&subscription_, connection_.get(), (prefix + '*').c_str(),
                                   &on_reply, this));
  }
  ~cnats_client() { natsSubscription_Destroy(subscription_); }
  cnats_client(const cnats_client&) = delete;
  cnats_client& operator=(const cnats_client&) = delete;

  void ask(std::size_t index) {
    const std::string& body = server_.bodies[callers_[index].ask()];
    check(natsConnection_PublishRequest(connection_.get(), server_.subject.c_str(),
                                        replies_[index].c_str(), body.data(),
                                        static_cast<int>(body.size())));
  }

  static void on_reply(natsConnection*, natsSubscription*, natsMsg* received, void* owner) {
    const lab::nats_request::nats_message message(received, &natsMsg_Destroy);
    cnats_client& self = *static_cast<cnats_client*>(owner);
    const std::string_view subject = natsMsg_GetSubject(received);
    std::size_t index = 0;
    std::from_chars(subject.data() + subject.rfind('.') + 1, subject.data() + subject.size(),
                    index);
    const auto size = static_cast<std::size_t>(natsMsg_GetDataLength(received));
    if (self.callers_[index].take({natsMsg_GetData(received), size})) {
      self.ask(index);
    } else {
      self.running_.count_down();
    }
  }

  const server_address& server_;
  std::span<caller> callers_;
  std::latch running_;
  std::vector<std::string> replies_;
  lab::nats_request::nats_connection connection_;
  natsSubscription* subscription_ = nullptr;
};

}  // namespace

int main(int argc, char** argv) {
  return lab::nats_request::contender_main<cnats_client>(argc, argv,
                                                         {{"nats.c", nats_GetVersion()}});
}
