// SPDX-License-Identifier: Apache-2.0
// The threads of one side, client or server, and the sessions that each of them serves.
#pragma once

#include <lab/harness/affinity.hpp>
#include <lab/harness/network/session.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <thread>
#include <vector>

namespace lab::network {

/// Connections distributed to threads round-robin.
/// Lifetime: contenders never return, so the threads run until the process ends, and their data
/// must live as long.
template <any_session Session>
class session_threads {
 public:
  /// Session i has the socket fds[i] and is made as Session(fds[i], session_counters, i, setup).
  /// `setup` is not copied.
  template <class Setup>
  static session_threads& make(std::span<const int> fds, std::size_t threads, Setup& setup) {
    static auto& all =
        *new std::vector<session_threads*>;  // never destroyed; a leak checker finds them here
    return *all.emplace_back(new session_threads(fds, threads, setup));
  }

  session_threads(const session_threads&) = delete;
  session_threads& operator=(const session_threads&) = delete;

  /// Starts the threads, on these CPUs unless the list is empty.
  template <contender_of<Session> Contender>
  void start(const std::vector<unsigned>& cpus = {}) {
    for (member& each : std::span(members_.get(), threads_)) {
      std::thread([&each, cpus] {
        pin_thread(cpus);
        Contender::run(std::span<Session>(each.sessions));
      }).detach();
    }
  }

  /// The sum of one of session_counters' members over all threads.
  /// Thread-safety: any thread.
  std::uint64_t sum(counter session_counters::* which) const {
    std::uint64_t all = 0;
    for (const member& each : std::span(members_.get(), threads_))
      all += (each.counters.*which).value();
    return all;
  }

 private:
  struct member {
    session_counters counters;
    std::vector<Session> sessions;
  };

  template <class Setup>
  session_threads(std::span<const int> fds, std::size_t threads, Setup& setup)
      : threads_(threads), members_(std::make_unique<member[]>(threads)) {
    for (std::size_t i = 0; i < threads; ++i) {
      members_[i].sessions.reserve(fds.size() / threads + 1);
    }
    for (std::size_t i = 0; i < fds.size(); ++i) {
      member& at = members_[i % threads];
      at.sessions.emplace_back(fds[i], at.counters, i, setup);
    }
  }

  std::size_t threads_;
  std::unique_ptr<member[]> members_;
};

}  // namespace lab::network
