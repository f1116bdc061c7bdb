// SPDX-License-Identifier: Apache-2.0
// The parts that the contenders of nats.c have in common.
#pragma once

#include <lab/experiments/nats_request/workload.hpp>

#include <nats/nats.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <latch>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lab::nats_request {

inline void check(natsStatus status) {
  if (status != NATS_OK) {
    throw std::runtime_error(std::string("nats.c: ") + natsStatus_GetText(status));
  }
}

using nats_options = std::unique_ptr<natsOptions, decltype(&natsOptions_Destroy)>;
using nats_connection = std::unique_ptr<natsConnection, decltype(&natsConnection_Destroy)>;
using nats_message = std::unique_ptr<natsMsg, decltype(&natsMsg_Destroy)>;

inline nats_options make_options(const std::string& url) {
  natsOptions* options = nullptr;
  check(natsOptions_Create(&options));
  nats_options made(options, &natsOptions_Destroy);
  check(natsOptions_SetURL(options, url.c_str()));
  return made;
}

inline nats_connection connect(const nats_options& options) {
  natsConnection* connection = nullptr;
  check(natsConnection_Connect(&connection, options.get()));
  return {connection, &natsConnection_Destroy};
}

/// The subjects to which replies are sent.
enum class reply_subjects : std::uint8_t {
  reused,  ///< one for each caller, which the server finds in its cache; a reply that is repeated
           ///< or late would be taken for that to a later request
  fresh    ///< one for each request, as the request calls of all clients have them
};

/// Callers that share a subscription to an inbox, whose callback, on the library's thread, sends
/// the caller's next request. The last part of the reply's subject is the number of the caller, and
/// of its request if subjects are fresh.
class inbox_callers {
 public:
  inbox_callers(const server_address& server, std::span<caller> callers, nats_connection connection,
                reply_subjects subjects)
      : server_(server),
        callers_(callers),
        subjects_(subjects),
        requests_(callers.size()),
        running_(static_cast<std::ptrdiff_t>(callers.size())),
        connection_(std::move(connection)) {
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
  inbox_callers(const inbox_callers&) = delete;
  inbox_callers& operator=(const inbox_callers&) = delete;
  ~inbox_callers() { natsSubscription_Destroy(subscription_); }

  /// Returns when no caller asks any more.
  void run() {
    for (std::size_t index = 0; index < callers_.size(); ++index) ask(index);
    running_.wait();
  }

 private:
  void ask(std::size_t index) {
    const std::string& body = server_.bodies[callers_[index].ask()];
    std::string& reply = replies_[index];
    if (subjects_ == reply_subjects::fresh) {
      reply.resize(std::min(reply.size(), reply.rfind('-')));
      char digits[24] = "-";
      *std::to_chars(digits + 1, digits + sizeof digits - 1, ++requests_[index]).ptr = '\0';
      reply += digits;
    }
    check(natsConnection_PublishRequest(connection_.get(), server_.subject.c_str(), reply.c_str(),
                                        body.data(), static_cast<int>(body.size())));
  }

  static void on_reply(natsConnection*, natsSubscription*, natsMsg* received, void* owner) {
    const nats_message message(received, &natsMsg_Destroy);
    inbox_callers& self = *static_cast<inbox_callers*>(owner);
    const std::string_view subject = natsMsg_GetSubject(received);
    const char* const end = subject.data() + subject.size();
    std::size_t index = 0;
    const char* const rest =
        std::from_chars(subject.data() + subject.rfind('.') + 1, end, index).ptr;
    if (self.subjects_ == reply_subjects::fresh) {
      std::uint64_t request = 0;
      std::from_chars(rest + 1, end, request);
      if (request != self.requests_[index]) return;
    }
    const auto size = static_cast<std::size_t>(natsMsg_GetDataLength(received));
    if (self.callers_[index].take({natsMsg_GetData(received), size})) {
      self.ask(index);
    } else {
      self.running_.count_down();
    }
  }

  const server_address& server_;
  std::span<caller> callers_;
  const reply_subjects subjects_;
  std::vector<std::uint64_t> requests_;  // of each caller
  std::latch running_;
  std::vector<std::string> replies_;
  nats_connection connection_;
  natsSubscription* subscription_ = nullptr;
};

}  // namespace lab::nats_request
