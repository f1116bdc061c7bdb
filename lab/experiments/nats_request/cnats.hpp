// SPDX-License-Identifier: Apache-2.0
// The parts that the contenders of nats.c have in common.
#pragma once

#include <nats/nats.h>

#include <memory>
#include <stdexcept>
#include <string>

namespace lab::nats_request {

inline void check(natsStatus status) {
  if (status != NATS_OK)
    throw std::runtime_error(std::string("nats.c: ") + natsStatus_GetText(status));
}

using nats_connection = std::unique_ptr<natsConnection, decltype(&natsConnection_Destroy)>;
using nats_message = std::unique_ptr<natsMsg, decltype(&natsMsg_Destroy)>;

/// Connects. `sends_at_once`: messages leave with the call that publishes them, and not by the
/// library's own thread, which gathers them.
inline nats_connection connect(const std::string& url, bool sends_at_once) {
  natsOptions* made = nullptr;
  check(natsOptions_Create(&made));
  const std::unique_ptr<natsOptions, decltype(&natsOptions_Destroy)> options(made,
                                                                             &natsOptions_Destroy);
  check(natsOptions_SetURL(made, url.c_str()));
  check(natsOptions_SetSendAsap(made, sends_at_once));
  natsConnection* connection = nullptr;
  check(natsConnection_Connect(&connection, made));
  return {connection, &natsConnection_Destroy};
}

}  // namespace lab::nats_request
