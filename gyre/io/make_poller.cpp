// SPDX-License-Identifier: Apache-2.0
// Chooses what a loop does its I/O with.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <gyre/exec/poller.hpp>
#include <gyre/io/epoll_poller.hpp>
#include <gyre/io/uring_poller.hpp>
#include <gyre/io/uring_support.hpp>

namespace gyre {
namespace {

// Whether loops get a ring whose makers do not mind: without one of these, epoll measured faster.
bool is_preferred(const io::uring_features& features) noexcept {
  return features.multishot_receive && features.deferred_task_running;
}

io_interface interface_by_environment() {
  const char* const value = std::getenv("GYRE_IO");
  const std::string_view word = value == nullptr ? "" : value;
  if (word.empty() || word == "auto") return io_interface::automatic;
  if (word == "epoll") return io_interface::epoll;
  if (word == "uring") return io_interface::uring;
  throw std::invalid_argument("gyre: GYRE_IO is \"" + std::string(word) +
                              "\"; it can be auto, epoll or uring");
}

// Null where there can be no ring, then `reason` says why, or where nobody asked for one like that.
std::unique_ptr<poller> make_ring(bool asked_for, std::string& reason) {
  io::uring_support support = io::probe_uring();
  if (!support.usable) {
    reason = std::move(support.reason);
    return nullptr;
  }
  if (!asked_for && !is_preferred(support.features)) return nullptr;
  try {
    return std::make_unique<io::uring_poller>(support.features);
  } catch (const std::system_error& refusal) {
    // Forbidden since it was found usable, or there is not enough of something for a ring.
    reason = io::detail::why_no_uring(refusal);
    return nullptr;
  } catch (const std::bad_alloc&) {
    reason = "there is no memory for what a ring receives into";
    return nullptr;
  }
}

void tell_once(const std::string& reason) {
  static std::atomic_flag told;
  // relaxed: nothing else is told by it.
  if (told.test_and_set(std::memory_order_relaxed)) return;
  std::fprintf(stderr, "gyre: io_uring cannot be used, using epoll: %s\n", reason.c_str());
}

}  // namespace

std::unique_ptr<poller> make_poller(io_interface wanted) {
  if (wanted == io_interface::automatic) wanted = interface_by_environment();
  if (wanted != io_interface::epoll) {
    const bool asked_for = wanted == io_interface::uring;
    std::string reason;
    if (auto ring = make_ring(asked_for, reason)) return ring;
    if (asked_for) tell_once(reason);
  }
  return std::make_unique<io::epoll_poller>();
}

}  // namespace gyre
