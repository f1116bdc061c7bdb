// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/detail/system_sockets.hpp>

#include <fcntl.h>
#include <linux/sockios.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/resource.h>

#include <algorithm>
#include <climits>
#include <cstdint>
#include <thread>

namespace gyre::net::detail::system {
namespace {

using io::detail::retried;

constexpr int new_socket = SOCK_CLOEXEC | SOCK_NONBLOCK;
constexpr int no_wait = MSG_DONTWAIT | MSG_NOSIGNAL;

template <class Call>
opened_descriptor open_with_retry(Call call) noexcept {
  const io::result outcome = retried(call);
  if (!outcome) return std::unexpected(outcome.error_number());
  return unique_fd(outcome.fd());
}

io::result read_endpoint(int (*call)(int, sockaddr*, socklen_t*), int socket, endpoint& result) {
  socklen_t size = endpoint::capacity();
  const io::result outcome = retried([&] { return call(socket, result.data(), &size); });
  if (outcome) result.resize(size);
  return outcome;
}

}  // namespace

opened_descriptor open_socket(int family, int type, int protocol) noexcept {
  return open_with_retry([&] { return ::socket(family, type | new_socket, protocol); });
}

io::result open_socket_pair(int type, std::pair<unique_fd, unique_fd>& ends) noexcept {
  int fds[2];
  const io::result outcome =
      retried([&] { return ::socketpair(AF_UNIX, type | new_socket, 0, fds); });
  if (outcome) ends = {unique_fd(fds[0]), unique_fd(fds[1])};
  return outcome;
}

io::result bind(int socket, const endpoint& local) noexcept {
  return retried([&] { return ::bind(socket, local.data(), local.size()); });
}

io::result listen(int socket, int backlog) noexcept {
  return retried([&] { return ::listen(socket, backlog); });
}

// EINTR is reported as EINPROGRESS: the interrupted attempt continues, and a second connect() would
// fail with EALREADY.
io::result connect(int socket, const sockaddr* peer, socklen_t size) noexcept {
  const io::result outcome = io::result::of_call(::connect(socket, peer, size));
  return outcome.error_number() == EINTR ? io::result::failure(EINPROGRESS) : outcome;
}

opened_descriptor accept(int listener) noexcept {
  return open_with_retry([&] { return ::accept4(listener, nullptr, nullptr, new_socket); });
}

io::result shut_down(int socket, int directions) noexcept {
  return retried([&] { return ::shutdown(socket, directions); });
}

io::result read_local_endpoint(int socket, endpoint& local) noexcept {
  return read_endpoint(&::getsockname, socket, local);
}

io::result read_peer_endpoint(int socket, endpoint& peer) noexcept {
  return read_endpoint(&::getpeername, socket, peer);
}

io::result set_option(int socket, const socket_option& option, const void* value,
                      socklen_t size) noexcept {
  return retried([&] { return ::setsockopt(socket, option.level, option.number, value, size); });
}

io::result read_option(int socket, const socket_option& option, void* value,
                       socklen_t size) noexcept {
  return retried([&] { return ::getsockopt(socket, option.level, option.number, value, &size); });
}

io::result receive_without_waiting(int socket, std::span<std::byte> buffer) noexcept {
  return retried([&] { return ::recv(socket, buffer.data(), buffer.size(), MSG_DONTWAIT); });
}

io::result receive_without_waiting(int socket, std::span<std::byte> buffer, sockaddr* sender,
                                   socklen_t* sender_size) noexcept {
  return retried([&] {
    return ::recvfrom(socket, buffer.data(), buffer.size(), MSG_DONTWAIT, sender, sender_size);
  });
}

io::result send_without_waiting(int socket, std::span<const std::byte> bytes) noexcept {
  return retried([&] { return ::send(socket, bytes.data(), bytes.size(), no_wait); });
}

io::result send_without_waiting(int socket, const msghdr& message) noexcept {
  return retried([&] { return ::sendmsg(socket, &message, no_wait); });
}

io::result send_without_waiting(int socket, std::span<mmsghdr> messages) noexcept {
  return retried([&] {
    return ::sendmmsg(socket, messages.data(), static_cast<unsigned>(messages.size()), no_wait);
  });
}

std::size_t unacknowledged_bytes(int socket) noexcept {
  int count = 0;
  return ::ioctl(socket, SIOCOUTQ, &count) == 0 ? static_cast<std::size_t>(count) : 0;
}

io::result wait_until_ready(int socket, short events, steady_time deadline) noexcept {
  pollfd entry{.fd = socket, .events = events, .revents = 0};
  for (;;) {
    const steady_time time = gyre::detail::monotonic_now();
    const auto rest = std::chrono::ceil<std::chrono::milliseconds>(deadline - time).count();
    const int limit = static_cast<int>(std::clamp<std::int64_t>(rest, 0, INT_MAX));
    const io::result outcome = io::result::of_call(::poll(&entry, 1, limit));
    const bool is_early = outcome.error_number() == EINTR || (outcome && outcome.count() == 0);
    if (!is_early || (outcome && gyre::detail::monotonic_now() >= deadline)) return outcome;
  }
}

io::result set_close_on_exec(int fd) noexcept {
  return io::result::of_call(::fcntl(fd, F_SETFD, FD_CLOEXEC));
}

void lock_file(int file, std::chrono::milliseconds limit) noexcept {
  constexpr std::chrono::milliseconds pause{1};
  for (; limit > pause && ::flock(file, LOCK_EX | LOCK_NB) != 0; limit -= pause) {
    if (errno != EWOULDBLOCK && errno != EINTR) return;
    std::this_thread::sleep_for(pause);
  }
}

std::size_t max_descriptors() noexcept {
  ::rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return 0;
  return limit.rlim_cur;
}

}  // namespace gyre::net::detail::system
