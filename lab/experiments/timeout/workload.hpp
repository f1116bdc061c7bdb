// SPDX-License-Identifier: Apache-2.0
// Cost of a read with a time limit, on socket pairs whose ends are all served by one loop:
//   answered  the ends of each pair pass a byte to and fro. Every read waits for the byte, with a
//             limit of ten seconds, as the limits of requests mostly do not expire.
//   expired   no byte comes. Every read has a limit of a millisecond, the least that all contenders
//             can measure, and is followed by the next one.
// The figure is the processor's time, as the loop sleeps between expiries. The bytes are sent by
// the workload, by the same system call for all contenders.
#pragma once

#include <lab/harness/contender.hpp>
#include <lab/harness/memory.hpp>
#include <lab/harness/timing.hpp>

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <system_error>
#include <utility>

namespace lab::timeout {

enum class outcome { answered, expired };

struct parameters {
  timeout::outcome outcome = outcome::answered;
  std::uint32_t pairs = 100;
  std::uint32_t reads = 1'000;
};

/// One end of a pair, which reads a number of bytes, one at a time.
class reader {
 public:
  /// `first`: sends a byte before each read; the other end sends a byte back.
  reader(int fd, const parameters& cell, bool first)
      : fd_(fd),
        left_(cell.reads),
        answers_(cell.outcome == outcome::answered),
        sends_before_(answers_ && first),
        sends_after_(answers_ && !first) {}

  /// A non-blocking stream socket, which stays open. A loop that closes its descriptors needs a
  /// duplicate.
  int fd() const { return fd_; }
  std::chrono::milliseconds limit() const {
    return answers_ ? std::chrono::seconds(10) : std::chrono::milliseconds(1);
  }

  /// To be called before each read: whether there is another one.
  bool next() {
    if (left_ == 0) return false;
    --left_;
    if (sends_before_) send();
    return true;
  }
  /// To be called when a read has ended, by a byte or by its limit.
  void received(std::byte byte) {
    ++received_;
    wrong_ += byte != static_cast<std::byte>(received_ & 0xff);
    if (sends_after_) send();
  }
  void timed_out() { ++timed_out_; }

  std::uint64_t received() const { return received_; }
  std::uint64_t wrong() const { return wrong_; }
  std::uint64_t timeouts() const { return timed_out_; }

 private:
  void send() {
    const auto passed = static_cast<std::byte>(++sent_ & 0xff);
    if (::send(fd_, &passed, 1, MSG_NOSIGNAL) != 1) {
      throw std::system_error(errno, std::generic_category(), "send");
    }
  }

  int fd_;
  std::uint32_t left_;
  bool answers_;
  bool sends_before_;
  bool sends_after_;
  std::uint64_t sent_ = 0;
  std::uint64_t received_ = 0;
  std::uint64_t wrong_ = 0;
  std::uint64_t timed_out_ = 0;
};

using readers = std::deque<reader>;

/// The interface of a contender: a loop that serves the readers with which it was constructed. A
/// contender that does not run on every machine also has a static probe(), which throws cannot_run.
template <class Loop>
concept contender_loop = std::constructible_from<Loop, readers&> && requires(Loop& loop) {
  loop.run();  // reads until next() of each reader was false
};

/// The ends of the pairs.
class socket_pairs {
 public:
  explicit socket_pairs(const parameters& cell) {
    for (std::uint32_t i = 0; i < cell.pairs; ++i) {
      std::array<int, 2> ends{};
      if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()) != 0) {
        throw std::system_error(errno, std::generic_category(), "socketpair");
      }
      ends_.emplace_back(ends[0], cell, true);
      ends_.emplace_back(ends[1], cell, false);
    }
  }
  socket_pairs(const socket_pairs&) = delete;
  socket_pairs& operator=(const socket_pairs&) = delete;
  ~socket_pairs() {
    for (const reader& each : ends_) ::close(each.fd());
  }

  readers& ends() { return ends_; }

 private:
  readers ends_;
};

/// Warms up with a tenth of the reads, then times all of them, with another loop.
template <contender_loop Loop>
void run(const parameters& cell, const harness_options& harness, report& result) {
  if constexpr (requires { Loop::probe(); }) Loop::probe();
  parameters few = cell;
  few.reads = cell.reads / 10 + 1;
  {
    socket_pairs warm_up(few);
    Loop loop(warm_up.ends());
    loop.run();
  }
  parameters timed = cell;
  if (harness.sabotage == fault::lose) --timed.reads;
  if (harness.sabotage == fault::duplicate) ++timed.reads;
  socket_pairs pairs(timed);
  Loop loop(pairs.ends());
  const auto allocations_before = allocations();
  const double cpu_before = cpu_seconds();
  stopwatch watch(harness.handicap);
  watch.start();
  loop.run();
  watch.stop();
  const double cpu = cpu_seconds() - cpu_before;
  const auto allocations_after = allocations();

  std::uint64_t received = 0;
  std::uint64_t wrong = 0;
  std::uint64_t timeouts = 0;
  for (const reader& each : pairs.ends()) {
    received += each.received();
    wrong += each.wrong();
    timeouts += each.timeouts();
  }
  const std::uint64_t reads = 2 * std::uint64_t{cell.pairs} * cell.reads;
  result.units("read", 2 * std::uint64_t{cell.pairs} * (few.reads + timed.reads));
  result.metric("cpu_ns_per_read", cpu * 1e9 / static_cast<double>(reads));
  result.metric("seconds", watch.seconds());
  result.metric("peak_memory_bytes", peak_memory_bytes());
  if (allocations_after) {
    const auto count = static_cast<double>(*allocations_after - *allocations_before);
    result.metric("allocations_per_read", count / static_cast<double>(reads));
  }
  const bool answered = cell.outcome == outcome::answered;
  result.check("answered", received, answered ? reads : 0);
  result.check("wrong_bytes", wrong, 0);
  result.check("expired", timeouts, answered ? 0 : reads);
}

/// The main() of a contender of this experiment.
template <contender_loop Loop>
int contender_main(int argc, const char* const* argv, libraries versions = {}) {
  parameters cell;
  arguments options;
  options
      .choice("outcome", cell.outcome, "how each read ends",
              {{"answered", outcome::answered}, {"expired", outcome::expired}})
      .number("pairs", cell.pairs, "socket pairs", 1, 100'000)
      .number("reads", cell.reads, "reads of each end", 2, 100'000'000);
  return lab::contender_main(argc, argv, this_contender(std::move(versions)), options,
                             [&cell](const harness_options& harness, report& result) {
                               run<Loop>(cell, harness, result);
                             });
}

}  // namespace lab::timeout
