// SPDX-License-Identifier: Apache-2.0
// make_poller: chooses the poller of a loop.
#include <gyre/base/detail/log.hpp>
#include <gyre/exec/poller.hpp>
#include <gyre/io/epoll_poller.hpp>
#include <gyre/io/uring_poller.hpp>
#include <gyre/io/uring_support.hpp>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <new>
#include <stdexcept>
#include <utility>

namespace gyre {
namespace {

// Whether io_interface::automatic takes a ring: without one of these, epoll measured faster.
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

// Returns null, with the cause in `reason`, if the system supports no ring. Returns null, too, if a
// ring would be slower than epoll and is not required.
std::unique_ptr<poller> make_ring(bool is_required, std::string& reason) {
  io::uring_support support = io::probe_uring();
  if (!support.usable) {
    reason = std::move(support.reason);
    return nullptr;
  }
  if (!is_required && !is_preferred(support.features)) return nullptr;
  try {
    return std::make_unique<io::uring_poller>(support.features);
  } catch (const std::system_error& error) {
    // The probe succeeded, but io_uring was forbidden since, or descriptors or memory ran out.
    reason = io::detail::why_no_uring(error);
    return nullptr;
  } catch (const std::bad_alloc&) {
    reason = "there is no memory for the buffers of a ring";
    return nullptr;
  }
}

void warn_once(const std::string& reason) {
  static std::atomic_flag has_warned;
  // relaxed: only the flag's value matters; nothing else is published.
  if (has_warned.test_and_set(std::memory_order_relaxed)) return;
  detail::log(log_level::warning, "gyre: io_uring cannot be used, using epoll: ", reason);
}

}  // namespace

std::unique_ptr<poller> make_poller(io_interface choice) {
  if (choice == io_interface::automatic) choice = interface_by_environment();
  if (choice != io_interface::epoll) {
    const bool is_required = choice == io_interface::uring;
    std::string reason;
    if (auto ring = make_ring(is_required, reason)) return ring;
    if (is_required) warn_once(reason);
  }
  return std::make_unique<io::epoll_poller>();
}

}  // namespace gyre
