// SPDX-License-Identifier: Apache-2.0
// The threads of one side, client or server, and the sessions each of them serves.
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

/// Connections dealt out in turn to threads. Contenders never return, so the threads run until the
/// process ends, and what they work on must live as long.
template <any_session Session>
class crew {
 public:
  /// Session i has the socket fds[i] and is made as Session(fds[i], tally, i, setup). `setup` is
  /// not copied.
  template <class Setup>
  static crew& make(std::span<const int> fds, std::size_t threads, Setup& setup) {
    static auto& all = *new std::vector<crew*>;  // never destroyed; a leak checker finds them here
    return *all.emplace_back(new crew(fds, threads, setup));
  }

  crew(const crew&) = delete;
  crew& operator=(const crew&) = delete;

  /// Starts the threads, on these CPUs if any are named.
  template <contender_of<Session> Contender>
  void start(const std::vector<unsigned>& cpus = {}) {
    for (member& each : std::span(members_.get(), threads_)) {
      std::thread([&each, cpus] {
        pin_thread(cpus);
        Contender::run(std::span<Session>(each.sessions));
      }).detach();
    }
  }

  /// The sum of one of tally's counters over all threads. Any thread.
  std::uint64_t sum(counter tally::* which) const {
    std::uint64_t all = 0;
    for (const member& each : std::span(members_.get(), threads_))
      all += (each.seen.*which).value();
    return all;
  }

 private:
  struct member {
    tally seen;
    std::vector<Session> sessions;
  };

  template <class Setup>
  crew(std::span<const int> fds, std::size_t threads, Setup& setup)
      : threads_(threads), members_(std::make_unique<member[]>(threads)) {
    for (std::size_t i = 0; i < threads; ++i) {
      members_[i].sessions.reserve(fds.size() / threads + 1);
    }
    for (std::size_t i = 0; i < fds.size(); ++i) {
      member& at = members_[i % threads];
      at.sessions.emplace_back(fds[i], at.seen, i, setup);
    }
  }

  std::size_t threads_;
  std::unique_ptr<member[]> members_;
};

}  // namespace lab::network
