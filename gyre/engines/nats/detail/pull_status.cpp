// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/nats/detail/pull_status.hpp>

#include <gyre/base/detail/ascii.hpp>

namespace gyre::nats::detail {
namespace {

bool begins_with(std::string_view text, std::string_view prefix) noexcept {
  return gyre::detail::equals_ignoring_case(text.substr(0, prefix.size()), prefix);
}

pull_status classify_conflict(std::string_view description) noexcept {
  if (begins_with(description, "Consumer Deleted")) return pull_status::consumer_deleted;
  if (begins_with(description, "Message Size Exceeds MaxBytes")) return pull_status::ended_by_size;
  if (begins_with(description, "Batch Completed")) return pull_status::ended;
  if (begins_with(description, "Exceeded MaxWaiting")) return pull_status::busy;
  if (begins_with(description, "Exceeded MaxRequest")) return pull_status::refused;
  if (begins_with(description, "Consumer is push based")) return pull_status::refused;
  return pull_status::busy;  // for example, a change of the leader, or a server that stops
}

}  // namespace

pull_status classify_pull_status(int status, std::string_view description) noexcept {
  switch (status) {
    case 0: return pull_status::message;
    case 100: return pull_status::heartbeat;
    case 404: return pull_status::no_messages;
    case 408:
      // Requests of other clients wait for the next messages.
      return begins_with(description, "Requests Pending") ? pull_status::busy : pull_status::ended;
    case 409: return classify_conflict(description);
    case 423: return pull_status::ended;
    case 503: return pull_status::no_responders;
    default: return pull_status::refused;
  }
}

}  // namespace gyre::nats::detail
