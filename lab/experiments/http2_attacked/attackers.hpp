// SPDX-License-Identifier: Apache-2.0
// Hostile clients in a process of their own, which attacks while it is told to.
#pragma once

#include <lab/experiments/http2_attacked/attacks.hpp>
#include <lab/harness/network/socket.hpp>
#include <lab/harness/timing.hpp>

#include <sched.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <new>
#include <string>
#include <utility>
#include <vector>

namespace lab::http2_attacked {

/// The connections of the attack, in the child process.
class hostile_clients {
 public:
  hostile_clients(attack_plan plan, std::uint16_t port, std::size_t count)
      : plan_(std::move(plan)),
        port_(port),
        epoll_(network::checked(epoll_create1(EPOLL_CLOEXEC), "epoll_create1")),
        peers_(count) {
    plan_.bytes.insert(0, std::string("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n") + frames::frame(4, 0, 0) +
                              frames::frame(4, 1, 0));
  }

  void close_all() {
    for (peer& each : peers_) drop(each);
  }
  /// Sends and connects for a moment. Returns the number of connections that were begun.
  std::uint64_t turn() {
    const std::uint64_t before = begun_;
    const clock::time_point time = clock::now();
    for (peer& each : peers_) {
      const bool is_over = each.fd >= 0 && !plan_.holds && each.sent == plan_.bytes.size() &&
                           time > each.end_of_patience;
      if (is_over) drop(each);
      if (each.fd < 0) connect(each);
    }
    std::array<epoll_event, 64> events;
    const int ready = epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), 1);
    for (int i = 0; i < ready; ++i) {
      const epoll_event& event = events[static_cast<std::size_t>(i)];
      peer& client = *static_cast<peer*>(event.data.ptr);
      if (client.fd >= 0) handle(client, event.events);
    }
    return begun_ - before;
  }

 private:
  struct peer {
    int fd = -1;
    std::size_t sent = 0;
    clock::time_point end_of_patience = {};
  };
  static constexpr std::chrono::milliseconds patience{20};
  // A call with much more would keep the honest clients from their common processor for
  // milliseconds, where the kernel gives up a processor only at the end of a system call.
  static constexpr std::size_t max_sent_at_once = std::size_t{16} << 10;

  void drop(peer& client) {
    if (client.fd >= 0) close(std::exchange(client.fd, -1));
    client.sent = 0;
  }
  void connect(peer& client) {
    client.fd = network::begin_connect(port_, begun_++);
    watch(client, EPOLL_CTL_ADD, EPOLLOUT | reading());
  }
  std::uint32_t reading() const { return plan_.holds ? 0U : std::uint32_t{EPOLLIN}; }
  void watch(peer& client, int change, std::uint32_t events) const {
    epoll_event wanted{.events = events, .data = {.ptr = &client}};
    network::checked(epoll_ctl(epoll_, change, client.fd, &wanted), "epoll_ctl");
  }
  void handle(peer& client, std::uint32_t events) {
    if ((events & EPOLLIN) != 0) {
      std::array<char, 16'384> dropped;
      const ssize_t count = recv(client.fd, dropped.data(), dropped.size(), 0);
      if (count == 0 || (count < 0 && errno != EAGAIN)) return drop(client);
    }
    if ((events & (EPOLLERR | EPOLLHUP)) != 0) return drop(client);
    if ((events & EPOLLOUT) == 0) return;
    const std::size_t size = std::min(plan_.bytes.size() - client.sent, max_sent_at_once);
    const ssize_t count = send(client.fd, plan_.bytes.data() + client.sent, size, MSG_NOSIGNAL);
    if (count < 0 && errno != EAGAIN) return drop(client);
    if (count > 0) client.sent += static_cast<std::size_t>(count);
    if (client.sent != plan_.bytes.size()) return;
    watch(client, EPOLL_CTL_MOD, reading());
    client.end_of_patience = clock::now() + patience;
  }

  attack_plan plan_;
  std::uint16_t port_;
  int epoll_;
  std::vector<peer> peers_;
  std::uint64_t begun_ = 0;
};

/// Lets the calling process run before all ordinary ones. Returns false if that is not permitted.
inline bool take_precedence() {
  const sched_param priority{.sched_priority = 1};
  return sched_setscheduler(0, SCHED_FIFO, &priority) == 0;
}

/// The handle of the process. It ends with this object.
class attackers {
 public:
  /// Starts the process on the CPUs of the calling thread. Only while the process has one thread.
  /// `is_lowest`: whether the kernel runs it only when nothing else wants its processor.
  attackers(attack kind, std::uint16_t port, std::size_t count, bool is_lowest)
      : shared_(new(mmap(nullptr, sizeof(shared_state), PROT_READ | PROT_WRITE,
                         MAP_SHARED | MAP_ANONYMOUS, -1, 0)) shared_state) {
    const pid_t parent = getpid();
    child_ = network::checked(fork(), "fork");
    if (child_ == 0) run(kind, port, count, is_lowest, parent);
  }
  attackers(const attackers&) = delete;
  attackers& operator=(const attackers&) = delete;
  ~attackers() {
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
    munmap(shared_, sizeof(shared_state));
  }

  void attack_now(bool attacks) { shared_->attacks.store(attacks); }
  /// The number of hostile connections so far.
  std::uint64_t connections() const { return shared_->connections.load(); }

 private:
  struct shared_state {
    std::atomic<bool> attacks = false;
    std::atomic<std::uint64_t> connections = 0;
  };

  [[noreturn]] void run(attack kind, std::uint16_t port, std::size_t count, bool is_lowest,
                        pid_t parent) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) std::_Exit(1);
    const sched_param none{};
    sched_setscheduler(0, is_lowest ? SCHED_IDLE : SCHED_OTHER, &none);
    try {
      hostile_clients clients(plan_of(kind), port, count);
      for (bool was_attacking = false;;) {
        if (shared_->attacks.load()) {
          shared_->connections += clients.turn();
          was_attacking = true;
        } else {
          if (std::exchange(was_attacking, false)) clients.close_all();
          usleep(500);
        }
      }
    } catch (...) {
      std::_Exit(1);
    }
  }

  shared_state* shared_;
  pid_t child_ = -1;
};

}  // namespace lab::http2_attacked
