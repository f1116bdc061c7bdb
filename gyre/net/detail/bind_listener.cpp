// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/detail/bind_listener.hpp>

#include <gyre/base/unique_fd.hpp>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <string>
#include <system_error>
#include <thread>

namespace gyre::net::detail {
namespace {

// Whether no socket is bound to the file any more. A datagram socket can connect to no socket of
// another type, but is refused only where there is none: so one that is bound and does not listen
// yet is found, and one that listens gets no connection that nobody uses.
bool is_stale(const std::string& path, const endpoint& local) {
  // To connect to a file that is no socket is refused, too.
  struct ::stat found{};
  if (::lstat(path.c_str(), &found) != 0 || !S_ISSOCK(found.st_mode)) return false;
  const socket probe = socket::open(address_family::local, socket_type::datagram);
  return ::connect(probe.fd(), local.data(), local.size()) != 0 && errno == ECONNREFUSED;
}

// Holds a lock on the folder of `path` while it lives, so that of two servers that find the same
// stale file the second does not remove the file of the first. Where the folder cannot be locked,
// or somebody keeps it locked, does without after a second.
class locked_folder {
 public:
  explicit locked_folder(const std::string& path) {
    const std::size_t slash = path.rfind('/');
    const std::string folder = slash == path.npos ? "." : path.substr(0, slash + 1);
    folder_.reset(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    for (int left = 1000; left > 0 && ::flock(folder_.get(), LOCK_EX | LOCK_NB) != 0; --left) {
      if (errno != EWOULDBLOCK && errno != EINTR) return;
      std::this_thread::sleep_for(std::chrono::milliseconds{1});
    }
  }

 private:
  unique_fd folder_;
};

}  // namespace

void bind_listener(const socket& unbound, const endpoint& local, bool replace_stale) {
  try {
    return unbound.bind(local);
  } catch (const std::system_error& error) {
    const bool in_use = error.code() == std::errc::address_in_use;
    if (!in_use || !replace_stale || local.path().empty()) throw;
  }
  const std::string path(local.path());
  const locked_folder until_bound(path);
  if (is_stale(path, local)) ::unlink(path.c_str());
  unbound.bind(local);
}

}  // namespace gyre::net::detail
