// SPDX-License-Identifier: Apache-2.0
#include <lab/harness/network/server_process.hpp>

#include <lab/harness/affinity.hpp>
#include <lab/harness/memory.hpp>
#include <lab/harness/timing.hpp>

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <stdexcept>
#include <string>
#include <string_view>

namespace lab::network {
namespace {

constexpr const char* role = "--server";

struct socket_pair {
  int ours = -1;
  int theirs = -1;
};

socket_pair make_pair() {
  std::array<int, 2> ends{};
  checked(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), "socketpair");
  return {ends[0], ends[1]};
}

// The new process, up to its exec. The result line is the client's alone, so stdout becomes stderr.
[[noreturn]] void become_server(int control, pid_t parent, const std::vector<unsigned>& cpus) {
  const std::string fd = std::to_string(control);
  pin_thread(cpus);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() == parent && fcntl(control, F_SETFD, 0) == 0 &&
      dup2(STDERR_FILENO, STDOUT_FILENO) >= 0) {
    execl("/proc/self/exe", "server", role, fd.c_str(), static_cast<char*>(nullptr));
  }
  _exit(1);
}

}  // namespace

void control::send_bytes(const void* data, std::size_t size) {
  checked(static_cast<int>(::send(fd_, data, size, MSG_NOSIGNAL)), "control socket");
}

void control::receive_bytes(void* data, std::size_t size) {
  ssize_t got = 0;
  do {
    got = recv(fd_, data, size, 0);
  } while (got < 0 && errno == EINTR);
  if (got != static_cast<ssize_t>(size)) throw std::runtime_error("the other process has died");
}

side_cpus split_cpus(const std::vector<unsigned>& cpus) {
  if (cpus.size() < 2) return {cpus, cpus};
  const auto middle = cpus.begin() + static_cast<std::ptrdiff_t>(cpus.size() / 2);
  return {{cpus.begin(), middle}, {middle, cpus.end()}};
}

server_process::server_process(const server_plan& plan, const std::vector<unsigned>& cpus) {
  const socket_pair ends = make_pair();
  const pid_t parent = getpid();
  child_ = checked(fork(), "fork");
  if (child_ == 0) become_server(ends.theirs, parent, cpus);
  close(ends.theirs);
  control_ = control(ends.ours);
  control_.send(plan);
  port_ = control_.receive<std::uint16_t>();
}

server_process::~server_process() {
  kill(child_, SIGKILL);  // it may be waiting for connections that will not come
  waitpid(child_, nullptr, 0);
}

bool server_side::is_requested(int argc, const char* const* argv) {
  return argc == 3 && std::string_view(argv[1]) == role;
}

server_side::server_side(const char* const* argv) : control_(std::atoi(argv[2])) {
  plan_ = control_.receive<server_plan>();
  raise_descriptor_limit(0);
}

int server_side::listen() {
  const int listener = listen_on_loopback();
  control_.send(port_of(listener));
  return listener;
}

bool server_side::receive_query() {
  try {
    control_.receive<server_process::query>();
    return true;
  } catch (const std::runtime_error&) {
    return false;
  }
}

usage server_side::used_by_process() {
  usage now;
  now.cpu_seconds = cpu_seconds();
  now.memory_bytes = resident_bytes();
  now.peak_memory_bytes = peak_memory_bytes();
  now.allocations = allocations();
  return now;
}

}  // namespace lab::network
