// SPDX-License-Identifier: Apache-2.0
#include <gyre/base/error.hpp>
#include <gyre/net/socket.hpp>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>
#include <thread>

namespace gyre::net {
namespace {

constexpr int flags = SOCK_CLOEXEC | SOCK_NONBLOCK;

void check(int result, const char* call) {
  if (result != 0) gyre::detail::throw_errno(call);
}

[[noreturn, gnu::cold]] void throw_errno_at(const endpoint& where, const char* call) {
  const int error = errno;
  throw std::system_error(error, std::system_category(),
                          std::string(call) + ' ' + where.to_string());
}

}  // namespace

socket socket::open(address_family family, socket_type type, int protocol) {
  unique_fd descriptor(
      ::socket(static_cast<int>(family), static_cast<int>(type) | flags, protocol));
  if (!descriptor) gyre::detail::throw_errno("socket");
  return socket(std::move(descriptor));
}

void socket::bind(const endpoint& local) const {
  if (::bind(fd(), local.data(), local.size()) != 0) throw_errno_at(local, "bind");
}

void socket::listen(int backlog) const {
  if (backlog < 0) gyre::detail::throw_system_error(EINVAL, "listen: a negative backlog");
  check(::listen(fd(), backlog), "listen");
}

// An interrupted connect() continues.
bool socket::connect(const endpoint& peer) const {
  if (::connect(fd(), peer.data(), peer.size()) == 0) return true;
  if (errno != EINPROGRESS && errno != EINTR) throw_errno_at(peer, "connect");
  return false;
}

void socket::shutdown(shutdown_side side) const { detail::shut_down(fd(), side); }

void detail::shut_down(int socket, shutdown_side side) {
  if (::shutdown(socket, static_cast<int>(side)) != 0 && errno != ENOTCONN) {
    gyre::detail::throw_errno("shutdown");
  }
}

void detail::reset_when_closed(int socket) noexcept {
  const ::linger at_once{.l_onoff = 1, .l_linger = 0};
  static_cast<void>(::setsockopt(socket, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once));
}

std::pair<socket, socket> socket_pair(socket_type type) {
  std::array<int, 2> ends{};
  check(::socketpair(AF_UNIX, static_cast<int>(type) | flags, 0, ends.data()), "socketpair");
  return {socket(unique_fd(ends[0])), socket(unique_fd(ends[1]))};
}

pipe_pair make_pipe() {
  std::array<int, 2> ends{};
  check(::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK), "pipe2");
  return {.reader = unique_fd(ends[0]), .writer = unique_fd(ends[1])};
}

namespace detail {
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

}  // namespace detail
}  // namespace gyre::net
