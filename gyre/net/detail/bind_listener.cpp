// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/detail/bind_listener.hpp>

#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>

namespace gyre::net::detail {
namespace {

// Whether a listener's file is there and nobody listens any more; then removes it.
bool remove_if_stale(const endpoint& local) {
  if (local.is_ip() || local.path().empty()) return false;
  const std::string path(local.path());
  // To connect to a file that is no socket is refused, too.
  struct ::stat found{};
  if (::lstat(path.c_str(), &found) != 0 || !S_ISSOCK(found.st_mode)) return false;
  const socket probe = socket::open(address_family::local, socket_type::stream);
  if (::connect(probe.fd(), local.data(), local.size()) == 0 || errno != ECONNREFUSED) return false;
  return ::unlink(path.c_str()) == 0;
}

}  // namespace

void bind_listener(const socket& made, const endpoint& local, bool replace_stale) {
  try {
    made.bind(local);
  } catch (const std::system_error& error) {
    const bool in_use = error.code() == std::errc::address_in_use;
    if (!in_use || !replace_stale || !remove_if_stale(local)) throw;
    made.bind(local);
  }
}

}  // namespace gyre::net::detail
