// SPDX-License-Identifier: Apache-2.0
#include <lab/harness/engines/engine_process.hpp>

#include <lab/harness/contender.hpp>
#include <lab/harness/network/socket.hpp>
#include <lab/harness/timing.hpp>

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <exception>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <utility>

namespace lab::engines {
namespace {

constexpr std::chrono::seconds patience{30};
constexpr int not_executed = 127;

template <class Address>
void connect(int fd, const Address& address) {
  network::checked(::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address),
                   "connect");
}

std::string end_of(const std::string& log) {
  constexpr std::size_t most = 2000;
  std::ifstream file(log);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  return text.size() > most ? text.substr(text.size() - most) : text;
}

// Empty if it succeeds.
std::string failure_of(const std::function<void()>& attempt) {
  try {
    attempt();
    return {};
  } catch (const std::exception& error) {
    return std::string("not yet: ") + error.what();
  }
}

}  // namespace

bare_connection bare_connection::to_unix(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) throw std::runtime_error("too long: " + path);
  path.copy(address.sun_path, path.size());
  bare_connection made(
      network::checked(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), "socket"));
  connect(made.fd_, address);
  return made;
}

bare_connection bare_connection::to_port(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  bare_connection made(
      network::checked(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), "socket"));
  connect(made.fd_, address);
  network::disable_delay(made.fd_);
  return made;
}

bare_connection::bare_connection(bare_connection&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), received_(std::move(other.received_)) {}

bare_connection::~bare_connection() {
  if (fd_ >= 0) close(fd_);
}

void bare_connection::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) throw std::system_error(errno, std::generic_category(), "send");
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
}

void bare_connection::receive(std::string& bytes) {
  std::array<char, 65536> room;
  ssize_t got = 0;
  do {
    got = recv(fd_, room.data(), room.size(), 0);
  } while (got < 0 && errno == EINTR);
  if (got <= 0) throw std::runtime_error("the engine has ended a connection");
  bytes.append(room.data(), static_cast<std::size_t>(got));
}

std::string bare_connection::receive_exactly(std::size_t count) {
  while (received_.size() < count) receive(received_);
  std::string taken = received_.substr(0, count);
  received_.erase(0, count);
  return taken;
}

std::string bare_connection::receive_line() {
  std::size_t end = 0;
  while ((end = received_.find("\r\n")) == std::string::npos) receive(received_);
  return receive_exactly(end + 2).substr(0, end);
}

void await_ready(pid_t process, const std::string& program, const std::string& log,
                 const std::function<void()>& attempt) {
  const clock::time_point began = clock::now();
  for (;;) {
    const std::string failure = failure_of(attempt);
    if (failure.empty()) return;
    int status = 0;
    if (waitpid(process, &status, WNOHANG) == process) {
      if (WIFEXITED(status) && WEXITSTATUS(status) == not_executed) {
        throw cannot_run(program + " is not installed: run tools/setup test");
      }
      throw std::runtime_error(program + " has ended: " + end_of(log));
    }
    if (clock::now() - began > patience) {
      end_process(process);
      std::string message = program + " is not ready: ";
      throw std::runtime_error(message.append(failure).append(": ").append(end_of(log)));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds{2});
  }
}

void end_process(pid_t process, int signal) {
  kill(process, signal);
  while (waitpid(process, nullptr, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace lab::engines
