// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/socket.hpp>

#include <gyre/base/error.hpp>
#include <gyre/io/detail/system_files.hpp>
#include <gyre/net/detail/errors.hpp>
#include <gyre/net/detail/system_sockets.hpp>

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <chrono>
#include <string>

namespace gyre::net {
namespace {

namespace files = io::detail::system;

// Throws the error of `outcome`, if any, with the call and the address.
void require(const io::result& outcome, const char* function_name) {
  if (!outcome) detail::fail(outcome.error(), function_name);
}
void require(const io::result& outcome, const char* function_name, const endpoint& address) {
  if (!outcome) require(outcome, (std::string(function_name) + ' ' + address.to_string()).c_str());
}

}  // namespace

socket socket::open(address_family family, socket_type type, int protocol) {
  return socket(files::value_or_throw(
      detail::system::open_socket(static_cast<int>(family), static_cast<int>(type), protocol),
      "socket"));
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

socket copy_of(const socket_ref& source) {
  return socket(files::value_or_throw(files::duplicate(source.fd()), "F_DUPFD_CLOEXEC"));
}

std::pair<socket, socket> socket_pair(socket_type type) {
  std::pair<unique_fd, unique_fd> ends;
  require(detail::system::open_socket_pair(static_cast<int>(type), ends), "socketpair");
  return {socket(std::move(ends.first)), socket(std::move(ends.second))};
}

pipe_pair make_pipe() {
  auto ends = files::value_or_throw(files::make_pipe(O_NONBLOCK), "pipe2");
  return {.reader = std::move(ends.read_end), .writer = std::move(ends.write_end)};
}

namespace detail {
namespace {

// Whether no socket is bound to the file any more. The check connects a datagram socket: the kernel
// refuses it with ECONNREFUSED only if no socket is bound, and otherwise because of its type. So
// the check also finds a socket that does not listen yet, and leaves no connection with one that
// does.
bool is_stale(const std::string& path, const endpoint& local) {
  // Connecting to a file of another kind is also refused with ECONNREFUSED.
  const auto status = files::status_at(AT_FDCWD, path.c_str(), AT_SYMLINK_NOFOLLOW, STATX_TYPE);
  if (!status || !S_ISSOCK(status->stx_mode)) return false;
  const socket probe = socket::open(address_family::local, socket_type::datagram);
  return system::connect(probe.fd(), local).error_number() == ECONNREFUSED;
}

// Returns the folder of `path`, locked until it is closed: of two servers that find the same stale
// file, the second must not remove the new file of the first. If the folder cannot be opened or
// locked, or another process keeps it locked for a second, the server continues without the lock.
unique_fd lock_folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  const std::string name = slash == path.npos ? "." : path.substr(0, slash + 1);
  auto folder = files::open(name.c_str(), O_RDONLY | O_DIRECTORY);
  if (!folder) return {};
  system::lock_file(folder->get(), std::chrono::seconds{1});
  return *std::move(folder);
}

}  // namespace

void shut_down(int socket, shutdown_side side) {
  const io::result outcome = system::shut_down(socket, static_cast<int>(side));
  if (!outcome && outcome.error_number() != ENOTCONN) fail(outcome.error(), "shutdown");
}

void reset_when_closed(int socket) noexcept {
  system::set_option(socket, system::so_linger, ::linger{.l_onoff = 1, .l_linger = 0});
}

void bind_listener(const socket& target, const endpoint& local, bool replaces_stale) {
  try {
    return target.bind(local);
  } catch (const std::system_error& error) {
    const bool is_in_use = error.code() == std::errc::address_in_use;
    if (!is_in_use || !replaces_stale || local.path().empty()) throw;
  }
  const std::string path(local.path());
  const unique_fd locked_folder = lock_folder_of(path);
  if (is_stale(path, local)) files::unlink_at(AT_FDCWD, path.c_str(), 0);
  target.bind(local);
}

}  // namespace detail
}  // namespace gyre::net
