// SPDX-License-Identifier: Apache-2.0
// The benchmark of libev and libevent: many socket pairs are watched, some of them are active. A
// round begins with a byte in each active pair. The handler of a readable pair takes its byte and
// writes one to the next pair, until a given number has been written. Timed until all are read.
#pragma once

#include <lab/harness/contender.hpp>
#include <lab/harness/memory.hpp>
#include <lab/harness/network/socket.hpp>
#include <lab/harness/timing.hpp>

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace lab::io_event {

/// The choice of the active pairs: the first ones, side by side, or evenly spread over all.
enum class placement { adjacent, spaced };

/// The life of registrations: kept over all rounds, or removed and made anew in each round.
enum class registration { kept, renewed };

struct parameters {
  std::uint32_t pipes = 1000;
  std::uint32_t active = 100;
  io_event::placement placement = placement::adjacent;
  io_event::registration registration = registration::kept;
  std::uint32_t rounds = 25;
};

class socket_pairs;

/// One pair as a contender sees it.
class channel {
 public:
  channel(socket_pairs& on, std::uint32_t index, int reads, int writes)
      : on_(&on), index_(index), read_end_(reads), write_end_(writes) {}

  /// The descriptor to watch: a non-blocking socket.
  int fd() const { return read_end_; }

  /// To be called when fd() is readable: takes a byte.
  inline void readable();

  /// To be called instead of readable() by a loop that has read a byte itself.
  inline void taken();

 private:
  friend class socket_pairs;

  void write() const {
    const std::byte passed{'e'};
    network::checked(static_cast<int>(::send(write_end_, &passed, 1, MSG_NOSIGNAL)), "send");
  }

  socket_pairs* on_;
  std::uint32_t index_;
  int read_end_;
  int write_end_;
};

/// The interface of a contender: a loop that watches the channels with which it was constructed.
/// All functions are for one thread; stop() is called within run(). A contender that does not run
/// on every machine also has a static probe(), which throws cannot_run on machines where it does
/// not run.
template <class Loop>
concept contender_loop =
    std::constructible_from<Loop, std::span<channel>> && requires(Loop& loop, std::uint32_t index) {
      loop.watch(index);    // from now on, calls channel `index` when it is readable
      loop.unwatch(index);  // ends watch(index)
      loop.run();           // until stop()
      loop.stop();
    };

/// The pairs, and the bytes in transit on them.
class socket_pairs {
 public:
  explicit socket_pairs(const parameters& cell)
      : active_(cell.active),
        step_(cell.placement == placement::adjacent ? 1 : cell.pipes / cell.active) {
    channels_.reserve(cell.pipes);
    for (std::uint32_t i = 0; i < cell.pipes; ++i) {
      std::array<int, 2> ends{};
      network::checked(
          socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()),
          "socketpair");
      channels_.emplace_back(*this, i, ends[0], ends[1]);
    }
  }

  socket_pairs(const socket_pairs&) = delete;
  socket_pairs& operator=(const socket_pairs&) = delete;

  std::span<channel> channels() { return channels_; }

  /// Writes a byte to each active pair; `writes` more bytes follow. `stop` is called when as many
  /// bytes have been read as were written.
  template <class Stop>
  void begin(std::uint64_t writes, Stop& stop) {
    reads_ = 0;
    written_ = 0;
    left_ = writes;
    stopped_ = &stop;
    stop_ = [](void* what) { (*static_cast<Stop*>(what))(); };
    for (std::uint32_t i = 0; i < active_; ++i) write(i * step_);
  }

  std::uint64_t reads() const { return reads_; }

 private:
  friend class channel;

  void write(std::uint32_t index) {
    channels_[index].write();
    ++written_;
  }

  void take(std::uint32_t index) {
    ++reads_;
    if (left_ > 0) {
      --left_;
      write(index + 1 < channels_.size() ? index + 1 : 0);
    }
    if (reads_ == written_) stop_(stopped_);
  }

  std::uint32_t active_;
  std::uint32_t step_;
  std::vector<channel> channels_;
  std::uint64_t reads_ = 0;
  std::uint64_t written_ = 0;
  std::uint64_t left_ = 0;
  void* stopped_ = nullptr;
  void (*stop_)(void*) = nullptr;
};

inline void channel::taken() { on_->take(index_); }

inline void channel::readable() {
  std::byte passed;
  if (recv(read_end_, &passed, 1, 0) == 1) on_->take(index_);
}

/// Makes as many writes as there are pairs, so that each round has pipes + active reads. Two rounds
/// warm up. With kept registrations, timing begins after the first bytes are written; with renewed
/// registrations, timing includes their renewal.
template <contender_loop Loop>
void run(const parameters& cell, const harness_options& harness, report& result) {
  if constexpr (requires { Loop::probe(); }) Loop::probe();
  if (cell.active > cell.pipes) throw cannot_run("more active pipes than pipes");
  network::raise_descriptor_limit(2 * std::size_t{cell.pipes} + 100);
  constexpr std::uint32_t warm_up = 2;
  socket_pairs pairs(cell);
  Loop loop(pairs.channels());
  for (std::uint32_t i = 0; i < cell.pipes; ++i) loop.watch(i);
  auto stop = [&loop] { loop.stop(); };

  double seconds = 0;
  double cpu = 0;
  std::uint64_t reads = 0;
  std::uint64_t all_reads = 0;
  for (std::uint32_t round = 0; round < warm_up + cell.rounds; ++round) {
    std::uint64_t writes = cell.pipes;
    if (round == warm_up) {
      writes += harness.sabotage == fault::duplicate;
      writes -= harness.sabotage == fault::lose;
    }
    const double cpu_before = cpu_seconds();
    stopwatch watch(harness.handicap);
    watch.start();
    if (cell.registration == registration::renewed) {
      for (std::uint32_t i = 0; i < cell.pipes; ++i) {
        loop.unwatch(i);
        loop.watch(i);
      }
    }
    pairs.begin(writes, stop);
    if (cell.registration == registration::kept) watch.start();
    loop.run();
    watch.stop();
    all_reads += pairs.reads();
    if (round >= warm_up) {
      seconds += watch.seconds();
      cpu += cpu_seconds() - cpu_before;
      reads += pairs.reads();
    }
  }

  const double rounds = cell.rounds;
  result.metric("us_per_round", seconds * 1e6 / rounds);
  result.metric("ns_per_event", seconds * 1e9 / static_cast<double>(reads));
  result.metric("cpu_us_per_round", cpu * 1e6 / rounds);
  result.metric("peak_memory_bytes", peak_memory_bytes());
  result.units("event", all_reads);
  result.check("bytes_read", reads, (std::uint64_t{cell.pipes} + cell.active) * cell.rounds);
}

/// The main() of a contender of this experiment.
template <contender_loop Loop>
int contender_main(int argc, const char* const* argv, libraries versions = {}) {
  parameters cell;
  arguments options;
  options.number("pipes", cell.pipes, "socket pairs that are watched", 1, 1'000'000)
      .number("active", cell.active, "pairs that begin a round with a byte", 1, 1'000'000)
      .choice("placement", cell.placement, "choice of the active pairs",
              {{"adjacent", placement::adjacent}, {"spaced", placement::spaced}})
      .choice("registration", cell.registration, "life of the registrations",
              {{"kept", registration::kept}, {"renewed", registration::renewed}})
      .number("rounds", cell.rounds, "rounds that are measured", 1, 1'000'000);
  return lab::contender_main(argc, argv, this_contender(std::move(versions)), options,
                             [&cell](const harness_options& harness, report& result) {
                               run<Loop>(cell, harness, result);
                             });
}

}  // namespace lab::io_event
