// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/detail/accept_policy.hpp>

#include <gyre/io/detail/system_files.hpp>
#include <gyre/net/detail/system_sockets.hpp>

#include <fcntl.h>

#include <algorithm>
#include <cerrno>

namespace gyre::net::detail {
namespace {

constexpr std::chrono::nanoseconds min_pause = std::chrono::milliseconds{1};

// Opens the reserve; returns an empty descriptor if the process has none left.
unique_fd open_reserve() noexcept {
  return io::detail::system::open("/dev/null", O_RDONLY).value_or(unique_fd());
}

bool is_out_of_descriptors(int error) noexcept { return error == EMFILE || error == ENFILE; }

}  // namespace

accept_policy::accept_policy(std::chrono::nanoseconds initial_pause,
                             std::chrono::nanoseconds max_pause) noexcept
    : reserve_(open_reserve()),
      backoff_{.initial = std::max(initial_pause, min_pause),
               .longest = std::max({max_pause, initial_pause, min_pause})} {}

bool accept_policy::is_exhaustion(int error) noexcept {
  return is_out_of_descriptors(error) || error == ENOBUFS || error == ENOMEM;
}

accept_policy::pause accept_policy::begin_pause(int listening_fd, int error) noexcept {
  const std::chrono::nanoseconds length = backoff_.delay(++pauses_);
  std::size_t refused_count = 0;
  if (is_out_of_descriptors(error)) {
    for (std::size_t attempts_left = max_refused_at_once; attempts_left > 0; --attempts_left) {
      if (!refuse_next(listening_fd, refused_count)) break;
    }
  }
  return {.length = length, .refused = refused_count, .is_first = pauses_ == 1};
}

// Accepts one connection with the reserve's descriptor, and closes it. Returns whether another
// connection may be waiting.
bool accept_policy::refuse_next(int listening_fd, std::size_t& refused_count) noexcept {
  reserve_.reset();
  auto connection = system::accept(listening_fd);
  if (connection) connection->reset();
  reserve_ = open_reserve();
  if (connection) ++refused_count;
  return connection || (connection.error() != EAGAIN && !is_exhaustion(connection.error()));
}

}  // namespace gyre::net::detail
