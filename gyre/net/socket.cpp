// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/socket.hpp>

#include <gyre/base/error.hpp>
#include <gyre/net/detail/errors.hpp>
#include <gyre/net/detail/system_sockets.hpp>

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

// Throws the error of `outcome`, if it is one, with the call and the address.
void require(const io::result& outcome, const char* call) {
  if (!outcome) detail::fail(outcome.error(), call);
}
void require(const io::result& outcome, const char* call, const endpoint& address) {
  if (!outcome) require(outcome, (std::string(call) + ' ' + address.to_string()).c_str());
}

}  // namespace

socket socket::open(address_family family, socket_type type, int protocol) {
  auto result =
      detail::system::open_socket(static_cast<int>(family), static_cast<int>(type), protocol);
  if (!result) gyre::detail::throw_system_error(result.error(), "socket");
  return socket(*std::move(result));
}

void socket::bind(const endpoint& local) const {
  require(detail::system::bind(fd(), local), "bind", local);
}

void socket::listen(int backlog) const {
  if (backlog < 0) gyre::detail::throw_system_error(EINVAL, "listen: a negative backlog");
  require(detail::system::listen(fd(), backlog), "listen");
}

bool socket::connect(const endpoint& peer) const {
  const io::result outcome = detail::system::connect(fd(), peer);
  if (outcome.error_number() == EINPROGRESS) return false;
  require(outcome, "connect", peer);
  return true;
}

void socket::shutdown(shutdown_side side) const { detail::shut_down(fd(), side); }

socket copy_of(const socket_ref& original) {
  auto copy = detail::system::duplicate_descriptor(original.fd());
  if (!copy) gyre::detail::throw_system_error(copy.error(), "F_DUPFD_CLOEXEC");
  return socket(*std::move(copy));
}

std::pair<socket, socket> socket_pair(socket_type type) {
  std::pair<unique_fd, unique_fd> ends;
  require(detail::system::open_socket_pair(static_cast<int>(type), ends), "socketpair");
  return {socket(std::move(ends.first)), socket(std::move(ends.second))};
}

pipe_pair make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0) gyre::detail::throw_errno("pipe2");
  return {.reader = unique_fd(ends[0]), .writer = unique_fd(ends[1])};
}

namespace detail {
namespace {

// Whether no socket is bound to the file any more. The probe is a datagram socket, which the kernel
// refuses with ECONNREFUSED only if no socket is bound, and otherwise because of its type. So the
// probe also finds a socket that does not listen yet, and leaves no connection with one that does.
bool is_stale(const std::string& path, const endpoint& local) {
  // Connecting to a file of another kind is also refused with ECONNREFUSED.
  struct ::stat status{};
  if (::lstat(path.c_str(), &status) != 0 || !S_ISSOCK(status.st_mode)) return false;
  const socket probe = socket::open(address_family::local, socket_type::datagram);
  return system::connect(probe.fd(), local).error_number() == ECONNREFUSED;
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

void shut_down(int socket, shutdown_side side) {
  const io::result outcome = system::shut_down(socket, static_cast<int>(side));
  if (!outcome && outcome.error_number() != ENOTCONN) fail(outcome.error(), "shutdown");
}

void reset_when_closed(int socket) noexcept {
  system::set_option(socket, system::so_linger, ::linger{.l_onoff = 1, .l_linger = 0});
}

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
